"""The part of SPIR-V that we write: opcodes with the form of their operands, and enumerants (SPIR-V 1.5 unified).

A form has a letter an operand: ``t`` result type, ``r`` result, ``i`` id, ``n`` number, ``s`` string, and the capital
letters below for enumerants; the last letter repeats where operands are left.
"""

from __future__ import annotations

MAGIC, VERSION, GENERATOR = 0x07230203, 0x00010500, 0

OPS: dict[str, tuple[int, str]] = {
    # module
    "Name": (5, "is"), "String": (7, "rs"), "Line": (8, "inn"), "Extension": (10, "s"),
    "ExtInstImport": (11, "rs"), "ExtInst": (12, "triGi"), "MemoryModel": (14, "nn"), "EntryPoint": (15, "nisi"),
    "ExecutionMode": (16, "iMn"), "Capability": (17, "C"), "Decorate": (71, "iDn"), "MemberDecorate": (72, "inDn"),
    # types and constants
    "TypeVoid": (19, "r"), "TypeBool": (20, "r"), "TypeInt": (21, "rn"), "TypeFloat": (22, "rn"),
    "TypeVector": (23, "rin"), "TypeStruct": (30, "ri"), "TypePointer": (32, "rSi"),
    "TypeFunction": (33, "ri"), "ConstantTrue": (41, "tr"), "ConstantFalse": (42, "tr"), "Constant": (43, "trn"),
    # functions and memory
    "Function": (54, "trni"), "FunctionParameter": (55, "tr"), "FunctionEnd": (56, ""), "FunctionCall": (57, "tri"),
    "Variable": (59, "trS"), "Load": (61, "triAn"), "Store": (62, "iiAn"), "AccessChain": (65, "tri"),
    "PtrAccessChain": (67, "tri"), "CompositeConstruct": (80, "tri"), "CompositeExtract": (81, "trin"),
    # conversions
    "ConvertFToU": (109, "tri"), "ConvertFToS": (110, "tri"), "ConvertSToF": (111, "tri"), "ConvertUToF": (112, "tri"),
    "UConvert": (113, "tri"), "SConvert": (114, "tri"), "FConvert": (115, "tri"),
    "ConvertUToPtr": (120, "tri"), "Bitcast": (124, "tri"),
    # arithmetic
    "SNegate": (126, "tri"), "FNegate": (127, "tri"), "IAdd": (128, "tri"), "FAdd": (129, "tri"), "ISub": (130, "tri"),
    "FSub": (131, "tri"), "IMul": (132, "tri"), "FMul": (133, "tri"), "UDiv": (134, "tri"), "SDiv": (135, "tri"),
    "FDiv": (136, "tri"), "UMod": (137, "tri"),
    # truth and comparison
    "IsNan": (156, "tri"), "IsInf": (157, "tri"), "LogicalEqual": (164, "tri"), "LogicalNotEqual": (165, "tri"),
    "LogicalOr": (166, "tri"), "LogicalAnd": (167, "tri"), "LogicalNot": (168, "tri"), "Select": (169, "tri"),
    "IEqual": (170, "tri"), "INotEqual": (171, "tri"), "UGreaterThan": (172, "tri"), "SGreaterThan": (173, "tri"),
    "UGreaterThanEqual": (174, "tri"), "SGreaterThanEqual": (175, "tri"), "ULessThan": (176, "tri"),
    "SLessThan": (177, "tri"), "ULessThanEqual": (178, "tri"), "SLessThanEqual": (179, "tri"),
    "FOrdEqual": (180, "tri"), "FUnordNotEqual": (183, "tri"), "FOrdLessThan": (184, "tri"),
    "FOrdGreaterThan": (186, "tri"), "FOrdLessThanEqual": (188, "tri"), "FOrdGreaterThanEqual": (190, "tri"),
    # bits
    "ShiftRightLogical": (194, "tri"), "ShiftRightArithmetic": (195, "tri"), "ShiftLeftLogical": (196, "tri"),
    "BitwiseOr": (197, "tri"), "BitwiseXor": (198, "tri"), "BitwiseAnd": (199, "tri"), "Not": (200, "tri"),
    "BitCount": (205, "tri"),
    # atomics: pointer, scope, semantics, value
    "AtomicExchange": (229, "tri"), "AtomicCompareExchange": (230, "tri"), "AtomicIAdd": (234, "tri"),
    "AtomicISub": (235, "tri"), "AtomicSMin": (236, "tri"), "AtomicUMin": (237, "tri"), "AtomicSMax": (238, "tri"),
    "AtomicUMax": (239, "tri"), "AtomicAnd": (240, "tri"), "AtomicOr": (241, "tri"), "AtomicXor": (242, "tri"),
    "AtomicFAddEXT": (6035, "tri"),
    # among the threads of a group: who waits, who sees what was written, and where
    "ControlBarrier": (224, "iii"),
    # among the threads of a subgroup: scope, and how; value
    "GroupNonUniformElect": (333, "tri"), "GroupNonUniformAllEqual": (336, "trii"),
    "GroupNonUniformIAdd": (349, "trini"), "GroupNonUniformFAdd": (350, "trini"),
    # control flow
    "Phi": (245, "tri"), "LoopMerge": (246, "iiO"), "SelectionMerge": (247, "iO"), "Label": (248, "r"),
    "Branch": (249, "i"), "BranchConditional": (250, "iii"), "Return": (253, ""), "ReturnValue": (254, "i"),
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
DEVICE_SCOPE, SUBGROUP_SCOPE, RELAXED, REDUCE = 1, 3, 0, 0
