// A program on the processor as a user writes it, through oneDNN's C++ interface: a small network, a graph with an allocator of the program's,
// and threads with objects of their own.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"
#include "oneapi/dnnl/dnnl_graph.hpp"

#include "check.h"

using namespace dnnl;
using dt = memory::data_type;
using tag = memory::format_tag;

namespace {

std::atomic<int> allocations {0}, frees {0}, misaligned {0};

void *counted_malloc(size_t bytes, size_t alignment) {
    allocations++;
    if (alignment == 0 || (alignment & (alignment - 1))) misaligned++;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void counted_free(void *pointer) {
    frees++;
    std::free(pointer);
}

std::vector<float> numbers(size_t count, unsigned seed) {
    std::vector<float> all(count);
    for (auto &x : all) {
        seed = seed * 1664525U + 1013904223U;
        x = static_cast<float>(seed >> 8) / 16777216.F - 0.5F;
    }
    return all;
}

// A convolution in a layout of the library's choice with a rectifier behind it, on vectors of the program's.
void network(const engine &eng) {
    ABOUT_NAME("a convolution");
    const int n = 2, c = 3, o = 4, h = 6, w = 5;
    std::vector<float> src = numbers(n * c * h * w, 1), weights = numbers(o * c * 9, 2), bias = numbers(o, 3), dst(n * o * h * w);
    stream str(eng);
    const memory::desc src_md({n, c, h, w}, dt::f32, tag::nchw), weights_md({o, c, 3, 3}, dt::f32, tag::oihw);
    const memory::desc bias_md({o}, dt::f32, tag::a), dst_md({n, o, h, w}, dt::f32, tag::nchw);
    memory m_src(src_md, eng, src.data()), m_weights(weights_md, eng, weights.data());
    memory m_bias(bias_md, eng, bias.data()), m_dst(dst_md, eng, dst.data());
    primitive_attr attr;
    post_ops ops;
    ops.append_eltwise(algorithm::eltwise_relu, 0.F, 0.F);
    attr.set_post_ops(ops);
    const auto any = [](const memory::desc &md) { return memory::desc(md.get_dims(), md.get_data_type(), tag::any); };
    convolution_forward::primitive_desc pd(eng, prop_kind::forward_inference, algorithm::convolution_direct, any(src_md), any(weights_md),
            bias_md, any(dst_md), {1, 1}, {1, 1}, {1, 1}, attr);
    const auto into = [&](memory &from, const memory::desc &md) {
        if (from.get_desc() == md) return from;
        memory to(md, eng);
        reorder(from, to).execute(str, from, to);
        return to;
    };
    memory own_src = into(m_src, pd.src_desc()), own_weights = into(m_weights, pd.weights_desc());
    memory own_dst = pd.dst_desc() == dst_md ? m_dst : memory(pd.dst_desc(), eng);
    convolution_forward(pd).execute(str,
            {{DNNL_ARG_SRC, own_src}, {DNNL_ARG_WEIGHTS, own_weights}, {DNNL_ARG_BIAS, m_bias}, {DNNL_ARG_DST, own_dst}});
    if (own_dst != m_dst) reorder(own_dst, m_dst).execute(str, own_dst, m_dst);
    str.wait();
    double worst = 0;
    for (int b = 0; b < n; b++)
        for (int k = 0; k < o; k++)
            for (int y = 0; y < h; y++)
                for (int x = 0; x < w; x++) {
                    double sum = bias[k];
                    for (int i = 0; i < c; i++)
                        for (int u = 0; u < 3; u++)
                            for (int v = 0; v < 3; v++) {
                                const int yy = y + u - 1, xx = x + v - 1;
                                if (yy < 0 || xx < 0 || yy >= h || xx >= w) continue;
                                sum += double(src[((b * c + i) * h + yy) * w + xx]) * weights[((k * c + i) * 3 + u) * 3 + v];
                            }
                    worst = std::max(worst, std::fabs(std::max(sum, 0.) - dst[((b * o + k) * h + y) * w + x]));
                }
    CHECK(worst < 1e-5);
    CHECK(eng.get_kind() == engine::kind::cpu && m_src.get_data_handle() == src.data());
}

using dnnl::graph::logical_tensor;
using dnnl::graph::op;

// A gated layer: `(swish(x g) * (x u)) d`. Its working memory is the allocator's, and what follows from constant weights is prepared once.
void graphs() {
    ABOUT_NAME("a graph");
    const int n = 4, k = 16, h = 24, m = 8;
    std::vector<float> x = numbers(n * k, 4), g = numbers(k * h, 5), u = numbers(k * h, 6), d = numbers(h * m, 7), y(n * m);
    dnnl::graph::allocator alloc(counted_malloc, counted_free);
    {
        engine eng = dnnl::graph::make_engine_with_allocator(engine::kind::cpu, 0, alloc);
        stream str(eng);
        const auto tensor_of = [](size_t id, const logical_tensor::dims &dims,
                                       logical_tensor::property_type property = logical_tensor::property_type::variable) {
            return logical_tensor(id, logical_tensor::data_type::f32, dims, logical_tensor::layout_type::strided, property);
        };
        const auto constant = logical_tensor::property_type::constant;
        const logical_tensor tx = tensor_of(0, {n, k}), tg = tensor_of(1, {k, h}, constant), tu = tensor_of(2, {k, h}, constant);
        const logical_tensor td = tensor_of(3, {h, m}, constant), ty = tensor_of(4, {n, m});
        const logical_tensor gate = tensor_of(10, {n, h}), share = tensor_of(11, {n, h}), swish = tensor_of(12, {n, h});
        const logical_tensor up = tensor_of(13, {n, h}), both = tensor_of(14, {n, h});
        dnnl::graph::graph layer(engine::kind::cpu);
        layer.add_op(op(0, op::kind::MatMul, {tx, tg}, {gate}, "gate"));
        layer.add_op(op(1, op::kind::MatMul, {tx, tu}, {up}, "up"));
        layer.add_op(op(2, op::kind::Sigmoid, {gate}, {share}, "share"));
        layer.add_op(op(3, op::kind::Multiply, {gate, share}, {swish}, "swish"));
        layer.add_op(op(4, op::kind::Multiply, {swish, up}, {both}, "both"));
        layer.add_op(op(5, op::kind::MatMul, {both, td}, {ty}, "down"));
        layer.finalize();
        const std::vector<dnnl::graph::partition> parts = layer.get_partitions();
        CHECK(parts.size() == 1 && parts[0].get_ops_num() == 6 && parts[0].is_supported());
        CHECK(parts[0].get_engine_kind() == engine::kind::cpu);
        const std::vector<logical_tensor> ins = parts[0].get_input_ports();
        dnnl::graph::compiled_partition compiled = parts[0].compile(ins, {ty}, eng);
        std::vector<float> *places[] = {&x, &g, &u, &d};
        std::vector<dnnl::graph::tensor> given, made {{ty, eng, y.data()}};
        for (const auto &one : ins) given.emplace_back(one, eng, places[one.get_id()]->data());
        for (int round = 0; round < 3; round++) {
            std::fill(y.begin(), y.end(), 0.F);
            compiled.execute(str, given, made);
            str.wait();
            double worst = 0;
            for (int r = 0; r < n; r++) {
                std::vector<double> hidden(h);
                for (int c = 0; c < h; c++) {
                    double one = 0, other = 0;
                    for (int i = 0; i < k; i++) one += double(x[r * k + i]) * g[i * h + c], other += double(x[r * k + i]) * u[i * h + c];
                    hidden[c] = one / (1 + std::exp(-one)) * other;
                }
                for (int c = 0; c < m; c++) {
                    double sum = 0;
                    for (int i = 0; i < h; i++) sum += hidden[i] * d[i * m + c];
                    worst = std::max(worst, std::fabs(sum - y[r * m + c]));
                }
            }
            CHECK(worst < 1e-5);
        }
        CHECK(allocations > 0);
        // Memory of the library's for a tensor, of the allocator too.
        const int before = allocations;
        dnnl::graph::tensor own(tx, eng, DNNL_MEMORY_ALLOCATE);
        CHECK(own.get_data_handle() != nullptr && allocations == before + 1);
        // A partition for another kind of engine is not this engine's.
        dnnl::graph::partition of_device(op(9, op::kind::ReLU, {tx}, {tensor_of(6, {n, k})}, "relu"), engine::kind::gpu);
        dnnl_status_t status = dnnl_success;
        try {
            of_device.compile({tx}, {tensor_of(6, {n, k})}, eng);
        } catch (const error &failure) { status = failure.status; }
        CHECK(status == dnnl_invalid_arguments);
    }
    dnnl::graph::set_compiled_partition_cache_capacity(0);
    ABOUT_NAME("the program's allocator");
    CHECK(allocations == frees && allocations > 1 && misaligned == 0);
    std::printf("allocator: %d allocations, %d frees\n", allocations.load(), frees.load());
}

// What follows from constant tensors is kept for engines of this kind, as long as the program gives it room. Here it is the factor and the
// summand of each channel, which the statistics of a normalization make: values that change in spite of being constant show who looks.
void constant_tensors() {
    ABOUT_NAME("the cache of constant tensors");
    const auto capacity = [](engine::kind kind) { return dnnl::graph::get_constant_tensor_cache_capacity(kind); };
    CHECK(capacity(engine::kind::cpu) == 0 && capacity(engine::kind::gpu) == 0);
    const engine eng(engine::kind::cpu, 0);
    stream str(eng);
    const auto tensor_of = [](size_t id, const logical_tensor::dims &dims, bool is_constant) {
        return logical_tensor(id, logical_tensor::data_type::f32, dims, logical_tensor::layout_type::strided,
                is_constant ? logical_tensor::property_type::constant : logical_tensor::property_type::variable);
    };
    const std::vector<logical_tensor> ins {tensor_of(0, {1, 2, 3, 3}, false), tensor_of(1, {2, 2, 1, 1}, true), tensor_of(2, {2}, true),
            tensor_of(3, {2}, true), tensor_of(4, {2}, true), tensor_of(5, {2}, true)};
    const logical_tensor between = tensor_of(6, {1, 2, 3, 3}, false), out = tensor_of(7, {1, 2, 3, 3}, false);
    op conv(0, op::kind::Convolution, {ins[0], ins[1]}, {between}, "conv");
    conv.set_attr<std::vector<int64_t>>(op::attr::strides, {1, 1});
    conv.set_attr<std::vector<int64_t>>(op::attr::pads_begin, {0, 0});
    conv.set_attr<std::vector<int64_t>>(op::attr::pads_end, {0, 0});
    conv.set_attr<std::vector<int64_t>>(op::attr::dilations, {1, 1});
    conv.set_attr<std::string>(op::attr::data_format, "NCX");
    conv.set_attr<std::string>(op::attr::weights_format, "OIX");
    op norm(1, op::kind::BatchNormInference, {between, ins[2], ins[3], ins[4], ins[5]}, {out}, "norm");
    norm.set_attr<float>(op::attr::epsilon, 0.F);
    norm.set_attr<std::string>(op::attr::data_format, "NCX");
    dnnl::graph::graph both(engine::kind::cpu);
    both.add_op(conv);
    both.add_op(norm);
    both.finalize();
    const std::vector<dnnl::graph::partition> parts = both.get_partitions();
    CHECK(parts.size() == 1);
    dnnl::graph::compiled_partition compiled = parts[0].compile(parts[0].get_input_ports(), {out}, eng);
    std::vector<float> x(18, 1.F), w {1, 0, 0, 1}, gamma {2, 2}, beta {1, 1}, mean {0, 0}, variance {4, 4}, y(18);
    std::vector<float> *places[] = {&x, &w, &gamma, &beta, &mean, &variance};
    std::vector<dnnl::graph::tensor> given, made {{out, eng, y.data()}};
    for (const auto &one : parts[0].get_input_ports()) given.emplace_back(one, eng, places[one.get_id()]->data());
    const auto run = [&](float shift) {
        beta = {shift, shift};
        compiled.execute(str, given, made);
        str.wait();
        return y[0];
    };
    CHECK(run(1) == 2 && run(5) == 6);
    dnnl::graph::set_constant_tensor_cache_capacity(engine::kind::gpu, 8);
    CHECK(run(1) == 2 && run(5) == 6);
    dnnl::graph::set_constant_tensor_cache_capacity(engine::kind::gpu, 0);
    dnnl::graph::set_constant_tensor_cache_capacity(engine::kind::cpu, 8);
    CHECK(capacity(engine::kind::cpu) == 8 && capacity(engine::kind::gpu) == 0 && dnnl::graph::get_constant_tensor_cache() == 1);
    CHECK(run(1) == 2 && run(5) == 2);
    dnnl::graph::set_constant_tensor_cache_capacity(engine::kind::cpu, 8);
    CHECK(run(5) == 6);
}

void threads() {
    ABOUT_NAME("threads");
    std::atomic<int> wrong {0};
    std::vector<std::thread> all;
    const engine shared(engine::kind::cpu, 0);
    const stream unordered(shared, stream::flags::out_of_order);
    for (int t = 0; t < 6; t++)
        all.emplace_back([&, t] {
            const engine own = t % 2 ? shared : engine(engine::kind::cpu, 0);
            const stream str = t % 2 ? unordered : stream(own);
            const memory::desc md({64}, dt::f32, tag::a);
            eltwise_forward add(eltwise_forward::primitive_desc(
                    own, prop_kind::forward_inference, algorithm::eltwise_linear, md, md, 1.F, static_cast<float>(t)));
            std::vector<float> values(64);
            memory m(md, own, values.data());
            for (int round = 0; round < 50; round++) add.execute(str, {{DNNL_ARG_SRC, m}, {DNNL_ARG_DST, m}});
            for (const float x : values) wrong += x != static_cast<float>(50 * t);
        });
    for (auto &one : all) one.join();
    CHECK(wrong == 0);
}

} // namespace

int main() try {
    CHECK(engine::get_count(engine::kind::cpu) == 1);
    network(engine(engine::kind::cpu, 0));
    constant_tensors();
    graphs();
    threads();
    return check_end();
} catch (const error &failure) {
    std::printf("FAILED: %s (%s)\n", failure.what(), dnnl_status2str(failure.status));
    return 1;
}
