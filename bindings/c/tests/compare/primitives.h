// The description of each primitive from a case.
#ifndef PRIMITIVES_H
#define PRIMITIVES_H

#include "attributes.h"

struct PrimitiveDesc {
    dnnl_primitive_desc_t raw = nullptr;
    PrimitiveDesc() = default;
    PrimitiveDesc(const PrimitiveDesc &) = delete;
    ~PrimitiveDesc() {
        if (raw) FN(dnnl_primitive_desc_destroy)(raw);
    }
};

#define CREATE(name, ...) TRY(dnnl_##name##_primitive_desc_create, &made.raw, engine, __VA_ARGS__)

// What a case says, as descriptors and parameters.
struct Described {
    const Case &one;
    Desc src, src1, src2, src3, wei, wei1, wei2, wei3, bia, dst, dst1, dst2, stat;
    Dims strides, dilates, left, right, kernel;
    dnnl_alg_kind_t alg;
    unsigned flags;
    float alpha, beta, epsilon;

    explicit Described(const Case &of)
        : one(of), src(optional(of, "src")), src1(optional(of, "src1")), src2(optional(of, "src2")), src3(optional(of, "src3")),
          wei(optional(of, "wei")), wei1(optional(of, "wei1")), wei2(optional(of, "wei2")), wei3(optional(of, "wei3")),
          bia(optional(of, "bia")), dst(optional(of, "dst")), dst1(optional(of, "dst1")), dst2(optional(of, "dst2")), stat(optional(of, "stat")), strides(numbers(of.word("strides"))),
          dilates(numbers(of.word("dilates"))), left(numbers(of.word("left"))), right(numbers(of.word("right"))),
          kernel(numbers(of.word("kernel"))), alg(of.has("alg") ? algorithm(of.word("alg")) : dnnl_alg_kind_undef),
          flags(static_cast<unsigned>(of.number("flags"))), alpha(static_cast<float>(of.number("alpha"))),
          beta(static_cast<float>(of.number("beta"))), epsilon(static_cast<float>(of.number("eps", 1e-3))) {}
};

// Recurrent layers: states are `src1`, cells `src2`, an attention `src3`, weights of states, peepholes and projection `wei1` to `wei3`.
inline void recurrent_forward(const Described &d, dnnl_prop_kind_t kind, const dnnl_primitive_attr *a, PrimitiveDesc &made) {
    const std::string cell = d.one.word("cell");
    const auto way = static_cast<dnnl_rnn_direction_t>(d.one.number("direction", 1));
    if (cell == "vanilla_rnn")
        CREATE(vanilla_rnn_forward, kind, d.alg, way, d.src, d.src1, d.wei, d.wei1, d.bia, d.dst, d.dst1, d.flags, d.alpha, d.beta, a);
    else if (cell == "lstm")
        CREATE(lstm_forward, kind, way, d.src, d.src1, d.src2, d.wei, d.wei1, d.wei2, d.wei3, d.bia, d.dst, d.dst1, d.dst2, d.flags, a);
    else if (cell == "gru")
        CREATE(gru_forward, kind, way, d.src, d.src1, d.wei, d.wei1, d.bia, d.dst, d.dst1, d.flags, a);
    else if (cell == "lbr_gru")
        CREATE(lbr_gru_forward, kind, way, d.src, d.src1, d.wei, d.wei1, d.bia, d.dst, d.dst1, d.flags, a);
    else if (cell == "augru")
        CREATE(augru_forward, kind, way, d.src, d.src1, d.src3, d.wei, d.wei1, d.bia, d.dst, d.dst1, d.flags, a);
    else if (cell == "lbr_augru")
        CREATE(lbr_augru_forward, kind, way, d.src, d.src1, d.src3, d.wei, d.wei1, d.bia, d.dst, d.dst1, d.flags, a);
    else
        throw Wrong {"no cell: " + cell};
}

inline void recurrent_backward(const Described &d, dnnl_prop_kind_t kind, const_dnnl_primitive_desc_t hint, const dnnl_primitive_attr *a, PrimitiveDesc &made) {
    const std::string cell = d.one.word("cell");
    const auto way = static_cast<dnnl_rnn_direction_t>(d.one.number("direction", 1));
    if (cell == "vanilla_rnn")
        CREATE(vanilla_rnn_backward, kind, d.alg, way, d.src, d.src1, d.wei, d.wei1, d.bia, d.dst, d.dst1, d.src, d.src1, d.wei, d.wei1,
                d.bia, d.dst, d.dst1, d.flags, d.alpha, d.beta, hint, a);
    else if (cell == "lstm")
        CREATE(lstm_backward, kind, way, d.src, d.src1, d.src2, d.wei, d.wei1, d.wei2, d.wei3, d.bia, d.dst, d.dst1, d.dst2, d.src, d.src1,
                d.src2, d.wei, d.wei1, d.wei2, d.wei3, d.bia, d.dst, d.dst1, d.dst2, d.flags, hint, a);
    else if (cell == "gru")
        CREATE(gru_backward, kind, way, d.src, d.src1, d.wei, d.wei1, d.bia, d.dst, d.dst1, d.src, d.src1, d.wei, d.wei1, d.bia, d.dst,
                d.dst1, d.flags, hint, a);
    else if (cell == "lbr_gru")
        CREATE(lbr_gru_backward, kind, way, d.src, d.src1, d.wei, d.wei1, d.bia, d.dst, d.dst1, d.src, d.src1, d.wei, d.wei1, d.bia, d.dst,
                d.dst1, d.flags, hint, a);
    else if (cell == "augru")
        CREATE(augru_backward, kind, way, d.src, d.src1, d.src3, d.wei, d.wei1, d.bia, d.dst, d.dst1, d.src, d.src1, d.src3, d.wei, d.wei1,
                d.bia, d.dst, d.dst1, d.flags, hint, a);
    else if (cell == "lbr_augru")
        CREATE(lbr_augru_backward, kind, way, d.src, d.src1, d.src3, d.wei, d.wei1, d.bia, d.dst, d.dst1, d.src, d.src1, d.src3, d.wei,
                d.wei1, d.bia, d.dst, d.dst1, d.flags, hint, a);
    else
        throw Wrong {"no cell: " + cell};
}

inline void forward(const Described &d, dnnl_prop_kind_t kind, const Attributes &attr, PrimitiveDesc &made) {
    const std::string &name = d.one.primitive;
    const auto *a = attr.raw;
    const auto number = [&](const char *key) { return static_cast<int>(d.one.number(key)); };
    if (name == "reorder")
        TRY(dnnl_reorder_primitive_desc_create, &made.raw, d.src, engine, d.dst, engine, a);
    else if (name == "eltwise")
        CREATE(eltwise_forward, kind, d.alg, d.src, d.dst, d.alpha, d.beta, a);
    else if (name == "matmul")
        CREATE(matmul, d.src, d.wei, d.bia, d.dst, a);
    else if (name == "softmax")
        CREATE(softmax_forward, kind, d.alg, d.src, d.dst, number("axis"), a);
    else if (name == "binary")
        CREATE(binary, d.alg, d.src, d.src1, d.dst, a);
    else if (name == "reduction")
        CREATE(reduction, d.alg, d.src, d.dst, d.alpha, d.beta, a);
    else if (name == "concat" || name == "sum") {
        std::vector<Desc> sources;
        std::vector<const_dnnl_memory_desc_t> raw;
        for (const std::string &text : d.one.all("multiple")) sources.push_back(descriptor(text));
        for (const Desc &source : sources) raw.push_back(source);
        std::vector<float> scales;
        for (dnnl_dim_t scale : numbers(d.one.word("scales"))) scales.push_back(static_cast<float>(scale) / 4);
        if (name == "concat")
            CREATE(concat, d.dst, static_cast<int>(raw.size()), number("axis"), raw.data(), a);
        else
            CREATE(sum, d.dst, static_cast<int>(raw.size()), scales.data(), raw.data(), a);
    } else if (name == "convolution")
        CREATE(convolution_forward, kind, d.alg, d.src, d.wei, d.bia, d.dst, d.strides.data(), d.dilates.data(), d.left.data(), d.right.data(), a);
    else if (name == "deconvolution")
        CREATE(deconvolution_forward, kind, d.alg, d.src, d.wei, d.bia, d.dst, d.strides.data(), d.dilates.data(), d.left.data(), d.right.data(), a);
    else if (name == "inner_product")
        CREATE(inner_product_forward, kind, d.src, d.wei, d.bia, d.dst, a);
    else if (name == "pooling")
        CREATE(pooling_forward, kind, d.alg, d.src, d.dst, d.strides.data(), d.kernel.data(), d.dilates.data(), d.left.data(), d.right.data(), a);
    else if (name == "prelu")
        CREATE(prelu_forward, kind, d.src, d.wei, d.dst, a);
    else if (name == "shuffle")
        CREATE(shuffle_forward, kind, d.src, d.dst, number("axis"), number("groups"), a);
    else if (name == "lrn")
        CREATE(lrn_forward, kind, d.alg, d.src, d.dst, number("size"), d.alpha, d.beta, static_cast<float>(d.one.number("k", 1)), a);
    else if (name == "batch_normalization")
        CREATE(batch_normalization_forward, kind, d.src, d.dst, d.epsilon, d.flags, a);
    else if (name == "group_normalization")
        CREATE(group_normalization_forward, kind, d.src, d.dst, number("groups"), d.epsilon, d.flags, a);
    else if (name == "layer_normalization")
        CREATE(layer_normalization_forward, kind, d.src, d.dst, d.stat, d.epsilon, d.flags, a);
    else if (name == "resampling")
        CREATE(resampling_forward, kind, d.alg, nullptr, d.src, d.dst, a);
    else if (name == "rnn")
        recurrent_forward(d, kind, a, made);
    else
        throw Wrong {"no primitive: " + name};
}

// Gradients have the descriptors of what they are gradients of, or those of `dsrc`, `dwei`, `dbia` and `ddst`.
inline void backward(const Described &d, dnnl_prop_kind_t kind, const_dnnl_primitive_desc_t hint, const Attributes &attr, PrimitiveDesc &made) {
    const std::string &name = d.one.primitive;
    const auto *a = attr.raw;
    const auto gradient = [&](const char *own, const char *of) { return optional(d.one, d.one.has(own) ? own : of); };
    const Desc dsrc = gradient("dsrc", "src"), dwei = gradient("dwei", "wei"), dbia = gradient("dbia", "bia"), ddst = gradient("ddst", "dst");
    const auto number = [&](const char *key) { return static_cast<int>(d.one.number(key)); };
    const bool by_weights = kind == dnnl_backward_weights;
    if (name == "eltwise") {
        const bool from_dst = d.one.word("alg").find("use_dst") != std::string::npos;
        CREATE(eltwise_backward, d.alg, dsrc, ddst, from_dst ? d.dst : d.src, d.alpha, d.beta, hint, a);
    } else if (name == "softmax")
        CREATE(softmax_backward, d.alg, dsrc, ddst, d.dst, number("axis"), hint, a);
    else if (name == "convolution" && by_weights)
        CREATE(convolution_backward_weights, d.alg, d.src, dwei, dbia, ddst, d.strides.data(), d.dilates.data(), d.left.data(), d.right.data(), hint, a);
    else if (name == "convolution")
        CREATE(convolution_backward_data, d.alg, dsrc, d.wei, ddst, d.strides.data(), d.dilates.data(), d.left.data(), d.right.data(), hint, a);
    else if (name == "deconvolution" && by_weights)
        CREATE(deconvolution_backward_weights, d.alg, d.src, dwei, dbia, ddst, d.strides.data(), d.dilates.data(), d.left.data(), d.right.data(), hint, a);
    else if (name == "deconvolution")
        CREATE(deconvolution_backward_data, d.alg, dsrc, d.wei, ddst, d.strides.data(), d.dilates.data(), d.left.data(), d.right.data(), hint, a);
    else if (name == "inner_product" && by_weights)
        CREATE(inner_product_backward_weights, d.src, dwei, dbia, ddst, hint, a);
    else if (name == "inner_product")
        CREATE(inner_product_backward_data, dsrc, d.wei, ddst, hint, a);
    else if (name == "pooling")
        CREATE(pooling_backward, d.alg, dsrc, ddst, d.strides.data(), d.kernel.data(), d.dilates.data(), d.left.data(), d.right.data(), hint, a);
    else if (name == "prelu")
        CREATE(prelu_backward, d.src, d.wei, dsrc, dwei, ddst, hint, a);
    else if (name == "shuffle")
        CREATE(shuffle_backward, dsrc, ddst, number("axis"), number("groups"), hint, a);
    else if (name == "lrn")
        CREATE(lrn_backward, d.alg, dsrc, ddst, d.src, number("size"), d.alpha, d.beta, static_cast<float>(d.one.number("k", 1)), hint, a);
    else if (name == "batch_normalization")
        CREATE(batch_normalization_backward, kind, dsrc, ddst, d.src, d.epsilon, d.flags, hint, a);
    else if (name == "group_normalization")
        CREATE(group_normalization_backward, kind, dsrc, ddst, d.src, number("groups"), d.epsilon, d.flags, hint, a);
    else if (name == "layer_normalization")
        CREATE(layer_normalization_backward, kind, dsrc, ddst, d.src, d.stat, d.epsilon, d.flags, hint, a);
    else if (name == "resampling")
        CREATE(resampling_backward, d.alg, nullptr, dsrc, ddst, hint, a);
    else if (name == "rnn")
        recurrent_backward(d, kind, hint, a, made);
    else
        throw Wrong {"no backward primitive: " + name};
}

#endif
