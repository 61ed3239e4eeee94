/* The specification's table of engines, row by row. */
#include "check.h"

static int count_devices(cl_device_type type) {
    cl_platform_id platforms[16];
    cl_uint count = 0;
    int devices = 0;
    CL(clGetPlatformIDs(16, platforms, &count));
    for (cl_uint i = 0; i < count && i < 16; i++) {
        cl_uint found = 0;
        if (clGetDeviceIDs(platforms[i], type, 0, NULL, &found) == CL_SUCCESS) devices += (int)found;
    }
    return devices;
}

static int rank_of(cl_device_id device) {
    cl_device_type type = 0;
    CL(clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL));
    return type & CL_DEVICE_TYPE_GPU ? 0 : type & CL_DEVICE_TYPE_ACCELERATOR ? 1 : 2;
}

static void by_index(void) {
    ABOUT(dnnl_engine_get_count);
    size_t count = dnnl_engine_get_count(dnnl_gpu);
    CHECK((int)count == count_devices(CL_DEVICE_TYPE_ALL));
    CHECK(dnnl_engine_get_count(dnnl_any_engine) == 0);
    CHECK(dnnl_engine_get_count((dnnl_engine_kind_t)77) == 0);

    ABOUT(dnnl_engine_create);
    dnnl_engine_t engine = NULL;
    INVALID(dnnl_engine_create(NULL, dnnl_gpu, 0));
    INVALID(dnnl_engine_create(&engine, dnnl_any_engine, 0));
    INVALID(dnnl_engine_create(&engine, dnnl_gpu, count));
    INVALID(dnnl_engine_create(&engine, dnnl_gpu, (size_t)-1));
    CHECK(engine == NULL);
    int last = 0;
    for (size_t i = 0; i < count; i++) {
        OK(dnnl_engine_create(&engine, dnnl_gpu, i));
        cl_context context = NULL;
        cl_device_id device = NULL, listed = NULL;
        OK(dnnl_ocl_interop_engine_get_context(engine, &context));
        OK(dnnl_ocl_interop_get_device(engine, &device));
        CL(clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof listed, &listed, NULL));
        CHECK(listed == device);
        /* The library's own and the engine's. */
        SOON(context_references(context) == 2);
        CHECK(rank_of(device) >= last);
        last = rank_of(device);
        cl_mem kept = check_buffer(context, CL_MEM_READ_WRITE, 64, NULL);
        OK(dnnl_engine_destroy(engine));
        /* The context outlives the engine, and the next engine of the device has it too. */
        CL(clReleaseMemObject(kept));
        SOON(context_references(context) == 1);
        dnnl_engine_t again = NULL;
        cl_context same = NULL;
        OK(dnnl_engine_create(&again, dnnl_gpu, i));
        OK(dnnl_ocl_interop_engine_get_context(again, &same));
        CHECK(same == context);
        OK(dnnl_engine_destroy(again));
    }
}

static void strict(cl_device_id device) {
    ABOUT_NAME("ANYDNN_STRICT_GPU");
    cl_context context = check_context(device);
    dnnl_engine_t engine = NULL;
    setenv("ANYDNN_STRICT_GPU", "1", 1);
    CHECK((int)dnnl_engine_get_count(dnnl_gpu) == count_devices(CL_DEVICE_TYPE_GPU));
    STATUS(rank_of(device) == 0 ? dnnl_success : dnnl_invalid_arguments,
            dnnl_ocl_interop_engine_create(&engine, device, context));
    unsetenv("ANYDNN_STRICT_GPU");
    dnnl_engine_destroy(engine);
    CHECK((int)dnnl_engine_get_count(dnnl_gpu) == count_devices(CL_DEVICE_TYPE_ALL));
    SOON(context_references(context) == 1);
    CL(clReleaseContext(context));
}

static void from_context(cl_device_id device) {
    ABOUT(dnnl_ocl_interop_engine_create);
    cl_context context = check_context(device);
    dnnl_engine_t engine = NULL;
    INVALID(dnnl_ocl_interop_engine_create(NULL, device, context));
    INVALID(dnnl_ocl_interop_engine_create(&engine, NULL, context));
    INVALID(dnnl_ocl_interop_engine_create(&engine, device, NULL));
    SOON(engine == NULL && context_references(context) == 1);
    cl_device_id foreign = check_foreign_device(device);
    if (foreign) INVALID(dnnl_ocl_interop_engine_create(&engine, foreign, context));
    SOON(engine == NULL && context_references(context) == 1);
    OK(dnnl_ocl_interop_engine_create(&engine, device, context));
    SOON(context_references(context) == 2);

    cl_context got_context = NULL;
    cl_device_id got_device = NULL;
    ABOUT(dnnl_ocl_interop_engine_get_context);
    OK(dnnl_ocl_interop_engine_get_context(engine, &got_context));
    SOON(got_context == context && context_references(context) == 2);
    INVALID(dnnl_ocl_interop_engine_get_context(NULL, &got_context));
    INVALID(dnnl_ocl_interop_engine_get_context(engine, NULL));

    ABOUT(dnnl_ocl_interop_get_device);
    OK(dnnl_ocl_interop_get_device(engine, &got_device));
    CHECK(got_device == device);
    INVALID(dnnl_ocl_interop_get_device(NULL, &got_device));
    INVALID(dnnl_ocl_interop_get_device(engine, NULL));

    ABOUT(dnnl_engine_get_kind);
    dnnl_engine_kind_t kind = dnnl_any_engine;
    OK(dnnl_engine_get_kind(engine, &kind));
    CHECK(kind == dnnl_gpu);
    INVALID(dnnl_engine_get_kind(NULL, &kind));
    INVALID(dnnl_engine_get_kind(engine, NULL));

    ABOUT(dnnl_engine_destroy);
    OK(dnnl_engine_destroy(engine));
    SOON(context_references(context) == 1);
    OK(dnnl_engine_destroy(NULL));
    CL(clReleaseContext(context));
}

static void sub_device(cl_device_id device) {
    ABOUT(dnnl_ocl_interop_engine_create);
    cl_device_partition_property by_counts[] = {CL_DEVICE_PARTITION_BY_COUNTS, 1, CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
    cl_device_id part = NULL;
    cl_uint made = 0;
    if (clCreateSubDevices(device, by_counts, 1, &part, &made) != CL_SUCCESS) {
        printf("NOT TESTED: the device has no sub-devices\n");
        return;
    }
    cl_context context = check_context(part);
    int before = device_references(part);
    dnnl_engine_t engine = NULL;
    OK(dnnl_ocl_interop_engine_create(&engine, part, context));
    SOON(device_references(part) == before + 1);
    cl_device_id got = NULL;
    OK(dnnl_ocl_interop_get_device(engine, &got));
    SOON(got == part && device_references(part) == before + 1);
    dnnl_stream_t stream = NULL;
    OK(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    OK(dnnl_stream_destroy(stream));
    OK(dnnl_engine_destroy(engine));
    SOON(device_references(part) == before);
    CL(clReleaseContext(context));
    CL(clReleaseDevice(part));
}

static void lifetimes(cl_device_id device) {
    ABOUT(dnnl_engine_destroy);
    cl_context context = check_context(device);
    dnnl_engine_t engine = NULL, owner = NULL;
    dnnl_memory_t memory = NULL;
    dnnl_memory_desc_t desc = floats_desc(16);
    OK(dnnl_ocl_interop_engine_create(&engine, device, context));
    OK(dnnl_ocl_interop_memory_create(
            &memory, desc, engine, dnnl_ocl_interop_buffer, DNNL_MEMORY_ALLOCATE));
    OK(dnnl_engine_destroy(engine));
    SOON(context_references(context) >= 2);
    OK(dnnl_memory_get_engine(memory, &owner));
    CHECK(owner == engine);
    dnnl_engine_kind_t kind = dnnl_any_engine;
    OK(dnnl_engine_get_kind(owner, &kind));
    float *mapped = NULL;
    OK(dnnl_memory_map_data(memory, (void **)&mapped));
    if (mapped) mapped[15] = 3;
    OK(dnnl_memory_unmap_data(memory, mapped));
    INVALID(dnnl_engine_destroy(owner));
    OK(dnnl_memory_destroy(memory));
    SOON(context_references(context) == 1);
    OK(dnnl_memory_desc_destroy(desc));
    CL(clReleaseContext(context));
}

int main(int argc, char **argv) {
    cl_device_id device = check_device(argc > 1 ? argv[1] : NULL);
    by_index();
    strict(device);
    from_context(device);
    sub_device(device);
    lifetimes(device);
    return check_end();
}
