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
  void *y;
  char unused296_[16];
  uint64_t v_4_capacity, v_4_last;
  int64_t v_4, deep;
} Frame;

bool qd_poll(Frame *frame, uint64_t worker);
void qd_assert(Frame *frame, int64_t number, int64_t count, const Word *values);
void qd_print(Frame *frame, int64_t number, uint64_t count, const Word *values);
void qd_overflow(Frame *frame, int64_t stack, int64_t depth);
static inline bool qd_stopped(Frame *frame) { return frame->device->flag && qd_poll(frame, 0); }

static void stacked_0(Frame *frame) {
  const uint64_t v_4_capacity = frame->v_4_capacity, v_4_last = frame->v_4_last;
  uint64_t v_4_count = 0;
  int32_t *count = frame->count;
  float *x = frame->x, *v_4 = (float *)(frame->device->heap + frame->v_4), (*y)[8] = frame->y;
  for (int32_t i = 0; i < 64; ++i) {  // parallel
    if (qd_stopped(frame)) return;
    v_4_count = 0ULL;
    int32_t t = count[i];
    float t2 = x[i];
    for (int32_t j = 0; j < t; ++j) {
      if (qd_stopped(frame)) return;
      v_4[v_4_count < v_4_last ? v_4_count : v_4_last] = t2;
      v_4_count += 1ULL;
      t2 = sinf(t2);
    }
    frame->deep = frame->deep > (int64_t)v_4_count ? frame->deep : (int64_t)v_4_count;
    if (v_4_count > v_4_capacity) {
      qd_overflow(frame, 0U, v_4_count);
    } else {
      for (int32_t j = t; j > 0;) {
        --j;
        if (qd_stopped(frame)) return;
        float t3 = v_4[v_4_count - 1ULL];
        v_4_count -= 1ULL;
        y[i][j] = t3;
      }
    }
  }
}

void entry(Frame *frame) {
  stacked_0(frame);
}
