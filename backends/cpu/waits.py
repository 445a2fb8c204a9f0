"""Tasks whose trips are data. A group in lanes waits for its longest iteration. So each group runs either in lanes or
one iteration after the other, by the trips that its iterations are about to make. The choice depends on the data alone.
"""

from quadrants_lab.backends._llvm import memory
from quadrants_lab.backends._llvm.body import Unit
from quadrants_lab.backends._llvm.text import Function, ty
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.body import CpuBody
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk


def loop_of(task: N.Offload) -> tuple[N.Block, N.For] | None:
    """The one loop of the task's body, behind a block that computes its bounds. None where there is no such loop, or
    its bounds depend on what the task writes, or are the same for all iterations."""
    loops = [s for s in walk(task.body) if isinstance(s, N.Loop)]
    if len(loops) != 1 or not isinstance(loops[0], N.For) or len(task.indices) != 1:
        return None
    written = {s.buffer for s in walk(task.body) if isinstance(s, N.Write)}
    needed, block = {loops[0].begin, loops[0].end}, list[N.Stmt]()
    seen = False
    for s in reversed(task.body):
        if seen and any(i in needed for i, _ in s.defs()):
            loads = isinstance(s, N.Load) and s.buffer not in written
            if not (loads or isinstance(s, (N.Const, N.Op, N.Uniform))):
                return None
            block.insert(0, s)
            needed.update(s.operands())
        seen = seen or s is loops[0]
    return ((*block, task.body[-1]), loops[0]) if seen and task.indices[0].id in needed else None


def choose(fn: Function, unit: Unit, task: N.Offload, number: int) -> None:
    """The chunk function ``fn`` of groups %begin to %end, which calls those of the two ways for each group."""
    found = loop_of(task)
    assert found is not None
    (block, loop), p = found, task.indices[0]
    body = CpuBody(fn, unit, parallel=True)
    body.begin_chunk(task, number)
    body.open(block)
    body.types[p.id] = p.type
    first, total = (body.word(body.bounds_at + n * L.WORD) for n in range(2))
    trips, most = fn.let("alloca i64"), fn.let("alloca i64")
    weigh, lanes, alone, on = (fn.label(name) for name in ("weigh", "lanes", "alone", "on"))
    with fn.loop("group", "i64", "%begin", "%end", "leave") as group:
        body.poll()
        low = fn.let(f"mul i64 {group}, {task.lanes}")
        high = fn.call("i64", "llvm.umin.i64", ("i64", fn.let(f"add i64 {low}, {task.lanes}")), ("i64", total))
        for place in (trips, most):
            fn.put(f"store i64 0, ptr {place}")
        with fn.loop("iteration", "i64", low, high, weigh) as at:
            index = fn.let(f"add i64 {first}, {at}")
            body.define(p.id, p.type, index if p.type.bits == 64 else fn.let(f"trunc i64 {index} to {ty(p.type).text}"))
            body.block(block)
            made = fn.let(f"sub i64 {memory.widen(body, loop.end)}, {memory.widen(body, loop.begin)}")
            made = fn.call("i64", "llvm.smax.i64", ("i64", made), ("i64", "0"))
            longest = fn.call("i64", "llvm.smax.i64", ("i64", fn.let(f"load i64, ptr {most}")), ("i64", made))
            fn.put(f"store i64 {longest}, ptr {most}")
            before = fn.let(f"load i64, ptr {trips}")
            fn.put(f"store i64 {fn.let(f'add i64 {before}, {made}')}, ptr {trips}")
        fn.start(weigh)
        all_ = fn.let(f"mul i64 {fn.let(f'load i64, ptr {trips}')}, 16")
        waiting = fn.let(f"mul i64 {fn.let(f'load i64, ptr {most}')}, {task.wait}")
        fn.branch(fn.let(f"icmp sge i64 {all_}, {waiting}"), lanes, alone)
        fn.start(lanes)
        _call(fn, f"task{number}_lanes", group, fn.let(f"add i64 {group}, 1"))
        fn.jump(on)
        fn.start(alone)
        _call(fn, f"task{number}_alone", low, high)
        fn.jump(on)
        fn.start(on)
    fn.start("leave")
    fn.put("ret void")
    fn.close()


def _call(fn: Function, name: str, begin: str, end: str) -> None:
    fn.call("void", name, ("ptr", "%frame"), ("i64", begin), ("i64", end), ("i64", "%worker"))
