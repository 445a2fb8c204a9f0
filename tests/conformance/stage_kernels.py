"""Kernels as IR text that tests of several backends show or launch."""

from conformance.tasks import by_trips, serial, stacked

# a stack in a loop and its reverse
LOOP = stacked("f32", 64).replace("{OP}", "sin %9")
# whiles and ifs around stacks
BRANCHES = by_trips("f32", 64).replace("{OP}", "sin %9").replace("{OP2}", "add %21, %21")

# until a field is written from outside
FOREVER = serial(
    """%1: i32 = const 0
    while carry (%2: i32 = %1) {
      %3: i32 = load @go[]
      %4: u1 = eq %3, %1
      yield %4
    } do {
      %5: i32 = const 1
      %6: i32 = add %2, %5
      yield %6
    } -> (%7: i32)""",
    "buffer @go: field i32[]",
)
