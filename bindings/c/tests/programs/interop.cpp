// A user's program: its own context, queues, buffers and pointers, with oneDNN's published C++ headers. It computes
// relu(x) from a buffer into pointer memory, then reorders the result into a transposed buffer, ordered by events alone, and prints
// the result beside what it must be.
//
//     c++ -std=c++17 -DCL_TARGET_OPENCL_VERSION=300 -I ONEDNN_INCLUDE interop.cpp -o interop -L . -l:libdnnl.so.3 -l:libOpenCL.so.1 -Wl,-rpath,'$ORIGIN'
//     ./interop [pocl|intel|nvidia|a word of the platform's name]
#include "check.h"

#include <cstdio>
#include <stdexcept>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"
#include "oneapi/dnnl/dnnl_ocl.hpp"

using namespace dnnl;

namespace {

constexpr int rows = 3, columns = 5, count = rows * columns, bytes = count * 4;

// A user event that is complete in the end, whatever happens, and its queue idle: some drivers crash when a process ends before.
struct gate_t {
    cl_event event;
    cl_command_queue queue;
    ~gate_t() {
        clSetUserEventStatus(event, CL_COMPLETE);
        clFinish(queue);
        clReleaseEvent(event);
    }
};

// relu, then the transposition, of a source whose content is written behind a user event.
std::vector<float> compute(const pointers_t &pointers, cl_device_id device, cl_context context,
        cl_command_queue queue, const std::vector<float> &values) {
    // ANCHOR: objects
    engine eng = ocl_interop::make_engine(device, context);
    stream str = ocl_interop::make_stream(eng, queue);
    if (ocl_interop::get_context(eng) != context || ocl_interop::get_device(eng) != device
            || ocl_interop::get_command_queue(str) != queue || eng.get_kind() != engine::kind::gpu)
        throw std::runtime_error("the engine or stream is not on the program's own objects");

    const memory::desc flat({rows, columns}, memory::data_type::f32, memory::format_tag::ab);
    const memory::desc turned({rows, columns}, memory::data_type::f32, memory::format_tag::ba);
    cl_mem source = check_buffer(context, CL_MEM_READ_WRITE, bytes, nullptr);
    cl_mem target = check_buffer(context, CL_MEM_READ_WRITE, bytes, nullptr);
    const std::vector<float> zeros(count, 0.F);
    void *middle = pointer_of(&pointers, queue, bytes, zeros.data());

    memory src = ocl_interop::make_memory(flat, eng, source);
    memory mid = ocl_interop::make_memory(flat, eng, ocl_interop::memory_kind::usm, middle);
    memory dst = ocl_interop::make_memory(turned, eng, target);

    eltwise_forward relu(eltwise_forward::primitive_desc(
            eng, prop_kind::forward_inference, algorithm::eltwise_relu, flat, flat));
    reorder turn(reorder::primitive_desc(eng, flat, eng, turned));

    // ANCHOR_END: objects
    cl_int code = CL_SUCCESS;
    const gate_t gate {clCreateUserEvent(context, &code), queue};
    CL(code);
    cl_event written = nullptr;
    CL(clEnqueueWriteBuffer(queue, source, CL_FALSE, 0, bytes, values.data(), 1, &gate.event, &written));
    // ANCHOR: execute
    cl_event first = ocl_interop::execute(relu, str, {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, mid}}, {written});
    cl_event second = ocl_interop::execute(turn, str, {{DNNL_ARG_FROM, mid}, {DNNL_ARG_TO, dst}},
            first ? std::vector<cl_event> {first} : std::vector<cl_event> {});
    // ANCHOR_END: execute
    CL(clFlush(queue));
    // Nothing can have run so far.
    CL(clSetUserEventStatus(gate.event, CL_COMPLETE));

    std::vector<float> result(count);
    CL(clEnqueueReadBuffer(
            queue, target, CL_TRUE, 0, bytes, result.data(), second ? 1 : 0, second ? &second : nullptr, nullptr));
    str.wait();
    for (cl_event event : {written, first, second})
        if (event) CL(clReleaseEvent(event));
    src = memory();
    mid = memory();
    dst = memory();
    pointer_free(&pointers, middle);
    CL(clReleaseMemObject(source));
    CL(clReleaseMemObject(target));
    return result;
}

} // namespace

int main(int argc, char **argv) try {
    cl_device_id device = check_device(argc > 1 ? argv[1] : nullptr);
    char name[256] = "", platform_name[256] = "";
    cl_platform_id platform = nullptr;
    CL(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name - 1, name, nullptr));
    CL(clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr));
    CL(clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof platform_name - 1, platform_name, nullptr));
    cl_context context = check_context(device);
    const pointers_t pointers = check_pointers(device, context);
    const version_t *version = dnnl_version();
    std::printf("device: %s (%s)\nlibrary: %d.%d.%d (%s)\npointers: %s\n", name, platform_name, version->major,
            version->minor, version->patch, version->hash, pointers.usm ? "unified" : "shared virtual");

    std::vector<float> values(count);
    for (int i = 0; i < count; i++) values[i] = static_cast<float>(i % 2 ? -i : i) / 2;
    const cl_command_queue_properties orders[] = {0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE};
    for (cl_command_queue_properties order : orders) {
        cl_command_queue queue = check_queue(context, device, order);
        const std::vector<float> result = compute(pointers, device, context, queue, values);
        std::printf("%s:", order ? "out of order" : "in order");
        int wrong = 0;
        for (int c = 0; c < columns; c++)
            for (int r = 0; r < rows; r++) {
                const float x = values[r * columns + c], expected = x > 0 ? x : 0, given = result[c * rows + r];
                std::printf(" %g", given);
                if (given != expected) wrong++;
            }
        std::printf("\n");
        ABOUT_NAME(order ? "interop, out of order" : "interop, in order");
        CHECK(wrong == 0);
        SOON(queue_references(queue) == 1);
        check_release_queue(queue);
    }
    SOON(context_references(context) == 1);
    CL(clReleaseContext(context));
    return check_end();
} catch (const error &failure) {
    std::printf("FAILED: %s (%s)\n", failure.message, dnnl_status2str(failure.status));
    return 1;
} catch (const std::exception &failure) {
    std::printf("FAILED: %s\n", failure.what());
    return 1;
}
