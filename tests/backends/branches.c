#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef union { int8_t i8; int16_t i16; int32_t i32; int64_t i64; uint8_t u8; uint16_t u16; uint32_t u32; uint64_t u64; float f32; double f64; } Word;

typedef struct {
  _Alignas(8) volatile int32_t flag;
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
  void *image;
  int64_t image_shape[2];
  int64_t *total;
  char unused280_[32];
  uint64_t odd_6_capacity;
  uint64_t odd_6_last;
  int64_t odd_6;
} Frame;

bool qd_poll(Frame *frame, uint64_t worker);
void qd_assert(Frame *frame, int64_t number, int64_t count, const Word *values);
void qd_print(Frame *frame, int64_t number, uint64_t count, const Word *values);
void qd_overflow(Frame *frame, int64_t stack, int64_t depth);
static inline bool qd_stopped(Frame *frame) { return frame->device->flag && qd_poll(frame, 0); }

static void branches_0(Frame *frame) {
  const int32_t image_shape0 = frame->image_shape[0];
  const int32_t image_shape1 = frame->image_shape[1];
  const uint64_t odd_6_capacity = frame->odd_6_capacity;
  const uint64_t odd_6_last = frame->odd_6_last;
  uint64_t odd_6_count = 0;
  int32_t (*image)[frame->image_shape[1]] = frame->image;
  uint32_t *odd_6 = (uint32_t *)(frame->device->heap + frame->odd_6);
  int64_t *total = frame->total;
  for (int32_t i = 0; i < image_shape0; ++i) {  // parallel
    if (qd_stopped(frame)) return;
    for (int32_t j = 0; j < image_shape1; ++j) {  // parallel
      odd_6_count = 0ULL;
      int32_t m = image[i][j], steps = 0;
      while (m > 1) {
        if (qd_stopped(frame)) return;
        bool odd = (m & 1) == 1;
        uint64_t t = odd_6_count < odd_6_last ? odd_6_count : odd_6_last;
        uint64_t t_2 = t >> 5ULL;
        uint32_t t_3 = 1U << ((uint32_t)t & 31U);
        odd_6[t_2] = (odd_6[t_2] & (t_3 - 1U)) | (odd ? t_3 : 0U);
        odd_6_count = odd_6_count + 1ULL;
        int32_t m_2;
        if (odd) {
          m_2 = m * 3 + 1;
        } else {
          m_2 = m >> 1;
        }
        m = m_2;
        steps = steps + 1;
      }
      if (odd_6_count > odd_6_capacity) {
        qd_overflow(frame, 0U, odd_6_count);
      } else {
        int32_t odds = 0;
        for (int32_t k = 0; k < steps; ++k) {
          if (qd_stopped(frame)) return;
          uint64_t t_4 = odd_6_count - 1ULL;
          odd_6_count = odd_6_count - 1ULL;
          odds = odds + ((odd_6[t_4 >> 5ULL] & (1U << ((uint32_t)t_4 & 31U))) != 0U ? 1 : 0);
        }
        image[i][j] = odds;
        *total = *total > (int64_t)odds ? *total : (int64_t)odds;
      }
    }
  }
}

void entry(Frame *frame) {
  branches_0(frame);
}
