// A user's graph program: attention and what follows it, with oneDNN's published C++ headers for graphs and OpenCL, on the program's
// own context and queue, with an allocator that counts. It prints how many partitions came out, and how far the result is from plain
// loops.
//
//     ./graph [pocl|intel|nvidia|a word of the platform's name]
#include "check.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "oneapi/dnnl/dnnl_graph.hpp"
#include "oneapi/dnnl/dnnl_graph_ocl.hpp"

using namespace dnnl::graph;
using layout = logical_tensor::layout_type;
using type = logical_tensor::data_type;
using property = logical_tensor::property_type;

namespace {

constexpr int heads = 2, rows = 5, keys = 7, width = 8;

pointers_t pointers;
std::atomic<int> allocations {0}, frees {0}, early {0};

void *counting_malloc(size_t size, size_t, cl_device_id device, cl_context context) {
    cl_int code = CL_SUCCESS;
    void *pointer = pointers.usm ? pointers.alloc_device(context, device, nullptr, size, 0, &code)
                                 : clSVMAlloc(context, CL_MEM_READ_WRITE, size, 0);
    if (pointer) allocations++;
    return pointer;
}

void counting_free(void *buffer, cl_device_id, cl_context context, cl_event event) {
    // Whatever used the memory must have ended.
    if (event) {
        cl_int status = CL_QUEUED;
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
        if (status != CL_COMPLETE && status >= 0) early++;
    }
    frees++;
    if (pointers.usm)
        pointers.free(context, buffer);
    else
        clSVMFree(context, buffer);
}

std::vector<float> numbers(size_t count, unsigned seed) {
    std::vector<float> all(count);
    for (auto &x : all) {
        seed = seed * 1664525U + 1013904223U;
        x = static_cast<float>(seed >> 8) / 16777216.F - 0.5F;
    }
    return all;
}

std::vector<float> expected(const std::vector<float> &q, const std::vector<float> &k, const std::vector<float> &v,
        float scale, const std::vector<float> &x) {
    std::vector<float> out(heads * rows * width);
    for (int h = 0; h < heads; h++)
        for (int r = 0; r < rows; r++) {
            double scores[keys], most = -1e30, sum = 0;
            for (int t = 0; t < keys; t++) {
                scores[t] = 0;
                for (int d = 0; d < width; d++)
                    scores[t] += double(q[(h * rows + r) * width + d]) * k[(h * keys + t) * width + d];
                scores[t] *= scale;
                most = std::max(most, scores[t]);
            }
            for (double &s : scores) sum += (s = std::exp(s - most));
            for (int d = 0; d < width; d++) {
                double y = 0;
                for (int t = 0; t < keys; t++) y += scores[t] / sum * v[(h * keys + t) * width + d];
                const int at = (h * rows + r) * width + d;
                out[at] = static_cast<float>(std::max(y + x[at], 0.0));
            }
        }
    return out;
}

int run(cl_device_id device, cl_context context, cl_command_queue queue, bool in_order) {
    allocator counting = ocl_interop::make_allocator(counting_malloc, counting_free);
    dnnl::engine eng = ocl_interop::make_engine_with_allocator(device, context, counting);
    dnnl::stream str = dnnl::ocl_interop::make_stream(eng, queue);

    const logical_tensor::dims q_dims {1, heads, rows, width}, k_dims {1, heads, keys, width},
            s_dims {1, heads, rows, keys};
    logical_tensor q {0, type::f32, q_dims, layout::strided}, k {1, type::f32, k_dims, layout::strided},
            v {2, type::f32, k_dims, layout::strided}, scale {3, type::f32, logical_tensor::dims {1}, layout::strided},
            scores {4, type::f32, s_dims, layout::strided}, scaled {5, type::f32, s_dims, layout::strided},
            weights {6, type::f32, s_dims, layout::strided}, attended {7, type::f32, q_dims, layout::any},
            x {8, type::f32, q_dims, layout::strided}, sum {9, type::f32, q_dims, layout::strided},
            y {10, type::f32, q_dims, layout::strided};
    op product(0, op::kind::MatMul, {q, k}, {scores}, "scores"), multiply(1, op::kind::Multiply, {scores, scale}, {scaled}, "scale"),
            softmax(2, op::kind::SoftMax, {scaled}, {weights}, "softmax"),
            attend(3, op::kind::MatMul, {weights, v}, {attended}, "attend"), end(6, op::kind::End, {attended}, {}, "end");
    product.set_attr<bool>(op::attr::transpose_b, true);
    softmax.set_attr<int64_t>(op::attr::axis, -1);
    op add(4, op::kind::Add, {attended, x}, {sum}, "add"), relu(5, op::kind::ReLU, {sum}, {y}, "relu");

    graph g(dnnl::engine::kind::gpu);
    // `attended` leaves the graph too, so what follows is a partition of its own.
    for (const op &one : {product, multiply, softmax, attend, add, relu, end}) g.add_op(one);
    g.finalize();
    std::vector<partition> partitions;
    for (const partition &one : g.get_partitions())
        if (one.is_supported()) partitions.push_back(one);
    ABOUT_NAME(in_order ? "graph, in order" : "graph, out of order");
    CHECK(partitions.size() == 2);
    std::printf("partitions: %zu of %zu and %zu operations\n", partitions.size(), partitions[0].get_ops_num(),
            partitions[1].get_ops_num());
    CHECK(partitions[0].get_ops_num() == 4 && partitions[1].get_ops_num() == 2);

    compiled_partition first = partitions[0].compile(partitions[0].get_input_ports(), partitions[0].get_output_ports(), eng);
    attended = first.query_logical_tensor(7);
    CHECK(attended.get_mem_size() >= heads * rows * width * sizeof(float));
    compiled_partition second = partitions[1].compile({attended, x}, {y}, eng);
    CHECK(second.query_logical_tensor(77).get_id() == 0);
    CHECK(!second.get_inplace_ports().empty());

    const auto qs = numbers(heads * rows * width, 1), ks = numbers(heads * keys * width, 2),
               vs = numbers(heads * keys * width, 3), xs = numbers(heads * rows * width, 4);
    const std::vector<float> scales {0.35F}, zeros(heads * rows * width, 0.F);
    const auto bytes = [](const std::vector<float> &values) { return values.size() * sizeof(float); };
    const auto put = [&](const std::vector<float> &values) {
        return pointer_of(&pointers, queue, bytes(values), values.data());
    };
    void *places[] = {put(qs), put(ks), put(vs), put(scales), put(xs), put(zeros)};
    std::vector<float> result(zeros.size());
    {
        tensor tq(q, eng, places[0]), tk(k, eng, places[1]), tv(v, eng, places[2]), ts(scale, eng, places[3]),
                tx(x, eng, places[4]), ty(y, eng, places[5]), ta(attended, eng);
        cl_int code = CL_SUCCESS;
        cl_event gate = clCreateUserEvent(context, &code);
        CL(code);
        std::vector<tensor> middle {ta}, last {ty};
        // Nothing runs before the program says so.
        cl_event one = ocl_interop::execute(first, str, {tv, ts, tk, tq}, middle, {gate});
        cl_event two = ocl_interop::execute(second, str, {ta, tx}, last, one ? std::vector<cl_event> {one} : std::vector<cl_event> {});
        CHECK(in_order ? !one && !two : one && two);
        CL(clFlush(queue));
        CL(clSetUserEventStatus(gate, CL_COMPLETE));
        if (two) CL(clWaitForEvents(1, &two));
        str.wait();
        pointer_read(&pointers, queue, places[5], bytes(result), result.data());
        // The same with working memory of the program's, and no events.
        tensor scratchpad(first.get_scratchpad_logical_tensor(), eng);
        std::vector<tensor> again {ta};
        first.execute(str, {tq, tk, tv, ts}, again, scratchpad);
        str.wait();
        for (cl_event event : {one, two, gate})
            if (event) CL(clReleaseEvent(event));
    }
    const auto wanted = expected(qs, ks, vs, scales[0], xs);
    double worst = 0;
    for (size_t i = 0; i < wanted.size(); i++) worst = std::max(worst, std::fabs(double(wanted[i]) - result[i]));
    std::printf("%s: largest difference %.1e\n", in_order ? "in order" : "out of order", worst);
    CHECK(worst < 1e-5);
    for (void *place : places) pointer_free(&pointers, place);
    return 0;
}

} // namespace

int main(int argc, char **argv) try {
    cl_device_id device = check_device(argc > 1 ? argv[1] : nullptr);
    cl_context context = check_context(device);
    pointers = check_pointers(device, context);
    const cl_command_queue_properties orders[] = {0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE};
    for (cl_command_queue_properties order : orders) {
        cl_command_queue queue = check_queue(context, device, order);
        run(device, context, queue, order == 0);
        SOON(queue_references(queue) == 1);
        check_release_queue(queue);
    }
    // What the caches keep refers to engines: without them nothing is left.
    set_compiled_partition_cache_capacity(0);
    ABOUT_NAME("the user's allocator");
    SOON(allocations == frees);
    CHECK(allocations > 0 && early == 0);
    std::printf("allocator: %d allocations, %d frees\n", allocations.load(), frees.load());
    SOON(context_references(context) == 1);
    CL(clReleaseContext(context));
    return check_end();
} catch (const dnnl::error &failure) {
    std::printf("FAILED: %s (%s)\n", failure.message, dnnl_status2str(failure.status));
    return 1;
} catch (const std::exception &failure) {
    std::printf("FAILED: %s\n", failure.what());
    return 1;
}
