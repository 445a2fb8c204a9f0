"""Lists all errors and warnings of the front end, one row for each code. A code never changes its meaning.

``message`` says what is wrong, ``why`` stands beside the caret, ``help`` says what to do. All three are format strings.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from quadrants_lab import errors as E
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span

Kind = TypeVar("Kind", bound=ast.AST)
_S, _N, _T, _I = E.QuadrantsSyntaxError, E.QuadrantsNameError, E.QuadrantsTypeError, E.QuadrantsIndexError


@dataclass(frozen=True, slots=True)
class Row:
    error: type[E.QuadrantsCompilationError]
    message: str
    why: str = ""
    help: str = ""


TABLE: dict[str, Row] = {
    # --- source and signature
    "QL1101": Row(_S, "a lambda cannot be a kernel", "", "give it a name with def"),
    "QL1102": Row(_S, "the source of '{name}' cannot be found ({file})", "",
                  "define it in a file or a notebook cell, or register the text with linecache before exec"),
    "QL1103": Row(_S, "'{name}' has a parameter that a kernel cannot have", "{what}",
                  "name every parameter: the number of arguments is part of a kernel"),
    "QL1104": Row(_T, "'{name}' takes {want}, {got} were described"),
    # --- syntax
    "QL1201": Row(_S, "{what} is not part of the kernel language", "not supported in a kernel", "{cure}"),
    "QL1202": Row(_S, "'else' of a loop is not part of the kernel language", "not supported in a kernel",
                  "set a flag in the loop and test it after the loop"),
    "QL1203": Row(_S, "cannot break out of a parallel loop", "this leaves the outermost loop, whose iterations run "
                  "at the same time", "use qd.loop_config(serialize=True) before the loop, or test a flag in its body"),
    "QL1204": Row(_S, "'{what}' of a static loop stands under a condition that is only known at run time",
                  "the loop was unrolled at compile time", "make the condition qd.static(...) or the loop an "
                  "ordinary one"),
    "QL1205": Row(_S, "'{op}' compares Python objects, which a running kernel does not have", "not supported here",
                  "{cure}"),
    "QL1206": Row(_S, "'{spec}' is not a format for this value", "{what}",
                  "write a format specification that Python has for such a number: .3f, 5d, >8, ..."),
    "QL1207": Row(_S, "a format string can only be printed", "not a value of a kernel",
                  "use it directly in print(...) or as the message of an assert"),
    "QL1208": Row(_S, "the condition of a while loop changes the local '{name}'", "an atomic on a local stands here",
                  "write `while True:` and `if not ...: break`"),
    "QL1209": Row(_S, "checkpoint=True needs a serial loop, this one is {what}",
                  "this loop", "leave checkpoint=True out; or run the loop in order with serialize=True, "
                  "checkpoint=True"),
    "QL1210": Row(_S, "qd.{name} must stand at the statement level of a kernel", "inside a loop or condition here",
                  "move it out of the loop or condition, "
                  "to the statement level"),
    "QL1212": Row(_S, "{n} entries would be made when the kernel is compiled; the limit is {most}", "made here",
                  "use an ordinary loop, whose iterations are run and not compiled; or keep the numbers in a field"),
    "QL1213": Row(_S, "this kernel has become longer than {most} operations", "here the compiler gave up",
                  "a static loop, or a func that calls itself, makes its statements anew each time: use a loop"),
    "QL1214": Row(_S, "a kernel with qd.stream_parallel contains only such blocks", "this statement is outside of them",
                  "put it in a block of its own, or in another kernel"),
    # --- names
    "QL1301": Row(_N, "name '{name}' is not defined", "neither a local, nor a global, nor captured{hint}",
                  "assign it before this line, or define it before the kernel is compiled"),
    "QL1302": Row(_N, "name '{name}' is not defined here", "it was first assigned inside {where} and ended with it",
                  "keep the value in a variable that is assigned before {where} begins"),
    "QL1303": Row(_S, "'{name}' is {what} and cannot be assigned", "assigned here", "copy it into a new variable"),
    "QL1304": Row(_S, "loop variable '{name}' is already a variable outside of the loop", "this would hide it",
                  "use another name"),
    "QL1305": Row(_S, "'{name}' comes from outside of the kernel and cannot be changed in it",
                  "it was read when the kernel was compiled",
                  "copy it into a local, or keep it in a 0-d field: x[None] += ..."),
    "QL1307": Row(_S, "'{text}' is {what} and comes from outside of {kernel}, which has fastcache=True", "read here",
                  "pass it as an argument; or leave fastcache out: every kernel is kept on the disk without it"),
    "QL1306": Row(_N, "'{text}' has no attribute '{name}'", "asked for here{hint}", "{cure}"),
    # --- types
    "QL1401": Row(_T, "'{text}' is {what}, not a number", "used as a number here", "read an element: {text}[{index}]"),
    "QL1402": Row(_T, "the integer {value} does not fit {dtype}", "{why}", "{cure}"),
    "QL1403": Row(_T, "'{op}' takes real numbers, this is {dtype}", "an integer here",
                  "cast it: qd.cast({text}, qd.f32)"),
    "QL1404": Row(_T, "'{op}' takes integers, this is {dtype}", "a real number here",
                  "cast it: qd.cast({text}, qd.i32), or look at its bits: qd.bit_cast({text}, qd.{same})"),
    "QL1405": Row(_T, "a condition must be an integer or a truth value, this is {dtype}", "used as a condition here",
                  "compare it: {text} != 0"),
    "QL1406": Row(_T, "{what} is not a value of a kernel", "used as a value here",
                  "a kernel computes with numbers and elements of fields and arrays"),
    "QL1407": Row(_T, "bit_cast needs equal widths: {source} has {a} bits, {target} has {b}", "cast here",
                  "cast first: qd.cast(x, ...)"),
    "QL1408": Row(_T, "an integer to the power of a negative integer is not an integer", "the base is {dtype}",
                  "make the base real: qd.cast({text}, qd.f32)"),
    "QL1409": Row(_T, "'{name}' returns nothing", "used as a value here", "let it end in return ..."),
    "QL1410": Row(_T, "{what} is not a dtype", "a dtype is expected here", "use qd.f32, qd.i32, ..., int or float"),
    "QL1411": Row(_T, "there is no atomic '{op}' on {dtype}", "", "{cure}"),
    "QL1412": Row(_T, "{got} cannot be unpacked into {want}"),
    "QL1413": Row(_T, "{what} cannot be kept in a variable", "kept in '{name}' here", "call it where it is needed"),
    "QL1414": Row(_T, "there is no random number of dtype {dtype}", "", "use float, int, qd.f32, qd.f64 or an integer"),
    "QL1415": Row(_T, "{what} cannot be unpacked", "unpacked here", "tuples, shapes and results of funcs can"),
    "QL1416": Row(_T, "{left} and {right} cannot be combined", "their shapes differ here",
                  "operations on matrices go element by element; a number goes with a matrix of any shape"),
    "QL1417": Row(_T, "{what} cannot be assigned to {target}", "the shapes differ",
                  "the first assignment fixes the shape of a variable, its declaration that of a field"),
    "QL1418": Row(_T, "{want} are needed, {got} given", "", "give every element, or one number for all"),
    "QL1419": Row(_T, "{what} is neither a list of numbers nor of rows", "made into a matrix here",
                  "write qd.Vector([a, b]) or qd.Matrix([[a, b], [c, d]])"),
    "QL1420": Row(_T, "{what} is not a number", "used as a number here", "use its elements one by one"),
    "QL1421": Row(_T, "'{op}' cannot take {what} in a kernel", "called here",
                  "loop over it, for i in {text}, and use {text}[i]; its length is {text}.shape[0]"),
    # lists and dicts
    "QL1422": Row(_S, "'{name}' cannot get other entries here: the {kind} was made before a condition or loop that is "
                  "known only at run time", "changed inside of it",
                  "decide it with qd.static(...), or assign to entries that are there already, a number for a number"),
    "QL1423": Row(_S, "{who}: Python would change both, Quadrants only one", "changed here",
                  "copy the {kind}: {kind}(...); or use it under one name"),
    "QL1424": Row(_S, "'{name}' is a {kind} that '{func}' took by value: Python's caller would see this change, "
                  "Quadrants' would not", "changed here", "write {name}: qd.template(), by reference; or copy it: "
                  "{kind}({name})"),
    "QL1425": Row(_S, "this {kind} has no name, so nothing would see the change", "changed here",
                  "assign it to a variable first"),
    "QL1426": Row(_S, "the number of entries changes while a static loop goes over them", "this loop",
                  "loop over a copy: qd.static(list(...))"),
    "QL1427": Row(_S, "'{name}' would contain itself", "changed here", "put a copy into the {kind}: {kind}(...)"),
    # matrix algebra
    "QL1430": Row(_T, "'{op}' takes {want}, this is {what}", "given here"),
    "QL1431": Row(_T, "'@' cannot multiply {left} by {right}",
                  "as many columns on the left as rows on the right are needed",
                  "for vectors, a.outer_product(b) is a matrix and a.dot(b) a number"),
    "QL1432": Row(_T, "'{op}' is defined for {want}, this is {what}"),
    "QL1433": Row(_T, "{what} is not {target}", "the parameter is declared to be one",
                  "pass a slice of an ndarray of that dtype: x[2:6]"),
    "QL1434": Row(_T, "a condition cannot choose between views of two arrays", "the condition is known at launch",
                  "choose between their elements, v[i] if c else w[i], or pass the view that is meant"),
    # --- indices
    "QL1501": Row(_I, "'{text}' has {ndim} {axes}, indexed with {got}", "", "{cure}"),
    "QL1502": Row(_T, "an index must be an integer, this is {dtype}", "index {k} of '{text}'",
                  "cast it: qd.cast(..., qd.i32)"),
    "QL1503": Row(_I, "a negative index does not count from the end in a kernel", "index {k} of '{text}'",
                  "write {text}.shape[{k}] - {back}"),
    "QL1504": Row(_S, "a field or array cannot be sliced in a kernel", "a slice here", "loop over the elements; "
                  "a tile takes rows and columns of numbers, t[:] = a[i:j, k:l], and a column is a[i:j, k]"),
    "QL1511": Row(_S, "a slice for a tile has a begin and an end, and no step", "this slice",
                  "write a[row:row + n, column:column + n]"),
    "QL1512": Row(_S, "a tile has no elements that a subscript names", "indexed here",
                  "load it with t[:] = a[i:j, k:l], and store it with a[i:j, k:l] = t"),
    "QL1505": Row(_T, "{what} cannot be indexed", "indexed here", "fields, ndarrays, shapes and constants can"),
    "QL1506": Row(_I, "index {index} does not exist: there are {count} entries"),
    "QL1507": Row(_T, "'{text}' has no {what}", "asked for here", "create it with needs_{which}=True"),
    "QL1508": Row(_T, "this index must be known at compile time", "computed at run time", "unroll the loop around it: "
                  "qd.static(range(...))"),
    "QL1513": Row(_T, "an entry of {what} is read at an index of the run time",
                  "{text} is read when the kernel is compiled", "pass the array as an argument, qd.types.ndarray(), or "
                  "copy it to a field; or unroll the loop, qd.static(range(...))"),
    "QL1509": Row(_S, "a slice needs a step that is not 0"),
    "QL1514": Row(_S, "'{text}' names an element twice and cannot be assigned", "only one of the two values would stay",
                  "name each element once"),
    # --- calls
    "QL1601": Row(_T, "'{text}' is a Python function and cannot run inside a kernel", "{what}", "{cure}"),
    "QL1602": Row(_T, "{text}: {what}", "in this call", "its parameters are ({params})"),
    "QL1603": Row(_S, "'{name}' calls itself{through}", "a func is inlined where it is called, and this does not end",
                  "write a loop; or let qd.static(...) of a template argument end it"),
    "QL1604": Row(_T, "'{text}' cannot be called", "{what}"),
    "QL1605": Row(_S, "qd.{name} cannot be used inside a kernel", "called here", "call it from Python"),
    "QL1606": Row(_S, "qd.static needs a value that is known at compile time", "'{text}' is computed at run time",
                  "drop qd.static: an ordinary if or for runs it at launch"),
    "QL1607": Row(_T, "the target of {op} is neither an element nor a local", "", "name an element: {op}(x[i], ...)"),
    "QL1608": Row(_S, "arguments cannot be unpacked with * or ** in a kernel", "", "write them out"),
    "QL1609": Row(_T, "static assertion failed{message}"),
    "QL1610": Row(_T, "this argument of {op} must be known at compile time", "computed at run time"),
    "QL1611": Row(_S, "print takes sep and end, texts that are known at compile time", "'{name}' given here"),
    "QL1612": Row(_T, "'{text}' cannot be computed at compile time", "{what}"),
    "QL1614": Row(_S, "qd.static stands directly in qd.static", "this call", "leave one of the two out"),
    "QL1615": Row(_T, "a real number cannot be a literal of the integer dtype {dtype}", "written here",
                  "convert it with qd.cast({text}, qd.{dtype})"),
    "QL1613": Row(_S, "'{name}' calls itself {n} times without an end", "called {given} here",
                  "write a loop; or let qd.static(...) of a template argument end it earlier"),
    "QL1616": Row(_S, "'{name}' is a copy in '{func}', a plain Python function, whose caller would not see this change",
                  "changed here", "return a new value; or write {name}: qd.template(), by reference"),
    "QL1617": Row(_S, "'{func}' changes '{name}' by reference, and '{other}' refers to the same local",
                  "{text} has the same place as the other argument, or a part of it", "pass a copy: w = {text}"),
    "QL1618": Row(_S, "'{text}' is a kernel, and a kernel cannot launch a kernel", "called here",
                  "decorate what they share with @qd.func"),
    "QL1619": Row(_S, "'{name}' must be called at the statement level of a kernel", "called in a loop or condition, or "
                  "for its value, here", "its loops are tasks of the kernel, one after the other: call it by a "
                  "statement of its own outside of loops and conditions"),
    # --- loops
    "QL1701": Row(_T, "cannot loop over {what}", "looped over here",
                  "loop over range(...), qd.ndrange(...), a field, an ndarray, or qd.static(...)"),
    "QL1702": Row(_I, "'{text}' has {want} {axes}, the loop has {got}", "",
                  "name one variable for each axis"),
    "QL1703": Row(_S, "range needs 1 to 3 arguments and a step that is not 0"),
    "QL1704": Row(_S, "'{name}' is shared by all iterations of a parallel loop and is assigned in it",
                  "iterations run at the same time, so no value would be the last one",
                  "accumulate with +=, -=, *=, &=, |=, ^=, {name} = min({name}, x) or {name} = max({name}, x), or "
                  "assign one constant only; or use qd.loop_config(serialize=True); or assign it inside the loop only"),
    "QL1705": Row(_S, "'{name}' is changed by this parallel loop and read in it",
                  "other iterations are changing it at the same time", "read it after the loop, or serialize the "
                  "loop with qd.loop_config(serialize=True)"),
    "QL1707": Row(_T, "an axis of qd.ndrange is a whole number, or a pair of them, not {what}", "given here",
                  "write qd.cast(..., qd.i32) for a real number; compute a step in the loop: 2 * i"),
    "QL1708": Row(_S, "axes={axes} is not a permutation of the {n} axes of this ndrange"),
    "QL1719": Row(_T, "axes={axes} is not a tuple of whole numbers", "given here", "write axes=(1, 0), for example"),
    "QL1726": Row(_T, "cannot loop over {what} at compile time", "looped over here",
                  "use what is known when the kernel is compiled: constants, a field's shape, qd.template() arguments; "
                  "otherwise write a for loop without qd.static"),
    "QL1725": Row(_T, "{what} has no address", "given here", "give a field or its gradient, in a dense layout"),
    "QL1709": Row(_T, "'{name}' is {target} and takes no {op} with {source} in a parallel loop",
                  "cast to {target} before the operation, so the result would differ from Python's",
                  "give '{name}' that dtype before the loop, e.g. {name} = {value}; or write "
                  "qd.cast(..., qd.{target})"),
    "QL1710": Row(_S, "this loop activates or deactivates cells that it runs over, and stands in another loop or "
                  "condition", "the active cells of '{text}' are looked up while they change",
                  "put the loop at the statement level of the kernel: it runs over the cells that are active then"),
    "QL1711": Row(_T, "{what} is given where a {kinds} node is needed", "", "place the field in one: "
                  "node = qd.root.pointer(qd.i, n), or ask a field for its node with x.parent()"),
    "QL1712": Row(_S, "'{text}' stands outside parallel loops, where there are no blocks of threads", "called here",
                  "call it in a for loop at the statement level of the kernel"),
    "QL1713": Row(_T, "{shape} is not a shape of shared memory", "", "give one or more whole numbers above 0"),
    "QL1714": Row(_T, "an operation on {what} cannot run in {where}", "",
                  "give the size that qd.loop_config(block_dim=...) gives"),
    "QL1718": Row(_T, "the elements of shared memory have a shape and a dtype that are known", "named here",
                  "give a dtype, or a type like qd.types.vector(3, qd.f32) or qd.types.matrix(2, 2, qd.f32)"),
    "QL1720": Row(_T, "{text} cannot be updated by {what}", "given here",
                  "write t -= qd.outer(a, b) or t += qd.outer(a, b) for a tile t, a statement for each product"),
    "QL1721": Row(_T, "solve_triangular_ solves with lower triangles only", "the upper triangle is asked for here",
                  "leave lower out, or give lower=True"),
    "QL1722": Row(_T, "{what} cannot be assigned to {target}", "given here",
                  "write t[:] = a[i:j, k:l], a[i:j, k:l] = t, or t = u of tiles of one size"),
    "QL1723": Row(_T, "{what} is not a number", "used as a number here", "{cure}"),
    "QL1724": Row(_T, "each row of a tile of {n} rows needs a thread of a subgroup", "the last subgroup of a block of "
                  "{threads} threads has {last}", "write qd.loop_config(block_dim=...) with a multiple of {n}"),
    # --- returns
    "QL1801": Row(_S, "a kernel that returns a value says so in its signature", "returned here",
                  "def {name}(...) -> qd.f32:"),
    "QL1802": Row(_S, "a kernel returns at the end of its body only", "this return stands inside {where}", "{cure}"),
    "QL1803": Row(_S, "'{name}' has a return type but does not return a value", "", "end it in return ..."),
    "QL1804": Row(_T, "{got} returned where the signature has {want}"),
    "QL1805": Row(_S, "a func cannot return from here", "{why}",
                  "let every path through the func return the same number of values of the same kinds"),
    "QL1806": Row(_S, "a kernel or func cannot return '{what}'", "the annotation",
                  "use a dtype such as qd.f32, int, a vector, matrix or struct type, or tuple[...] of them"),
    # --- warnings
    "QL1901": Row(_T, "{source} is assigned to '{name}', which is {target}: the value is {loss}", "assigned here",
                  "its first assignment fixed the dtype of '{name}'; write qd.cast(...) if this is meant"),
    "QL1902": Row(_T, "a loop bound of dtype {dtype} is cast to i32", "this bound", "write "
                  "qd.cast(..., qd.i32) if this is meant"),
    "QL1903": Row(_T, "{source} is stored in '{name}', which holds {target}: the value is {loss}", "stored here",
                  "write qd.cast(...) if this is meant"),
    "QL1904": Row(_T, "'{text}' is a Python function: it runs once, when the kernel is compiled", "called here",
                  "qd.static(...) around the call says that this is meant"),
    "QL1905": Row(_T, "'{text}' is a property that reads a field: it runs once, when the kernel is compiled",
                  "read here", "read the field in the kernel; qd.static(...) around it says that this is meant"),
    "QL1906": Row(_T, "the first index of this range is u64, and indices are i64: the loop ends before 2**63",
                  "this range", "loop over the distance, and add the first index as a u64; qd.cast(..., qd.i64) says "
                  "that it is small"),
    "QL1908": Row(_T, "'{text}' is {what} and comes from outside of {kernel}, which has fastcache=True", "read here",
                  "nothing is wrong: its value is part of what the disk cache compares"),
    "QL1907": Row(_T, "this static loop makes its statements {n} times, more than unrolling_limit={most}", "this loop",
                  "use an ordinary loop, which is faster to compile; unrolling_limit=0 turns this warning off"),
}  # fmt: skip


# Python syntax that the language lacks: its name in messages, and what to do instead
UNSUPPORTED: dict[type, tuple[str, str]] = {
    ast.Try: ("try", "test for the case that goes wrong, or use assert under debug=True"),
    ast.Raise: ("raise", "use assert, or write a flag that Python reads"),
    ast.With: ("with", "do it in Python, around the call of the kernel"),
    ast.AsyncFor: ("async for", "use an ordinary for"),
    ast.FunctionDef: ("a function in a kernel", "define it outside with @qd.func"),
    ast.AsyncFunctionDef: ("a function in a kernel", "define it outside with @qd.func"),
    ast.ClassDef: ("a class in a kernel", "define it outside"),
    ast.Lambda: ("a lambda", "define a @qd.func"),
    ast.Delete: ("del", "leave it out: a name ends with its block"),
    ast.Global: ("global", "write to a field; captured constants cannot change"),
    ast.Nonlocal: ("nonlocal", "write to a field; captured constants cannot change"),
    ast.Import: ("import", "import outside of the kernel"),
    ast.ImportFrom: ("import", "import outside of the kernel"),
    ast.SetComp: ("a set comprehension", "write a loop over a field"),
    ast.GeneratorExp: ("a generator", "write a loop that accumulates"),
    ast.Yield: ("yield", "write the values to a field"),
    ast.YieldFrom: ("yield from", "write the values to a field"),
    ast.Await: ("await", "call it from Python"),
    ast.Set: ("a set", "use fields or scalar variables"),
    ast.List: ("a list", "use a field or scalar variables"),
    ast.Starred: ("'*'", "write the values out"),
    ast.Slice: ("a slice", "loop over the elements"),
    ast.Match: ("match", "use if and elif"),
}


def count(n: int, noun: str) -> str:
    """A number and a noun as text: ``3 values``, ``1 value``."""
    return f"{n} {noun}" + ("" if n == 1 else "s")


def suggestion(name: str, known: Sequence[str]) -> str:
    """The text ``; did you mean 'x'?`` if some known name is similar, else ""."""
    from difflib import get_close_matches

    close = get_close_matches(name, [k for k in known if not k.startswith("_")], 1, 0.7)
    return f"; did you mean '{close[0]}'?" if close else ""


def error(
    code: str, span: Span | None, also: tuple[E.Label, ...] = (), **parts: object
) -> E.QuadrantsCompilationError:
    """The error of that code at ``span``, with the format strings of its row filled in; ``also`` are further places in
    the source to show."""
    row = TABLE[code]
    label = E.Label(span, row.why.format(**parts))
    return row.error(row.message.format(**parts), code=code, labels=(label, *also), help=row.help.format(**parts))


def warning(code: str, span: Span, **parts: object) -> Callable[[], None]:
    """A function without arguments that issues the warning of that code, located at ``span``."""
    row = TABLE[code]
    label = E.Label(span, row.why.format(**parts))
    text = E.render(code, row.message.format(**parts), (label,), row.help.format(**parts), kind="warning")
    return lambda: E.warn_at(text, span.file, span.line)


def owner_of(node: ast.expr) -> ast.expr:
    """The expression at the root of a chain of subscripts and attributes: ``x`` of ``x[i].pos[0]``."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node


def nodes_of(kind: type[Kind], *nodes: ast.AST) -> Iterator[Kind]:
    """All AST nodes of the class ``kind`` in the given nodes, at any depth."""
    return (n for node in nodes for n in ast.walk(node) if isinstance(n, kind))


def names_in(*nodes: ast.AST) -> Iterator[ast.Name]:
    """The names that occur in the given AST nodes, at any depth."""
    return nodes_of(ast.Name, *nodes)


def is_none(node: ast.AST | None) -> bool:
    """Whether the expression is the constant None."""
    return isinstance(node, ast.Constant) and node.value is None


def entries_of(node: ast.expr, n: int = 1) -> list[ast.expr]:
    """The expressions of the entries of a tuple; any other expression ``n`` times."""
    return node.elts if isinstance(node, ast.Tuple) else [node] * n


def id_of(node: ast.AST | None) -> str:
    """The identifier, if the expression is a plain name; "" for any other expression."""
    return getattr(node, "id", "")


def name_of(node: ast.AST) -> str:
    """The expression as text: ``a.b`` for a dotted name, and the source for any other expression."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return f"{name_of(node.value)}.{node.attr}"
    return ast.unparse(node)
