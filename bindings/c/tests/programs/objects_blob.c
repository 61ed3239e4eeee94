/* The specification's table of cache blobs, row by row. */
#include "check.h"

static void run_relu(dnnl_engine_t engine) {
    dnnl_memory_desc_t desc = floats_desc(5);
    dnnl_primitive_desc_t relu_desc = NULL;
    dnnl_primitive_t relu = NULL;
    OK(dnnl_eltwise_forward_primitive_desc_create(&relu_desc, engine, dnnl_forward_inference,
            dnnl_eltwise_relu, desc, desc, 0, 0, NULL));
    OK(dnnl_primitive_create(&relu, relu_desc));
    OK(dnnl_primitive_destroy(relu));
    OK(dnnl_primitive_desc_destroy(relu_desc));
    OK(dnnl_memory_desc_destroy(desc));
}

int main(int argc, char **argv) {
    cl_device_id device = check_device(argc > 1 ? argv[1] : NULL);
    cl_context context = check_context(device);
    dnnl_engine_t engine = NULL;
    OK(dnnl_ocl_interop_engine_create(&engine, device, context));

    ABOUT(dnnl_ocl_interop_engine_get_cache_blob_id);
    size_t id_size = 0, size = 0;
    INVALID(dnnl_ocl_interop_engine_get_cache_blob_id(device, NULL, NULL));
    STATUS(dnnl_runtime_error, dnnl_ocl_interop_engine_get_cache_blob_id(NULL, &id_size, NULL));
    OK(dnnl_ocl_interop_engine_get_cache_blob_id(device, &id_size, NULL));
    CHECK(id_size > 0);
    uint8_t *id = calloc(id_size + 1, 1), *again = calloc(id_size + 1, 1);
    size = id_size - 1;
    INVALID(dnnl_ocl_interop_engine_get_cache_blob_id(device, &size, id));
    size = id_size + 1;
    INVALID(dnnl_ocl_interop_engine_get_cache_blob_id(device, &size, id));
    OK(dnnl_ocl_interop_engine_get_cache_blob_id(device, &id_size, id));
    OK(dnnl_ocl_interop_engine_get_cache_blob_id(device, &id_size, again));
    CHECK(memcmp(id, again, id_size) == 0);
    cl_platform_id platform = NULL;
    char text[3][512];
    size_t bytes[3];
    CL(clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL));
    CL(clGetPlatformInfo(platform, CL_PLATFORM_NAME, 512, text[0], &bytes[0]));
    CL(clGetDeviceInfo(device, CL_DEVICE_NAME, 512, text[1], &bytes[1]));
    CL(clGetDeviceInfo(device, CL_DRIVER_VERSION, 512, text[2], &bytes[2]));
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        size_t length = 0;
        memcpy(&length, id + at, sizeof length);
        CHECK(length == bytes[i]);
        CHECK(memcmp(id + at + sizeof length, text[i], bytes[i]) == 0);
        at += sizeof length + bytes[i];
    }

    ABOUT(dnnl_ocl_interop_engine_get_cache_blob);
    run_relu(engine);
    INVALID(dnnl_ocl_interop_engine_get_cache_blob(NULL, &size, NULL));
    INVALID(dnnl_ocl_interop_engine_get_cache_blob(engine, NULL, NULL));
    size_t blob_size = 0;
    OK(dnnl_ocl_interop_engine_get_cache_blob(engine, &blob_size, NULL));
    CHECK(blob_size > 0);
    uint8_t *blob = calloc(blob_size, 1), *other = calloc(blob_size, 1);
    size = blob_size - 1;
    INVALID(dnnl_ocl_interop_engine_get_cache_blob(engine, &size, blob));
    OK(dnnl_ocl_interop_engine_get_cache_blob(engine, &blob_size, blob));
    OK(dnnl_ocl_interop_engine_get_cache_blob(engine, &blob_size, other));
    CHECK(memcmp(blob, other, blob_size) == 0);

    ABOUT(dnnl_ocl_interop_engine_create_from_cache_blob);
    dnnl_engine_t warm = NULL;
    INVALID(dnnl_ocl_interop_engine_create_from_cache_blob(NULL, device, context, blob_size, blob));
    INVALID(dnnl_ocl_interop_engine_create_from_cache_blob(&warm, NULL, context, blob_size, blob));
    INVALID(dnnl_ocl_interop_engine_create_from_cache_blob(&warm, device, NULL, blob_size, blob));
    INVALID(dnnl_ocl_interop_engine_create_from_cache_blob(&warm, device, context, 0, blob));
    INVALID(dnnl_ocl_interop_engine_create_from_cache_blob(&warm, device, context, blob_size, NULL));
    CHECK(warm == NULL);
    OK(dnnl_ocl_interop_engine_create_from_cache_blob(&warm, device, context, blob_size, blob));
    size = 0;
    OK(dnnl_ocl_interop_engine_get_cache_blob(warm, &size, NULL));
    CHECK(size == blob_size);
    if (size == blob_size) {
        OK(dnnl_ocl_interop_engine_get_cache_blob(warm, &size, other));
        CHECK(memcmp(blob, other, blob_size) == 0);
    }
    run_relu(warm);
    OK(dnnl_engine_destroy(warm));

    /* Blobs that are none: the engine is made as without one. */
    OK(dnnl_ocl_interop_engine_create_from_cache_blob(&warm, device, context, id_size, id));
    run_relu(warm);
    OK(dnnl_engine_destroy(warm));
    OK(dnnl_ocl_interop_engine_create_from_cache_blob(&warm, device, context, blob_size / 2, blob));
    OK(dnnl_engine_destroy(warm));
    blob[blob_size / 2] ^= 0x55;
    OK(dnnl_ocl_interop_engine_create_from_cache_blob(&warm, device, context, blob_size, blob));
    run_relu(warm);
    OK(dnnl_engine_destroy(warm));
    OK(dnnl_engine_destroy(engine));
    SOON(context_references(context) == 1);
    CL(clReleaseContext(context));
    free(id);
    free(again);
    free(blob);
    free(other);
    return check_end();
}
