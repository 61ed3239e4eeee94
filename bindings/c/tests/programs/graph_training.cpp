// A user's training step of grouped attention through oneDNN's graph API: the forward graph keeps the statistics of its softmax, the
// backward graph makes the probabilities again. Each must come out as one partition, in f32, bf16 and f16, and compute what plain loops do.
//
//     ./graph_training [pocl|intel|nvidia|a word of the platform's name]
#include "check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

#include "oneapi/dnnl/dnnl_graph.hpp"
#include "oneapi/dnnl/dnnl_graph_ocl.hpp"

using namespace dnnl::graph;
using layout = logical_tensor::layout_type;
using type = logical_tensor::data_type;
using dims = logical_tensor::dims;

namespace {

// Groups, queries of each, rows of queries, rows of keys, and the size of a head.
constexpr int G = 2, R = 3, S = 5, T = 6, D = 8;
const dims q_dims {1, G, R, S, D}, k_dims {1, G, 1, T, D}, s_dims {1, G, R, S, T}, l_dims {1, G, R, S, 1}, one {1}, m_dims {1, 1, 1, S, T};

pointers_t pointers;

// The nearest float of 16 bits.
uint16_t narrowed(float x, type t) {
    if (t == type::bf16) {
        uint32_t bits;
        std::memcpy(&bits, &x, 4);
        return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    }
    int exponent = 0;
    const double size = std::fabs(x), part = std::frexp(size, &exponent);
    // A mantissa that is rounded up to two makes the next exponent.
    const double bits = exponent < -13 ? std::ldexp(size, 24) : (exponent + 14) * 1024 + (2 * part - 1) * 1024;
    return static_cast<uint16_t>((std::signbit(x) ? 0x8000 : 0) + std::lrint(bits));
}

float widened(uint16_t bits, type t) {
    if (t == type::bf16) {
        const uint32_t all = static_cast<uint32_t>(bits) << 16;
        float x;
        std::memcpy(&x, &all, 4);
        return x;
    }
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double size = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
    return static_cast<float>(bits >> 15 ? -size : size);
}

std::vector<float> numbers(size_t count, unsigned seed, type t) {
    std::vector<float> all(count);
    for (auto &x : all) {
        seed = seed * 1664525U + 1013904223U;
        x = static_cast<float>(seed >> 8) / 16777216.F - 0.5F;
        if (t != type::f32) x = widened(narrowed(x, t), t);
    }
    return all;
}

// A tensor of the graphs with its memory.
struct place_t {
    logical_tensor desc;
    void *pointer;
    size_t count;
};

struct step_t {
    dnnl::engine eng;
    dnnl::stream str;
    cl_command_queue queue;
    type narrow;
    std::map<size_t, place_t> places;

    logical_tensor tensor_of(size_t id, type t, const dims &shape) { return {id, t, shape, layout::strided}; }

    void put(size_t id, type t, const dims &shape, const std::vector<float> &values) {
        std::vector<uint16_t> halves(values.size());
        for (size_t i = 0; i < values.size(); i++) halves[i] = narrowed(values[i], t);
        const bool wide = t == type::f32;
        const void *from = wide ? static_cast<const void *>(values.data()) : halves.data();
        void *pointer = pointer_of(&pointers, queue, values.size() * (wide ? 4 : 2), from);
        places[id] = {tensor_of(id, t, shape), pointer, values.size()};
    }

    std::vector<float> get(size_t id) {
        const place_t &place = places.at(id);
        std::vector<float> values(place.count);
        if (place.desc.get_data_type() == type::f32) {
            pointer_read(&pointers, queue, place.pointer, 4 * place.count, values.data());
            return values;
        }
        std::vector<uint16_t> halves(place.count);
        pointer_read(&pointers, queue, place.pointer, 2 * place.count, halves.data());
        for (size_t i = 0; i < halves.size(); i++) values[i] = widened(halves[i], place.desc.get_data_type());
        return values;
    }

    // Runs a graph that must be one partition.
    void run(graph &g, const std::vector<size_t> &inputs, const std::vector<size_t> &outputs, size_t operations) {
        g.finalize();
        const auto partitions = g.get_partitions();
        CHECK(partitions.size() == 1 && partitions[0].is_supported());
        std::printf("partitions: %zu of %zu operations\n", partitions.size(), partitions[0].get_ops_num());
        CHECK(partitions[0].get_ops_num() == operations);
        std::vector<logical_tensor> in, out;
        for (size_t id : inputs) in.push_back(places.at(id).desc);
        for (size_t id : outputs) out.push_back(places.at(id).desc);
        compiled_partition compiled = partitions[0].compile(in, out, eng);
        std::vector<tensor> given, made;
        for (size_t id : inputs) given.emplace_back(places.at(id).desc, eng, places.at(id).pointer);
        for (size_t id : outputs) made.emplace_back(places.at(id).desc, eng, places.at(id).pointer);
        compiled.execute(str, given, made);
        str.wait();
    }

    double worst(size_t id, const std::vector<double> &wanted) {
        double most = 0, largest = 0;
        const auto values = get(id);
        CHECK(values.size() == wanted.size());
        for (size_t i = 0; i < wanted.size(); i++) {
            most = std::max(most, std::fabs(wanted[i] - values[i]));
            largest = std::max(largest, std::fabs(wanted[i]));
        }
        return most / largest;
    }
};

enum { Q, K, V, F, M, O, L, DO, DQ, DK, DV, FREE };

void step(dnnl::engine eng, dnnl::stream str, cl_command_queue queue, type narrow) {
    step_t run {eng, str, queue, narrow, {}};
    const bool is_narrow = narrow != type::f32;
    const float scale = 2.5F;
    const auto q = numbers(G * R * S * D, 1, narrow), k = numbers(G * T * D, 2, narrow), v = numbers(G * T * D, 3, narrow),
               d = numbers(G * R * S * D, 4, narrow), m = numbers(S * T, 5, type::f32);
    run.put(Q, narrow, q_dims, q);
    run.put(K, narrow, k_dims, k);
    run.put(V, narrow, k_dims, v);
    run.put(F, type::f32, one, {scale});
    run.put(M, type::f32, m_dims, m);
    run.put(O, narrow, q_dims, std::vector<float>(q.size()));
    run.put(L, type::f32, l_dims, std::vector<float>(G * R * S));
    run.put(DO, narrow, q_dims, d);
    run.put(DQ, narrow, q_dims, std::vector<float>(q.size()));
    run.put(DK, narrow, k_dims, std::vector<float>(k.size()));
    run.put(DV, narrow, k_dims, std::vector<float>(v.size()));

    size_t next = FREE, number = 0;
    const auto made = [&](type t) { return logical_tensor {next++, t, 5, layout::strided}; };
    const auto at = [&](size_t id) { return run.places.at(id).desc; };
    const auto add = [&](graph &g, op::kind kind, const std::vector<logical_tensor> &from, const std::vector<logical_tensor> &to,
                             const auto &set) {
        op one(number++, kind, from, to, "op");
        set(one);
        g.add_op(one);
    };
    const auto plain = [](op &) {};
    const auto by_columns = [](op &o) { o.set_attr<bool>(op::attr::transpose_b, true); };
    const auto by_rows = [](op &o) { o.set_attr<bool>(op::attr::transpose_a, true); };
    const auto along = [](int64_t axis) {
        return [axis](op &o) {
            o.set_attr<std::vector<int64_t>>(op::attr::axes, {axis});
            o.set_attr<bool>(op::attr::keep_dims, true);
        };
    };

    graph forward(eng.get_kind());
    {
        auto s = made(type::f32), t = made(type::f32), u = made(type::f32), p = made(narrow);
        add(forward, op::kind::MatMul, {at(Q), at(K)}, {s}, by_columns);
        add(forward, op::kind::Divide, {s, at(F)}, {t}, plain);
        add(forward, op::kind::Add, {t, at(M)}, {u}, plain);
        add(forward, op::kind::SoftMax, {u}, {p, at(L)}, [](op &o) {
            o.set_attr<int64_t>(op::attr::axis, -1);
            o.set_attr<std::string>(op::attr::mode, "inf_as_zero");
        });
        add(forward, op::kind::MatMul, {p, at(V)}, {at(O)}, plain);
    }
    run.run(forward, {Q, K, V, F, M}, {O, L}, 5);

    graph backward(eng.get_kind());
    {
        auto s = made(type::f32), t = made(type::f32), u = made(type::f32), e = made(type::f32), p = made(type::f32), pn = p;
        add(backward, op::kind::MatMul, {at(Q), at(K)}, {s}, by_columns);
        add(backward, op::kind::Divide, {s, at(F)}, {t}, plain);
        add(backward, op::kind::Add, {t, at(M)}, {u}, plain);
        add(backward, op::kind::Subtract, {u, at(L)}, {e}, plain);
        add(backward, op::kind::Exp, {e}, {p}, plain);
        if (is_narrow) add(backward, op::kind::TypeCast, {p}, {pn = made(narrow)}, plain);
        auto dw = made(narrow), dp = made(type::f32), od = made(type::f32), c = made(type::f32), g = made(type::f32),
             ds = made(type::f32), dt = made(type::f32), dn = dt, dj = made(narrow);
        add(backward, op::kind::MatMul, {pn, at(DO)}, {dw}, by_rows);
        add(backward, op::kind::ReduceSum, {dw}, {at(DV)}, along(2));
        add(backward, op::kind::MatMul, {at(DO), at(V)}, {dp}, by_columns);
        add(backward, op::kind::Multiply, {at(O), at(DO)}, {od}, plain);
        add(backward, op::kind::ReduceSum, {od}, {c}, along(4));
        add(backward, op::kind::Subtract, {dp, c}, {g}, plain);
        add(backward, op::kind::Multiply, {p, g}, {ds}, plain);
        add(backward, op::kind::Divide, {ds, at(F)}, {dt}, plain);
        if (is_narrow) add(backward, op::kind::TypeCast, {dt}, {dn = made(narrow)}, plain);
        add(backward, op::kind::MatMul, {dn, at(K)}, {at(DQ)}, plain);
        add(backward, op::kind::MatMul, {dn, at(Q)}, {dj}, by_rows);
        add(backward, op::kind::ReduceSum, {dj}, {at(DK)}, along(2));
    }
    run.run(backward, {Q, K, V, F, M, O, L, DO}, {DQ, DK, DV}, is_narrow ? 18 : 16);

    std::vector<double> o(q.size()), dq(q.size()), dk(k.size()), dv(v.size());
    for (int h = 0; h < G * R; h++)
        for (int r = 0; r < S; r++) {
            const int row = (h * S + r) * D, group = h / R * T * D;
            double p[T], dp[T], most = -1e30, sum = 0, mean = 0;
            for (int t = 0; t < T; t++) {
                p[t] = 0;
                for (int i = 0; i < D; i++) p[t] += double(q[row + i]) * k[group + t * D + i];
                p[t] = p[t] / scale + m[r * T + t];
                most = std::max(most, p[t]);
            }
            for (double &x : p) sum += (x = std::exp(x - most));
            for (int t = 0; t < T; t++) {
                p[t] /= sum;
                dp[t] = 0;
                for (int i = 0; i < D; i++) {
                    o[row + i] += p[t] * v[group + t * D + i];
                    dv[group + t * D + i] += p[t] * d[row + i];
                    dp[t] += double(d[row + i]) * v[group + t * D + i];
                }
                mean += p[t] * dp[t];
            }
            for (int t = 0; t < T; t++) {
                const double ds = p[t] * (dp[t] - mean) / scale;
                for (int i = 0; i < D; i++) {
                    dq[row + i] += ds * k[group + t * D + i];
                    dk[group + t * D + i] += ds * q[row + i];
                }
            }
        }
    const double bound = narrow == type::bf16 ? 0.03 : is_narrow ? 0.004 : 1e-5;
    const double worst = std::max({run.worst(O, o), run.worst(DQ, dq), run.worst(DK, dk), run.worst(DV, dv)});
    std::printf("%s: largest difference %.1e of the largest value\n", narrow == type::bf16 ? "bf16" : is_narrow ? "f16" : "f32", worst);
    CHECK(worst < bound);
    for (const auto &each : run.places) pointer_free(&pointers, each.second.pointer);
}

} // namespace

int main(int argc, char **argv) try {
    const bool on_host = argc > 1 && std::strcmp(argv[1], "cpu") == 0;
    cl_device_id device = on_host ? nullptr : check_device(argc > 1 ? argv[1] : nullptr);
    cl_context context = on_host ? nullptr : check_context(device);
    pointers = check_pointers(device, context);
    cl_command_queue queue = on_host ? nullptr : check_queue(context, device, 0);
    {
        dnnl::engine eng = on_host ? dnnl::engine(dnnl::engine::kind::cpu, 0) : dnnl::ocl_interop::make_engine(device, context);
        dnnl::stream str = on_host ? dnnl::stream(eng) : dnnl::ocl_interop::make_stream(eng, queue);
        for (type narrow : {type::f32, type::bf16, type::f16}) step(eng, str, queue, narrow);
    }
    set_compiled_partition_cache_capacity(0);
    if (!on_host) {
        check_release_queue(queue);
        CL(clReleaseContext(context));
    }
    return check_end();
} catch (const dnnl::error &failure) {
    std::printf("FAILED: %s (%s)\n", failure.message, dnnl_status2str(failure.status));
    return 1;
} catch (const std::exception &failure) {
    std::printf("FAILED: %s\n", failure.what());
    return 1;
}
