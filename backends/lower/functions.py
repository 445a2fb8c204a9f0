"""Implements elementary functions in IR, for devices whose own functions are missing or not accurate enough.

`function(name, dtype, wide)` makes a function that kernels can call. It runs wherever IR runs: on every device, and in
the interpreter, where its accuracy is tested. Largest errors measured, in units of the last place, for f32 and f64
alike unless two are given: sin, cos 1; tan, asin, acos, tanh 3; atan2, exp, log, log1p 2; pow 3 and 12. ``wide``: sin,
cos and tan hold for arguments of any size; otherwise up to 400 (f32) and 10**6 (f64), with errors of sin and cos within
3 and 3.5. Denormals count as zero. fmod is exact.

Sources: argument reduction in parts after Cody and Waite (1980) and for large arguments after Payne and Hanek (1983);
exact sums and products after Dekker (1971); polynomials are Taylor's, in ranges where that is accurate.
"""

from functools import lru_cache, partial
from itertools import pairwise
from math import factorial, log as log_, pi
from typing import Any

from quadrants_lab.backends.lower.expression import Scope, X
from quadrants_lab.backends.lower.math import CIRCULAR
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, f32, f64, i32, u32, u64


@lru_cache(maxsize=256)
def function(name: str, t: DType, wide: bool = True, unit: bool = False) -> N.Function:
    """The function ``name`` on operands of dtype ``t``: f32 or f64, for "pow" also u64. ``unit``: sine and cosine of
    f32 call the device's own instruction."""
    make, arity = FUNCTIONS[name if t.is_float else f"{name}_int"]
    if unit:
        make = partial(_by_unit, name=name)
    s = Scope(t, wide)
    params = tuple(s.b.param(t, "abc"[n]) for n in range(arity))
    with s.b.block() as block:
        args = [X(s.b, p.id) for p in params]
        result = make(s, *args)
        if name in CIRCULAR and not wide and not unit:
            result = _with_digits(s, args[0], result, 1.0 if name == "cos" else 0.0)
        s.b.yield_(result.id)
    symbol = f"{name}.{t}" + (".unit" if unit else ".wide" if wide and name in CIRCULAR else "")
    return N.Function(symbol, params, s.b.types[result.id], tuple(block))


# --- numbers --------------------------------------------------------------------------------------------------


INVERSE_PI, INVERSE_LN2 = 1 / pi, 1 / log_(2)
# Constants as sums of floats. For pi/2 and ln 2, every float but the last has so few bits that its product with a small
# integer is exact.
HALF_PI = {
    f32: (1.57080078125, -4.454399459064007e-06, -5.564431554416771e-11),
    f64: (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21),
}
LN2 = {f32: (0.693145751953125, 1.428606765330187e-06), f64: (0.6931471805601177, -1.7239444525614835e-13)}
TURN = 6.283203125, -1.781781975296326e-05  # 2 pi
# arctan(n/4) for n = 1 to 4
ARCTAN = {
    f32: (
        (0.244978666305542, -3.1786777654474463e-09), (0.46364760398864746, 5.01215868808913e-09),
        (0.6435011029243469, 5.868937336117597e-09), (0.7853981852531433, -2.1855694143368964e-08),
    ),
    f64: (
        (0.24497866312686414, 1.0698755618734451e-17), (0.4636476090008061, 2.2698777452961687e-17),
        (0.6435011087932844, 1.5834785051444286e-17), (0.7853981633974483, 3.061616997868383e-17),
    ),
}  # fmt: skip
# The coefficients of a polynomial p with r + r**3 * p(r**2) = sin r up to pi/2. It interpolates Taylor's series in as
# many points as it has coefficients, which comes close to the least possible error.
HALF_TURN = {
    f32: (-0.16666665965088837, 0.008333242177562945, -0.00019822741233503698, 2.634756501528874e-06),
    f64: (
        -0.16666666666666666, 0.008333333333333316, -0.00019841269841254974, 2.755731921916347e-06,
        -2.5052107617016534e-08, 1.6058977313219768e-10, -7.643970307120811e-13, 2.7314447693994157e-15,
    ),
}  # fmt: skip
NEAR = {f32: 400.0, f64: 1.0e6}  # up to this argument, reduction in parts is accurate
_TERMS_EXP = {f32: 8, f64: 14}
_TERMS_SIN = {f32: 5, f64: 9}
_TERMS_LOG = {f32: 5, f64: 11}
_TERMS_ATAN = {f32: 4, f64: 9}


# --- exponential and logarithm --------------------------------------------------------------------------------


def _exp_parts(s: Scope, x: X, tail: X | None = None) -> tuple[X, X]:
    """exp(x + tail) as 2**k * (1 + e). Returns k (an integer of the float's width) and e; |x + tail| is reduced to at
    most ln(2)/2."""
    high, low = LN2[s.t]
    k = (x * INVERSE_LN2 + 0.5).floor()
    a = x - k * high
    b = k * low
    if tail is not None:
        b = b - tail
    r = a - b
    error = (a - r) - b  # the rounding error of the last subtraction
    p = s.polynomial(r, [1 / factorial(n) for n in range(2, _TERMS_EXP[s.t])])
    return k.cast(s.int), r + (r * r * p + error)


def _scale(s: Scope, x: X, k: X) -> X:
    """x * 2**k as two multiplications, so that neither factor overflows."""
    half = k.shr(1)
    return x * s.power_of_two(half) * s.power_of_two(k - half)


def _exp_of(s: Scope, x: X, tail: X | None = None) -> X:
    k, e = _exp_parts(s, x, tail)
    limit = s.emax * log_(2) + 1
    y = _scale(s, e + 1.0, k.clamp(-2 * s.emax, 2 * s.emax))
    y = (x > limit).select(s.lit(float("inf")), y)
    return (x < -limit - s.digits).select(s.lit(0.0), y)


def exp(s: Scope, x: X) -> X:
    return _exp_of(s, x)


def tanh(s: Scope, x: X) -> X:
    """Computed as t / (t + 2) with t = exp(2|x|) - 1, which has no cancellation."""
    size = x.abs()
    y = size.min(s.lit(float(s.digits))) * 2.0
    k, e = _exp_parts(s, y)
    power = s.power_of_two(k)
    t = (power - 1.0) + power * e
    r = (size > float(s.digits) * 0.5).select(s.lit(1.0), t / (t + 2.0))
    return x.is_nan().select(x, r.copysign(x))


def _log_split(s: Scope, x: X) -> tuple[X, X]:
    """A positive normal x as m * 2**k with m from sqrt(1/2) to sqrt(2). Returns m, and k as a float."""
    bits = x.bitcast(s.int)
    offset = bits - s.bits_of(0.70710678118654752)
    k = offset.shr(s.digits - 1)
    return (bits - k.shl(s.digits - 1)).bitcast(s.t), k.cast(s.t)


def _log_series(s: Scope, square: X) -> X:
    """A polynomial in q = f/(2 + f), whose ``square`` is given: (log(1 + f) - 2q) / q."""
    return square * s.polynomial(square, [2 / (2 * n + 1) for n in range(1, _TERMS_LOG[s.t])])


def log(s: Scope, x: X) -> X:
    high, low = LN2[s.t]
    m, k = _log_split(s, x)
    f = m - 1.0
    q = f / (f + 2.0)
    half_square = f * f * 0.5
    r = _log_series(s, q * q)
    y = k * high - ((half_square - (q * (half_square + r) + k * low)) - f)
    return _log_edges(s, x, y)


def log1p(s: Scope, x: X) -> X:
    """Computed as log(u) of u = 1 + x, plus a term for the rounding error of u (Kahan); close to 0 the term is the
    whole result."""
    u = x + 1.0
    y = log(s, u)
    return ((u > 0.0) & (u < float("inf"))).select(y + (x - (u - 1.0)) / u, y)


def _log_edges(s: Scope, x: X, y: X) -> X:
    y = (x < s.tiny).select(s.lit(float("-inf")), y)
    y = (x <= -s.tiny).select(s.lit(float("nan")), y)
    return (x < float("inf")).select(y, x.is_nan().select(x, (x > 0.0).select(x, y)))


def _log_pair(s: Scope, x: X) -> tuple[X, X]:
    """The logarithm of a positive normal number, as a sum of two floats."""
    high, low = LN2[s.t]
    m, k = _log_split(s, x)
    f = m - 1.0
    d = f + 2.0
    q = f / d
    p, p_error = s.product(q, d)
    d_error = f - (d - 2.0)
    q_error = (((f - p) - p_error) - q * d_error) / d
    r = q * _log_series(s, q * q)
    a, a_error = s.sum(k * high, q * 2.0)
    b, b_error = s.sum(a, r)
    return s.sum(b, a_error + b_error + (k * low + q_error * 2.0))


def pow(s: Scope, a: X, b: X) -> X:
    """The power as C defines it: 1 if b = 0 or a = 1, even if the other operand is NaN; NaN for a negative base
    unless the exponent is an integer."""
    inf, one = s.lit(float("inf")), s.lit(1.0)
    size = a.abs()
    high, low = _log_pair(s, size.max(s.lit(s.tiny)).min(s.lit(s.most)))
    p, p_error = s.product(high, b)
    p_error = p_error + low * b
    inside = (p.abs() < s.most / 4) & (b.abs() < s.split_limit)
    plain = high * b
    y = _exp_of(s, inside.select(p, plain), inside.select(p_error, s.lit(0.0)))
    rises = b > 0.0
    y = (size < s.tiny).select(rises.select(s.lit(0.0), inf), y)
    y = (size == float("inf")).select(rises.select(inf, s.lit(0.0)), y)
    whole = b.floor() == b
    odd = whole & ((b * 0.5).floor() * 2.0 != b)
    negative = a.bitcast(s.int) < 0
    y = (negative & odd).select(-y, y)
    y = (negative & ~whole & (size >= s.tiny) & (size < inf)).select(s.lit(float("nan")), y)
    y = ((size == 1.0) & (b.abs() == float("inf"))).select(one, y)
    y = (a.is_nan() | b.is_nan()).select(a + b, y)
    return ((b == 0.0) | (a == 1.0)).select(one, y)


# --- circular functions ---------------------------------------------------------------------------------------


def _reduce_near(s: Scope, x: X) -> list[X]:
    """x minus the nearest multiple of pi/2, k * pi/2. Returns the remainder, its rounding error, and k, which is
    correct modulo 4."""
    whole = 1.5 * 2.0 ** (s.digits - 1)
    # adding ``whole`` rounds to an integer, which is then in the low bits of the sum
    shifted = x * (2 * INVERSE_PI) + whole
    k = shifted - whole
    first, second, third = HALF_PI[s.t]
    a = x - k * first
    b, b_error = s.sum(a, -(k * second))
    c = k * third
    r = b - c
    return [r, ((b - r) - c) + b_error, shifted.bitcast(s.int)]


def _arctan_inverse(n: int, bits: int) -> int:
    """arctan(1/n) * 2**bits as an integer, by its series."""
    total = term = (1 << bits) // n
    k, sign = 1, -1
    while term:
        term //= n * n
        k, total = k + 2, total + sign * (term // (k + 2))
        sign = -sign
    return total


@lru_cache(maxsize=1)
def _pi(bits: int) -> int:
    """pi * 2**bits as an integer, by Machin's formula."""
    return 4 * (4 * _arctan_inverse(5, bits) - _arctan_inverse(239, bits))


def _reduce_far(s: Scope, x: X) -> list[X]:
    """Like `_reduce_near`, for any finite x, with as many bits of 2/pi as needed. The significand of x is multiplied by
    bits of 2/pi, starting at the first bit whose product with x is not a multiple of 4."""
    width, word = (32, u32) if s.t is f32 else (64, u64)
    bits = x.abs().bitcast(word)
    exponent = bits.lshr(s.digits - 1)
    significand = (bits & ((1 << (s.digits - 1)) - 1)) | (1 << (s.digits - 1))
    # x = significand * 2**e; bit n of the table has weight 2**(width - 1 - n)
    e = exponent.cast(i32) - (s.emax + s.digits - 2)
    place = e + (width - 2)
    count = (s.emax - s.digits + width) // width + 4
    value = (2 << 2600 + width * (count - 1)) // _pi(2600)
    table = [s.int_lit(value >> (width * (count - 1 - n)) & ((1 << width) - 1), word) for n in range(count)]
    step = 1 << (count - 4).bit_length() - 1
    index = place.shr(width.bit_length() - 1)
    while step:
        chosen = (index & step) != 0
        keep = 4 + step - 1
        table = [
            chosen.select(table[n + step], w) if n + step < len(table) else w
            for n, w in enumerate(table[:keep])
        ]
        step //= 2
    shift = (place & (width - 1)).cast(word)
    words = [(a.shl(shift) | b.lshr(1).lshr(shift ^ (width - 1))) for a, b in pairwise(table)]
    r2, carry = s.wide_product(significand, words[2])
    low, high = s.wide_product(significand, words[1])
    r1 = low + carry
    r0 = significand * words[0] + high + (r1 < low).cast(word)
    fraction = (r0.shl(2) | r1.lshr(width - 2)).bitcast(s.int)
    rest = r1.shl(2) | r2.lshr(width - 2)
    turns = fraction.cast(s.t) * 2.0**-width + rest.cast(s.t) * 2.0 ** (-2 * width)
    k = (r0.lshr(width - 2) + (fraction < 0).cast(word)).bitcast(s.int)
    negative = x < 0.0
    r = turns * (pi / 2)
    return [negative.select(-r, r), s.lit(0.0), negative.select(-k, k)]


def _with_digits(s: Scope, x: X, y: X, at_zero: float) -> X:
    """Returns ``y``, the computed sine or cosine of ``x``. But if ``x`` is finite and so large that neighbouring
    floats are 0.5 or more apart, it returns ``at_zero``, the function's value at 0, because ``y`` would lie outside
    -1 .. 1. Processors compare ``x`` while they compute ``y``."""
    size = x.abs()
    return ((size >= 2.0 ** (s.digits - 2)) & (size < float("inf"))).select(s.lit(at_zero), y)


def _reduced(s: Scope, x: X) -> list[X]:
    if not s.wide:
        return _reduce_near(s, x)
    types = [s.t, s.t, s.int]
    return s.choose(x.abs() < NEAR[s.t], types, lambda: _reduce_near(s, x), lambda: _reduce_far(s, x))


def _sin_cos(s: Scope, x: X) -> tuple[X, X, X]:
    """Sine and cosine of the remainder of x modulo pi/2, and the index of the quarter turn."""
    r, tail, k = _reduced(s, x)
    z = r * r
    n = _TERMS_SIN[s.t]
    sine = s.polynomial(z, [(-1) ** m / factorial(2 * m + 1) for m in range(1, n)])
    sine = r + (r * z * sine + tail)
    cosine = s.polynomial(z, [(-1) ** m / factorial(2 * m) for m in range(2, n + 1)])
    half = z * 0.5
    w = 1.0 - half
    cosine = w + (((1.0 - w) - half) + (z * z * cosine - r * tail))
    nan = (x.abs() < float("inf")).select(s.lit(0.0), s.lit(float("nan")))
    return sine + nan, cosine + nan, k


def _quarter(s: Scope, sine: X, cosine: X, k: X) -> X:
    y = ((k & 1) == 0).select(sine, cosine)
    return ((k & 2) == 0).select(y, -y)


def _fast_circle(s: Scope, x: X, quarters: int) -> X:
    """sin(x + quarters * pi/2), for 0 or 1 quarters, within 3.5 units in the last place. Adding 1.5 * 2**23 (f64:
    2**52) rounds to an integer, the number of half turns, whose low bits are the low bits of the sum."""
    whole = 1.5 * 2.0 ** (s.digits - 1)
    turns = x * INVERSE_PI
    shifted = (turns + 0.5 if quarters else turns) + whole
    turns = shifted - whole
    turns = turns - 0.5 if quarters else turns
    r = x
    for part in HALF_PI[s.t]:
        r = r - turns * (2 * part)
    z = r * r
    terms = [s.lit(c) for c in HALF_TURN[s.t]]
    p = s.balanced(z, terms)
    # the sign is applied to r, not to the result: processors do this while they compute p, so the chain of dependent
    # operations is shorter
    r = (r.bitcast(s.int) ^ shifted.bitcast(s.int).shl(s.t.bits - 1)).bitcast(s.t)
    return r + r * z * p


SMALL = 0.0113  # here x - sin x is 2**-22


def _by_unit(s: Scope, x: X, name: str) -> X:
    """The device's own sine or cosine, of x minus a multiple of 2 pi. In -pi .. pi the error of NVIDIA's instruction is
    at most 2**-21. It rounds sines to multiples of about 2**-22, so the sine of a small number is replaced by the
    number itself."""
    whole = 1.5 * 2.0 ** (s.digits - 1)
    turns = x * (INVERSE_PI / 2) + whole - whole
    r = x
    for part in TURN:
        r = r - turns * part
    y = X(s.b, s.b.op(name, r.id))
    return (x.abs() < SMALL).select(x, y) if name == "sin" else y


def sin(s: Scope, x: X) -> X:
    if not s.wide:
        return _fast_circle(s, x, 0)
    y = _quarter(s, *_sin_cos(s, x))
    return (x.abs() < s.tiny).select(x, y)


def cos(s: Scope, x: X) -> X:
    if not s.wide:
        return _fast_circle(s, x, 1)
    sine, cosine, k = _sin_cos(s, x)
    return _quarter(s, sine, cosine, k + 1)


def tan(s: Scope, x: X) -> X:
    sine, cosine, k = _sin_cos(s, x)
    even = (k & 1) == 0
    y = even.select(sine, -cosine) / even.select(cosine, sine)
    return (x.abs() < s.tiny).select(x, y)


def atan2(s: Scope, y: X, x: X) -> X:
    ay, ax = y.abs(), x.abs()
    d, n = ax.max(ay), ax.min(ay)
    both = n == float("inf")
    far = d == float("inf")
    n, d = far.select(both.select(s.lit(1.0), s.lit(0.0)), n), far.select(s.lit(1.0), d)
    scale = (d > s.most / 4).select(
        s.lit(2.0**-8), (d < s.tiny * 2.0**s.digits).select(s.lit(2.0**s.digits), s.lit(1.0))
    )
    n, d = n * scale, d * scale
    d = (d < s.tiny).select(s.lit(1.0), d)
    c = (n / d * 4.0 + 0.5).floor() * 0.25
    u = (n - c * d) / (d + c * n)
    z = u * u
    p = u + u * z * s.polynomial(z, [(-1) ** m / (2 * m + 1) for m in range(1, _TERMS_ATAN[s.t] + 1)])
    high, low = s.lit(0.0), s.lit(0.0)
    for quarter, (h, lo) in enumerate(ARCTAN[s.t], 1):
        here = c == quarter / 4
        high, low = here.select(s.lit(h), high), here.select(s.lit(lo), low)
    r = high + (low + p)
    half_pi, half_pi_low = (2 * part for part in ARCTAN[s.t][3])
    r = (ay > ax).select(half_pi - (r - half_pi_low), r)
    r = (x.bitcast(s.int) < 0).select(2 * half_pi - (r - 2 * half_pi_low), r)
    return (x.is_nan() | y.is_nan()).select(x + y, r.copysign(y))


def asin(s: Scope, x: X) -> X:
    return atan2(s, x, ((1.0 - x) * (x + 1.0)).sqrt())


def acos(s: Scope, x: X) -> X:
    return atan2(s, (1.0 - x).sqrt(), (x + 1.0).sqrt()) * 2.0


# --- remainder, integers --------------------------------------------------------------------------------------


def raw_mod(s: Scope, a: X, b: X) -> X:
    """Computed by subtracting b times the greatest power of two that fits, which is exact, until the rest is less than
    b."""
    size, d = a.abs(), b.abs()
    good = (size < float("inf")) & (d >= s.tiny)
    start, d = good.select(size, s.lit(0.0)), good.select(d, s.lit(1.0))
    d_bits = d.bitcast(s.int)

    def step(r: X) -> X:
        up = (r.bitcast(s.int).shr(s.digits - 1) - d_bits.shr(s.digits - 1)).shl(s.digits - 1)
        m = (d_bits + up).bitcast(s.t)
        m = (m > r).select((d_bits + up - (1 << (s.digits - 1))).bitcast(s.t), m)
        return r - m

    r = s.repeat(start, lambda r: r >= d, step)
    r = (d == float("inf")).select(size, r)
    r = good.select(r, s.lit(float("nan")))
    r = (a.is_nan() | b.is_nan()).select(a + b, r)
    return r.copysign(a)


def pow_int(s: Scope, a: X, b: X) -> X:
    """A power of unsigned integers, by repeated squaring, modulo 2**64."""

    def step(r: X, x: X, e: X) -> list[X]:
        return [((e & 1) != 0).select(r * x, r), x * x, e.lshr(1)]

    return s.repeat_all([s.int_lit(1, u64), a, b], lambda r, x, e: e != 0, step)[0]


FUNCTIONS: dict[str, tuple[Any, int]] = {
    "sin": (sin, 1), "cos": (cos, 1), "tan": (tan, 1), "asin": (asin, 1), "acos": (acos, 1), "atan2": (atan2, 2),
    "tanh": (tanh, 1), "exp": (exp, 1), "log": (log, 1), "log1p": (log1p, 1), "pow": (pow, 2), "raw_mod": (raw_mod, 2),
    "pow_int": (pow_int, 2),
}  # fmt: skip
