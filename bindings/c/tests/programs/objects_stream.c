/* The specification's table of streams, row by row. */
#define DNNL_EXPERIMENTAL_PROFILING
#include "check.h"

static cl_command_queue_properties properties_of(cl_command_queue queue) {
    cl_command_queue_properties properties = 0;
    CL(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL));
    return properties;
}

static void of_the_library(dnnl_engine_t engine) {
    ABOUT(dnnl_stream_create);
    dnnl_stream_t stream = NULL;
    INVALID(dnnl_stream_create(NULL, engine, dnnl_stream_default_flags));
    INVALID(dnnl_stream_create(&stream, NULL, dnnl_stream_default_flags));
    INVALID(dnnl_stream_create(&stream, engine, dnnl_stream_out_of_order | dnnl_stream_profiling));
    INVALID(dnnl_stream_create(&stream, engine, 0));
    CHECK(stream == NULL);
    const cl_command_queue_properties order = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    const cl_command_queue_properties profiling = CL_QUEUE_PROFILING_ENABLE;
    const struct {
        unsigned flags;
        cl_command_queue_properties expected;
    } cases[] = {{dnnl_stream_in_order, 0}, {dnnl_stream_default_flags, 0},
            {dnnl_stream_out_of_order, order}, {dnnl_stream_profiling, profiling},
            {dnnl_stream_in_order | dnnl_stream_profiling, profiling}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ABOUT(dnnl_stream_create);
        OK(dnnl_stream_create(&stream, engine, cases[i].flags));
        cl_command_queue queue = NULL;
        ABOUT(dnnl_ocl_interop_stream_get_command_queue);
        OK(dnnl_ocl_interop_stream_get_command_queue(stream, &queue));
        CHECK((properties_of(queue) & (order | profiling)) == cases[i].expected);
        SOON(queue_references(queue) == 1);
        ABOUT(dnnl_stream_destroy);
        OK(dnnl_stream_destroy(stream));
    }
    OK(dnnl_stream_destroy(NULL));

    OK(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    ABOUT(dnnl_stream_get_engine);
    dnnl_engine_t got = NULL;
    OK(dnnl_stream_get_engine(stream, &got));
    CHECK(got == engine);
    INVALID(dnnl_stream_get_engine(NULL, &got));
    INVALID(dnnl_stream_get_engine(stream, NULL));
    ABOUT(dnnl_stream_wait);
    OK(dnnl_stream_wait(stream));
    INVALID(dnnl_stream_wait(NULL));
    ABOUT(dnnl_ocl_interop_stream_get_command_queue);
    cl_command_queue queue = NULL;
    INVALID(dnnl_ocl_interop_stream_get_command_queue(NULL, &queue));
    INVALID(dnnl_ocl_interop_stream_get_command_queue(stream, NULL));
    OK(dnnl_stream_destroy(stream));
}

static void of_the_user(dnnl_engine_t engine, cl_device_id device, cl_context context) {
    ABOUT(dnnl_ocl_interop_stream_create);
    dnnl_stream_t stream = NULL;
    cl_command_queue queue = check_queue(context, device, 0);
    INVALID(dnnl_ocl_interop_stream_create(NULL, engine, queue));
    INVALID(dnnl_ocl_interop_stream_create(&stream, NULL, queue));
    INVALID(dnnl_ocl_interop_stream_create(&stream, engine, NULL));
    SOON(stream == NULL && queue_references(queue) == 1);
    OK(dnnl_ocl_interop_stream_create(&stream, engine, queue));
    SOON(queue_references(queue) == 2);
    ABOUT(dnnl_ocl_interop_stream_get_command_queue);
    cl_command_queue got = NULL;
    OK(dnnl_ocl_interop_stream_get_command_queue(stream, &got));
    SOON(got == queue && queue_references(queue) == 2);
    ABOUT(dnnl_stream_destroy);
    OK(dnnl_stream_destroy(stream));
    SOON(queue_references(queue) == 1);
    check_release_queue(queue);

    ABOUT(dnnl_ocl_interop_stream_create);
    cl_context elsewhere = check_context(device);
    queue = check_queue(elsewhere, device, 0);
    stream = NULL;
    INVALID(dnnl_ocl_interop_stream_create(&stream, engine, queue));
    SOON(stream == NULL && queue_references(queue) == 1);
    check_release_queue(queue);
    CL(clReleaseContext(elsewhere));

    cl_device_partition_property by_counts[] = {CL_DEVICE_PARTITION_BY_COUNTS, 1, CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
    cl_device_id part = NULL;
    if (clCreateSubDevices(device, by_counts, 1, &part, NULL) == CL_SUCCESS) {
        cl_context of_part = check_context(part);
        dnnl_engine_t on_part = NULL;
        OK(dnnl_ocl_interop_engine_create(&on_part, part, of_part));
        /* A queue of the whole device is none of its part's. */
        queue = check_queue(context, device, 0);
        INVALID(dnnl_ocl_interop_stream_create(&stream, on_part, queue));
        SOON(queue_references(queue) == 1);
        check_release_queue(queue);
        OK(dnnl_engine_destroy(on_part));
        CL(clReleaseContext(of_part));
        CL(clReleaseDevice(part));
    }

    queue = check_queue(context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE);
    INVALID(dnnl_ocl_interop_stream_create(&stream, engine, queue));
    SOON(stream == NULL && queue_references(queue) == 1);
    check_release_queue(queue);
    queue = check_queue(context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    OK(dnnl_ocl_interop_stream_create(&stream, engine, queue));
    SOON(queue_references(queue) == 2);
    OK(dnnl_stream_destroy(stream));
    SOON(queue_references(queue) == 1);
    check_release_queue(queue);
}

static void destroying_does_not_wait(dnnl_engine_t engine, cl_device_id device, cl_context context) {
    ABOUT(dnnl_stream_destroy);
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = check_queue(context, device, 0);
    cl_event gate = clCreateUserEvent(context, &code), behind = NULL;
    CL(code);
    dnnl_stream_t stream = NULL;
    OK(dnnl_ocl_interop_stream_create(&stream, engine, queue));
    CL(clEnqueueMarkerWithWaitList(queue, 1, &gate, &behind));
    CL(clFlush(queue));
    OK(dnnl_stream_destroy(stream));
    cl_int state = CL_COMPLETE;
    CL(clGetEventInfo(behind, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    CHECK(state > CL_COMPLETE);
    CL(clSetUserEventStatus(gate, CL_COMPLETE));
    CL(clFinish(queue));
    CL(clReleaseEvent(behind));
    CL(clReleaseEvent(gate));
    check_release_queue(queue);
}

static void profile(dnnl_engine_t engine, cl_device_id device, cl_context context) {
    enum { COUNT = 1 << 16 };
    dnnl_stream_t plain = NULL, stream = NULL;
    cl_command_queue queue = check_queue(context, device, CL_QUEUE_PROFILING_ENABLE);
    OK(dnnl_stream_create(&plain, engine, dnnl_stream_default_flags));
    OK(dnnl_ocl_interop_stream_create(&stream, engine, queue));
    ABOUT(dnnl_reset_profiling);
    INVALID(dnnl_reset_profiling(NULL));
    INVALID(dnnl_reset_profiling(plain));
    OK(dnnl_reset_profiling(stream));
    ABOUT(dnnl_query_profiling_data);
    int n = 77;
    uint64_t times[8] = {0};
    INVALID(dnnl_query_profiling_data(NULL, dnnl_profiling_data_kind_time, &n, NULL));
    INVALID(dnnl_query_profiling_data(plain, dnnl_profiling_data_kind_time, &n, NULL));
    INVALID(dnnl_query_profiling_data(stream, dnnl_profiling_data_kind_time, NULL, NULL));
    CHECK(n == 77);
    OK(dnnl_query_profiling_data(stream, dnnl_profiling_data_kind_undef, &n, NULL));
    CHECK(n == 0);

    dnnl_memory_desc_t desc = floats_desc(COUNT);
    dnnl_memory_t memory = NULL;
    dnnl_primitive_desc_t relu_desc = NULL;
    dnnl_primitive_t relu = NULL;
    OK(dnnl_ocl_interop_memory_create(&memory, desc, engine, dnnl_ocl_interop_buffer, DNNL_MEMORY_ALLOCATE));
    OK(dnnl_eltwise_forward_primitive_desc_create(&relu_desc, engine, dnnl_forward_inference,
            dnnl_eltwise_relu, desc, desc, 0, 0, NULL));
    OK(dnnl_primitive_create(&relu, relu_desc));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, memory}, {DNNL_ARG_DST, memory}};
    for (int i = 0; i < 3; i++) OK(dnnl_primitive_execute(relu, stream, 2, args));
    OK(dnnl_stream_wait(stream));
    OK(dnnl_query_profiling_data(stream, dnnl_profiling_data_kind_undef, &n, NULL));
    CHECK(n == 3);
    INVALID(dnnl_query_profiling_data(stream, dnnl_profiling_data_kind_undef, &n, times));
    OK(dnnl_query_profiling_data(stream, dnnl_profiling_data_kind_time, &n, times));
    CHECK(n == 3 && times[0] > 0 && times[1] > 0 && times[2] > 0 && times[3] == 0);
    n = 1;
    times[1] = 5;
    OK(dnnl_query_profiling_data(stream, dnnl_profiling_data_kind_time, &n, times));
    CHECK(n == 1 && times[1] == 5);
    /* An event of an in-order stream is null, on profiling queues too. */
    cl_event event = (cl_event)&n;
    OK(dnnl_ocl_interop_primitive_execute(relu, stream, 2, args, NULL, 0, &event));
    CHECK(event == NULL);
    OK(dnnl_reset_profiling(stream));
    OK(dnnl_query_profiling_data(stream, dnnl_profiling_data_kind_time, &n, NULL));
    CHECK(n == 0);
    OK(dnnl_primitive_destroy(relu));
    OK(dnnl_primitive_desc_destroy(relu_desc));
    OK(dnnl_memory_destroy(memory));
    OK(dnnl_memory_desc_destroy(desc));
    OK(dnnl_stream_destroy(plain));
    OK(dnnl_stream_destroy(stream));
    SOON(queue_references(queue) == 1);
    check_release_queue(queue);
}

int main(int argc, char **argv) {
    cl_device_id device = check_device(argc > 1 ? argv[1] : NULL);
    cl_context context = check_context(device);
    dnnl_engine_t engine = NULL;
    OK(dnnl_ocl_interop_engine_create(&engine, device, context));
    of_the_library(engine);
    of_the_user(engine, device, context);
    destroying_does_not_wait(engine, device, context);
    profile(engine, device, context);
    OK(dnnl_engine_destroy(engine));
    SOON(context_references(context) == 1);
    CL(clReleaseContext(context));
    return check_end();
}
