// Builds graphs through oneDNN's graph API and lets the library dump them: one file NAME.json for each, in the working folder.
//
// README.md has the command that compiles and runs this; the library writes only when ONEDNN_GRAPH_DUMP=graph is set.

#include <cstdio>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <oneapi/dnnl/dnnl_graph.hpp>

using namespace dnnl::graph;
using dim_list = logical_tensor::dims;
using type = logical_tensor::data_type;
using kind = op::kind;
using attr = op::attr;
namespace fs = std::filesystem;

namespace {

// A graph whose tensors and operations are numbered in the order of their making.
class builder {
public:
    builder() : graph_(dnnl::engine::kind::cpu) {}

    logical_tensor input(type data_type, const dim_list &dims) { return tensor(data_type, dims); }

    logical_tensor constant(type data_type, const dim_list &dims) {
        return {id_++, data_type, dims, logical_tensor::layout_type::strided,
                logical_tensor::property_type::constant};
    }

    logical_tensor add(kind what, const std::string &name, const std::vector<logical_tensor> &inputs,
            type data_type, const dim_list &dims, const std::function<void(op &)> &attrs = {}) {
        logical_tensor result = tensor(data_type, dims);
        op node(op_++, what, inputs, {result}, name);
        if (attrs) attrs(node);
        graph_.add_op(node);
        return result;
    }

    void end(const logical_tensor &result) { graph_.add_op(op(op_++, kind::End, {result}, {}, "end")); }

    // Partitions the graph, which makes the library write it, and gives the files their names.
    void dump(const std::string &name) {
        const auto before = dumps();
        graph_.finalize();
        const size_t partitions = graph_.get_partitions().size();
        for (const auto &file : dumps()) {
            if (before.count(file)) continue;
            const bool partitioned = file.find("-partitioning") != std::string::npos;
            fs::rename(file, name + (partitioned ? "-partitioning.json" : ".json"));
        }
        const bool written = fs::exists(name + ".json");
        std::printf("%-16s %zu partitions%s\n", name.c_str(), partitions, written ? "" : ", not dumped");
    }

private:
    static std::set<std::string> dumps() {
        std::set<std::string> found;
        for (const auto &entry : fs::directory_iterator(".")) {
            const auto name = entry.path().filename().string();
            if (name.rfind("graph-", 0) == 0) found.insert(name);
        }
        return found;
    }

    logical_tensor tensor(type data_type, const dim_list &dims) {
        return {id_++, data_type, dims, logical_tensor::layout_type::strided,
                logical_tensor::property_type::variable};
    }

    graph graph_;
    size_t id_ = 0;
    size_t op_ = 0;
};

// Scaled dot-product attention with an additive mask.
void attention(const std::string &name, type data_type) {
    const dim_list heads {2, 4, 32, 16}, square {2, 4, 32, 32};
    builder b;
    const auto query = b.input(data_type, heads), key = b.input(data_type, heads);
    const auto value = b.input(data_type, heads), scale = b.input(data_type, {1});
    const auto mask = b.input(data_type, {2, 1, 1, 32});
    // Between the products the scores are f32.
    const auto transposed = [](op &o) { o.set_attr<bool>(attr::transpose_b, true); };
    const auto scores = b.add(kind::MatMul, "scores", {query, key}, type::f32, square, transposed);
    const auto scaled = b.add(kind::Divide, "scale", {scores, scale}, type::f32, square);
    const auto masked = b.add(kind::Add, "mask", {scaled, mask}, type::f32, square);
    const auto softmax = [](op &o) {
        o.set_attr<int64_t>(attr::axis, -1);
        o.set_attr<std::string>(attr::mode, "inf_as_zero");
    };
    const auto weights = b.add(kind::SoftMax, "weights", {masked}, data_type, square, softmax);
    b.add(kind::MatMul, "attention", {weights, value}, data_type, heads);
    b.dump(name);
}

// down(silu(gate(x)) * up(x))
void gated_mlp() {
    const dim_list wide {16, 96};
    builder b;
    const auto x = b.input(type::f32, {16, 64});
    const auto gate_weights = b.constant(type::f32, {64, 96}), up_weights = b.constant(type::f32, {64, 96});
    const auto down_weights = b.constant(type::f32, {96, 64});
    const auto gate = b.add(kind::MatMul, "gate", {x, gate_weights}, type::f32, wide);
    const auto up = b.add(kind::MatMul, "up", {x, up_weights}, type::f32, wide);
    const auto sigmoid = b.add(kind::Sigmoid, "sigmoid", {gate}, type::f32, wide);
    const auto swish = b.add(kind::Multiply, "swish", {sigmoid, gate}, type::f32, wide);
    const auto gated = b.add(kind::Multiply, "gated", {swish, up}, type::f32, wide);
    b.add(kind::MatMul, "down", {gated, down_weights}, type::f32, {16, 64});
    b.dump("gated-mlp-f32");
}

std::function<void(op &)> quantization(const std::vector<float> &scales, const std::vector<int64_t> &zps, int64_t axis = 1) {
    return [=](op &o) {
        o.set_attr<std::string>(attr::qtype, scales.size() == 1 ? "per_tensor" : "per_channel");
        o.set_attr<int64_t>(attr::axis, axis);
        o.set_attr<std::vector<float>>(attr::scales, scales);
        o.set_attr<std::vector<int64_t>>(attr::zps, zps);
    };
}

// Unsigned data and signed weights, one scale for each column of these.
void int8_matmul() {
    builder b;
    const auto x = b.input(type::u8, {8, 64});
    const auto weights = b.constant(type::s8, {64, 32}), bias = b.constant(type::f32, {32});
    const auto data = b.add(kind::Dequantize, "dequantize", {x}, type::f32, {8, 64}, quantization({0.0625F}, {10}));
    const std::vector<float> scales(32, 0.015625F);
    const auto plain = b.add(kind::Dequantize, "dequantize_weights", {weights}, type::f32, {64, 32},
            quantization(scales, std::vector<int64_t>(32, 0)));
    const auto product = b.add(kind::MatMul, "matmul", {data, plain, bias}, type::f32, {8, 32});
    const auto relu = b.add(kind::ReLU, "relu", {product}, type::f32, {8, 32});
    b.add(kind::Quantize, "quantize", {relu}, type::u8, {8, 32}, quantization({0.125F}, {3}));
    b.dump("matmul-int8");
}

logical_tensor convolution(builder &b, const std::string &name, const logical_tensor &x, int64_t channels) {
    const dim_list dims = x.get_dims();
    const auto weights = b.constant(type::f32, {channels, dims[1], 3, 3}), bias = b.constant(type::f32, {channels});
    return b.add(kind::Convolution, name, {x, weights, bias}, type::f32, {dims[0], channels, dims[2], dims[3]}, [](op &o) {
        o.set_attr<std::vector<int64_t>>(attr::strides, {1, 1});
        o.set_attr<std::vector<int64_t>>(attr::pads_begin, {1, 1});
        o.set_attr<std::vector<int64_t>>(attr::pads_end, {1, 1});
        o.set_attr<std::vector<int64_t>>(attr::dilations, {1, 1});
        o.set_attr<int64_t>(attr::groups, 1);
        o.set_attr<std::string>(attr::data_format, "NCX");
        o.set_attr<std::string>(attr::weights_format, "OIX");
    });
}

// relu(conv(relu(conv(x))) + x), whose result End marks.
void residual_block() {
    const dim_list dims {2, 8, 14, 14};
    builder b;
    const auto x = b.input(type::f32, dims);
    const auto first = b.add(kind::ReLU, "relu1", {convolution(b, "conv1", x, 8)}, type::f32, dims);
    const auto sum = b.add(kind::Add, "residual", {convolution(b, "conv2", first, 8), x}, type::f32, dims);
    const auto result = b.add(kind::ReLU, "relu2", {sum}, type::f32, dims);
    b.end(result);
    b.dump("residual-f32");
}

void layer_norm(const std::string &name, type data_type) {
    const dim_list dims {4, 16, 64};
    builder b;
    const auto x = b.input(data_type, dims), gamma = b.constant(type::f32, {64}), beta = b.constant(type::f32, {64});
    b.add(kind::LayerNorm, "norm", {x, gamma, beta}, data_type, dims, [](op &o) {
        o.set_attr<bool>(attr::keep_stats, false);
        o.set_attr<int64_t>(attr::begin_norm_axis, -1);
        o.set_attr<bool>(attr::use_affine, true);
        o.set_attr<float>(attr::epsilon, 1e-5F);
    });
    b.dump(name);
}

} // namespace

int main() {
    try {
        attention("attention-f32", type::f32);
        attention("attention-f16", type::f16);
        gated_mlp();
        int8_matmul();
        residual_block();
        layer_norm("layer-norm-f32", type::f32);
        layer_norm("layer-norm-bf16", type::bf16);
    } catch (const dnnl::error &error) {
        std::fprintf(stderr, "oneDNN: %s\n", error.what());
        return 1;
    }
    return 0;
}
