// Threads that share one engine, one primitive and one stream, and threads that each make their own objects, through the C++ wrappers.
#include "check.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"
#include "oneapi/dnnl/dnnl_ocl.hpp"

using namespace dnnl;

// One thread at a time waits: in Intel's CPU runtime a waiting thread takes over the work of others and, in the midst of it, their
// waits for that very work, and hangs. All else is done by all at once.
static std::mutex waiting;

static constexpr int threads = 8, rounds = 100, count = 512;

template <typename F>
static void fill(memory &values, F f) {
    const std::lock_guard<std::mutex> alone(waiting);
    float *mapped = values.map_data<float>();
    for (int i = 0; i < count; i++) mapped[i] = f(i);
    values.unmap_data(mapped);
}

template <typename F>
static int differ(memory &values, F f) {
    const std::lock_guard<std::mutex> alone(waiting);
    float *mapped = values.map_data<float>();
    int wrong = 0;
    for (int i = 0; i < count; i++) wrong += mapped[i] != f(i);
    values.unmap_data(mapped);
    return wrong;
}

// Adds one to a buffer of its own, again and again, each time after the time before.
static void increments(const primitive &add, const stream &shared, const engine &owner, std::atomic<int> &wrong) {
    const memory::desc desc({count}, memory::data_type::f32, memory::format_tag::a);
    memory values = ocl_interop::make_memory(desc, owner, ocl_interop::memory_kind::buffer);
    fill(values, [](int i) { return static_cast<float>(i); });
    cl_event last = nullptr;
    for (int round = 0; round < rounds; round++) {
        std::vector<cl_event> deps;
        if (last) deps.push_back(last);
        cl_event next = ocl_interop::execute(add, shared, {{DNNL_ARG_SRC, values}, {DNNL_ARG_DST, values}}, deps);
        if (!next) wrong++;
        if (last) CL(clReleaseEvent(last));
        last = next;
    }
    {
        const std::lock_guard<std::mutex> alone(waiting);
        CL(clWaitForEvents(1, &last));
    }
    CL(clReleaseEvent(last));
    wrong += differ(values, [](int i) { return static_cast<float>(i + rounds); });
}

// Makes and ends objects of every kind.
static void own_objects(cl_device_id device, cl_context context, std::atomic<int> &wrong) {
    for (int round = 0; round < rounds / 10; round++) {
        engine own = ocl_interop::make_engine(device, context);
        stream queue(own);
        const memory::desc desc({count}, memory::data_type::f32, memory::format_tag::a);
        memory values(desc, own);
        fill(values, [](int i) { return static_cast<float>(-i); });
        eltwise_forward turn(eltwise_forward::primitive_desc(
                own, prop_kind::forward_inference, algorithm::eltwise_linear, desc, desc, -2.F, 0.F));
        turn.execute(queue, {{DNNL_ARG_SRC, values}, {DNNL_ARG_DST, values}});
        {
            const std::lock_guard<std::mutex> alone(waiting);
            queue.wait();
        }
        wrong += differ(values, [](int i) { return static_cast<float>(2 * i); });
    }
}

int main(int argc, char **argv) {
    cl_device_id device = check_device(argc > 1 ? argv[1] : nullptr);
    cl_context context = check_context(device);
    std::atomic<int> wrong {0};
    {
        engine shared = ocl_interop::make_engine(device, context);
        stream unordered(shared, stream::flags::out_of_order);
        const memory::desc desc({count}, memory::data_type::f32, memory::format_tag::a);
        eltwise_forward add(eltwise_forward::primitive_desc(
                shared, prop_kind::forward_inference, algorithm::eltwise_linear, desc, desc, 1.F, 1.F));
        std::vector<std::thread> all;
        for (int i = 0; i < threads; i++) {
            all.emplace_back([&] { increments(add, unordered, shared, wrong); });
            all.emplace_back([&] { own_objects(device, context, wrong); });
        }
        for (auto &one : all) one.join();
        unordered.wait();
    }
    ABOUT_NAME("threads");
    CHECK(wrong == 0);
    SOON(context_references(context) == 1);
    CL(clReleaseContext(context));
    return check_end();
}
