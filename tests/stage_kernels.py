"""Kernels as IR text that tests of several backends show or launch."""

from conformance_tasks import serial

# a gradient: v = sin(v) * x n times, and its reverse
LOOP = """
kernel loop(scale: f32) reverse {
  buffer @x: field f32[64]
  buffer @x.grad: field f32[64]
  buffer @n: field i32[64]
  buffer @y.grad: field f32[64]
  offload range_for bounds {
    %1: i32 = const 0
    %2: i32 = const 64
    yield %1, %2
  } do (%3: i32 'i') {
    adstack_alloca $4: f32 'v' primal %9 reason "operand of sin"
    %5: i32 = const 0
    %6: i32 = load @n[%3]
    %7: f32 'a' = load @x[%3]
    for %8: i32 'j' in %5..%6 carry (%9: f32 'v' = %7) {
      adstack_push $4, %9
      %10: f32 = sin %9
      %11: f32 = mul %10, %7
      yield %11
    } -> (%12: f32)
    adstack_guard {
      %13: f32 = load @y.grad[%3]
      %14: f32 = arg scale
      %15: f32 = mul %13, %14
      %16: f32 = const 0.0
      for reversed %17: i32 'j' in %5..%6 carry (%18: f32 'dv' = %15, %19: f32 'da' = %16) {
        %20: f32 'v' = adstack_load_top $4
        adstack_pop $4
        %21: f32 = sin %20
        %22: f32 = mul %18, %21
        %23: f32 = add %19, %22
        %24: f32 = mul %18, %7
        %25: f32 = cos %20
        %26: f32 = mul %24, %25
        yield %26, %23
      } -> (%27: f32, %28: f32)
      %29: f32 = add %27, %28
      %30: f32 = atomic add @x.grad[%3], %29 private
      yield
    }
    yield
  }
}
"""

# control flow, integers, two axes, a flag on a stack
BRANCHES = """
kernel branches() reverse {
  buffer @image: ndarray i32[?x?]
  buffer @total: field i64[]
  offload range_for bounds {
    %1: i32 = const 0
    %2: i32 = shape @image 0
    %3: i32 = shape @image 1
    yield %1, %1, %2, %3
  } do (%4: i32 'i', %5: i32 'j') {
    adstack_alloca $6: u1 'odd' primal %10 reason "condition"
    %7: i32 'p' = load @image[%4, %5]
    %8: i32 = const 2
    %9: i32 = const 0
    %30: i32 = const 1
    while carry (%20: i32 'm' = %7, %21: i32 'steps' = %9) {
      %22: u1 = gt %20, %30
      yield %22
    } do {
      %23: i32 = mod %20, %8
      %10: u1 'odd' = eq %23, %30
      adstack_push $6, %10
      if %10 {
        %24: i32 = const 3
        %25: i32 = mul %20, %24
        %26: i32 = add %25, %30
        yield %26
      } else {
        %27: i32 = floordiv %20, %8
        yield %27
      } -> (%28: i32 'm')
      %29: i32 = add %21, %30
      yield %28, %29
    } -> (%31: i32, %32: i32 'steps')
    adstack_guard {
      for %33: i32 'k' in %9..%32 carry (%34: i32 'odds' = %9) {
        %35: u1 = adstack_load_top $6
        adstack_pop $6
        %36: i32 = cast %35
        %37: i32 = add %34, %36
        yield %37
      } -> (%38: i32 'odds')
      store @image[%4, %5], %38
      %39: i64 = cast %38
      %40: i64 = atomic max @total[], %39
      yield
    }
    yield
  }
}
"""

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
