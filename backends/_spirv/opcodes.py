"""Lists the subset of SPIR-V 1.5 that the emitter writes: opcodes with the forms of their operands, and enumerants.

A form has one letter for each operand: ``t`` result type, ``r`` result, ``i`` id, ``n`` number, ``s`` string, or a key
of `ENUMERANTS`. The last letter also stands for all further operands.
"""

MAGIC, VERSION, GENERATOR = 0x07230203, 0x00010500, 0

_VALUES = {  # instructions whose operands are all ids: result type, result, operands
    "FunctionCall": 57, "AccessChain": 65, "PtrAccessChain": 67, "CompositeConstruct": 80, "ConvertFToU": 109,
    "ConvertFToS": 110, "ConvertSToF": 111, "ConvertUToF": 112, "UConvert": 113, "SConvert": 114,
    "FConvert": 115, "ConvertUToPtr": 120, "Bitcast": 124, "SNegate": 126, "FNegate": 127, "IAdd": 128,
    "FAdd": 129, "ISub": 130, "FSub": 131, "IMul": 132, "FMul": 133, "UDiv": 134, "SDiv": 135, "FDiv": 136,
    "UMod": 137, "IsNan": 156, "IsInf": 157, "LogicalEqual": 164, "LogicalNotEqual": 165, "LogicalOr": 166,
    "LogicalAnd": 167, "LogicalNot": 168, "Select": 169, "IEqual": 170, "INotEqual": 171, "UGreaterThan": 172,
    "SGreaterThan": 173, "UGreaterThanEqual": 174, "SGreaterThanEqual": 175, "ULessThan": 176,
    "SLessThan": 177, "ULessThanEqual": 178, "SLessThanEqual": 179, "FOrdEqual": 180, "FUnordNotEqual": 183,
    "FOrdLessThan": 184, "FOrdGreaterThan": 186, "FOrdLessThanEqual": 188, "FOrdGreaterThanEqual": 190,
    "ShiftRightLogical": 194, "ShiftRightArithmetic": 195, "ShiftLeftLogical": 196, "BitwiseOr": 197,
    "BitwiseXor": 198, "BitwiseAnd": 199, "Not": 200, "BitCount": 205, "AtomicExchange": 229,
    "AtomicCompareExchange": 230, "AtomicIAdd": 234, "AtomicISub": 235, "AtomicSMin": 236, "AtomicUMin": 237,
    "AtomicSMax": 238, "AtomicUMax": 239, "AtomicAnd": 240, "AtomicOr": 241, "AtomicXor": 242, "Phi": 245,
    "GroupNonUniformElect": 333, "AtomicFAddEXT": 6035,
}  # fmt: skip
OPS: dict[str, tuple[int, str]] = {name: (number, "tri") for name, number in _VALUES.items()} | {
    # modules and debug information
    "Name": (5, "is"), "String": (7, "rs"), "Line": (8, "inn"), "Extension": (10, "s"),
    "ExtInstImport": (11, "rs"), "ExtInst": (12, "triGi"), "MemoryModel": (14, "nn"),
    "EntryPoint": (15, "nisi"), "ExecutionMode": (16, "iMn"), "Capability": (17, "C"),
    "Decorate": (71, "iDn"), "MemberDecorate": (72, "inDn"),
    # types and constants
    "TypeVoid": (19, "r"), "TypeBool": (20, "r"), "TypeInt": (21, "rn"), "TypeFloat": (22, "rn"),
    "TypeVector": (23, "rin"), "TypeArray": (28, "ri"), "TypeStruct": (30, "ri"), "TypePointer": (32, "rSi"),
    "TypeFunction": (33, "ri"), "ConstantTrue": (41, "tr"), "ConstantFalse": (42, "tr"),
    "Constant": (43, "trn"),
    # functions and memory
    "Function": (54, "trni"), "FunctionParameter": (55, "tr"), "FunctionEnd": (56, ""),
    "Variable": (59, "trS"), "Load": (61, "triAn"), "Store": (62, "iiAn"), "CompositeExtract": (81, "trin"),
    # barriers (execution scope, memory scope, semantics) and subgroups (scope, group operation, value)
    "ControlBarrier": (224, "iii"), "GroupNonUniformAllEqual": (336, "trii"),
    "GroupNonUniformIAdd": (349, "trini"), "GroupNonUniformFAdd": (350, "trini"),
    # control flow
    "LoopMerge": (246, "iiO"), "SelectionMerge": (247, "iO"), "Label": (248, "r"), "Branch": (249, "i"),
    "BranchConditional": (250, "iii"), "Return": (253, ""), "ReturnValue": (254, "i"),
}  # fmt: skip

CAPABILITIES = {
    "Shader": 1, "Float16": 9, "Float64": 10, "Int64": 11, "Int64Atomics": 12, "Int16": 22, "Int8": 39,
    "StorageBuffer16BitAccess": 4433, "StorageBuffer8BitAccess": 4448, "DenormFlushToZero": 4465,
    "SignedZeroInfNanPreserve": 4466, "RoundingModeRTE": 4467, "PhysicalStorageBufferAddresses": 5347,
    "GroupNonUniform": 61, "GroupNonUniformVote": 62, "GroupNonUniformArithmetic": 63,
    "AtomicFloat32AddEXT": 6033, "AtomicFloat64AddEXT": 6034,
}  # fmt: skip
STORAGE = {"Input": 1, "Function": 7, "PushConstant": 9, "PhysicalStorageBuffer": 5349}
DECORATIONS = {"Block": 2, "ArrayStride": 6, "BuiltIn": 11, "Aliased": 20, "Offset": 35, "NoContraction": 42}
MODES = {"LocalSize": 17, "DenormFlushToZero": 4460, "SignedZeroInfNanPreserve": 4461, "RoundingModeRTE": 4462}
BUILTINS = {"NumWorkgroups": 24, "GlobalInvocationId": 28}
GLSL = {
    "Trunc": 3, "FAbs": 4, "Floor": 8, "Ceil": 9, "Sin": 13, "Cos": 14, "Sqrt": 31, "InverseSqrt": 32, "UMin": 38,
    "FindUMsb": 75, "NMin": 79, "NMax": 80,
}  # fmt: skip
ENUMERANTS = {
    "C": CAPABILITIES, "S": STORAGE, "D": DECORATIONS, "M": MODES, "G": GLSL, "A": {"Aligned": 2}, "O": {"None": 0},
}  # fmt: skip

COMPUTE, PHYSICAL_64, GLSL450, ALIGNED = 5, 5348, 1, 2  # execution model, addressing, memory model, memory operand
GROUP_SCOPE, BUFFERS_AND_SHARED = 2, 0x8 | 0x40 | 0x100  # semantics: acquire and release
DONT_INLINE = 2  # control of a function; NVIDIA's driver heeds it, most others inline all calls
DEVICE_SCOPE, SUBGROUP_SCOPE, RELAXED, REDUCE = 1, 3, 0, 0
