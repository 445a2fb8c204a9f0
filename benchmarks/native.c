/* What a programmer writes by hand in C for the same work (native.py): W iterations side by side, whose loops gcc puts
 * into vectors, and a gradient whose slots lie on the stack of the thread. */
#include <math.h>
#include <string.h>

enum { W = 64, MOST = 64 /* trips */, GRID = 256 };

void sin_exp(long n, const float *x, float *y) {
    for (long i = 0; i < n; i++)
        y[i] = sinf(x[i]) * expf(x[i]);
}

#define LOOP(T, SIN, COS, name)                                                        \
    T name(long n, long trips, const T *x) {                                           \
        T sum = 0;                                                                     \
        for (long i = 0; i < n; i += W) {                                              \
            T v[W];                                                                    \
            for (int k = 0; k < W; k++)                                                \
                v[k] = x[i + k];                                                       \
            for (long t = 0; t < trips; t++)                                           \
                for (int k = 0; k < W; k++)                                            \
                    v[k] = SIN(v[k]) + (T)0.1;                                         \
            for (int k = 0; k < W; k++)                                                \
                sum += v[k];                                                           \
        }                                                                              \
        return sum;                                                                    \
    }                                                                                  \
    void name##_gradient(long n, long trips, const T *x, T seed, T *dx) {              \
        for (long i = 0; i < n; i += W) {                                              \
            T slots[MOST][W], v[W], a[W];                                              \
            for (int k = 0; k < W; k++)                                                \
                v[k] = x[i + k], a[k] = seed;                                          \
            for (long t = 0; t < trips; t++)                                           \
                for (int k = 0; k < W; k++)                                            \
                    slots[t][k] = v[k], v[k] = SIN(v[k]) + (T)0.1;                     \
            for (long t = trips; t-- > 0;)                                             \
                for (int k = 0; k < W; k++)                                            \
                    a[k] *= COS(slots[t][k]);                                          \
            for (int k = 0; k < W; k++)                                                \
                dx[i + k] += a[k];                                                     \
        }                                                                              \
    }

LOOP(float, sinf, cosf, loop_f32)
LOOP(double, sin, cos, loop_f64)

/* Each iteration has trips of its own, from 0 to MOST. */
void divergent_gradient(long n, const int *trips, const float *x, float seed, float *dx) {
    for (long i = 0; i < n; i += W) {
        float slots[MOST][W], v[W], a[W];
        const int *most = trips + i;
        int longest = 0;
        for (int k = 0; k < W; k++)
            v[k] = x[i + k], a[k] = seed, longest = most[k] > longest ? most[k] : longest;
        for (int t = 0; t < longest; t++)
            for (int k = 0; k < W; k++)
                slots[t][k] = v[k], v[k] = t < most[k] ? sinf(v[k]) + 0.1f : v[k];
        for (int t = longest; t-- > 0;)
            for (int k = 0; k < W; k++)
                a[k] *= t < most[k] ? cosf(slots[t][k]) : 1.0f;
        for (int k = 0; k < W; k++)
            dx[i + k] += a[k];
    }
}

#define EIGHT(T, SIN, COS, name)                                                              \
    void name(long n, long trips, const T *x, T seed, T *dx) {                                \
        enum { V = 16 };                                                                      \
        for (long i = 0; i < n; i += V) {                                                     \
            T slots[MOST][8][V], v[8][V], a[8][V];                                            \
            for (int j = 0; j < 8; j++)                                                       \
                for (int k = 0; k < V; k++)                                                   \
                    v[j][k] = x[i + k] * (j ? (T)1 - (T)0.1 * j : (T)1), a[j][k] = seed;      \
            for (long t = 0; t < trips; t++)                                                  \
                _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++)                           \
                    _Pragma("omp simd") for (int k = 0; k < V; k++)                           \
                        slots[t][j][k] = v[j][k],                                             \
                        v[j][k] = SIN(v[j][k]) + (T)0.1 * v[(j + 1) & 7][k];                  \
            for (long t = trips; t-- > 0;)                                                    \
                _Pragma("GCC unroll 8") for (int j = 7; j >= 0; j--)                          \
                    _Pragma("omp simd") for (int k = 0; k < V; k++) {                         \
                        a[(j + 1) & 7][k] += (T)0.1 * a[j][k];                                \
                        a[j][k] *= COS(slots[t][j][k]);                                       \
                    }                                                                         \
            for (int k = 0; k < V; k++)                                                       \
                for (int j = 0; j < 8; j++)                                                   \
                    dx[i + k] += a[j][k] * (j ? (T)1 - (T)0.1 * j : (T)1);                    \
        }                                                                                     \
    }

EIGHT(float, sinf, cosf, eight_f32_gradient)
EIGHT(double, sin, cos, eight_f64_gradient)

void to_grid(long n, const float *px, const float *py, float *mass) {
    for (long p = 0; p < n; p++) {
        float sx = px[p] * GRID, sy = py[p] * GRID;
        int bx = (int)(sx - 0.5f), by = (int)(sy - 0.5f);
        float fx = sx - bx, fy = sy - by;
        float wx[3] = {0.5f * (1.5f - fx) * (1.5f - fx), 0.75f - (fx - 1) * (fx - 1), 0.5f * (fx - 0.5f) * (fx - 0.5f)};
        float wy[3] = {0.5f * (1.5f - fy) * (1.5f - fy), 0.75f - (fy - 1) * (fy - 1), 0.5f * (fy - 0.5f) * (fy - 0.5f)};
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++)
                mass[(bx + a) * GRID + by + b] += wx[a] * wy[b];
    }
}

void hot_cell(long n, const int *at, const float *x, float *cells) {
    for (long i = 0; i < n; i++)
        cells[at[i]] += x[i];
}

/* The wave equation on a square of side n: u[t + 1] from u[t] and u[t - 1]; the sum of squares at the end is the loss.
   du and dc are its gradient; k has room for n * n numbers. Each step back gathers: the adjoint of u[t] in one loop
   from its neighbours in 0.1 * c * du[t + 1]. Returns the sum of dc. */
float wave(long n, long steps, float *u, const float *c, float *k, float *du, float *dc) {
    long size = n * n;
    memset(du, 0, sizeof(float) * size * (steps + 2));
    memset(dc, 0, sizeof(float) * size);
    memset(k, 0, sizeof(float) * size);
    for (long t = 1; t <= steps; t++) {
        const float *now = u + t * size, *before = now - size;
        float *next = u + (t + 1) * size;
        for (long i = 1; i < n - 1; i++)
            _Pragma("omp simd") for (long j = i * n + 1; j < i * n + n - 1; j++) {
                float around = now[j - n] + now[j + n] + now[j - 1] + now[j + 1];
                next[j] = 2 * now[j] - before[j] + 0.1f * c[j] * (around - 4 * now[j]);
            }
    }
    for (long j = 0; j < size; j++)
        du[(steps + 1) * size + j] = 2 * u[(steps + 1) * size + j];
    for (long t = steps; t >= 1; t--) {
        const float *now = u + t * size;
        float *of_next = du + (t + 1) * size, *of_now = du + t * size, *of_before = of_now - size;
        for (long i = 1; i < n - 1; i++)
            _Pragma("omp simd") for (long j = i * n + 1; j < i * n + n - 1; j++) {
                float a = of_next[j], around = now[j - n] + now[j + n] + now[j - 1] + now[j + 1];
                dc[j] += 0.1f * a * (around - 4 * now[j]);
                of_before[j] -= a;
                of_now[j] += 2 * a;
                k[j] = 0.1f * c[j] * a;
                of_next[j] = 0;
            }
        _Pragma("omp simd") for (long j = n; j < size - n; j++)
            of_now[j] += k[j - n] + k[j + n] + k[j - 1] + k[j + 1] - 4 * k[j];
        for (long j = 0; j < n; j++)
            of_now[j] += k[j + n], of_now[size - n + j] += k[size - 2 * n + j];
    }
    float sum = 0;
    for (long j = 0; j < size; j++)
        sum += dc[j];
    return sum;
}
