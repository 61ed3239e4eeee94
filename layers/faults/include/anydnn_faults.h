/* Control of the anydnn-faults OpenCL layer from the program under test.
 *
 * Open the library with dlopen and the path that OPENCL_LAYERS has, so that this is the copy that the loader uses, and look
 * these functions up with dlsym. All of them may be called from any thread.
 *
 * Texts live as long as the library. Functions that fill an array write as many items as there is room for and return how
 * many there are. */
#ifndef ANYDNN_FAULTS_H
#define ANYDNN_FAULTS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ANYDNN_FAULTS_VERSION 1

/* An object that the program owns references of. */
typedef struct {
    const char *kind;    /* such as "memory object" */
    const char *creator; /* the function that made it */
    void *handle;
    uint64_t references;
} anydnn_faults_object;

/* A call that the program must not make. */
typedef struct {
    const char *function;
    const char *what; /* "use after release" or "release without a reference" */
    const char *kind;
    const char *creator;
    void *handle;
} anydnn_faults_violation;

/* A fault that was injected. */
typedef struct {
    const char *function;
    uint64_t call; /* which call of this function, from one */
    int32_t code;
} anydnn_faults_injection;

/* ANYDNN_FAULTS_VERSION of the library. */
uint32_t anydnn_faults_version(void);

/* Makes the call-th call from now (1 is the next) of a function fail with a negative code, and all later ones if
 * persistent. One '*' in the name stands for any text; NULL is "*". Returns CL_SUCCESS, or CL_INVALID_VALUE when no function
 * has the name, call is 0 or code is not negative. */
int32_t anydnn_faults_arm(const char *function, uint64_t call, int32_t code, int32_t persistent);

/* Disarms every fault. */
void anydnn_faults_disarm(void);

/* The number of calls of the functions that a name or pattern matches; NULL is "*". */
uint64_t anydnn_faults_count(const char *function);

/* The ledger: what the program owns, oldest first. */
size_t anydnn_faults_live(anydnn_faults_object *objects, size_t capacity);

/* What the program did wrong, and what was injected, in order. */
size_t anydnn_faults_violations(anydnn_faults_violation *violations, size_t capacity);
size_t anydnn_faults_injected(anydnn_faults_injection *injections, size_t capacity);

/* Records the names of the functions called from now on; fetches them. */
void anydnn_faults_trace_start(void);
size_t anydnn_faults_trace(const char **functions, size_t capacity);

/* Whether a call with a dead handle returns an error instead of reaching the driver (at first 1). */
void anydnn_faults_refuse_invalid(int32_t on);

/* Whether a release, free or unmapping that is made to fail happens all the same (at first 1). */
void anydnn_faults_perform_releases(int32_t on);

/* Forgets counts, faults, violations and the trace. The ledger stays, since the objects do. */
void anydnn_faults_reset(void);

/* The report as text with its NUL; returns the bytes needed. */
size_t anydnn_faults_report(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
