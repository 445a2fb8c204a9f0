/* A HIP runtime without a device, for tests: memory is the host's, copies are done at once, and a launch calls a hook.
   Signatures and numbers are those of AMD's documentation of HIP. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int hipError_t;
typedef struct { const void *image; int number; } Module;
typedef struct { Module *module; char name[64]; } Function;
typedef int (*Hook)(int module, const char *name, unsigned grid, unsigned block, void **params);

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, BAD_IMAGE = 200, NOT_FOUND = 500, NOT_READY = 600, LOST = 700 };

static const size_t TOTAL = (size_t)1 << 30;
static size_t used, sizes_at[4096];
static void *held[4096];
static Hook hook;
static int modules, live, busy, devices = 1, lost;

void fake_hook(Hook h) { hook = h; }
void fake_devices(int n) { devices = n; }
void fake_busy(int n) { busy = n; }
void fake_lose(int error) { lost = error; }
size_t fake_used(void) { return used; }
int fake_modules(void) { return live; }

hipError_t hipInit(unsigned flags) { return flags ? INVALID : devices ? OK : NO_DEVICE; }
hipError_t hipRuntimeGetVersion(int *v) { *v = 60342134; return OK; }
hipError_t hipGetDeviceCount(int *n) { *n = devices; return OK; }
hipError_t hipSetDevice(int n) { return n < devices ? OK : INVALID; }
hipError_t hipDeviceGetName(char *to, int n, int d) { strncpy(to, "AMD Instinct", n); return d < devices ? OK : INVALID; }
hipError_t hipDeviceTotalMem(size_t *n, int d) { *n = TOTAL; return d < devices ? OK : INVALID; }
hipError_t hipDeviceGetAttribute(int *n, int which, int d) {
    if (d >= devices) return INVALID;
    if (which == 57) *n = 2048;      /* hipDeviceAttributeMaxThreadsPerMultiProcessor */
    else if (which == 63) *n = 2;    /* hipDeviceAttributeMultiprocessorCount */
    else return INVALID;
    return OK;
}
hipError_t hipGetDevicePropertiesR0600(char *p, int d) {
    memset(p, 0, 1472);
    strcpy(p, "AMD Instinct");
    strcpy(p + 1160, "gfx942:sramecc+:xnack-"); /* gcnArchName */
    return d < devices ? OK : INVALID;
}
hipError_t hipMemGetInfo(size_t *free_, size_t *total) { *free_ = TOTAL - used; *total = TOTAL; return OK; }
static hipError_t take(void **p, size_t n) {
    if (used + n > TOTAL) return NO_MEMORY;
    *p = aligned_alloc(256, (n + 255) / 256 * 256);
    for (int k = 0; k < 4096; k++)
        if (!held[k]) {
            held[k] = *p, sizes_at[k] = n, used += n;
            return OK;
        }
    return NO_MEMORY;
}
static hipError_t give(void *p) {
    for (int k = 0; k < 4096; k++)
        if (p && held[k] == p) {
            used -= sizes_at[k], held[k] = NULL;
            free(p);
            return OK;
        }
    return INVALID;
}
hipError_t hipMalloc(void **p, size_t n) { return take(p, n); }
hipError_t hipFree(void *p) { return give(p); }
hipError_t hipHostMalloc(void **p, size_t n, unsigned flags) { return flags ? INVALID : take(p, n); }
hipError_t hipHostFree(void *p) { return give(p); }
static int stream_object;
hipError_t hipStreamCreateWithFlags(void **s, unsigned flags) { *s = &stream_object; return flags ? INVALID : OK; }
hipError_t hipStreamQuery(void *s) { return s != &stream_object ? INVALID : lost ? lost : busy-- > 0 ? NOT_READY : OK; }
hipError_t hipStreamSynchronize(void *s) { return s != &stream_object ? INVALID : lost; }
hipError_t hipEventCreateWithFlags(void **e, unsigned flags) { *e = malloc(1); return flags == 2 ? OK : INVALID; }
hipError_t hipEventRecord(void *e, void *s) { return e && s == &stream_object ? lost : INVALID; }
hipError_t hipEventQuery(void *e) { return !e ? INVALID : lost ? lost : busy-- > 0 ? NOT_READY : OK; }
hipError_t hipEventDestroy(void *e) { free(e); return OK; }
static hipError_t copy(void *to, const void *from, size_t n, void *s) {
    if (s != &stream_object) return INVALID;
    memcpy(to, from, n);
    return lost;
}
hipError_t hipMemcpyHtoDAsync(void *to, void *from, size_t n, void *s) { return copy(to, from, n, s); }
hipError_t hipMemcpyDtoHAsync(void *to, void *from, size_t n, void *s) { return copy(to, from, n, s); }
hipError_t hipMemcpyDtoDAsync(void *to, void *from, size_t n, void *s) { return copy(to, from, n, s); }
hipError_t hipMemsetD8Async(void *to, unsigned char v, size_t n, void *s) {
    memset(to, v, n);
    return s == &stream_object ? OK : INVALID;
}
hipError_t hipMemsetD16Async(void *to, unsigned short v, size_t n, void *s) {
    for (size_t k = 0; k < n; k++) ((unsigned short *)to)[k] = v;
    return s == &stream_object ? OK : INVALID;
}
hipError_t hipMemsetD32Async(void *to, int v, size_t n, void *s) {
    for (size_t k = 0; k < n; k++) ((int *)to)[k] = v;
    return s == &stream_object ? OK : INVALID;
}
hipError_t hipModuleLoadData(Module **m, const void *image) {
    if (memcmp(image, "\177ELF", 4)) return BAD_IMAGE;
    *m = malloc(sizeof(Module));
    (*m)->image = image, (*m)->number = modules++;
    live++;
    return OK;
}
hipError_t hipModuleUnload(Module *m) { live--; free(m); return OK; }
hipError_t hipModuleGetFunction(Function **f, Module *m, const char *name) {
    if (strncmp(name, "task", 4)) return NOT_FOUND;
    *f = calloc(1, sizeof(Function));
    (*f)->module = m;
    strncpy((*f)->name, name, 63);
    return OK;
}
hipError_t hipFuncGetAttribute(int *n, int which, Function *f) {
    *n = which == 4 ? 24 : 0; /* HIP_FUNC_ATTRIBUTE_NUM_REGS, HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES */
    return f && (which == 3 || which == 4) ? OK : INVALID;
}
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *n, Function *f, int block, size_t shared) {
    *n = 512 / block;
    return f && !shared ? OK : INVALID;
}
hipError_t hipModuleLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                 unsigned shared, void *s, void **params, void **extra) {
    if (!f || gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || s != &stream_object || extra) return INVALID;
    return hook(f->module->number, f->name, gx, bx, params);
}
const char *hipGetErrorName(int e) {
    return e == NO_MEMORY ? "hipErrorOutOfMemory" : e == LOST ? "hipErrorIllegalAddress" : "hipErrorInvalidValue";
}
const char *hipGetErrorString(int e) {
    return e == NO_MEMORY ? "out of memory" : e == LOST ? "an illegal memory access was encountered" : "invalid argument";
}
