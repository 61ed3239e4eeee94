/* Calls every function with every combination of null and valid pointers, and numbers that are none. Nothing may crash; what may
   succeed does so. With `cpu` the engine is the host. */
#define DNNL_EXPERIMENTAL_PROFILING
#include "check.h"


dnnl_status_t dnnl_engine_create_ocl(dnnl_engine_t *, dnnl_engine_kind_t, cl_device_id, cl_context);
dnnl_status_t dnnl_engine_get_ocl_context(dnnl_engine_t, cl_context *);
dnnl_status_t dnnl_engine_get_ocl_device(dnnl_engine_t, cl_device_id *);
dnnl_status_t dnnl_stream_create_ocl(dnnl_stream_t *, dnnl_engine_t, cl_command_queue);
dnnl_status_t dnnl_stream_get_ocl_command_queue(dnnl_stream_t, cl_command_queue *);
dnnl_status_t dnnl_memory_get_ocl_mem_object(const_dnnl_memory_t, cl_mem *);
dnnl_status_t dnnl_memory_set_ocl_mem_object(dnnl_memory_t, cl_mem);

static int calls, successes;

static void count(dnnl_status_t status) {
    calls++;
    successes += status == dnnl_success;
    if ((int)status < 0 || (int)status > 10) check_report(0, "a status", __LINE__);
}

/* For every combination of `n` pointers, evaluates a call and then `after`. */
#define EACH(function, n, call, after) \
    do { \
        printf("called %s\n", #function); \
        for (unsigned m = 0; m < 1u << (n); m++) { \
            call; \
            after; \
        } \
    } while (0)
#define FUZZ(function, n, arguments, after) EACH(function, n, count(function arguments), after)
#define P(i, pointer) (m >> (i) & 1 ? (pointer) : NULL)
/* Ends what was made. */
#define END(kind, slot) \
    do { \
        if (slot) dnnl_##kind##_destroy(slot); \
        slot = NULL; \
    } while (0)

#include "graph_null.h"
#include "primitives_null.h"

int main(int argc, char **argv) {
    const bool on_host = argc > 1 && strcmp(argv[1], "cpu") == 0;
    cl_device_id device = check_device(on_host ? NULL : argc > 1 ? argv[1] : NULL), device_slot = NULL;
    cl_context context = check_context(device), context_slot = NULL;
    cl_command_queue queue = check_queue(context, device, 0), queue_slot = NULL;
    cl_mem buffer = check_buffer(context, CL_MEM_READ_WRITE, 64, NULL), mem_slot = NULL;
    cl_int code = CL_SUCCESS;
    cl_event done = clCreateUserEvent(context, &code), event_slot = NULL;
    CL(code);
    CL(clSetUserEventStatus(done, CL_COMPLETE));
    dnnl_engine_t engine = NULL, engine_slot = NULL;
    dnnl_stream_t stream = NULL, stream_slot = NULL;
    dnnl_memory_t memory = NULL, scalar = NULL, memory_slot = NULL;
    dnnl_memory_desc_t desc = floats_desc(16), scalar_desc = NULL, desc_slot = NULL;
    const_dnnl_memory_desc_t lent = NULL;
    dnnl_primitive_desc_t pd = NULL, pd_slot = NULL;
    dnnl_primitive_t primitive = NULL, primitive_slot = NULL;
    dnnl_primitive_attr_t attr = NULL, attr_slot = NULL;
    dnnl_engine_kind_t kind;
    dnnl_ocl_interop_memory_kind_t memory_kind;
    dnnl_fpmath_mode_t mode;
    dnnl_dims_t dims = {16}, offsets = {0};
    int permutation[] = {0}, n = 0;
    uint64_t times[4];
    size_t size = 0;
    float value = 0;
    float numbers[16] = {0};
    void *const bytes_of_16 = on_host ? (void *)numbers : (void *)buffer;
    void *pointer = NULL, *handles[] = {bytes_of_16};
    uint8_t bytes[4096];
    if (on_host) {
        OK(dnnl_engine_create(&engine, dnnl_cpu, 0));
        OK(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    } else {
        OK(dnnl_ocl_interop_engine_create(&engine, device, context));
        OK(dnnl_ocl_interop_stream_create(&stream, engine, queue));
    }
    OK(dnnl_memory_create(&memory, desc, engine, bytes_of_16));
    OK(dnnl_memory_desc_create_host_scalar(&scalar_desc, dnnl_f32));
    OK(dnnl_memory_create_host_scalar(&scalar, scalar_desc, &value));
    OK(dnnl_primitive_attr_create(&attr));
    OK(dnnl_eltwise_forward_primitive_desc_create(
            &pd, engine, dnnl_forward_inference, dnnl_eltwise_relu, desc, desc, 0, 0, NULL));
    OK(dnnl_primitive_create(&primitive, pd));

    for (int k = -2; k < 5; k++) {
        const dnnl_engine_kind_t some = (dnnl_engine_kind_t)k;
        EACH(dnnl_engine_get_count, 0, calls += dnnl_engine_get_count(some) < 1000, (void)0);
        FUZZ(dnnl_engine_create, 1, (P(0, &engine_slot), some, 0), END(engine, engine_slot));
        FUZZ(dnnl_engine_create_ocl, 3, (P(0, &engine_slot), some, P(1, device), P(2, context)),
                END(engine, engine_slot));
    }
    FUZZ(dnnl_engine_get_kind, 2, (P(0, engine), P(1, &kind)), (void)0);
    FUZZ(dnnl_engine_destroy, 0, (NULL), (void)0);
    FUZZ(dnnl_engine_get_ocl_context, 2, (P(0, engine), P(1, &context_slot)), (void)0);
    FUZZ(dnnl_engine_get_ocl_device, 2, (P(0, engine), P(1, &device_slot)), (void)0);
    FUZZ(dnnl_ocl_interop_engine_create, 3, (P(0, &engine_slot), P(1, device), P(2, context)),
            END(engine, engine_slot));
    FUZZ(dnnl_ocl_interop_engine_create_from_cache_blob, 5,
            (P(0, &engine_slot), P(1, device), P(2, context), m >> 4 & 1 ? sizeof bytes : 0, P(3, bytes)),
            END(engine, engine_slot));
    FUZZ(dnnl_ocl_interop_engine_get_cache_blob, 3, (P(0, engine), P(1, &size), P(2, bytes)), size = 0);
    FUZZ(dnnl_ocl_interop_engine_get_cache_blob_id, 3, (P(0, device), P(1, &size), P(2, bytes)), size = 0);
    FUZZ(dnnl_ocl_interop_engine_get_context, 2, (P(0, engine), P(1, &context_slot)), (void)0);
    FUZZ(dnnl_ocl_interop_get_device, 2, (P(0, engine), P(1, &device_slot)), (void)0);

    for (unsigned flags = 0; flags < 16; flags++)
        FUZZ(dnnl_stream_create, 2, (P(0, &stream_slot), P(1, engine), flags), END(stream, stream_slot));
    FUZZ(dnnl_stream_create, 2, (P(0, &stream_slot), P(1, engine), ~0u), END(stream, stream_slot));
    FUZZ(dnnl_stream_get_engine, 2, (P(0, stream), P(1, &engine_slot)), engine_slot = NULL);
    FUZZ(dnnl_stream_wait, 1, (P(0, stream)), (void)0);
    FUZZ(dnnl_stream_destroy, 0, (NULL), (void)0);
    FUZZ(dnnl_stream_create_ocl, 3, (P(0, &stream_slot), P(1, engine), P(2, queue)), END(stream, stream_slot));
    FUZZ(dnnl_stream_get_ocl_command_queue, 2, (P(0, stream), P(1, &queue_slot)), (void)0);
    FUZZ(dnnl_ocl_interop_stream_create, 3, (P(0, &stream_slot), P(1, engine), P(2, queue)),
            END(stream, stream_slot));
    FUZZ(dnnl_ocl_interop_stream_get_command_queue, 2, (P(0, stream), P(1, &queue_slot)), (void)0);
    FUZZ(dnnl_reset_profiling, 1, (P(0, stream)), (void)0);
    for (int k = -1; k < 4; k++)
        FUZZ(dnnl_query_profiling_data, 3,
                (P(0, stream), (dnnl_profiling_data_kind_t)k, P(1, &n), P(2, times)), (void)0);

    void *some_handles[] = {bytes_of_16, DNNL_MEMORY_ALLOCATE, DNNL_MEMORY_NONE};
    for (int h = 0; h < 3; h++)
        FUZZ(dnnl_memory_create, 3, (P(0, &memory_slot), P(1, desc), P(2, engine), some_handles[h]),
                END(memory, memory_slot));
    for (int count_ = -1; count_ < 3; count_++) {
        FUZZ(dnnl_memory_create_v2, 4,
                (P(0, &memory_slot), P(1, desc), P(2, engine), count_, count_ > 1 ? NULL : P(3, handles)),
                END(memory, memory_slot));
        FUZZ(dnnl_ocl_interop_memory_create_v2, 4,
                (P(0, &memory_slot), P(1, desc), P(2, engine), dnnl_ocl_interop_buffer, count_,
                        count_ > 1 ? NULL : P(3, handles)),
                END(memory, memory_slot));
    }
    for (int h = 1; h < 3; h++)
        for (int k = -1; k < 3; k++)
            FUZZ(dnnl_ocl_interop_memory_create, 3,
                    (P(0, &memory_slot), P(1, desc), P(2, engine), (dnnl_ocl_interop_memory_kind_t)k,
                            some_handles[h]),
                    END(memory, memory_slot));
    FUZZ(dnnl_memory_create_host_scalar, 3, (P(0, &memory_slot), P(1, scalar_desc), P(2, &value)),
            END(memory, memory_slot));
    FUZZ(dnnl_memory_create_host_scalar, 3, (P(0, &memory_slot), P(1, desc), P(2, &value)),
            END(memory, memory_slot));
    FUZZ(dnnl_memory_destroy, 0, (NULL), (void)0);
    dnnl_memory_t memories[] = {memory, scalar};
    for (int i = 0; i < 2; i++) {
        FUZZ(dnnl_memory_get_memory_desc, 2, (P(0, memories[i]), P(1, &lent)), (void)0);
        FUZZ(dnnl_memory_get_engine, 2, (P(0, memories[i]), P(1, &engine_slot)), engine_slot = NULL);
        FUZZ(dnnl_memory_get_data_handle, 2, (P(0, memories[i]), P(1, &pointer)), (void)0);
        FUZZ(dnnl_memory_set_data_handle, 2, (P(0, memories[i]), P(1, bytes_of_16)), (void)0);
        FUZZ(dnnl_memory_map_data, 2, (P(0, memories[i]), P(1, &pointer)),
                dnnl_memory_unmap_data(memories[i], pointer));
        FUZZ(dnnl_memory_unmap_data, 2, (P(0, memories[i]), P(1, &value)), (void)0);
        FUZZ(dnnl_memory_get_host_scalar_value, 2, (P(0, memories[i]), P(1, &value)), (void)0);
        FUZZ(dnnl_memory_set_host_scalar_value, 2, (P(0, memories[i]), P(1, &value)), (void)0);
        FUZZ(dnnl_memory_get_ocl_mem_object, 2, (P(0, memories[i]), P(1, &mem_slot)), (void)0);
        FUZZ(dnnl_memory_set_ocl_mem_object, 2, (P(0, memories[i]), P(1, buffer)), (void)0);
        FUZZ(dnnl_ocl_interop_memory_get_memory_kind, 2, (P(0, memories[i]), P(1, &memory_kind)), (void)0);
        FUZZ(dnnl_ocl_interop_memory_get_mem_object, 2, (P(0, memories[i]), P(1, &mem_slot)), (void)0);
        FUZZ(dnnl_ocl_interop_memory_set_mem_object, 2, (P(0, memories[i]), P(1, buffer)), (void)0);
        for (int index = -1; index < 3; index++) {
            FUZZ(dnnl_memory_get_data_handle_v2, 2, (P(0, memories[i]), P(1, &pointer), index), (void)0);
            FUZZ(dnnl_memory_set_data_handle_v2, 2, (P(0, memories[i]), P(1, bytes_of_16), index), (void)0);
            pointer = NULL;
            FUZZ(dnnl_memory_map_data_v2, 2, (P(0, memories[i]), P(1, &pointer), index),
                    dnnl_memory_unmap_data_v2(memories[i], pointer, index));
            FUZZ(dnnl_memory_unmap_data_v2, 2, (P(0, memories[i]), P(1, &value), index), (void)0);
        }
    }

    for (int nd = -1; nd < 2; nd++) {
        FUZZ(dnnl_memory_desc_create_with_tag, 2, (P(0, &desc_slot), nd, P(1, dims), dnnl_f32, dnnl_a),
                END(memory_desc, desc_slot));
        FUZZ(dnnl_memory_desc_create_with_strides, 3, (P(0, &desc_slot), nd, P(1, dims), dnnl_f32, P(2, dims)),
                END(memory_desc, desc_slot));
        FUZZ(dnnl_memory_desc_create_with_coo_encoding, 2,
                (P(0, &desc_slot), nd, P(1, dims), dnnl_f32, 3, dnnl_s32), END(memory_desc, desc_slot));
        FUZZ(dnnl_memory_desc_reshape, 3, (P(0, &desc_slot), P(1, desc), nd, P(2, dims)),
                END(memory_desc, desc_slot));
    }
    FUZZ(dnnl_memory_desc_create_host_scalar, 1, (P(0, &desc_slot), dnnl_f32), END(memory_desc, desc_slot));
    FUZZ(dnnl_memory_desc_create_submemory, 4, (P(0, &desc_slot), P(1, desc), P(2, dims), P(3, offsets)),
            END(memory_desc, desc_slot));
    FUZZ(dnnl_memory_desc_clone, 2, (P(0, &desc_slot), P(1, desc)), END(memory_desc, desc_slot));
    FUZZ(dnnl_memory_desc_permute_axes, 3, (P(0, &desc_slot), P(1, desc), P(2, permutation)),
            END(memory_desc, desc_slot));
    FUZZ(dnnl_memory_desc_destroy, 0, (NULL), (void)0);
    EACH(dnnl_memory_desc_equal, 2, calls += dnnl_memory_desc_equal(P(0, desc), P(1, desc)) < 2, (void)0);
    EACH(dnnl_memory_desc_get_size, 1, calls += dnnl_memory_desc_get_size(P(0, desc)) < 999, (void)0);
    EACH(dnnl_memory_desc_get_size_v2, 1, calls += dnnl_memory_desc_get_size_v2(P(0, desc), 9) < 999, (void)0);
    for (int what = -1; what < 300; what++) {
        dnnl_dims_t answer;
        count(dnnl_memory_desc_query(NULL, (dnnl_query_t)what, answer));
        count(dnnl_memory_desc_query(desc, (dnnl_query_t)what, NULL));
        count(dnnl_memory_desc_query(desc, (dnnl_query_t)what, answer));
        count(dnnl_memory_desc_query_v2(NULL, (dnnl_query_t)what, 0, answer));
        count(dnnl_memory_desc_query_v2(desc, (dnnl_query_t)what, -1, NULL));
        count(dnnl_memory_desc_query_v2(desc, (dnnl_query_t)what, 7, answer));
    }
    printf("called dnnl_memory_desc_query\ncalled dnnl_memory_desc_query_v2\n");

    FUZZ(dnnl_primitive_attr_create, 1, (P(0, &attr_slot)), END(primitive_attr, attr_slot));
    FUZZ(dnnl_primitive_attr_destroy, 0, (NULL), (void)0);
    const int algorithms[] = {dnnl_eltwise_relu, 0, -1, 0x7fffffff};
    for (int a = 0; a < 4; a++)
        FUZZ(dnnl_eltwise_forward_primitive_desc_create, 5,
                (P(0, &pd_slot), P(1, engine), dnnl_forward_inference, (dnnl_alg_kind_t)algorithms[a], P(2, desc),
                        P(3, desc), 0, 0, P(4, attr)),
                END(primitive_desc, pd_slot));
    FUZZ(dnnl_reorder_primitive_desc_create, 6,
            (P(0, &pd_slot), P(1, desc), P(2, engine), P(3, desc), P(4, engine), P(5, attr)),
            END(primitive_desc, pd_slot));
    FUZZ(dnnl_primitive_desc_destroy, 0, (NULL), (void)0);
    FUZZ(dnnl_primitive_create, 2, (P(0, &primitive_slot), P(1, pd)), END(primitive, primitive_slot));
    FUZZ(dnnl_primitive_destroy, 0, (NULL), (void)0);
    for (int a = 0; a < 4; a++) {
        dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, a & 1 ? memory : NULL}, {DNNL_ARG_DST, a & 2 ? memory : NULL},
                {-1, scalar}};
        for (int nargs = -1; nargs < 4; nargs++)
            FUZZ(dnnl_primitive_execute, 3, (P(0, primitive), P(1, stream), nargs, P(2, args)), (void)0);
        for (int nargs = -1; nargs < 4; nargs++)
            for (int ndeps = -1; ndeps < 2; ndeps++)
                FUZZ(dnnl_ocl_interop_primitive_execute, 5,
                        (P(0, primitive), P(1, stream), nargs, P(2, args), P(3, &done), ndeps, P(4, &event_slot)),
                        (void)0);
    }
    dnnl_exec_arg_t host[] = {{DNNL_ARG_SRC, scalar}, {DNNL_ARG_DST, scalar}};
    INVALID(dnnl_primitive_execute(primitive, stream, 2, host));
    OK(dnnl_stream_wait(stream));

    FUZZ(dnnl_get_default_fpmath_mode, 1, (P(0, &mode)), (void)0);
    for (int k = -1; k < 7; k++) {
        EACH(dnnl_set_default_fpmath_mode, 0, count(dnnl_set_default_fpmath_mode((dnnl_fpmath_mode_t)k)), (void)0);
        EACH(dnnl_status2str, 0, calls += dnnl_status2str((dnnl_status_t)k) != NULL, (void)0);
    }
    EACH(dnnl_set_verbose, 0, count(dnnl_set_verbose(-1)), (void)0);
    EACH(dnnl_set_verbose, 0, count(dnnl_set_verbose(0)), (void)0);
    int is_told = 7;
    FUZZ(dnnl_verbose_profiling_enabled, 1, (P(0, &is_told)), (void)0);
    EACH(dnnl_version, 0, calls += dnnl_version() != NULL, (void)0);
    for (int k = -1; k < 20; k++)
        EACH(dnnl_data_type_size, 0, calls += dnnl_data_type_size((dnnl_data_type_t)k) > 0, (void)0);

    const pointers_t pointers = check_pointers(on_host ? NULL : device, context);
    null_primitives(engine);
    null_more(engine, desc, pd, primitive, attr);
    null_graphs(engine, stream, device, context, &pointers, queue, done);

    OK(dnnl_primitive_destroy(primitive));
    OK(dnnl_primitive_desc_destroy(pd));
    OK(dnnl_primitive_attr_destroy(attr));
    OK(dnnl_memory_destroy(memory));
    OK(dnnl_memory_destroy(scalar));
    OK(dnnl_memory_desc_destroy(desc));
    OK(dnnl_memory_desc_destroy(scalar_desc));
    OK(dnnl_stream_destroy(stream));
    OK(dnnl_engine_destroy(engine));
    ABOUT_NAME("null pointers");
    CHECK(calls > 1500 && successes > 100 && successes < calls / 2);
    printf("%d calls, %d of them with success\n", calls, successes);
    ABOUT_NAME("references at the end");
    SOON(mem_references(buffer) == 1);
    SOON(event_references(done) == 1);
    CL(clReleaseEvent(done));
    CL(clReleaseMemObject(buffer));
    /* PoCL's buffers hold the event that wrote them last, and events their queue. */
    SOON(queue_references(queue) == 1);
    check_release_queue(queue);
    SOON(context_references(context) == 1);
    CL(clReleaseContext(context));
    return check_end();
}
