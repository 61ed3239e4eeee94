/* The specification's table of the first version's names, row by row. Their headers are gone, so they are declared here. */
#include "check.h"

#include <pthread.h>

dnnl_status_t dnnl_engine_create_ocl(dnnl_engine_t *, dnnl_engine_kind_t, cl_device_id, cl_context);
dnnl_status_t dnnl_engine_get_ocl_context(dnnl_engine_t, cl_context *);
dnnl_status_t dnnl_engine_get_ocl_device(dnnl_engine_t, cl_device_id *);
dnnl_status_t dnnl_stream_create_ocl(dnnl_stream_t *, dnnl_engine_t, cl_command_queue);
dnnl_status_t dnnl_stream_get_ocl_command_queue(dnnl_stream_t, cl_command_queue *);
dnnl_status_t dnnl_memory_get_ocl_mem_object(const_dnnl_memory_t, cl_mem *);
dnnl_status_t dnnl_memory_set_ocl_mem_object(dnnl_memory_t, cl_mem);

static void *open_later(void *gate) {
    usleep(200000);
    CL(clSetUserEventStatus((cl_event)gate, CL_COMPLETE));
    return NULL;
}

int main(int argc, char **argv) {
    cl_device_id device = check_device(argc > 1 ? argv[1] : NULL), got_device = NULL;
    cl_context context = check_context(device), got_context = NULL;
    cl_int code = CL_SUCCESS;
    dnnl_engine_t engine = NULL;
    ABOUT(dnnl_engine_create_ocl);
    INVALID(dnnl_engine_create_ocl(NULL, dnnl_gpu, device, context));
    INVALID(dnnl_engine_create_ocl(&engine, dnnl_cpu, device, context));
    INVALID(dnnl_engine_create_ocl(&engine, dnnl_gpu, NULL, context));
    INVALID(dnnl_engine_create_ocl(&engine, dnnl_gpu, device, NULL));
    SOON(engine == NULL && context_references(context) == 1);
    OK(dnnl_engine_create_ocl(&engine, dnnl_gpu, device, context));
    SOON(context_references(context) == 2);
    ABOUT(dnnl_engine_get_ocl_context);
    OK(dnnl_engine_get_ocl_context(engine, &got_context));
    SOON(got_context == context && context_references(context) == 2);
    INVALID(dnnl_engine_get_ocl_context(NULL, &got_context));
    INVALID(dnnl_engine_get_ocl_context(engine, NULL));
    ABOUT(dnnl_engine_get_ocl_device);
    OK(dnnl_engine_get_ocl_device(engine, &got_device));
    CHECK(got_device == device);
    INVALID(dnnl_engine_get_ocl_device(NULL, &got_device));
    INVALID(dnnl_engine_get_ocl_device(engine, NULL));

    ABOUT(dnnl_stream_create_ocl);
    cl_command_queue queue = check_queue(context, device, 0), got_queue = NULL;
    cl_command_queue unordered = check_queue(context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    cl_context elsewhere = check_context(device);
    cl_command_queue foreign = check_queue(elsewhere, device, 0);
    dnnl_stream_t stream = NULL;
    INVALID(dnnl_stream_create_ocl(NULL, engine, queue));
    INVALID(dnnl_stream_create_ocl(&stream, NULL, queue));
    INVALID(dnnl_stream_create_ocl(&stream, engine, NULL));
    INVALID(dnnl_stream_create_ocl(&stream, engine, foreign));
    STATUS(dnnl_unimplemented, dnnl_stream_create_ocl(&stream, engine, unordered));
    SOON(stream == NULL && queue_references(queue) == 1 && queue_references(unordered) == 1);
    OK(dnnl_stream_create_ocl(&stream, engine, queue));
    SOON(queue_references(queue) == 2);
    ABOUT(dnnl_stream_get_ocl_command_queue);
    OK(dnnl_stream_get_ocl_command_queue(stream, &got_queue));
    SOON(got_queue == queue && queue_references(queue) == 2);
    INVALID(dnnl_stream_get_ocl_command_queue(NULL, &got_queue));
    INVALID(dnnl_stream_get_ocl_command_queue(stream, NULL));
    ABOUT(dnnl_stream_create_ocl);
    /* Destroying waits. */
    cl_event gate = clCreateUserEvent(context, &code), behind = NULL;
    CL(code);
    CL(clEnqueueMarkerWithWaitList(queue, 1, &gate, &behind));
    pthread_t opener;
    CHECK(pthread_create(&opener, NULL, open_later, gate) == 0);
    OK(dnnl_stream_destroy(stream));
    cl_int state = 1;
    CL(clGetEventInfo(behind, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    CHECK(state == CL_COMPLETE);
    pthread_join(opener, NULL);
    CL(clReleaseEvent(gate));
    CL(clReleaseEvent(behind));
    SOON(queue_references(queue) == 1);

    cl_mem buffer = check_buffer(context, CL_MEM_READ_WRITE, 64, NULL), got = (cl_mem)&got;
    dnnl_memory_desc_t desc = floats_desc(16);
    dnnl_memory_t memory = NULL;
    OK(dnnl_memory_create(&memory, desc, engine, DNNL_MEMORY_NONE));
    ABOUT(dnnl_memory_set_ocl_mem_object);
    OK(dnnl_memory_set_ocl_mem_object(memory, buffer));
    SOON(mem_references(buffer) == 2);
    INVALID(dnnl_memory_set_ocl_mem_object(NULL, buffer));
    ABOUT(dnnl_memory_get_ocl_mem_object);
    OK(dnnl_memory_get_ocl_mem_object(memory, &got));
    SOON(got == buffer && mem_references(buffer) == 2);
    OK(dnnl_memory_get_ocl_mem_object(NULL, &got));
    CHECK(got == NULL);
    INVALID(dnnl_memory_get_ocl_mem_object(memory, NULL));
    ABOUT(dnnl_memory_set_ocl_mem_object);
    OK(dnnl_memory_set_ocl_mem_object(memory, NULL));
    SOON(mem_references(buffer) == 1);
    OK(dnnl_memory_destroy(memory));
    OK(dnnl_memory_desc_destroy(desc));
    OK(dnnl_engine_destroy(engine));
    CL(clReleaseMemObject(buffer));
    check_release_queue(queue);
    check_release_queue(unordered);
    check_release_queue(foreign);
    CL(clReleaseContext(elsewhere));
    SOON(context_references(context) == 1);
    CL(clReleaseContext(context));
    return check_end();
}
