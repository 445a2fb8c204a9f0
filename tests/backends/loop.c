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
  char unused160_[88];
  float *x;
  float *x_grad;
  int32_t *n;
  float *y_grad;
  float scale;
  char unused284_[20];
  uint64_t v_4_capacity;
  uint64_t v_4_last;
  int64_t v_4;
} Frame;

bool qd_poll(Frame *frame, uint64_t worker);
void qd_assert(Frame *frame, int64_t number, int64_t count, const Word *values);
void qd_print(Frame *frame, int64_t number, uint64_t count, const Word *values);
void qd_overflow(Frame *frame, int64_t stack, int64_t depth);
static inline bool qd_stopped(Frame *frame) { return frame->device->flag && qd_poll(frame, 0); }

static void loop_0(Frame *frame) {
  const uint64_t v_4_capacity = frame->v_4_capacity;
  const uint64_t v_4_last = frame->v_4_last;
  uint64_t v_4_count = 0;
  int32_t *n = frame->n;
  float *x = frame->x;
  float *v_4 = (float *)(frame->device->heap + frame->v_4);
  float *y_grad = frame->y_grad;
  const float scale = frame->scale;
  float *x_grad = frame->x_grad;
  for (int32_t i = 0; i < 64; ++i) {  // parallel
    if (qd_stopped(frame)) return;
    v_4_count = 0ULL;
    int32_t t = n[i];
    float a = x[i];
    float v = a;
    for (int32_t j = 0; j < t; ++j) {
      if (qd_stopped(frame)) return;
      v_4[v_4_count < v_4_last ? v_4_count : v_4_last] = v;
      v_4_count = v_4_count + 1ULL;
      v = sinf(v) * a;
    }
    if (v_4_count > v_4_capacity) {
      qd_overflow(frame, 0U, v_4_count);
    } else {
      float dv = y_grad[i] * scale, da = 0.0f;
      for (int32_t j_2 = t; j_2 > 0;) {
        --j_2;
        if (qd_stopped(frame)) return;
        float v_2 = v_4[v_4_count - 1ULL];
        v_4_count = v_4_count - 1ULL;
        da = da + dv * sinf(v_2);
        dv = dv * a * cosf(v_2);
      }
      x_grad[i] += dv + da;
    }
  }
}

void entry(Frame *frame) {
  loop_0(frame);
}
