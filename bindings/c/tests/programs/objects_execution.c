/* The specification's rules of primitives and their execution, one by one. Expected values are computed here. */
#include "check.h"

#include <math.h>

enum { COUNT = 1000, BYTES = COUNT * 4 };

static cl_device_id device;
static cl_context context;
static dnnl_engine_t engine;
static cl_command_queue queue, unordered;
static dnnl_stream_t stream, free_stream;
static pointers_t pointers;
static float content[COUNT];

static float relu(float x) {
    return x > 0 ? x : 0;
}

static void creation(void) {
    dnnl_memory_desc_t desc = floats_desc(COUNT), other = floats_desc(COUNT + 1), open = NULL, later = NULL,
                       empty = NULL;
    dnnl_dims_t dims = {COUNT}, unknown = {DNNL_RUNTIME_DIM_VAL};
    OK(dnnl_memory_desc_create_with_tag(&open, 1, dims, dnnl_f32, dnnl_format_tag_any));
    OK(dnnl_memory_desc_create_with_tag(&later, 1, unknown, dnnl_f32, dnnl_a));
    OK(dnnl_memory_desc_create_with_tag(&empty, 0, NULL, dnnl_f32, dnnl_format_tag_any));
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    const dnnl_prop_kind_t forward = dnnl_forward_inference;
    ABOUT(dnnl_eltwise_forward_primitive_desc_create);
#define ELTWISE(out, engine, kind, alg, src, dst) \
    dnnl_eltwise_forward_primitive_desc_create(out, engine, kind, alg, src, dst, 0.5F, 2, NULL)
    INVALID(ELTWISE(NULL, engine, forward, dnnl_eltwise_relu, desc, desc));
    INVALID(ELTWISE(&pd, NULL, forward, dnnl_eltwise_relu, desc, desc));
    INVALID(ELTWISE(&pd, engine, forward, dnnl_eltwise_relu, NULL, desc));
    INVALID(ELTWISE(&pd, engine, forward, dnnl_eltwise_relu, desc, NULL));
    INVALID(ELTWISE(&pd, engine, dnnl_backward, dnnl_eltwise_relu, desc, desc));
    INVALID(ELTWISE(&pd, engine, forward, dnnl_pooling_max, desc, desc));
    INVALID(ELTWISE(&pd, engine, forward, dnnl_eltwise_relu, open, desc));
    INVALID(ELTWISE(&pd, engine, forward, dnnl_eltwise_relu, empty, empty));
    STATUS(dnnl_unimplemented, ELTWISE(&pd, engine, forward, dnnl_eltwise_relu, later, later));
    CHECK(ELTWISE(&pd, engine, forward, dnnl_eltwise_relu, desc, other) != dnnl_success);
    CHECK(pd == NULL);
    OK(ELTWISE(&pd, engine, dnnl_forward_training, dnnl_eltwise_relu, desc, open));
    ABOUT(dnnl_primitive_create);
    INVALID(dnnl_primitive_create(NULL, pd));
    INVALID(dnnl_primitive_create(&primitive, NULL));
    CHECK(primitive == NULL);
    OK(dnnl_primitive_create(&primitive, pd));
    ABOUT(dnnl_primitive_desc_destroy);
    OK(dnnl_primitive_desc_destroy(pd));
    OK(dnnl_primitive_desc_destroy(NULL));
    ABOUT(dnnl_primitive_destroy);
    OK(dnnl_primitive_destroy(primitive));
    OK(dnnl_primitive_destroy(NULL));
    dnnl_primitive_attr_t attr = NULL;
    OK(dnnl_primitive_attr_create(&attr));
    ABOUT(dnnl_eltwise_forward_primitive_desc_create);
    OK(dnnl_eltwise_forward_primitive_desc_create(
            &pd, engine, forward, dnnl_eltwise_relu, desc, desc, 0, 0, attr));
    OK(dnnl_primitive_attr_destroy(attr));
    OK(dnnl_primitive_desc_destroy(pd));

    ABOUT(dnnl_reorder_primitive_desc_create);
    pd = NULL;
    INVALID(dnnl_reorder_primitive_desc_create(NULL, desc, engine, desc, engine, NULL));
    INVALID(dnnl_reorder_primitive_desc_create(&pd, NULL, engine, desc, engine, NULL));
    INVALID(dnnl_reorder_primitive_desc_create(&pd, desc, NULL, desc, engine, NULL));
    INVALID(dnnl_reorder_primitive_desc_create(&pd, desc, engine, NULL, engine, NULL));
    INVALID(dnnl_reorder_primitive_desc_create(&pd, desc, engine, desc, NULL, NULL));
    INVALID(dnnl_reorder_primitive_desc_create(&pd, open, engine, desc, engine, NULL));
    INVALID(dnnl_reorder_primitive_desc_create(&pd, desc, engine, open, engine, NULL));
    OK(dnnl_reorder_primitive_desc_create(&pd, later, engine, later, engine, NULL));
    OK(dnnl_primitive_desc_destroy(pd));
    pd = NULL;
    CHECK(dnnl_reorder_primitive_desc_create(&pd, desc, engine, other, engine, NULL) != dnnl_success);
    CHECK(pd == NULL);
    OK(dnnl_memory_desc_destroy(desc));
    OK(dnnl_memory_desc_destroy(other));
    OK(dnnl_memory_desc_destroy(open));
    OK(dnnl_memory_desc_destroy(later));
    OK(dnnl_memory_desc_destroy(empty));
}

/* A primitive of one source and one result of COUNT floats. */
static dnnl_primitive_t eltwise(dnnl_engine_t on, dnnl_alg_kind_t algorithm, float alpha, float beta) {
    dnnl_memory_desc_t desc = floats_desc(COUNT);
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    STATUS(dnnl_success, dnnl_eltwise_forward_primitive_desc_create(&pd, on, dnnl_forward_training, algorithm,
                                 desc, desc, alpha, beta, NULL));
    STATUS(dnnl_success, dnnl_primitive_create(&primitive, pd));
    dnnl_primitive_desc_destroy(pd);
    dnnl_memory_desc_destroy(desc);
    return primitive;
}

static dnnl_memory_t floats(cl_mem buffer) {
    dnnl_memory_desc_t desc = floats_desc(COUNT);
    dnnl_memory_t memory = NULL;
    STATUS(dnnl_success, dnnl_memory_create(&memory, desc, engine, buffer));
    dnnl_memory_desc_destroy(desc);
    return memory;
}

/* Whether a buffer holds f of the content. */
static bool holds(cl_mem buffer, float (*f)(float)) {
    float out[COUNT];
    CL(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, BYTES, out, 0, NULL, NULL));
    for (int i = 0; i < COUNT; i++)
        if (out[i] != f(content[i])) return false;
    return true;
}

static float identity(float x) {
    return x;
}

static double reference(dnnl_alg_kind_t algorithm, double x, double a, double b) {
    const double sigmoid = 1 / (1 + exp(-x)), hard = fmin(fmax(a * x + b, 0), 1);
    switch ((int)algorithm) {
        case dnnl_eltwise_relu:
        case dnnl_eltwise_relu_use_dst_for_bwd: return x > 0 ? x : a * x;
        case dnnl_eltwise_tanh:
        case dnnl_eltwise_tanh_use_dst_for_bwd: return tanh(x);
        case dnnl_eltwise_elu:
        case dnnl_eltwise_elu_use_dst_for_bwd: return x > 0 ? x : a * expm1(x);
        case dnnl_eltwise_square: return x * x;
        case dnnl_eltwise_abs: return fabs(x);
        case dnnl_eltwise_sqrt:
        case dnnl_eltwise_sqrt_use_dst_for_bwd: return sqrt(x);
        case dnnl_eltwise_linear: return a * x + b;
        case dnnl_eltwise_soft_relu: return log1p(exp(a * x)) / a;
        case dnnl_eltwise_hardsigmoid: return hard;
        case dnnl_eltwise_logistic:
        case dnnl_eltwise_logistic_use_dst_for_bwd: return sigmoid;
        case dnnl_eltwise_exp:
        case dnnl_eltwise_exp_use_dst_for_bwd: return exp(x);
        case dnnl_eltwise_gelu_tanh: return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
        case dnnl_eltwise_swish: return x / (1 + exp(-a * x));
        case dnnl_eltwise_log: return log(x);
        case dnnl_eltwise_clip:
        case dnnl_eltwise_clip_v2:
        case dnnl_eltwise_clip_v2_use_dst_for_bwd: return fmin(fmax(x, a), b);
        case dnnl_eltwise_pow: return a * pow(x, b);
        case dnnl_eltwise_gelu_erf: return x / 2 * (1 + erf(x / sqrt(2)));
        case dnnl_eltwise_round: return nearbyint(x);
        case dnnl_eltwise_mish: return x * tanh(log1p(exp(x)));
        case dnnl_eltwise_hardswish: return x * hard;
        default: return NAN;
    }
}

static void algorithms(void) {
    cl_mem in = check_buffer(context, CL_MEM_READ_WRITE, BYTES, content);
    cl_mem out = check_buffer(context, CL_MEM_READ_WRITE, BYTES, NULL);
    dnnl_memory_t src = floats(in), dst = floats(out);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}};
    int tested = 0;
    for (int algorithm = dnnl_eltwise_relu; algorithm <= dnnl_eltwise_clip_v2_use_dst_for_bwd; algorithm++) {
        if (algorithm > dnnl_eltwise_hardswish && algorithm < dnnl_eltwise_relu_use_dst_for_bwd) continue;
        const float alpha = 0.25F, beta = 2;
        dnnl_primitive_t primitive = eltwise(engine, (dnnl_alg_kind_t)algorithm, alpha, beta);
        if (!primitive) continue;
        OK(dnnl_primitive_execute(primitive, stream, 2, args));
        OK(dnnl_stream_wait(stream));
        float result[COUNT];
        CL(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, BYTES, result, 0, NULL, NULL));
        double worst = 0;
        for (int i = 0; i < COUNT; i++) {
            const double expected = reference((dnnl_alg_kind_t)algorithm, content[i], alpha, beta);
            const double given = result[i];
            if (isnan(expected) || isinf(expected)) {
                if (isnan(expected) ? !isnan(given) : given != expected) worst = INFINITY;
                continue;
            }
            /* Errors of a few roundings of f32. */
            const double scale = fabs(expected) + 0.01;
            worst = fmax(worst, fabs(given - expected) / scale);
        }
        if (!(worst < 1e-5)) printf("algorithm %#x is off by %g\n", (unsigned)algorithm, worst);
        ABOUT_NAME("dnnl_eltwise_forward_primitive_desc_create, every algorithm");
        CHECK(worst < 1e-5);
        tested++;
        dnnl_primitive_destroy(primitive);
    }
    CHECK(tested == 28);
    OK(dnnl_memory_destroy(src));
    OK(dnnl_memory_destroy(dst));
    CL(clReleaseMemObject(in));
    CL(clReleaseMemObject(out));
}

static void arguments(void) {
    ABOUT(dnnl_primitive_execute);
    cl_mem in = check_buffer(context, CL_MEM_READ_WRITE, BYTES, content);
    cl_mem out = check_buffer(context, CL_MEM_READ_WRITE, BYTES, content);
    cl_mem small = check_buffer(context, CL_MEM_READ_WRITE, BYTES - 4, NULL);
    cl_context elsewhere = check_context(device);
    cl_mem foreign = check_buffer(elsewhere, CL_MEM_READ_WRITE, BYTES, NULL);
    dnnl_memory_t src = floats(in), dst = floats(out), short_one = floats(small), strange = floats(foreign),
                  none = floats(NULL);
    dnnl_primitive_t primitive = eltwise(engine, dnnl_eltwise_relu, 0, 0);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}, {DNNL_ARG_DST, dst}};
    INVALID(dnnl_primitive_execute(NULL, stream, 2, args));
    INVALID(dnnl_primitive_execute(primitive, NULL, 2, args));
    INVALID(dnnl_primitive_execute(primitive, stream, 2, NULL));
    INVALID(dnnl_primitive_execute(primitive, stream, 1, args));
    INVALID(dnnl_primitive_execute(primitive, stream, 0, NULL));
    INVALID(dnnl_primitive_execute(primitive, stream, -1, args));
    INVALID(dnnl_primitive_execute(primitive, stream, 3, args));
    args[1].memory = NULL;
    INVALID(dnnl_primitive_execute(primitive, stream, 2, args));
    OK(dnnl_stream_wait(stream));
    CHECK(holds(out, identity));
    /* An entry without memory is passed over. */
    OK(dnnl_primitive_execute(primitive, stream, 3, args));
    OK(dnnl_stream_wait(stream));
    CHECK(holds(out, relu));
    dnnl_memory_t wrong[] = {short_one, strange, none};
    for (int i = 0; i < 3; i++) {
        dnnl_exec_arg_t bad[] = {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, wrong[i]}};
        INVALID(dnnl_primitive_execute(primitive, stream, 2, bad));
        bad[0].memory = wrong[i];
        bad[1].memory = dst;
        INVALID(dnnl_primitive_execute(primitive, stream, 2, bad));
    }
    /* Arguments that the primitive has not are ignored. */
    dnnl_exec_arg_t more[] = {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}, {DNNL_ARG_WEIGHTS, short_one},
            {DNNL_ARG_SCRATCHPAD, none}, {12345, none}};
    OK(dnnl_primitive_execute(primitive, stream, 5, more));
    /* The same memory for source and result. */
    dnnl_exec_arg_t in_place[] = {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, src}};
    OK(dnnl_primitive_execute(primitive, stream, 2, in_place));
    OK(dnnl_stream_wait(stream));
    CHECK(holds(in, relu));
    /* Results that overlap a source in part. */
    cl_int code = CL_SUCCESS;
    cl_mem whole = check_buffer(context, CL_MEM_READ_WRITE, 2 * BYTES, NULL);
    cl_buffer_region shifted = {512, BYTES}, begin = {0, BYTES};
    cl_mem a = clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &begin, &code);
    CL(code);
    cl_mem b = clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &shifted, &code);
    CL(code);
    OK(dnnl_memory_set_data_handle(src, a));
    OK(dnnl_memory_set_data_handle(dst, b));
    INVALID(dnnl_primitive_execute(primitive, stream, 2, args));
    dnnl_exec_arg_t overlapping[] = {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}};
    INVALID(dnnl_primitive_execute(primitive, stream, 2, overlapping));
    /* A primitive and a stream of different engines, of one context even. */
    dnnl_engine_t twin = NULL;
    dnnl_stream_t other = NULL;
    OK(dnnl_ocl_interop_engine_create(&twin, device, context));
    OK(dnnl_stream_create(&other, twin, dnnl_stream_default_flags));
    INVALID(dnnl_primitive_execute(primitive, other, 2, more));
    /* Memory of another engine of the same context will do. */
    dnnl_primitive_t twins = eltwise(twin, dnnl_eltwise_relu, 0, 0);
    OK(dnnl_memory_set_data_handle(src, in));
    OK(dnnl_memory_set_data_handle(dst, out));
    CL(clEnqueueWriteBuffer(queue, in, CL_TRUE, 0, BYTES, content, 0, NULL, NULL));
    OK(dnnl_primitive_execute(twins, other, 2, overlapping));
    OK(dnnl_stream_wait(other));
    CHECK(holds(out, relu));
    OK(dnnl_primitive_destroy(twins));
    OK(dnnl_stream_destroy(other));
    OK(dnnl_engine_destroy(twin));
    /* A handle of another kind of object is noticed. */
    INVALID(dnnl_primitive_execute((const_dnnl_primitive_t)stream, stream, 2, overlapping));
    OK(dnnl_primitive_destroy(primitive));
    dnnl_memory_t all[] = {src, dst, short_one, strange, none};
    for (int i = 0; i < 5; i++) OK(dnnl_memory_destroy(all[i]));
    CL(clFinish(queue));
    cl_mem buffers[] = {in, out, small, foreign, a, b, whole};
    for (int i = 0; i < 7; i++) {
        if (buffers[i] != whole) SOON(mem_references(buffers[i]) == 1);
        CL(clReleaseMemObject(buffers[i]));
    }
    CL(clReleaseContext(elsewhere));
}

static cl_event gate_of(cl_context owner) {
    cl_int code = CL_SUCCESS;
    cl_event gate = clCreateUserEvent(owner, &code);
    CL(code);
    return gate;
}

static void events(void) {
    ABOUT(dnnl_ocl_interop_primitive_execute);
    cl_mem in = check_buffer(context, CL_MEM_READ_WRITE, BYTES, content);
    cl_mem out = check_buffer(context, CL_MEM_READ_WRITE, BYTES, content);
    dnnl_memory_t src = floats(in), dst = floats(out);
    dnnl_primitive_t primitive = eltwise(engine, dnnl_eltwise_relu, 0, 0);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}};
    cl_event untouched = (cl_event)&untouched, event = untouched, gate = gate_of(context);
#define EXECUTE(p, s, n, a, deps, ndeps, ret) dnnl_ocl_interop_primitive_execute(p, s, n, a, deps, ndeps, ret)
    INVALID(EXECUTE(NULL, stream, 2, args, NULL, 0, &event));
    INVALID(EXECUTE(primitive, NULL, 2, args, NULL, 0, &event));
    INVALID(EXECUTE(primitive, stream, 2, NULL, NULL, 0, &event));
    INVALID(EXECUTE(primitive, stream, 2, args, NULL, 1, &event));
    INVALID(EXECUTE(primitive, stream, 1, args, NULL, 0, &event));
    cl_event null_dep = NULL;
    INVALID(EXECUTE(primitive, free_stream, 2, args, &null_dep, 1, &event));
    cl_context elsewhere = check_context(device);
    cl_event foreign = gate_of(elsewhere);
    INVALID(EXECUTE(primitive, free_stream, 2, args, &foreign, 1, &event));
    INVALID(EXECUTE(primitive, stream, 2, args, &foreign, 1, &event));
    CHECK(event == untouched);
    CL(clReleaseEvent(foreign));
    CL(clReleaseContext(elsewhere));

    /* In order: no event; null dependencies and a null place for the event are nothing. */
    OK(EXECUTE(primitive, stream, 2, args, NULL, 0, &event));
    CHECK(event == NULL);
    OK(EXECUTE(primitive, stream, 2, args, &null_dep, 1, &event));
    CHECK(event == NULL);
    OK(EXECUTE(primitive, stream, 2, args, NULL, 0, NULL));
    OK(EXECUTE(primitive, stream, 2, args, NULL, -1, NULL));
    OK(dnnl_stream_wait(stream));
    CHECK(holds(out, relu));

    /* In order with a dependency from elsewhere, which is honoured. */
    CL(clEnqueueWriteBuffer(queue, out, CL_TRUE, 0, BYTES, content, 0, NULL, NULL));
    event = untouched;
    OK(EXECUTE(primitive, stream, 2, args, &gate, 1, &event));
    CHECK(event == NULL);
    cl_event behind = NULL;
    cl_int state = 0;
    CL(clEnqueueMarkerWithWaitList(queue, 0, NULL, &behind));
    CL(clFlush(queue));
    usleep(50000);
    CL(clGetEventInfo(behind, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    CHECK(state > CL_COMPLETE);
    SOON(event_references(gate) >= 1);
    CL(clSetUserEventStatus(gate, CL_COMPLETE));
    OK(dnnl_stream_wait(stream));
    CHECK(holds(out, relu));
    SOON(event_references(gate) == 1);
    CL(clReleaseEvent(behind));
    CL(clReleaseEvent(gate));

    /* Out of order: an event with a reference for the caller, after the dependencies. */
    CL(clEnqueueWriteBuffer(queue, out, CL_TRUE, 0, BYTES, content, 0, NULL, NULL));
    gate = gate_of(context);
    event = NULL;
    OK(EXECUTE(primitive, free_stream, 2, args, &gate, 1, &event));
    CHECK(event != NULL && event != gate);
    usleep(50000);
    CL(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    CHECK(state > CL_COMPLETE);
    /* A second one behind the first: in place, so that order shows. */
    dnnl_primitive_t twice = eltwise(engine, dnnl_eltwise_linear, 2, 1);
    dnnl_exec_arg_t in_place[] = {{DNNL_ARG_SRC, dst}, {DNNL_ARG_DST, dst}};
    cl_event second = NULL;
    OK(EXECUTE(twice, free_stream, 2, in_place, &event, 1, &second));
    CL(clSetUserEventStatus(gate, CL_COMPLETE));
    CL(clWaitForEvents(1, &second));
    float result[COUNT];
    CL(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, BYTES, result, 0, NULL, NULL));
    bool right = true;
    for (int i = 0; i < COUNT; i++) right = right && result[i] == 2 * relu(content[i]) + 1;
    CHECK(right);
    OK(dnnl_stream_wait(free_stream));
    SOON(event_references(event) >= 1);
    CL(clReleaseEvent(event));
    CL(clReleaseEvent(second));
    SOON(event_references(gate) == 1);
    CL(clReleaseEvent(gate));

    /* Work of nothing: a real event all the same, which waits for the dependencies. */
    dnnl_memory_desc_t nothing = floats_desc(0);
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t idle = NULL;
    dnnl_memory_t empty = NULL;
    OK(dnnl_eltwise_forward_primitive_desc_create(
            &pd, engine, dnnl_forward_inference, dnnl_eltwise_relu, nothing, nothing, 0, 0, NULL));
    OK(dnnl_primitive_create(&idle, pd));
    OK(dnnl_memory_create(&empty, nothing, engine, DNNL_MEMORY_NONE));
    dnnl_exec_arg_t no_bytes[] = {{DNNL_ARG_SRC, empty}, {DNNL_ARG_DST, empty}};
    event = NULL;
    OK(EXECUTE(idle, free_stream, 2, no_bytes, NULL, 0, &event));
    CHECK(event != NULL);
    CL(clWaitForEvents(1, &event));
    CL(clReleaseEvent(event));
    gate = gate_of(context);
    event = NULL;
    OK(EXECUTE(idle, free_stream, 2, no_bytes, &gate, 1, &event));
    CHECK(event != NULL && event != gate);
    CL(clFlush(unordered));
    usleep(50000);
    CL(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    CHECK(state > CL_COMPLETE);
    CL(clSetUserEventStatus(gate, CL_COMPLETE));
    CL(clWaitForEvents(1, &event));
    CL(clReleaseEvent(event));
    CL(clReleaseEvent(gate));
    event = untouched;
    OK(EXECUTE(idle, stream, 2, no_bytes, NULL, 0, &event));
    CHECK(event == NULL);
    OK(dnnl_stream_wait(free_stream));
    OK(dnnl_stream_wait(stream));

    /* A dependency that failed. */
    gate = gate_of(context);
    CL(clSetUserEventStatus(gate, -5));
    event = untouched;
    STATUS(dnnl_runtime_error, EXECUTE(primitive, free_stream, 2, args, &gate, 1, &event));
    CHECK(event == untouched);
    CL(clReleaseEvent(gate));
    OK(dnnl_stream_wait(free_stream));

    OK(dnnl_primitive_destroy(idle));
    OK(dnnl_primitive_desc_destroy(pd));
    OK(dnnl_memory_destroy(empty));
    OK(dnnl_memory_desc_destroy(nothing));
    OK(dnnl_primitive_destroy(twice));
    OK(dnnl_primitive_destroy(primitive));
    OK(dnnl_memory_destroy(src));
    OK(dnnl_memory_destroy(dst));
    CL(clFinish(queue));
    CL(clFinish(unordered));
    SOON(mem_references(in) == 1 && mem_references(out) == 1);
    CL(clReleaseMemObject(in));
    CL(clReleaseMemObject(out));
}

/* Every pair of kinds of handles as source and result. */
static void kinds(void) {
    ABOUT(dnnl_primitive_execute);
    dnnl_memory_desc_t desc = floats_desc(COUNT);
    dnnl_primitive_t primitive = eltwise(engine, dnnl_eltwise_relu, 0, 0);
    cl_mem buffers[2];
    void *addresses[2];
    for (int i = 0; i < 2; i++) {
        buffers[i] = check_buffer(context, CL_MEM_READ_WRITE, BYTES, content);
        addresses[i] = pointer_of(&pointers, queue, BYTES, content);
    }
    for (int from = 0; from < 3; from++) {
        for (int to = 0; to < 3; to++) {
            dnnl_memory_t memories[2];
            for (int i = 0; i < 2; i++) {
                const int kind = i ? to : from;
                void *handle = kind == 0 ? (void *)buffers[i] : kind == 1 ? addresses[i] : DNNL_MEMORY_ALLOCATE;
                OK(dnnl_ocl_interop_memory_create(&memories[i], desc, engine,
                        kind == 0 ? dnnl_ocl_interop_buffer : dnnl_ocl_interop_usm, handle));
                float *mapped = NULL;
                OK(dnnl_memory_map_data(memories[i], (void **)&mapped));
                if (mapped) memcpy(mapped, content, BYTES);
                OK(dnnl_memory_unmap_data(memories[i], mapped));
            }
            dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, memories[0]}, {DNNL_ARG_DST, memories[1]}};
            OK(dnnl_primitive_execute(primitive, stream, 2, args));
            OK(dnnl_stream_wait(stream));
            float *mapped = NULL;
            OK(dnnl_memory_map_data(memories[1], (void **)&mapped));
            bool right = mapped != NULL;
            for (int i = 0; right && i < COUNT; i++) right = mapped[i] == relu(content[i]);
            CHECK(right);
            OK(dnnl_memory_unmap_data(memories[1], mapped));
            /* Ended while an execution may be on its way: the library's bytes live until it has ended. */
            OK(dnnl_primitive_execute(primitive, stream, 2, args));
            OK(dnnl_memory_destroy(memories[0]));
            OK(dnnl_memory_destroy(memories[1]));
            OK(dnnl_stream_wait(stream));
        }
    }
    /* An address that is none of the device's. */
    if (pointers.usm) {
        cl_ulong system = 0;
        clGetDeviceInfo(device, 0x4194, sizeof system, &system, NULL);
        if (!(system & 1)) {
            dnnl_memory_t memory = NULL;
            OK(dnnl_ocl_interop_memory_create(&memory, desc, engine, dnnl_ocl_interop_usm, NULL));
            OK(dnnl_memory_set_data_handle(memory, content));
            dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, memory}, {DNNL_ARG_DST, memory}};
            INVALID(dnnl_primitive_execute(primitive, stream, 2, args));
            OK(dnnl_memory_destroy(memory));
        }
    }
    CL(clFinish(queue));
    for (int i = 0; i < 2; i++) {
        SOON(mem_references(buffers[i]) == 1);
        CL(clReleaseMemObject(buffers[i]));
        pointer_free(&pointers, addresses[i]);
    }
    OK(dnnl_primitive_destroy(primitive));
    OK(dnnl_memory_desc_destroy(desc));
}

/* Reorders between layouts, with padding that must be zero, and types. */
static void reorders(void) {
    ABOUT(dnnl_reorder_primitive_desc_create);
    enum { N = 2, C = 19, H = 3, W = 5, ALL = N * C * H * W, BLOCKS = 2, PADDED = N * BLOCKS * H * W * 16 };
    dnnl_dims_t dims = {N, C, H, W};
    dnnl_memory_desc_t plain = NULL, last = NULL, blocked = NULL, bytes = NULL;
    OK(dnnl_memory_desc_create_with_tag(&plain, 4, dims, dnnl_f32, dnnl_nchw));
    OK(dnnl_memory_desc_create_with_tag(&last, 4, dims, dnnl_f32, dnnl_nhwc));
    OK(dnnl_memory_desc_create_with_tag(&blocked, 4, dims, dnnl_f32, dnnl_nChw16c));
    OK(dnnl_memory_desc_create_with_tag(&bytes, 4, dims, dnnl_s8, dnnl_nchw));
    CHECK(dnnl_memory_desc_get_size(blocked) == PADDED * 4);
    static float source[ALL], filled[PADDED];
    for (int i = 0; i < ALL; i++) source[i] = (float)(i % 400 - 200) + (i % 2 ? 0.5F : 0.0F);
    for (int i = 0; i < PADDED; i++) filled[i] = 99;
    cl_mem in = check_buffer(context, CL_MEM_READ_WRITE, ALL * 4, source);
    cl_mem out = check_buffer(context, CL_MEM_READ_WRITE, PADDED * 4, filled);
    dnnl_memory_desc_t targets[] = {last, blocked, bytes};
    for (int t = 0; t < 3; t++) {
        dnnl_primitive_desc_t pd = NULL;
        dnnl_primitive_t primitive = NULL;
        dnnl_memory_t src = NULL, dst = NULL;
        OK(dnnl_reorder_primitive_desc_create(&pd, plain, engine, targets[t], engine, NULL));
        OK(dnnl_primitive_create(&primitive, pd));
        OK(dnnl_memory_create(&src, plain, engine, in));
        OK(dnnl_memory_create(&dst, targets[t], engine, out));
        dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, src}, {DNNL_ARG_TO, dst}};
        OK(dnnl_primitive_execute(primitive, stream, 2, args));
        OK(dnnl_stream_wait(stream));
        static float result[PADDED];
        CL(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, PADDED * 4, result, 0, NULL, NULL));
        int wrong = 0, seen = 0;
        for (int n = 0; n < N; n++)
            for (int c = 0; c < (t == 1 ? 32 : C); c++)
                for (int h = 0; h < H; h++)
                    for (int w = 0; w < W; w++, seen++) {
                        const int from = ((n * C + c) * H + h) * W + w;
                        const float expected = c < C ? source[from] : 0;
                        if (t == 0) wrong += result[((n * H + h) * W + w) * C + c] != expected;
                        if (t == 1)
                            wrong += result[((((n * BLOCKS) + c / 16) * H + h) * W + w) * 16 + c % 16] != expected;
                        if (t == 2) {
                            const float rounded = fmaxf(-128, fminf(127, nearbyintf(expected)));
                            wrong += (float)((const int8_t *)result)[from] != rounded;
                        }
                    }
        CHECK(wrong == 0 && seen == (t == 1 ? PADDED : ALL));
        OK(dnnl_primitive_destroy(primitive));
        OK(dnnl_primitive_desc_destroy(pd));
        OK(dnnl_memory_destroy(src));
        OK(dnnl_memory_destroy(dst));
    }
    /* A function on blocked memory leaves zeros in the padding, too. */
    ABOUT(dnnl_eltwise_forward_primitive_desc_create);
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t memory = NULL;
    CL(clEnqueueWriteBuffer(queue, out, CL_TRUE, 0, PADDED * 4, filled, 0, NULL, NULL));
    OK(dnnl_eltwise_forward_primitive_desc_create(
            &pd, engine, dnnl_forward_inference, dnnl_eltwise_linear, blocked, blocked, 1, 1, NULL));
    OK(dnnl_primitive_create(&primitive, pd));
    OK(dnnl_memory_create(&memory, blocked, engine, out));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, memory}, {DNNL_ARG_DST, memory}};
    OK(dnnl_primitive_execute(primitive, stream, 2, args));
    OK(dnnl_stream_wait(stream));
    CL(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, PADDED * 4, filled, 0, NULL, NULL));
    int wrong = 0;
    for (int i = 0; i < PADDED; i++) {
        const int c = i / (H * W * 16) % BLOCKS * 16 + i % 16;
        wrong += filled[i] != (c < C ? 100.0F : 0.0F);
    }
    CHECK(wrong == 0);
    OK(dnnl_primitive_destroy(primitive));
    OK(dnnl_primitive_desc_destroy(pd));
    OK(dnnl_memory_destroy(memory));
    CL(clReleaseMemObject(in));
    CL(clReleaseMemObject(out));
    OK(dnnl_memory_desc_destroy(plain));
    OK(dnnl_memory_desc_destroy(last));
    OK(dnnl_memory_desc_destroy(blocked));
    OK(dnnl_memory_desc_destroy(bytes));
}

/* A part of a tensor: its memory is the whole tensor's, and nothing else of it changes. */
static void parts(void) {
    ABOUT(dnnl_memory_desc_create_submemory);
    enum { SIDE = 9, ROWS = 3, COLUMNS = 4, TOP = 2, LEFT = 5, ALL = SIDE * SIDE };
    dnnl_dims_t dims = {SIDE, SIDE}, part_dims = {ROWS, COLUMNS}, offsets = {TOP, LEFT};
    dnnl_memory_desc_t whole = NULL, part = NULL;
    OK(dnnl_memory_desc_create_with_tag(&whole, 2, dims, dnnl_f32, dnnl_ab));
    OK(dnnl_memory_desc_create_submemory(&part, whole, part_dims, offsets));
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    OK(dnnl_eltwise_forward_primitive_desc_create(
            &pd, engine, dnnl_forward_inference, dnnl_eltwise_linear, part, part, 2, 100, NULL));
    OK(dnnl_primitive_create(&primitive, pd));
    void *address = pointer_of(&pointers, queue, ALL * 4, content);
    cl_mem buffer = check_buffer(context, CL_MEM_READ_WRITE, ALL * 4, content);
    for (int kind = 0; kind < 2; kind++) {
        dnnl_memory_t memory = NULL;
        OK(dnnl_ocl_interop_memory_create(&memory, part, engine,
                kind ? dnnl_ocl_interop_buffer : dnnl_ocl_interop_usm, kind ? (void *)buffer : address));
        dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, memory}, {DNNL_ARG_DST, memory}};
        OK(dnnl_primitive_execute(primitive, stream, 2, args));
        OK(dnnl_stream_wait(stream));
        float *mapped = NULL;
        OK(dnnl_memory_map_data(memory, (void **)&mapped));
        /* As much as the last element of the part needs, from the first of the whole on. */
        int wrong = 0;
        for (int i = 0; mapped && i < (TOP + ROWS - 1) * SIDE + LEFT + COLUMNS; i++) {
            const int r = i / SIDE - TOP, c = i % SIDE - LEFT;
            const bool inside = r >= 0 && r < ROWS && c >= 0 && c < COLUMNS;
            wrong += mapped[i] != (inside ? 2 * content[i] + 100 : content[i]);
        }
        CHECK(mapped && wrong == 0);
        OK(dnnl_memory_unmap_data(memory, mapped));
        OK(dnnl_memory_destroy(memory));
    }
    /* Memory that the library allocates for a part has room for it. */
    dnnl_memory_t memory = NULL;
    OK(dnnl_memory_create(&memory, part, engine, DNNL_MEMORY_ALLOCATE));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, memory}, {DNNL_ARG_DST, memory}};
    OK(dnnl_primitive_execute(primitive, stream, 2, args));
    OK(dnnl_stream_wait(stream));
    OK(dnnl_memory_destroy(memory));
    OK(dnnl_primitive_destroy(primitive));
    OK(dnnl_primitive_desc_destroy(pd));
    OK(dnnl_memory_desc_destroy(whole));
    OK(dnnl_memory_desc_destroy(part));
    CL(clReleaseMemObject(buffer));
    pointer_free(&pointers, address);
}

/* From a context to another one, of another platform where there is one. */
static void across(cl_device_id other_device) {
    ABOUT(dnnl_reorder_primitive_desc_create);
    enum { ROWS = 7, COLUMNS = 11, ALL = ROWS * COLUMNS };
    cl_context elsewhere = check_context(other_device);
    dnnl_engine_t far = NULL;
    OK(dnnl_ocl_interop_engine_create(&far, other_device, elsewhere));
    dnnl_dims_t dims = {ROWS, COLUMNS};
    dnnl_memory_desc_t rows = NULL, columns = NULL;
    OK(dnnl_memory_desc_create_with_tag(&rows, 2, dims, dnnl_f32, dnnl_ab));
    OK(dnnl_memory_desc_create_with_tag(&columns, 2, dims, dnnl_f32, dnnl_ba));
    cl_mem in = check_buffer(elsewhere, CL_MEM_READ_WRITE, ALL * 4, content);
    cl_mem out = check_buffer(context, CL_MEM_READ_WRITE, ALL * 4, NULL);
    dnnl_memory_t src = NULL, dst = NULL;
    OK(dnnl_memory_create(&src, rows, far, in));
    OK(dnnl_memory_create(&dst, columns, engine, out));
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    OK(dnnl_reorder_primitive_desc_create(&pd, rows, far, columns, engine, NULL));
    OK(dnnl_primitive_create(&primitive, pd));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}};
    dnnl_stream_t streams[] = {stream, free_stream};
    for (int i = 0; i < 2; i++) {
        const float zeros[ALL] = {0};
        CL(clEnqueueWriteBuffer(queue, out, CL_TRUE, 0, ALL * 4, zeros, 0, NULL, NULL));
        cl_event event = NULL;
        OK(dnnl_ocl_interop_primitive_execute(primitive, streams[i], 2, args, NULL, 0, &event));
        CHECK((event != NULL) == (i == 1));
        OK(dnnl_stream_wait(streams[i]));
        float result[ALL];
        CL(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, ALL * 4, result, 0, NULL, NULL));
        bool right = true;
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++) right = right && result[c * ROWS + r] == content[r * COLUMNS + c];
        CHECK(right);
        if (event) CL(clReleaseEvent(event));
    }
    /* The primitive runs on the target's engine, and takes the source from its own. */
    dnnl_stream_t far_stream = NULL;
    OK(dnnl_stream_create(&far_stream, far, dnnl_stream_default_flags));
    INVALID(dnnl_primitive_execute(primitive, far_stream, 2, args));
    dnnl_exec_arg_t swapped[] = {{DNNL_ARG_SRC, dst}, {DNNL_ARG_DST, src}};
    INVALID(dnnl_primitive_execute(primitive, stream, 2, swapped));
    OK(dnnl_stream_destroy(far_stream));
    OK(dnnl_primitive_destroy(primitive));
    OK(dnnl_primitive_desc_destroy(pd));
    OK(dnnl_memory_destroy(src));
    OK(dnnl_memory_destroy(dst));
    OK(dnnl_memory_desc_destroy(rows));
    OK(dnnl_memory_desc_destroy(columns));
    CL(clFinish(queue));
    SOON(mem_references(in) == 1 && mem_references(out) == 1);
    CL(clReleaseMemObject(in));
    CL(clReleaseMemObject(out));
    OK(dnnl_engine_destroy(far));
    SOON(context_references(elsewhere) == 1);
    CL(clReleaseContext(elsewhere));
}

int main(int argc, char **argv) {
    device = check_device(argc > 1 ? argv[1] : NULL);
    context = check_context(device);
    queue = check_queue(context, device, 0);
    unordered = check_queue(context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    pointers = check_pointers(device, context);
    for (int i = 0; i < COUNT; i++) content[i] = (float)(i % 61 - 30) * 0.125F;
    const int before = context_references(context);
    OK(dnnl_ocl_interop_engine_create(&engine, device, context));
    OK(dnnl_ocl_interop_stream_create(&stream, engine, queue));
    OK(dnnl_ocl_interop_stream_create(&free_stream, engine, unordered));
    creation();
    algorithms();
    arguments();
    events();
    kinds();
    reorders();
    parts();
    across(device);
    cl_device_id foreign = check_foreign_device(device);
    if (foreign) across(foreign);
    OK(dnnl_stream_destroy(stream));
    OK(dnnl_stream_destroy(free_stream));
    OK(dnnl_engine_destroy(engine));
    ABOUT_NAME("references at the end");
    SOON(queue_references(queue) == 1 && queue_references(unordered) == 1);
    SOON(context_references(context) == before);
    check_release_queue(queue);
    check_release_queue(unordered);
    CL(clReleaseContext(context));
    return check_end();
}
