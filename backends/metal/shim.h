// The part of the Metal Shading Language that our kernels use, as C++, to run them on any machine one thread of the grid
// at a time. It includes nothing, so that it compiles fast.
#pragma once
#define device
#define constant const
#define thread
#define kernel static
#define __METAL_VERSION__ 320
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
static_assert(sizeof(long) == 8, "long has 64 bits in Metal");

namespace metal {

template <typename T, typename S> inline T as_type(S x) {
  static_assert(sizeof(T) == sizeof(S), "as_type keeps the size");
  T y;
  __builtin_memcpy(&y, &x, sizeof(T));
  return y;
}

// --- half: computed in float and rounded after each operation, which is exact for + - * / and square roots

struct half {
  ushort bits;
  half() = default;
  explicit half(float x) : bits(round_to_bits(x)) {}
  explicit operator float() const {
    uint sign = uint(bits & 0x8000) << 16, exponent = bits >> 10 & 31, digits = bits & 1023;
    if (exponent == 31) return as_type<float>(sign | 0x7f800000u | digits << 13);
    if (exponent != 0) return as_type<float>(sign | (exponent + 112) << 23 | digits << 13);
    float small = float(digits) * 0x1p-24f;
    return sign != 0 ? -small : small;
  }
  static ushort round_to_bits(float x) {
    uint b = as_type<uint>(x), sign = b >> 16 & 0x8000, digits = b & 0x7fffff;
    int exponent = int(b >> 23 & 255) - 112;
    if (exponent == 255 - 112) return ushort(sign | 0x7c00 | (digits != 0 ? 0x200 | digits >> 13 : 0));
    if (exponent >= 31) return ushort(sign | 0x7c00);
    if (exponent < -10) return ushort(sign);
    uint drop = 13, kept = uint(exponent) << 10;
    if (exponent <= 0) {
      digits |= 0x800000;
      drop = uint(14 - exponent);
      kept = 0;
    }
    kept += digits >> drop;
    uint rest = digits & ((1u << drop) - 1), tie = 1u << (drop - 1);
    return ushort(sign | (kept + (rest > tie || (rest == tie && (kept & 1) != 0))));
  }
};

#define QD_HALF(op) inline half operator op(half a, half b) { return half(float(a) op float(b)); }
#define QD_HALF_TEST(op) inline bool operator op(half a, half b) { return float(a) op float(b); }
QD_HALF(+) QD_HALF(-) QD_HALF(*) QD_HALF(/)
QD_HALF_TEST(<) QD_HALF_TEST(<=) QD_HALF_TEST(>) QD_HALF_TEST(>=) QD_HALF_TEST(==) QD_HALF_TEST(!=)
inline half operator-(half a) { return as_type<half>(ushort(a.bits ^ 0x8000)); }
inline half& operator+=(half& a, half b) { return a = a + b; }
inline half& operator-=(half& a, half b) { return a = a - b; }
inline half& operator*=(half& a, half b) { return a = a * b; }
inline half& operator/=(half& a, half b) { return a = a / b; }

// --- vectors

template <typename T> struct alignas(2 * sizeof(T)) vec2 {
  T x, y;
  vec2(T x, T y) : x(x), y(y) {}
};
template <typename T> struct alignas(4 * sizeof(T)) vec4 {
  T x, y, z, w;
  vec4(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
};
#define VECTORS(T) typedef vec2<T> T##2; typedef vec4<T> T##4;
VECTORS(char) VECTORS(short) VECTORS(int) VECTORS(long) VECTORS(uchar) VECTORS(ushort) VECTORS(uint) VECTORS(ulong)
VECTORS(half) VECTORS(float)
#undef VECTORS

// --- functions

#define QD_UNARY(name) inline float name(float x) { return __builtin_##name##f(x); }
#define QD_BINARY(name) inline float name(float x, float y) { return __builtin_##name##f(x, y); }
#define QD_HALF_UNARY(name) inline half name(half x) { return half(name(float(x))); }
#define QD_HALF_BINARY(name) inline half name(half x, half y) { return half(name(float(x), float(y))); }
QD_UNARY(floor) QD_UNARY(ceil) QD_UNARY(trunc) QD_UNARY(round) QD_UNARY(fabs) QD_BINARY(fmin) QD_BINARY(fmax)
QD_HALF_UNARY(floor) QD_HALF_UNARY(ceil) QD_HALF_UNARY(trunc) QD_HALF_UNARY(round)
QD_HALF_BINARY(fmin) QD_HALF_BINARY(fmax)
inline half fabs(half x) { return as_type<half>(ushort(x.bits & 0x7fff)); }
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isnan(half x) { return isnan(float(x)); }
inline bool isinf(half x) { return isinf(float(x)); }
inline uint min(uint a, uint b) { return a < b ? a : b; }
inline uint popcount(uint x) { return uint(__builtin_popcount(x)); }
inline uint clz(uint x) { return x != 0 ? uint(__builtin_clz(x)) : 32u; }

namespace precise {
QD_UNARY(sqrt) QD_UNARY(sin) QD_UNARY(cos) QD_UNARY(tan) QD_UNARY(asin) QD_UNARY(acos) QD_UNARY(tanh) QD_UNARY(exp)
QD_UNARY(log) QD_BINARY(atan2) QD_BINARY(pow) QD_BINARY(fmod)
}  // namespace precise

// --- atomics

enum memory_order { memory_order_relaxed, memory_order_seq_cst };
enum class mem_flags { mem_device };
enum thread_scope { thread_scope_device };
struct atomic_int { int value; };
struct atomic_uint { uint value; };
struct atomic_float { float value; };

inline void atomic_thread_fence(mem_flags, memory_order, thread_scope) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline uint atomic_load_explicit(atomic_uint* a, memory_order) { return __atomic_load_n(&a->value, __ATOMIC_RELAXED); }
inline void atomic_store_explicit(atomic_uint* a, uint x, memory_order) {
  __atomic_store_n(&a->value, x, __ATOMIC_RELAXED);
}

// Fails spuriously now and then, as Metal's own may.
inline bool atomic_compare_exchange_weak_explicit(atomic_uint* a, uint* seen, uint x, memory_order, memory_order) {
  static uint calls = 0;
  if (++calls % 5 == 0) return false;
  return __atomic_compare_exchange_n(&a->value, seen, x, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

#define QD_ATOMIC(name, T, expression)                                                                         \
  inline T name(atomic_##T* a, T x, memory_order) {                                                            \
    T old, now;                                                                                                \
    __atomic_load(&a->value, &old, __ATOMIC_RELAXED);                                                          \
    do {                                                                                                       \
      now = expression;                                                                                        \
    } while (!__atomic_compare_exchange(&a->value, &old, &now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));    \
    return old;                                                                                                \
  }
#define QD_ATOMICS(T)                                         \
  QD_ATOMIC(atomic_fetch_add_explicit, T, T(uint(old) + x))   \
  QD_ATOMIC(atomic_fetch_sub_explicit, T, T(uint(old) - x))   \
  QD_ATOMIC(atomic_fetch_min_explicit, T, old < x ? old : x)  \
  QD_ATOMIC(atomic_fetch_max_explicit, T, old > x ? old : x)  \
  QD_ATOMIC(atomic_fetch_and_explicit, T, old & x)            \
  QD_ATOMIC(atomic_fetch_or_explicit, T, old | x)             \
  QD_ATOMIC(atomic_fetch_xor_explicit, T, old ^ x)            \
  QD_ATOMIC(atomic_exchange_explicit, T, x)
QD_ATOMICS(int)
QD_ATOMICS(uint)
QD_ATOMIC(atomic_fetch_add_explicit, float, old + x)
QD_ATOMIC(atomic_exchange_explicit, float, x)

// --- the grid

// Flushes denormals during its lifetime, as Metal does.
struct Flush {
#if defined(__x86_64__)
  uint before = __builtin_ia32_stmxcsr();
  Flush() { __builtin_ia32_ldmxcsr(before | 0x8040); }
  ~Flush() { __builtin_ia32_ldmxcsr(before); }
#elif defined(__aarch64__)
  ulong before;
  Flush() {
    asm volatile("mrs %0, fpcr" : "=r"(before));
    asm volatile("msr fpcr, %0" : : "r"(before | 1ul << 24));
  }
  ~Flush() { asm volatile("msr fpcr, %0" : : "r"(before)); }
#endif
};

}  // namespace metal

// Functions with C linkage that run a kernel of one thread or of many.
#define QD_RUN_ONCE(symbol, name)                                                \
  extern "C" void symbol(void* f, uint groups, uint group) {                     \
    metal::Flush flush;                                                          \
    for (uint n = 0; n < groups * group; ++n) name(*(Frame*)f);                  \
  }
#define QD_RUN_MANY(symbol, name)                                                \
  extern "C" void symbol(void* f, uint groups, uint group) {                     \
    metal::Flush flush;                                                          \
    uint lanes = groups * group;                                                 \
    for (uint lane = 0; lane < lanes; ++lane) name(*(Frame*)f, lane, lanes);     \
  }
