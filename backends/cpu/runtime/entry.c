/* The fast entry of a frame: a builtin function of Python that takes a kernel's arguments, driven by a plan (executable.py). */
#include "runtime.h"

typedef struct Object Object;

Object *PyBool_FromLong(long);
Object *PyFloat_FromDouble(double);
Object *PyLong_FromLongLong(int64_t);
Object *PyLong_FromUnsignedLongLong(uint64_t);
Object *PyTuple_GetItem(Object *, int64_t);
double PyFloat_AsDouble(Object *);
double PyLong_AsDouble(Object *);
int64_t PyLong_AsLongLong(Object *);
void *PyLong_AsVoidPtr(Object *);
void PyErr_Clear(void);
void Py_IncRef(Object *);
extern char PyBool_Type[], PyFloat_Type[], PyLong_Type[];
extern char _Py_TrueStruct[], _Py_NoneStruct[], _Py_NotImplementedStruct[], _Py_EllipsisObject[];

typedef struct { /* the head of numpy's PyArrayObject, after that of every object */
    void *data;
    int32_t ndim;
    int64_t *dims, *strides;
    void *base, *descr;
    int32_t flags;
} Array;

enum { WRITEABLE = 0x400 }; /* of numpy's flags */
enum { CONST, FLOAT, INT, TRUTH, ARRAY }; /* kinds of parameters; any other matches no argument */

typedef struct {
    int64_t kind, offset; /* of the value in the frame */
    union {
        struct { int64_t bytes; } real;
        struct { int64_t low, high; } integer;
        /* extents_at: in the frame */
        struct { int32_t ndim, item_bytes; int64_t flags; void *descr, *type; int64_t extents_at; } array;
    };
} Param;

enum { NOTHING, F32, F64, I8, I16, I32, I64, UNSIGNED, BOOL }; /* kinds of returned values */

typedef struct {
    Frame *frame;
    int64_t count, arrays, returns, offset; /* numbers of parameters and of arrays; kind and offset of the returned value */
    Param params[]; /* behind them the numbers of the arrays, which `overlap` sorts */
} Plan;

static Object *counted(void *object) {
    Py_IncRef(object);
    return object;
}

static bool is_a(Object *object, const void *type) {
    return *(void **)((char *)object + host.object_bytes - 8) == type;
}

/* Whether a conversion that gave -1 failed. */
static bool failed(bool minus_one) {
    if (!minus_one || PyErr_Occurred() == NULL)
        return false;
    PyErr_Clear();
    return true;
}

static bool set_float(const Param *p, Object *arg, void *to) {
    double x;
    if (is_a(arg, PyFloat_Type)) {
        x = PyFloat_AsDouble(arg);
    } else {
        if (!is_a(arg, PyLong_Type))
            return false;
        x = PyLong_AsDouble(arg);
        if (failed(x == -1.0))
            return false;
    }
    if (p->real.bytes == 4)
        *(float *)to = (float)x;
    else
        *(double *)to = x;
    return true;
}

static bool set_int(const Param *p, Object *arg, int64_t *to) {
    if (!is_a(arg, PyLong_Type))
        return false;
    int64_t x = PyLong_AsLongLong(arg);
    if (failed(x == -1) || x < p->integer.low || x > p->integer.high)
        return false;
    *to = x;
    return true;
}

static bool set_truth(Object *arg, int64_t *to) {
    *to = arg == (Object *)_Py_TrueStruct;
    return is_a(arg, PyBool_Type);
}

static bool set_array(const Param *p, Object *arg, Frame *f, void **to) {
    if (!is_a(arg, p->array.type))
        return false;
    const Array *a = (Array *)((char *)arg + host.object_bytes);
    if (a->descr != p->array.descr || a->ndim != p->array.ndim || (p->array.flags & ~(int64_t)a->flags))
        return false;
    *to = a->data;
    int64_t *extents = (int64_t *)((char *)f + p->array.extents_at);
    for (int64_t axis = 0; axis < p->array.ndim; axis++) {
        if ((uint64_t)a->dims[axis] >= UINT64_C(1) << 31)
            return false;
        extents[axis] = a->dims[axis];
    }
    return true;
}

static bool set(const Param *p, Object *arg, Frame *f) {
    void *to = (char *)f + p->offset;
    switch (p->kind) {
    case CONST: return true;
    case FLOAT: return set_float(p, arg, to);
    case INT: return set_int(p, arg, to);
    case TRUTH: return set_truth(arg, to);
    case ARRAY: return set_array(p, arg, f, to);
    default: return false;
    }
}

static const char *begin_of(const Plan *plan, const Frame *f, int64_t number) {
    return *(char **)((char *)f + plan->params[number].offset);
}

/* Whether two arrays overlap, one of which the kernel writes to. `sorted` has their numbers, in the order of the
 * addresses of the last call: it sorts them by insertion, which takes one comparison for each if the order is the same. */
static bool overlap(const Plan *plan, const Frame *f, int64_t *sorted) {
    const char *read = NULL, *written = NULL; /* the furthest ends so far: of arrays read, of arrays written */
    for (int64_t i = 0; i < plan->arrays; i++) {
        int64_t number = sorted[i], at = i;
        for (; at > 0 && begin_of(plan, f, sorted[at - 1]) > begin_of(plan, f, number); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = number;
    }
    for (int64_t i = 0; i < plan->arrays; i++) {
        const Param *p = &plan->params[sorted[i]];
        const int64_t *extents = (int64_t *)((char *)f + p->array.extents_at);
        const char *begin = begin_of(plan, f, sorted[i]);
        int64_t bytes = p->array.item_bytes;
        for (int32_t axis = 0; axis < p->array.ndim; axis++)
            bytes *= extents[axis];
        if (bytes == 0)
            continue;
        bool writes = p->array.flags & WRITEABLE;
        if (begin < written || (writes && begin < read))
            return true;
        const char **furthest = writes ? &written : &read;
        if (begin + bytes > *furthest)
            *furthest = begin + bytes;
    }
    return false;
}

static Object *returned(int64_t kind, const void *at) {
    switch (kind) {
    case F32: return PyFloat_FromDouble(*(float *)at);
    case F64: return PyFloat_FromDouble(*(double *)at);
    case I8: return PyLong_FromLongLong(*(int8_t *)at);
    case I16: return PyLong_FromLongLong(*(int16_t *)at);
    case I32: return PyLong_FromLongLong(*(int32_t *)at);
    case I64: return PyLong_FromLongLong(*(int64_t *)at);
    case UNSIGNED: return PyLong_FromUnsignedLongLong(*(uint64_t *)at);
    case BOOL: return PyBool_FromLong(*(uint8_t *)at);
    default: return counted(_Py_NoneStruct);
    }
}

/* `self` is (address of the plan, ...). NotImplemented: an argument does not match, and nothing ran. Ellipsis: the
 * status is not 0. NULL: a signal handler raised. */
Object *qd_call(Object *self, Object **args, int64_t count) {
    const Plan *plan = PyLong_AsVoidPtr(PyTuple_GetItem(self, 0));
    Frame *f = plan->frame;
    bool match = count == plan->count;
    for (int64_t i = 0; match && i < count; i++)
        match = set(&plan->params[i], args[i], f);
    if (match && plan->arrays > 1)
        match = !overlap(plan, f, (int64_t *)&plan->params[count]);
    if (!match)
        return counted(_Py_NotImplementedStruct);
    int64_t status = qd_launch(f);
    if (status == 0)
        return returned(plan->returns, (char *)f + plan->offset);
    if ((status & CANCELLED) && PyErr_Occurred() != NULL)
        return NULL;
    return counted(_Py_EllipsisObject);
}
