/* What the programs share: named checks, and the device that they run on. */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <CL/cl.h>

#include "oneapi/dnnl/dnnl.h"
#include "oneapi/dnnl/dnnl_debug.h"
#include "oneapi/dnnl/dnnl_ocl.h"

static const char *check_subject = "";
static int check_failures;

/* Names the function that the following checks are about. */
#define ABOUT(function) (check_subject = #function, (void)&(function))
#define ABOUT_NAME(name) (check_subject = (name))

/* A condition that must hold. */
#define CHECK(condition) check_report((condition) ? 1 : 0, #condition, __LINE__)

/* A condition that must hold within two seconds: drivers give references back a little after a command has ended. */
#define SOON(condition) \
    do { \
        int check_holds = 0; \
        for (int check_try = 0; check_try < 2000 && !check_holds; check_try++) { \
            if (check_try) usleep(1000); \
            check_holds = (condition) ? 1 : 0; \
        } \
        check_report(check_holds, #condition, __LINE__); \
    } while (0)

/* A call that must return a status. */
#define STATUS(expected, call) check_status((int)(expected), (int)(call), #call, __LINE__)
#define OK(call) STATUS(dnnl_success, call)
#define INVALID(call) STATUS(dnnl_invalid_arguments, call)

/* An OpenCL call of the program's own. */
#define CL(call) check_cl((call), #call, __LINE__)

static inline void check_report(int holds, const char *what, int line) {
    if (!holds) check_failures++;
    printf("%s %s: %s (line %d)\n", holds ? "ok" : "FAILED", check_subject, what, line);
}

static inline void check_status(int expected, int given, const char *what, int line) {
    if (expected != given) check_failures++;
    printf("%s %s: %s is %s, expected %s (line %d)\n", expected == given ? "ok" : "FAILED",
            check_subject, what, dnnl_status2str((dnnl_status_t)given),
            dnnl_status2str((dnnl_status_t)expected), line);
}

static inline void check_cl(cl_int code, const char *what, int line) {
    if (code == CL_SUCCESS) return;
    printf("FAILED %s: the program's own %s returned %d (line %d)\n", check_subject, what, code, line);
    fflush(stdout);
    exit(2);
}

static inline int check_end(void) {
    printf("%s: %d failed\n", check_failures ? "FAILED" : "passed", check_failures);
    return check_failures ? 1 : 0;
}

/* The words of a platform's name for the short names that tests use. */
static inline const char *check_platform_word(const char *alias) {
    if (strcmp(alias, "pocl") == 0) return "Portable";
    if (strcmp(alias, "intel") == 0) return "Intel";
    if (strcmp(alias, "nvidia") == 0) return "NVIDIA";
    return alias;
}

/* The first device of the platform of that short name; of any platform without one. */
static inline cl_device_id check_device(const char *alias) {
    cl_platform_id platforms[16];
    cl_uint count = 0;
    CL(clGetPlatformIDs(16, platforms, &count));
    for (cl_uint i = 0; i < count && i < 16; i++) {
        char name[256] = "";
        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        cl_device_id device = NULL;
        if (alias && !strstr(name, check_platform_word(alias))) continue;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS) return device;
    }
    fprintf(stderr, "there is no OpenCL device of platform %s\n", alias ? alias : "(any)");
    exit(77);
}

/* A device that is not of the device's platform; null where there is none. */
static inline cl_device_id check_foreign_device(cl_device_id device) {
    cl_platform_id own = NULL, platforms[16];
    cl_uint count = 0;
    CL(clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof own, &own, NULL));
    CL(clGetPlatformIDs(16, platforms, &count));
    for (cl_uint i = 0; i < count && i < 16; i++) {
        cl_device_id other = NULL;
        if (platforms[i] == own) continue;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &other, NULL) == CL_SUCCESS) return other;
    }
    return NULL;
}

static inline cl_context check_context(cl_device_id device) {
    cl_int code = CL_SUCCESS;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    CL(code);
    return context;
}

static inline cl_command_queue check_queue(
        cl_context context, cl_device_id device, cl_command_queue_properties properties) {
    cl_int code = CL_SUCCESS;
    cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, properties, 0};
    cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, list, &code);
    CL(code);
    return queue;
}

/* Gives back the last reference to a queue. Intel's runtime lets go of an out-of-order queue a while after its last command, and would
   wait for itself if that were the last reference. */
static inline void check_release_queue(cl_command_queue queue) {
    cl_command_queue_properties properties = 0;
    CL(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL));
    if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) usleep(200000);
    CL(clReleaseCommandQueue(queue));
}

static inline cl_mem check_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host) {
    cl_int code = CL_SUCCESS;
    cl_mem buffer = clCreateBuffer(context, flags | (host ? CL_MEM_COPY_HOST_PTR : 0), bytes, host, &code);
    CL(code);
    return buffer;
}

/* Counts of references. */
static inline int context_references(cl_context object) {
    cl_uint count = 0;
    CL(clGetContextInfo(object, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, NULL));
    return (int)count;
}
static inline int device_references(cl_device_id object) {
    cl_uint count = 0;
    CL(clGetDeviceInfo(object, CL_DEVICE_REFERENCE_COUNT, sizeof count, &count, NULL));
    return (int)count;
}
static inline int queue_references(cl_command_queue object) {
    cl_uint count = 0;
    CL(clGetCommandQueueInfo(object, CL_QUEUE_REFERENCE_COUNT, sizeof count, &count, NULL));
    return (int)count;
}
static inline int mem_references(cl_mem object) {
    cl_uint count = 0;
    CL(clGetMemObjectInfo(object, CL_MEM_REFERENCE_COUNT, sizeof count, &count, NULL));
    return (int)count;
}
static inline int event_references(cl_event object) {
    cl_uint count = 0;
    CL(clGetEventInfo(object, CL_EVENT_REFERENCE_COUNT, sizeof count, &count, NULL));
    return (int)count;
}

static inline bool check_has_extension(cl_device_id device, const char *name) {
    size_t bytes = 0;
    CL(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &bytes));
    char *text = (char *)calloc(bytes + 1, 1);
    CL(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, bytes, text, NULL));
    bool has = strstr(text, name) != NULL;
    free(text);
    return has;
}

/* Unified shared memory where the device has it, else shared virtual memory; without a device memory of the host. */
typedef struct {
    cl_device_id device;
    cl_context context;
    bool usm;
    void *(*alloc_device)(cl_context, cl_device_id, const cl_ulong *, size_t, cl_uint, cl_int *);
    void *(*alloc_shared)(cl_context, cl_device_id, const cl_ulong *, size_t, cl_uint, cl_int *);
    void *(*alloc_host)(cl_context, const cl_ulong *, size_t, cl_uint, cl_int *);
    cl_int (*free)(cl_context, void *);
    cl_int (*memcpy)(cl_command_queue, cl_bool, void *, const void *, size_t, cl_uint, const cl_event *,
            cl_event *);
} pointers_t;

static inline pointers_t check_pointers(cl_device_id device, cl_context context) {
    pointers_t p;
    memset(&p, 0, sizeof p);
    p.device = device;
    p.context = context;
    if (!device) return p;
    p.usm = check_has_extension(device, "cl_intel_unified_shared_memory");
    if (p.usm) {
        cl_platform_id platform = NULL;
        CL(clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL));
#define FIND(field, name) \
    do { \
        void *address = clGetExtensionFunctionAddressForPlatform(platform, name); \
        memcpy(&p.field, &address, sizeof address); \
    } while (0)
        FIND(alloc_device, "clDeviceMemAllocINTEL");
        FIND(alloc_shared, "clSharedMemAllocINTEL");
        FIND(alloc_host, "clHostMemAllocINTEL");
        FIND(free, "clMemFreeINTEL");
        FIND(memcpy, "clEnqueueMemcpyINTEL");
#undef FIND
    }
    return p;
}

/* Memory with these bytes in it. */
static inline void *pointer_of(const pointers_t *p, cl_command_queue queue, size_t bytes, const void *content) {
    cl_int code = CL_SUCCESS;
    void *pointer = NULL;
    if (!p->device) {
        pointer = memcpy(malloc(bytes), content, bytes);
    } else if (p->usm) {
        pointer = p->alloc_device(p->context, p->device, NULL, bytes, 0, &code);
        CL(code);
        CL(p->memcpy(queue, CL_TRUE, pointer, content, bytes, 0, NULL, NULL));
    } else {
        pointer = clSVMAlloc(p->context, CL_MEM_READ_WRITE, bytes, 0);
        CL(pointer ? CL_SUCCESS : CL_OUT_OF_RESOURCES);
        CL(clEnqueueSVMMemcpy(queue, CL_TRUE, pointer, content, bytes, 0, NULL, NULL));
    }
    return pointer;
}

static inline void pointer_read(
        const pointers_t *p, cl_command_queue queue, const void *pointer, size_t bytes, void *content) {
    if (!p->device)
        memcpy(content, pointer, bytes);
    else if (p->usm)
        CL(p->memcpy(queue, CL_TRUE, content, pointer, bytes, 0, NULL, NULL));
    else
        CL(clEnqueueSVMMemcpy(queue, CL_TRUE, content, pointer, bytes, 0, NULL, NULL));
}

static inline void pointer_free(const pointers_t *p, void *pointer) {
    if (!p->device)
        free(pointer);
    else if (p->usm)
        CL(p->free(p->context, pointer));
    else
        clSVMFree(p->context, pointer);
}

/* A dense f32 tensor of one dimension. */
static inline dnnl_memory_desc_t floats_desc(dnnl_dim_t count) {
    dnnl_memory_desc_t desc = NULL;
    dnnl_dims_t dims = {count};
    dnnl_status_t status = dnnl_memory_desc_create_with_tag(&desc, 1, dims, dnnl_f32, dnnl_a);
    if (status != dnnl_success) {
        printf("FAILED the program's own descriptor: %s\n", dnnl_status2str(status));
        exit(2);
    }
    return desc;
}

#endif
