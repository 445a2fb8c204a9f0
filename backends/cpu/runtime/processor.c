/* What differs between processors. */
#include <stdint.h>

#if defined(__x86_64__)
enum { FLUSH = 0x8040 }; /* results and operands, in mxcsr */

int64_t qd_fp_flush(void) {
    uint32_t mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(mode | FLUSH);
    return mode;
}

void qd_fp_restore(int64_t mode) { __builtin_ia32_ldmxcsr((uint32_t)mode); }

void qd_relax(void) { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
enum { FLUSH = 1 << 24 }; /* FZ of fpcr */

/* LLVM's intrinsics. Assembler text would need LLVM's assembler at run time. */
uint64_t get_fpcr(void) __asm__("llvm.aarch64.get.fpcr");
void set_fpcr(uint64_t) __asm__("llvm.aarch64.set.fpcr");

int64_t qd_fp_flush(void) {
    uint64_t mode = get_fpcr();
    set_fpcr(mode | FLUSH);
    return (int64_t)mode;
}

void qd_fp_restore(int64_t mode) { set_fpcr((uint64_t)mode); }

void qd_relax(void) { __builtin_arm_yield(); }
#endif
