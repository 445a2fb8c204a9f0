# ruff: noqa
def field_as_number():
    z[0] = g + 1

def scalar_field_as_number():
    z[0] = n * 2

def literal_too_large():
    a[0] = 3000000000

def literal_too_large_for_cast():
    a[0] = qd.u8(300)

def floor_of_integer():
    z[0] = qd.floor(n[None])

def bits_of_real():
    v = x[0]
    a[0] = v & 1

def inverted_real():
    a[0] = ~x[0]

def shifted_by_real():
    a[0] = a[1] << 2.0

def real_condition():
    v = x[0]
    if v:
        z[0] = 1

def real_not():
    b[0] = not x[0]

def real_and():
    v = x[0]
    b[0] = n[None] and v

def text_as_number():
    z[0] = "one"

def none_as_number():
    v = None

def tuple_assigned_again():
    v = (1, 2)
    v = (3, 4)

def method_in_variable():
    v = x.fill

def function_as_number():
    z[0] = qd.sin + 1

def complex_number():
    z[0] = 1j

def bit_cast_of_other_width():
    a[0] = qd.bit_cast(d[0], qd.i32)

def negative_power():
    k = 2
    z[0] = k**-1

def cast_to_no_dtype():
    z[0] = qd.cast(1, "f32")

def annotated_with_no_dtype():
    v: x = 1

def atomic_bits_of_real():
    x[0] |= 1

def atomic_add_of_flag():
    b[0] += 1

def wrong_unpacking():
    p, q = 1, 2, 3

def unpacked_number():
    p, q = n[None]

def random_half():
    z[0] = qd.random(qd.f16)

# --- warnings

def real_into_integer():
    k = 1
    k = 2.7
    k += x[0]

def double_into_single():
    v = 0.0
    v = d[0]

def division_into_integer():
    k = 7
    k /= 2

def real_into_integer_field():
    a[0] = x[0]
    a[1] += x[1]

def constant_beyond_integer_field():
    bytes8[0] = 300
    bytes8[1] = 127
    bytes8[2] -= 129

def exact_literal():
    k = 1
    k = 2.0

def bits_of_element_and_real():
    a[0] |= x[0]
