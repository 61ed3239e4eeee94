// Primitives of every kind with layouts that are told, for the lines that the library prints about them. It runs on oneDNN's library too.
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"

using namespace dnnl;
using dt = memory::data_type;
using tag = memory::format_tag;
using desc = memory::desc;

static engine *eng;
static stream *str;

static desc f32(const memory::dims &dims, tag layout) { return desc(dims, dt::f32, layout); }

// Executes a primitive on memory of zeros for each argument.
static void run(const primitive &made, const std::vector<std::pair<int, desc>> &operands) {
    std::unordered_map<int, memory> args;
    for (const auto &[number, md] : operands) {
        memory m(md, *eng);
        if (void *data = m.map_data()) {
            std::fill_n(static_cast<char *>(data), md.get_size(), 0);
            m.unmap_data(data);
        }
        args.insert({number, m});
    }
    made.execute(*str, args);
    str->wait();
}

int main() {
    engine host(engine::kind::cpu, 0);
    stream line(host);
    eng = &host, str = &line;
    const desc image = f32({2, 8, 6, 5}, tag::nchw), rows = f32({4, 8}, tag::ab), channels = f32({8}, tag::a);

    post_ops chain;
    chain.append_eltwise(algorithm::eltwise_relu, 0.5F, 0);
    chain.append_sum(2);
    chain.append_binary(algorithm::binary_add, f32({1, 6}, tag::ab));
    chain.append_binary(algorithm::binary_mul, f32({4, 6}, tag::ba));
    primitive_attr attr;
    attr.set_post_ops(chain);
    attr.set_scales_mask(DNNL_ARG_WEIGHTS, 2);
    attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
    const desc bytes({4, 8}, dt::u8, tag::ab), weights({8, 6}, dt::s8, tag::ab), product = f32({4, 6}, tag::ab), bias = f32({1, 6}, tag::ab);
    run(matmul(matmul::primitive_desc(host, bytes, weights, bias, product, attr)),
            {{DNNL_ARG_SRC, bytes}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, product}, {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, f32({6}, tag::a)},
                    {DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, desc({1}, dt::s32, tag::a)}, {DNNL_ARG_ATTR_MULTIPLE_POST_OP(2) | DNNL_ARG_SRC_1, f32({1, 6}, tag::ab)},
                    {DNNL_ARG_ATTR_MULTIPLE_POST_OP(3) | DNNL_ARG_SRC_1, f32({4, 6}, tag::ba)}});

    const desc filters = f32({2, 4, 4, 3, 3}, tag::goihw), out = f32({2, 8, 3, 5}, tag::nchw);
    const convolution_forward::primitive_desc conv(host, prop_kind::forward_training, algorithm::convolution_auto, image, filters, channels, out, {2, 1}, {1, 1}, {1, 1});
    run(convolution_forward(conv), {{DNNL_ARG_SRC, image}, {DNNL_ARG_WEIGHTS, filters}, {DNNL_ARG_BIAS, channels}, {DNNL_ARG_DST, out}});
    run(convolution_backward_data(convolution_backward_data::primitive_desc(host, algorithm::convolution_direct, image, filters, out, {2, 1}, {1, 1}, {1, 1}, conv)),
            {{DNNL_ARG_DIFF_DST, out}, {DNNL_ARG_WEIGHTS, filters}, {DNNL_ARG_DIFF_SRC, image}});
    run(convolution_backward_weights(convolution_backward_weights::primitive_desc(host, algorithm::convolution_direct, image, filters, channels, out, {2, 1}, {1, 1}, {1, 1}, conv)),
            {{DNNL_ARG_DIFF_DST, out}, {DNNL_ARG_SRC, image}, {DNNL_ARG_DIFF_WEIGHTS, filters}, {DNNL_ARG_DIFF_BIAS, channels}});
    const desc signal = f32({1, 3, 9}, tag::abc), taps = f32({4, 3, 3}, tag::abc), less = f32({1, 4, 5}, tag::abc);
    run(convolution_forward(convolution_forward::primitive_desc(host, prop_kind::forward_inference, algorithm::convolution_direct, signal, taps, less, memory::dims {1}, memory::dims {1},
                memory::dims {0}, memory::dims {0})),
            {{DNNL_ARG_SRC, signal}, {DNNL_ARG_WEIGHTS, taps}, {DNNL_ARG_DST, less}});
    const desc up = f32({4, 8, 3, 3}, tag::oihw), larger = f32({2, 4, 11, 9}, tag::nchw);
    run(deconvolution_forward(deconvolution_forward::primitive_desc(host, prop_kind::forward_inference, algorithm::deconvolution_direct, image, up, larger, {2, 2}, {1, 1}, {1, 1})),
            {{DNNL_ARG_SRC, image}, {DNNL_ARG_WEIGHTS, up}, {DNNL_ARG_DST, larger}});
    const desc dense = f32({7, 8, 6, 5}, tag::oihw), flat = f32({2, 7}, tag::ab);
    run(inner_product_forward(inner_product_forward::primitive_desc(host, prop_kind::forward_inference, image, dense, flat)),
            {{DNNL_ARG_SRC, image}, {DNNL_ARG_WEIGHTS, dense}, {DNNL_ARG_DST, flat}});
    const desc half = f32({2, 8, 3, 2}, tag::nchw);
    run(pooling_forward(pooling_forward::primitive_desc(host, prop_kind::forward_inference, algorithm::pooling_max, image, half, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {0, 0})),
            {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, half}});

    run(reorder(reorder::primitive_desc(host, image, host, desc({2, 8, 6, 5}, dt::bf16, tag::nhwc))),
            {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, desc({2, 8, 6, 5}, dt::bf16, tag::nhwc)}});
    const desc odd = f32({2, 5, 3, 3}, tag::nchw), padded = f32({2, 5, 3, 3}, tag::nChw8c);
    run(reorder(reorder::primitive_desc(host, odd, host, padded)), {{DNNL_ARG_SRC, odd}, {DNNL_ARG_DST, padded}});
    const desc gaps({4, 8}, dt::f32, memory::dims {16, 1});
    run(reorder(reorder::primitive_desc(host, rows, host, gaps)), {{DNNL_ARG_SRC, rows}, {DNNL_ARG_DST, gaps}});
    const softmax_forward::primitive_desc softmax(host, prop_kind::forward_training, algorithm::softmax_log, image, image, 1);
    run(softmax_forward(softmax), {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, image}});
    run(softmax_backward(softmax_backward::primitive_desc(host, algorithm::softmax_log, image, image, image, 1, softmax)),
            {{DNNL_ARG_DST, image}, {DNNL_ARG_DIFF_DST, image}, {DNNL_ARG_DIFF_SRC, image}});
    const eltwise_forward::primitive_desc elu(host, prop_kind::forward_training, algorithm::eltwise_elu, rows, rows, 0.5F, 0.F);
    run(eltwise_forward(elu), {{DNNL_ARG_SRC, rows}, {DNNL_ARG_DST, rows}});
    run(eltwise_backward(eltwise_backward::primitive_desc(host, algorithm::eltwise_elu, rows, rows, rows, 0.5F, 0.F, elu)),
            {{DNNL_ARG_SRC, rows}, {DNNL_ARG_DIFF_DST, rows}, {DNNL_ARG_DIFF_SRC, rows}});
    run(binary(binary::primitive_desc(host, algorithm::binary_mul, rows, f32({1, 8}, tag::ab), rows)),
            {{DNNL_ARG_SRC_0, rows}, {DNNL_ARG_SRC_1, f32({1, 8}, tag::ab)}, {DNNL_ARG_DST, rows}});
    run(reduction(reduction::primitive_desc(host, algorithm::reduction_norm_lp_sum, rows, f32({4, 1}, tag::ab), 2.F, 0.5F)),
            {{DNNL_ARG_SRC, rows}, {DNNL_ARG_DST, f32({4, 1}, tag::ab)}});
    run(concat(concat::primitive_desc(host, f32({8, 8}, tag::ab), 0, {rows, rows})),
            {{DNNL_ARG_MULTIPLE_SRC, rows}, {DNNL_ARG_MULTIPLE_SRC + 1, rows}, {DNNL_ARG_DST, f32({8, 8}, tag::ab)}});
    run(sum(sum::primitive_desc(host, rows, {1.F, 2.F}, {rows, rows})), {{DNNL_ARG_MULTIPLE_SRC, rows}, {DNNL_ARG_MULTIPLE_SRC + 1, rows}, {DNNL_ARG_DST, rows}});
    run(shuffle_forward(shuffle_forward::primitive_desc(host, prop_kind::forward_inference, image, image, 1, 4)), {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, image}});
    const desc slopes = f32({1, 8, 1, 1}, tag::nchw);
    run(prelu_forward(prelu_forward::primitive_desc(host, prop_kind::forward_inference, image, slopes, image)),
            {{DNNL_ARG_SRC, image}, {DNNL_ARG_WEIGHTS, slopes}, {DNNL_ARG_DST, image}});
    run(lrn_forward(lrn_forward::primitive_desc(host, prop_kind::forward_inference, algorithm::lrn_across_channels, image, image, 5, 1.F, 0.75F, 1.F)),
            {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, image}});
    const desc sized = f32({2, 8, 9, 4}, tag::nchw);
    run(resampling_forward(resampling_forward::primitive_desc(host, prop_kind::forward_inference, algorithm::resampling_linear, image, sized)),
            {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, sized}});

    const normalization_flags both = normalization_flags::use_scale | normalization_flags::use_shift;
    const batch_normalization_forward::primitive_desc batch(host, prop_kind::forward_training, image, image, 0.1F, both);
    run(batch_normalization_forward(batch), {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, image}, {DNNL_ARG_MEAN, channels}, {DNNL_ARG_VARIANCE, channels},
                                                    {DNNL_ARG_SCALE, channels}, {DNNL_ARG_SHIFT, channels}});
    run(batch_normalization_backward(batch_normalization_backward::primitive_desc(host, prop_kind::backward, image, image, image, 0.1F, both, batch)),
            {{DNNL_ARG_SRC, image}, {DNNL_ARG_DIFF_DST, image}, {DNNL_ARG_DIFF_SRC, image}, {DNNL_ARG_MEAN, channels}, {DNNL_ARG_VARIANCE, channels}, {DNNL_ARG_SCALE, channels},
                    {DNNL_ARG_SHIFT, channels}, {DNNL_ARG_DIFF_SCALE, channels}, {DNNL_ARG_DIFF_SHIFT, channels}});
    run(group_normalization_forward(group_normalization_forward::primitive_desc(host, prop_kind::forward_inference, image, image, 4, 0.1F, normalization_flags::use_scale)),
            {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, image}, {DNNL_ARG_SCALE, channels}});
    const layer_normalization_forward::primitive_desc layer(host, prop_kind::forward_training, rows, rows, 0.1F, both);
    const desc means = layer.mean_desc();
    run(layer_normalization_forward(layer), {{DNNL_ARG_SRC, rows}, {DNNL_ARG_DST, rows}, {DNNL_ARG_MEAN, means}, {DNNL_ARG_VARIANCE, means}, {DNNL_ARG_SCALE, channels}, {DNNL_ARG_SHIFT, channels}});
    run(layer_normalization_backward(layer_normalization_backward::primitive_desc(host, prop_kind::backward, rows, rows, rows, 0.1F, both, layer)),
            {{DNNL_ARG_SRC, rows}, {DNNL_ARG_DIFF_DST, rows}, {DNNL_ARG_DIFF_SRC, rows}, {DNNL_ARG_MEAN, means}, {DNNL_ARG_VARIANCE, means}, {DNNL_ARG_SCALE, channels},
                    {DNNL_ARG_SHIFT, channels}, {DNNL_ARG_DIFF_SCALE, channels}, {DNNL_ARG_DIFF_SHIFT, channels}});

    const desc steps = f32({3, 2, 4}, tag::tnc), states = f32({1, 1, 2, 4}, tag::ldnc), cells = f32({1, 1, 4, 4, 4}, tag::ldigo), biases = f32({1, 1, 4, 4}, tag::ldgo);
    run(lstm_forward(lstm_forward::primitive_desc(host, prop_kind::forward_inference, rnn_direction::unidirectional_left2right, steps, states, states, cells, cells, biases, steps,
                states, states)),
            {{DNNL_ARG_SRC_LAYER, steps}, {DNNL_ARG_SRC_ITER, states}, {DNNL_ARG_SRC_ITER_C, states}, {DNNL_ARG_WEIGHTS_LAYER, cells}, {DNNL_ARG_WEIGHTS_ITER, cells},
                    {DNNL_ARG_BIAS, biases}, {DNNL_ARG_DST_LAYER, steps}, {DNNL_ARG_DST_ITER, states}, {DNNL_ARG_DST_ITER_C, states}});
    return 0;
}
