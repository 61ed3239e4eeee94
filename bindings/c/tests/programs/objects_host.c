/* Engines, streams, memory and executions of the host, of kind `dnnl_cpu`, and what goes between the host and a device. */
#define DNNL_EXPERIMENTAL_PROFILING
#include "check.h"

enum { COUNT = 33, BYTES = COUNT * 4 };

static dnnl_engine_t host;

static void engines(void) {
    ABOUT(dnnl_engine_get_count);
    CHECK(dnnl_engine_get_count(dnnl_cpu) == 1);
    CHECK(dnnl_engine_get_count(dnnl_any_engine) == 0);
    ABOUT(dnnl_engine_create);
    dnnl_engine_t other = NULL;
    INVALID(dnnl_engine_create(NULL, dnnl_cpu, 0));
    INVALID(dnnl_engine_create(&other, dnnl_cpu, 1));
    INVALID(dnnl_engine_create(&other, dnnl_any_engine, 0));
    CHECK(other == NULL);
    OK(dnnl_engine_create(&other, dnnl_cpu, 0));
    CHECK(other != host);
    ABOUT(dnnl_engine_get_kind);
    dnnl_engine_kind_t kind = dnnl_any_engine;
    OK(dnnl_engine_get_kind(other, &kind));
    CHECK(kind == dnnl_cpu);
    ABOUT(dnnl_engine_destroy);
    OK(dnnl_engine_destroy(other));
    ABOUT(dnnl_version);
    CHECK(dnnl_version()->cpu_runtime == DNNL_RUNTIME_THREADPOOL && dnnl_version()->gpu_runtime == DNNL_RUNTIME_OCL);
}

/* Nothing of OpenCL is behind an engine of the host: what is asked for is an invalid argument, and nothing is written. */
static void no_opencl(void) {
    int mark = 0;
    void *const untouched = &mark;
    cl_context context = (cl_context)untouched;
    cl_device_id device = (cl_device_id)untouched;
    cl_command_queue queue = (cl_command_queue)untouched;
    cl_mem object = (cl_mem)untouched;
    cl_event event = (cl_event)untouched;
    dnnl_ocl_interop_memory_kind_t kind = (dnnl_ocl_interop_memory_kind_t)77;
    size_t size = 77;
    float values[COUNT] = {-1};
    dnnl_memory_desc_t desc = floats_desc(COUNT);
    dnnl_stream_t stream = NULL, made = NULL;
    dnnl_memory_t memory = NULL, other = NULL;
    OK(dnnl_stream_create(&stream, host, dnnl_stream_default_flags));
    OK(dnnl_memory_create(&memory, desc, host, values));
    ABOUT(dnnl_ocl_interop_engine_get_context);
    INVALID(dnnl_ocl_interop_engine_get_context(host, &context));
    ABOUT(dnnl_ocl_interop_get_device);
    INVALID(dnnl_ocl_interop_get_device(host, &device));
    ABOUT(dnnl_ocl_interop_engine_get_cache_blob);
    INVALID(dnnl_ocl_interop_engine_get_cache_blob(host, &size, NULL));
    ABOUT(dnnl_ocl_interop_stream_create);
    INVALID(dnnl_ocl_interop_stream_create(&made, host, queue));
    ABOUT(dnnl_ocl_interop_stream_get_command_queue);
    INVALID(dnnl_ocl_interop_stream_get_command_queue(stream, &queue));
    ABOUT(dnnl_ocl_interop_memory_create);
    for (int k = 0; k < 2; k++) {
        INVALID(dnnl_ocl_interop_memory_create(&other, desc, host, (dnnl_ocl_interop_memory_kind_t)k, DNNL_MEMORY_ALLOCATE));
        INVALID(dnnl_ocl_interop_memory_create(&other, desc, host, (dnnl_ocl_interop_memory_kind_t)k, values));
    }
    ABOUT(dnnl_ocl_interop_memory_get_memory_kind);
    INVALID(dnnl_ocl_interop_memory_get_memory_kind(memory, &kind));
    ABOUT(dnnl_ocl_interop_memory_get_mem_object);
    INVALID(dnnl_ocl_interop_memory_get_mem_object(memory, &object));
    ABOUT(dnnl_ocl_interop_memory_set_mem_object);
    INVALID(dnnl_ocl_interop_memory_set_mem_object(memory, object));
    ABOUT(dnnl_ocl_interop_primitive_execute);
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t relu = NULL;
    OK(dnnl_eltwise_forward_primitive_desc_create(
            &pd, host, dnnl_forward_inference, dnnl_eltwise_relu, desc, desc, 0, 0, NULL));
    OK(dnnl_primitive_create(&relu, pd));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, memory}, {DNNL_ARG_DST, memory}};
    INVALID(dnnl_ocl_interop_primitive_execute(relu, stream, 2, args, NULL, 0, &event));
    INVALID(dnnl_ocl_interop_primitive_execute(relu, stream, 2, args, NULL, 0, NULL));
    CHECK(values[0] == -1);
    CHECK(context == untouched && device == untouched && queue == untouched && object == untouched && event == untouched);
    CHECK(size == 77 && (int)kind == 77 && made == NULL && other == NULL);
    dnnl_primitive_destroy(relu);
    dnnl_primitive_desc_destroy(pd);
    dnnl_memory_destroy(memory);
    dnnl_memory_desc_destroy(desc);
    dnnl_stream_destroy(stream);
}

static void memory_of_the_host(void) {
    dnnl_memory_desc_t desc = floats_desc(COUNT), none = floats_desc(0);
    dnnl_memory_t memory = NULL;
    void *handle = NULL, *mapped = NULL, *handles[] = {NULL, NULL};
    float values[COUNT] = {1};
    ABOUT(dnnl_memory_create);
    OK(dnnl_memory_create(&memory, desc, host, values));
    OK(dnnl_memory_get_data_handle(memory, &handle));
    CHECK(handle == values);
    ABOUT(dnnl_memory_map_data);
    OK(dnnl_memory_map_data(memory, &mapped));
    CHECK(mapped == values);
    ABOUT(dnnl_memory_unmap_data);
    OK(dnnl_memory_unmap_data(memory, mapped));
    OK(dnnl_memory_unmap_data(memory, values + 1));
    OK(dnnl_memory_unmap_data(memory, NULL));
    dnnl_engine_t owner = NULL;
    OK(dnnl_memory_get_engine(memory, &owner));
    CHECK(owner == host);
    ABOUT(dnnl_memory_set_data_handle);
    float others[COUNT] = {2};
    OK(dnnl_memory_set_data_handle(memory, others));
    OK(dnnl_memory_get_data_handle(memory, &handle));
    CHECK(handle == others);
    OK(dnnl_memory_set_data_handle(memory, NULL));
    OK(dnnl_memory_map_data(memory, &mapped));
    CHECK(mapped == NULL);
    OK(dnnl_memory_destroy(memory));

    ABOUT(dnnl_memory_create);
    OK(dnnl_memory_create(&memory, desc, host, DNNL_MEMORY_ALLOCATE));
    OK(dnnl_memory_get_data_handle(memory, &handle));
    CHECK(handle != NULL && (uintptr_t)handle % 64 == 0);
    OK(dnnl_memory_map_data(memory, &mapped));
    CHECK(mapped == handle);
    memset(mapped, 1, BYTES);
    OK(dnnl_memory_destroy(memory));
    OK(dnnl_memory_create(&memory, desc, host, DNNL_MEMORY_NONE));
    OK(dnnl_memory_get_data_handle(memory, &handle));
    CHECK(handle == NULL);
    OK(dnnl_memory_destroy(memory));
    OK(dnnl_memory_create(&memory, none, host, DNNL_MEMORY_ALLOCATE));
    OK(dnnl_memory_get_data_handle(memory, &handle));
    CHECK(handle == NULL);
    OK(dnnl_memory_destroy(memory));
    dnnl_memory_desc_t huge = floats_desc((dnnl_dim_t)1 << 50);
    STATUS(dnnl_out_of_memory, dnnl_memory_create(&memory, huge, host, DNNL_MEMORY_ALLOCATE));

    ABOUT(dnnl_memory_create_v2);
    dnnl_memory_desc_t sparse = NULL;
    const dnnl_dims_t dims = {4, 5};
    OK(dnnl_memory_desc_create_with_coo_encoding(&sparse, 2, dims, dnnl_f32, 3, dnnl_s32));
    INVALID(dnnl_memory_create_v2(&memory, sparse, host, 2, handles));
    int32_t rows[3] = {0}, columns[3] = {0};
    void *parts[] = {values, rows, columns};
    OK(dnnl_memory_create_v2(&memory, sparse, host, 3, parts));
    for (int i = 0; i < 3; i++) {
        OK(dnnl_memory_get_data_handle_v2(memory, &handle, i));
        CHECK(handle == parts[i]);
        OK(dnnl_memory_map_data_v2(memory, &mapped, i));
        CHECK(mapped == parts[i]);
        OK(dnnl_memory_unmap_data_v2(memory, mapped, i));
    }
    INVALID(dnnl_memory_get_data_handle_v2(memory, &handle, 3));
    OK(dnnl_memory_destroy(memory));
    dnnl_memory_desc_destroy(sparse);
    dnnl_memory_desc_destroy(huge);
    dnnl_memory_desc_destroy(none);
    dnnl_memory_desc_destroy(desc);
}

/* `dst = 2 * src + 1` between two memories; true where it is. */
static dnnl_status_t doubled(dnnl_stream_t stream, const_dnnl_memory_desc_t src_desc, const_dnnl_memory_desc_t dst_desc,
        dnnl_memory_t src, dnnl_memory_t dst) {
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t linear = NULL;
    dnnl_engine_t engine = NULL;
    OK(dnnl_stream_get_engine(stream, &engine));
    OK(dnnl_eltwise_forward_primitive_desc_create(
            &pd, engine, dnnl_forward_inference, dnnl_eltwise_linear, src_desc, dst_desc, 2, 1, NULL));
    OK(dnnl_primitive_create(&linear, pd));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}};
    dnnl_status_t status = dnnl_primitive_execute(linear, stream, 2, args);
    OK(dnnl_primitive_destroy(linear));
    OK(dnnl_primitive_desc_destroy(pd));
    return status;
}

static void streams(void) {
    const struct {
        unsigned flags;
        dnnl_status_t status;
    } cases[] = {{dnnl_stream_default_flags, dnnl_success}, {dnnl_stream_in_order, dnnl_success},
            {dnnl_stream_out_of_order, dnnl_success}, {dnnl_stream_in_order | dnnl_stream_profiling, dnnl_success},
            {dnnl_stream_out_of_order | dnnl_stream_profiling, dnnl_invalid_arguments}, {0, dnnl_invalid_arguments},
            {dnnl_stream_in_order | 0x80, dnnl_invalid_arguments}};
    dnnl_memory_desc_t desc = floats_desc(COUNT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ABOUT(dnnl_stream_create);
        dnnl_stream_t stream = NULL;
        STATUS(cases[i].status, dnnl_stream_create(&stream, host, cases[i].flags));
        if (!stream) continue;
        ABOUT(dnnl_stream_get_engine);
        dnnl_engine_t owner = NULL;
        OK(dnnl_stream_get_engine(stream, &owner));
        CHECK(owner == host);
        float values[COUNT] = {3};
        dnnl_memory_t memory = NULL;
        OK(dnnl_memory_create(&memory, desc, host, values));
        ABOUT(dnnl_primitive_execute);
        OK(doubled(stream, desc, desc, memory, memory));
        ABOUT(dnnl_stream_wait);
        OK(dnnl_stream_wait(stream));
        CHECK(values[0] == 7 && values[1] == 1);
        ABOUT(dnnl_query_profiling_data);
        int entries = -1;
        uint64_t times[4] = {0};
        if (cases[i].flags & dnnl_stream_profiling) {
            OK(dnnl_query_profiling_data(stream, dnnl_profiling_data_kind_time, &entries, NULL));
            CHECK(entries == 1);
            OK(dnnl_query_profiling_data(stream, dnnl_profiling_data_kind_time, &entries, times));
            CHECK(entries == 1 && times[0] > 0);
            OK(dnnl_reset_profiling(stream));
            OK(dnnl_query_profiling_data(stream, dnnl_profiling_data_kind_time, &entries, NULL));
            CHECK(entries == 0);
        } else {
            INVALID(dnnl_query_profiling_data(stream, dnnl_profiling_data_kind_time, &entries, NULL));
            INVALID(dnnl_reset_profiling(stream));
        }
        OK(dnnl_memory_destroy(memory));
        ABOUT(dnnl_stream_destroy);
        OK(dnnl_stream_destroy(stream));
    }
    dnnl_memory_desc_destroy(desc);
}

static void executions(void) {
    dnnl_stream_t stream = NULL;
    dnnl_memory_desc_t desc = floats_desc(COUNT), part = NULL;
    OK(dnnl_stream_create(&stream, host, dnnl_stream_default_flags));
    float values[COUNT + 1], results[COUNT];
    for (int i = 0; i <= COUNT; i++) values[i] = (float)i;
    dnnl_memory_t src = NULL, dst = NULL, empty = NULL;
    OK(dnnl_memory_create(&src, desc, host, values));
    OK(dnnl_memory_create(&dst, desc, host, results));
    OK(dnnl_memory_create(&empty, desc, host, DNNL_MEMORY_NONE));

    ABOUT_NAME("memory of two objects that share bytes");
    OK(doubled(stream, desc, desc, src, dst));
    CHECK(results[0] == 1 && results[COUNT - 1] == 2 * (COUNT - 1) + 1);
    OK(dnnl_memory_set_data_handle(dst, values));
    OK(doubled(stream, desc, desc, src, dst));
    CHECK(values[0] == 1 && values[COUNT - 1] == 2 * (COUNT - 1) + 1 && values[COUNT] == COUNT);
    OK(dnnl_memory_set_data_handle(dst, values + 1));
    INVALID(doubled(stream, desc, desc, src, dst));
    INVALID(doubled(stream, desc, desc, empty, dst));
    CHECK(values[1] == 3);

    ABOUT_NAME("bytes at an odd address");
    char odd[BYTES + 4];
    float value = 20;
    memset(odd, 0, sizeof odd);
    memcpy(odd + 1, &value, 4);
    OK(dnnl_memory_set_data_handle(dst, odd + 1));
    OK(doubled(stream, desc, desc, dst, dst));
    memcpy(&value, odd + 1, 4);
    CHECK(value == 41 && odd[0] == 0);

    ABOUT(dnnl_memory_desc_create_submemory);
    const dnnl_dims_t dims = {4}, offsets = {5};
    OK(dnnl_memory_desc_create_submemory(&part, desc, dims, offsets));
    for (int i = 0; i < COUNT; i++) results[i] = (float)i;
    OK(dnnl_memory_set_data_handle(src, results));
    dnnl_memory_t inside = NULL;
    OK(dnnl_memory_create(&inside, part, host, results));
    OK(doubled(stream, part, part, inside, inside));
    CHECK(results[4] == 4 && results[5] == 11 && results[8] == 17 && results[9] == 9);
    OK(dnnl_memory_destroy(inside));

    ABOUT_NAME("a scale on the host");
    dnnl_memory_desc_t scalar = NULL;
    dnnl_memory_t scale = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t copy = NULL;
    value = 0.5f;
    OK(dnnl_memory_desc_create_host_scalar(&scalar, dnnl_f32));
    OK(dnnl_memory_create_host_scalar(&scale, scalar, &value));
    OK(dnnl_primitive_attr_create(&attr));
    OK(dnnl_primitive_attr_set_scales_mask(attr, DNNL_ARG_SRC, 0));
    OK(dnnl_reorder_primitive_desc_create(&pd, desc, host, desc, host, attr));
    OK(dnnl_primitive_create(&copy, pd));
    float halves[COUNT];
    OK(dnnl_memory_set_data_handle(dst, halves));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}, {DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, scale}};
    OK(dnnl_primitive_execute(copy, stream, 3, args));
    CHECK(halves[5] == 5.5f && halves[9] == 4.5f);
    INVALID(dnnl_primitive_execute(copy, stream, 2, args));

    ABOUT_NAME("what a description of the host tells");
    const char *name = NULL;
    int64_t bytes = -1;
    dnnl_engine_t engines[3] = {NULL};
    OK(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name));
    CHECK(name && strcmp(name, "host:anydnn") == 0);
    OK(dnnl_primitive_desc_query(pd, dnnl_query_cache_blob_id_size_s64, 0, &bytes));
    CHECK(bytes == 0);
    OK(dnnl_primitive_desc_query(pd, dnnl_query_engine, 0, &engines[0]));
    OK(dnnl_primitive_desc_query(pd, dnnl_query_reorder_src_engine, 0, &engines[1]));
    OK(dnnl_primitive_desc_query(pd, dnnl_query_reorder_dst_engine, 0, &engines[2]));
    CHECK(engines[0] == host && engines[1] == host && engines[2] == host);
    ABOUT(dnnl_primitive_get_cache_blob);
    size_t size = 0;
    const uint8_t blob[4] = {0};
    dnnl_primitive_t again = NULL;
    STATUS(dnnl_unimplemented, dnnl_primitive_get_cache_blob(copy, &size, NULL));
    STATUS(dnnl_unimplemented, dnnl_primitive_create_from_cache_blob(&again, pd, sizeof blob, blob));
    INVALID(dnnl_primitive_create_from_cache_blob(&again, pd, 0, blob));
    CHECK(again == NULL);
    dnnl_primitive_destroy(copy);
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    dnnl_memory_destroy(scale);
    dnnl_memory_desc_destroy(scalar);
    dnnl_memory_desc_destroy(part);
    dnnl_memory_destroy(empty);
    dnnl_memory_destroy(dst);
    dnnl_memory_destroy(src);
    dnnl_memory_desc_destroy(desc);
    dnnl_stream_destroy(stream);
}

static dnnl_primitive_t reorder_between(const_dnnl_memory_desc_t src_desc, dnnl_engine_t src, const_dnnl_memory_desc_t dst_desc,
        dnnl_engine_t dst, dnnl_engine_t runs_on) {
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t made = NULL;
    dnnl_engine_t engines[3] = {NULL};
    OK(dnnl_reorder_primitive_desc_create(&pd, src_desc, src, dst_desc, dst, NULL));
    OK(dnnl_primitive_desc_query(pd, dnnl_query_engine, 0, &engines[0]));
    OK(dnnl_primitive_desc_query(pd, dnnl_query_reorder_src_engine, 0, &engines[1]));
    OK(dnnl_primitive_desc_query(pd, dnnl_query_reorder_dst_engine, 0, &engines[2]));
    CHECK(engines[0] == runs_on && engines[1] == src && engines[2] == dst);
    OK(dnnl_primitive_create(&made, pd));
    OK(dnnl_primitive_desc_destroy(pd));
    return made;
}

/* From the host to a device, through a primitive there, and back; the layouts differ, and the result leaves gaps alone. */
static void to_a_device_and_back(dnnl_engine_t device, unsigned flags) {
    ABOUT(dnnl_reorder_primitive_desc_create);
    dnnl_memory_desc_t rows = NULL, columns = NULL, wide = NULL;
    const dnnl_dims_t dims = {3, 5}, strides = {7, 1};
    OK(dnnl_memory_desc_create_with_tag(&rows, 2, dims, dnnl_f32, dnnl_ab));
    OK(dnnl_memory_desc_create_with_tag(&columns, 2, dims, dnnl_f32, dnnl_ba));
    OK(dnnl_memory_desc_create_with_strides(&wide, 2, dims, dnnl_f32, strides));
    float values[15], results[21];
    for (int i = 0; i < 15; i++) values[i] = (float)i;
    for (int i = 0; i < 21; i++) results[i] = -1;
    dnnl_memory_t src = NULL, there = NULL, dst = NULL;
    OK(dnnl_memory_create(&src, rows, host, values));
    OK(dnnl_memory_create(&there, columns, device, DNNL_MEMORY_ALLOCATE));
    OK(dnnl_memory_create(&dst, wide, host, results));
    dnnl_stream_t stream = NULL, of_host = NULL;
    OK(dnnl_stream_create(&stream, device, flags));
    OK(dnnl_stream_create(&of_host, host, dnnl_stream_default_flags));
    dnnl_primitive_t in = reorder_between(rows, host, columns, device, device);
    dnnl_primitive_t out = reorder_between(columns, device, wide, host, device);
    ABOUT(dnnl_primitive_execute);
    dnnl_exec_arg_t inward[] = {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, there}};
    dnnl_exec_arg_t outward[] = {{DNNL_ARG_SRC, there}, {DNNL_ARG_DST, dst}};
    INVALID(dnnl_primitive_execute(in, of_host, 2, inward));
    OK(dnnl_primitive_execute(in, stream, 2, inward));
    if (flags & dnnl_stream_out_of_order) OK(dnnl_stream_wait(stream));
    OK(doubled(stream, columns, columns, there, there));
    if (flags & dnnl_stream_out_of_order) OK(dnnl_stream_wait(stream));
    OK(dnnl_primitive_execute(out, stream, 2, outward));
    OK(dnnl_stream_wait(stream));
    int wrong = 0;
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 7; c++) {
            if (r == 2 && c > 4) continue;
            const float expected = c < 5 ? 2.0f * (float)(r * 5 + c) + 1 : -1;
            wrong += results[r * 7 + c] != expected;
        }
    CHECK(wrong == 0);
    /* Memory of the wrong engine is refused, both ways. */
    INVALID(doubled(stream, columns, columns, src, there));
    INVALID(doubled(of_host, rows, rows, there, src));
    dnnl_exec_arg_t swapped[] = {{DNNL_ARG_SRC, there}, {DNNL_ARG_DST, src}};
    INVALID(dnnl_primitive_execute(in, stream, 2, swapped));
    OK(dnnl_primitive_destroy(in));
    OK(dnnl_primitive_destroy(out));
    OK(dnnl_memory_destroy(src));
    OK(dnnl_memory_destroy(there));
    OK(dnnl_memory_destroy(dst));
    OK(dnnl_stream_destroy(stream));
    OK(dnnl_stream_destroy(of_host));
    OK(dnnl_memory_desc_destroy(rows));
    OK(dnnl_memory_desc_destroy(columns));
    OK(dnnl_memory_desc_destroy(wide));
}

int main(int argc, char **argv) {
    OK(dnnl_engine_create(&host, dnnl_cpu, 0));
    engines();
    no_opencl();
    memory_of_the_host();
    streams();
    executions();
    /* With `cpu` there is no device. */
    if (argc > 1 && strcmp(argv[1], "cpu") != 0) {
        cl_device_id device = check_device(argv[1]);
        cl_context context = check_context(device);
        dnnl_engine_t engine = NULL;
        OK(dnnl_ocl_interop_engine_create(&engine, device, context));
        to_a_device_and_back(engine, dnnl_stream_in_order);
        to_a_device_and_back(engine, dnnl_stream_out_of_order);
        OK(dnnl_engine_destroy(engine));
        SOON(context_references(context) == 1);
        CL(clReleaseContext(context));
    }
    OK(dnnl_engine_destroy(host));
    return check_end();
}
