#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef union { int8_t i8; int16_t i16; int32_t i32; int64_t i64; uint8_t u8; uint16_t u16; uint32_t u32; uint64_t u64; float f32; double f64; } Word;

typedef struct {
  volatile int32_t flag;
  char unused4_[4];
  char *heap;
  char unused16_[96];
  uint64_t seed;
} Device;

typedef struct {
  Device *device;
  char unused8_[8];
  int64_t status;
  char unused24_[128];
  uint64_t launch;
  char unused160_[112];
  float *x;
  int32_t *count;
  void *y, *z;
  char unused304_[16];
  uint64_t v_4_capacity, v_4_last;
  int64_t v_4;
  uint64_t w_20_capacity, w_20_last;
  int64_t w_20;
} Frame;

bool qd_poll(Frame *frame, uint64_t worker);
void qd_assert(Frame *frame, int64_t number, int64_t count, const Word *values);
void qd_print(Frame *frame, int64_t number, uint64_t count, const Word *values);
void qd_overflow(Frame *frame, int64_t stack, int64_t depth);
static inline bool qd_stopped(Frame *frame) { return frame->device->flag && qd_poll(frame, 0); }

static void by_trips_0(Frame *frame) {
  const uint64_t v_4_capacity = frame->v_4_capacity, v_4_last = frame->v_4_last;
  uint64_t v_4_count = 0;
  const uint64_t w_20_capacity = frame->w_20_capacity, w_20_last = frame->w_20_last;
  uint64_t w_20_count = 0;
  int32_t *count = frame->count;
  float *x = frame->x, *v_4 = (float *)(frame->device->heap + frame->v_4);
  float *w_20 = (float *)(frame->device->heap + frame->w_20), (*y)[8] = frame->y, (*z)[8] = frame->z;
  for (int32_t i = 0; i < 64; ++i) {  // parallel
    if (qd_stopped(frame)) return;
    v_4_count = 0ULL;
    w_20_count = 0ULL;
    int32_t t = count[i];
    float t2 = x[i];
    bool t3 = t > 2;
    if (t3) {
      float t4 = t2;
      for (int32_t j = 2; j < t; ++j) {
        if (qd_stopped(frame)) return;
        v_4[v_4_count < v_4_last ? v_4_count : v_4_last] = t4;
        v_4_count += 1ULL;
        t4 = sinf(t4);
      }
    }
    int32_t t4 = 0;
    while (t4 < t) {
      if (qd_stopped(frame)) return;
      w_20[w_20_count < w_20_last ? w_20_count : w_20_last] = t2;
      w_20_count += 1ULL;
      t2 += t2;
      t4 += 1;
    }
    bool t5 = w_20_count > w_20_capacity;
    if (v_4_count > v_4_capacity || t5) {
      qd_overflow(frame, t5 ? 1U : 0U, t5 ? w_20_count : v_4_count);
    } else {
      if (t3) {
        for (int32_t j = count[i]; j > 2;) {
          --j;
          if (qd_stopped(frame)) return;
          y[i][j] = v_4[v_4_count - 1ULL];
          v_4_count -= 1ULL;
        }
      }
      for (int32_t j = t4; j > 0;) {
        --j;
        if (qd_stopped(frame)) return;
        if (j == 1) {
          z[i][j] = w_20[w_20_count - 1ULL];
        }
        float t6 = w_20[w_20_count - 1ULL];
        w_20_count -= 1ULL;
        z[i][j] = t6;
      }
    }
  }
}

void entry(Frame *frame) {
  by_trips_0(frame);
}
