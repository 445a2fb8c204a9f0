// The Metal Shading Language as C++, as far as kernels of ours use it: for running them on any machine, a thread of the
// grid at a time. Includes nothing, so that it compiles fast.
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

inline half operator+(half a, half b) { return half(float(a) + float(b)); }
inline half operator-(half a, half b) { return half(float(a) - float(b)); }
inline half operator*(half a, half b) { return half(float(a) * float(b)); }
inline half operator/(half a, half b) { return half(float(a) / float(b)); }
inline half operator-(half a) { return as_type<half>(ushort(a.bits ^ 0x8000)); }
inline half& operator+=(half& a, half b) { return a = a + b; }
inline half& operator-=(half& a, half b) { return a = a - b; }
inline half& operator*=(half& a, half b) { return a = a * b; }
inline bool operator<(half a, half b) { return float(a) < float(b); }
inline bool operator<=(half a, half b) { return float(a) <= float(b); }
inline bool operator>(half a, half b) { return float(a) > float(b); }
inline bool operator>=(half a, half b) { return float(a) >= float(b); }
inline bool operator==(half a, half b) { return float(a) == float(b); }
inline bool operator!=(half a, half b) { return float(a) != float(b); }

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

inline float floor(float x) { return __builtin_floorf(x); }
inline float ceil(float x) { return __builtin_ceilf(x); }
inline float trunc(float x) { return __builtin_truncf(x); }
inline float round(float x) { return __builtin_roundf(x); }
inline float fabs(float x) { return __builtin_fabsf(x); }
inline float fmin(float a, float b) { return __builtin_fminf(a, b); }
inline float fmax(float a, float b) { return __builtin_fmaxf(a, b); }
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline half floor(half x) { return half(floor(float(x))); }
inline half ceil(half x) { return half(ceil(float(x))); }
inline half trunc(half x) { return half(trunc(float(x))); }
inline half round(half x) { return half(round(float(x))); }
inline half fabs(half x) { return as_type<half>(ushort(x.bits & 0x7fff)); }
inline half fmin(half a, half b) { return half(fmin(float(a), float(b))); }
inline half fmax(half a, half b) { return half(fmax(float(a), float(b))); }
inline bool isnan(half x) { return isnan(float(x)); }
inline bool isinf(half x) { return isinf(float(x)); }
inline uint min(uint a, uint b) { return a < b ? a : b; }
inline uint popcount(uint x) { return uint(__builtin_popcount(x)); }
inline uint clz(uint x) { return x != 0 ? uint(__builtin_clz(x)) : 32u; }

namespace precise {
inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline float sin(float x) { return __builtin_sinf(x); }
inline float cos(float x) { return __builtin_cosf(x); }
inline float tan(float x) { return __builtin_tanf(x); }
inline float asin(float x) { return __builtin_asinf(x); }
inline float acos(float x) { return __builtin_acosf(x); }
inline float atan2(float y, float x) { return __builtin_atan2f(y, x); }
inline float tanh(float x) { return __builtin_tanhf(x); }
inline float exp(float x) { return __builtin_expf(x); }
inline float log(float x) { return __builtin_logf(x); }
inline float pow(float x, float y) { return __builtin_powf(x, y); }
inline float fmod(float x, float y) { return __builtin_fmodf(x, y); }
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

// fails for no reason now and then, as it may
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

// Flushes denormals while it lives, as Metal does.
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

// Functions with C names that run a kernel, of one thread or of many.
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
