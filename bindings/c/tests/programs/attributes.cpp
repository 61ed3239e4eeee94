// What attributes ask of primitives, and operands that are not all known or not dense, through oneDNN's C++ interface; values against plain
// loops in f64.
#include <cstdint>
#include <map>

#include "values.h"

static const memory::dim unknown = DNNL_RUNTIME_DIM_VAL;

template <typename T>
static memory device_of(const memory::desc &md, const std::vector<T> &values) {
    memory m(md, *eng);
    if (values.empty()) return m;
    void *p = m.map_data();
    std::memcpy(p, values.data(), values.size() * sizeof(T));
    m.unmap_data(p);
    return m;
}

template <typename T>
static std::vector<T> host_of(const memory &m, size_t count) {
    std::vector<T> values(count);
    void *p = m.map_data();
    if (count) std::memcpy(values.data(), p, count * sizeof(T));
    m.unmap_data(p);
    return values;
}

template <typename T>
static memory one(dt type, T value) {
    return device_of<T>(memory::desc({1}, type, tag::a), {value});
}

template <typename T>
static memory host_scalar(dt type, T value) {
    return memory(memory::desc::host_scalar(type), value);
}

// The product of `m` rows and `n` columns, each value of A and B by a function of its place.
static std::vector<double> product(int m, int n, int k, const std::function<double(int, int)> &a, const std::function<double(int, int)> &b) {
    std::vector<double> c;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int p = 0; p < k; p++) sum += a(i, p) * b(p, j);
            c.push_back(sum);
        }
    return c;
}

static dnnl_status_t status_of(const std::function<void()> &body) {
    try {
        body();
    } catch (const error &e) {
        return e.status;
    }
    return dnnl_success;
}

// One primitive for products of several shapes, and one reorder.
static void unknown_dimensions() {
    const memory::desc src({unknown, unknown}, dt::f32, tag::ab), wei({unknown, 5}, dt::f32, tag::ab), dst({unknown, 5}, dt::f32, tag::ab);
    post_ops ops;
    ops.append_eltwise(algorithm::eltwise_relu, 0.25f, 0.0f);
    primitive_attr attr;
    attr.set_post_ops(ops);
    attr.set_scales_mask(DNNL_ARG_WEIGHTS, 2);
    const matmul::primitive_desc pd(*eng, src, wei, nchw({1, 5}), dst, attr);
    CHECK(pd.src_desc() == src && pd.dst_desc() == dst && pd.src_desc().get_size() == DNNL_RUNTIME_SIZE_VAL);
    const matmul any(pd);
    const floats scale = random_floats(5, 9), bias = random_floats(5, 8);
    memory m_scale = device_of(nchw({5}), scale), m_bias = device_of(nchw({1, 5}), bias);
    for (int round = 0; round < 2; round++)
        for (const int m : {1, 3, 17})
            for (const int k : {2, 7}) {
                const floats a = random_floats(m * k, m), b = random_floats(k * 5, k);
                memory x = device_of(nchw({m, k}), a), w = device_of(nchw({k, 5}), b), y(nchw({m, 5}), *eng);
                any.execute(*str, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, m_bias}, {DNNL_ARG_DST, y},
                                          {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, m_scale}});
                str->wait();
                std::vector<double> want = product(m, 5, k, [&](int i, int p) { return a[i * k + p]; }, [&](int p, int j) { return b[p * 5 + j] * scale[j]; });
                for (size_t i = 0; i < want.size(); i++) want[i] += bias[i % 5], want[i] *= want[i] < 0 ? 0.25 : 1;
                CHECK(close_to(to_host(y, nchw({m, 5})), want));
            }
    // What was known must be so; what was not must be there.
    memory x(nchw({3, 4}), *eng), w(nchw({4, 6}), *eng), y(nchw({3, 6}), *eng);
    const auto run = [&] { any.execute(*str, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, m_bias}, {DNNL_ARG_DST, y}, {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, m_scale}}); };
    CHECK(status_of(run) == dnnl_invalid_arguments);
    CHECK(status_of([&] { any.execute(*str, {{DNNL_ARG_SRC, x}}); }) == dnnl_invalid_arguments);
    // A size that is known on one side alone.
    CHECK(status_of([&] { matmul::primitive_desc(*eng, nchw({3, 4}), nchw({4, 5}), dst); }) == dnnl_invalid_arguments);

    const memory::desc plain({unknown, unknown}, dt::f32, tag::ab), turned({unknown, unknown}, dt::f32, tag::ba);
    const reorder turn(reorder::primitive_desc(*eng, plain, *eng, turned));
    for (const int n : {1, 4, 9}) {
        const floats a = random_floats(n * 3, n);
        memory from = device_of(nchw({n, 3}), a), to(memory::desc({n, 3}, dt::f32, tag::ba), *eng);
        turn.execute(*str, from, to);
        str->wait();
        const floats got = host_of<float>(to, a.size());
        bool right = true;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < 3; j++) right = right && got[j * n + i] == a[i * 3 + j];
        CHECK(right);
    }
}

// Products of nothing are sums of no terms; other primitives of nothing do nothing.
static void nothing() {
    const floats bias = random_floats(4, 3);
    memory b = device_of(nchw({1, 4}), bias), y(nchw({3, 4}), *eng), x(nchw({3, 0}), *eng), w(nchw({0, 4}), *eng);
    const matmul::primitive_desc pd(*eng, nchw({3, 0}), nchw({0, 4}), nchw({1, 4}), nchw({3, 4}));
    matmul(pd).execute(*str, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, b}, {DNNL_ARG_DST, y}});
    str->wait();
    std::vector<double> want;
    for (int i = 0; i < 12; i++) want.push_back(bias[i % 4]);
    CHECK(close_to(to_host(y, nchw({3, 4})), want, 0));
    memory none(nchw({0, 3, 4, 4}), *eng), result(nchw({0, 4, 4, 4}), *eng), taps(nchw({4, 3, 1, 1}), *eng);
    const convolution_forward::primitive_desc convolution(*eng, prop_kind::forward_inference, algorithm::convolution_direct, nchw({0, 3, 4, 4}),
            nchw({4, 3, 1, 1}), nchw({0, 4, 4, 4}), dims {1, 1}, dims {0, 0}, dims {0, 0});
    convolution_forward(convolution).execute(*str, {{DNNL_ARG_SRC, none}, {DNNL_ARG_WEIGHTS, taps}, {DNNL_ARG_DST, result}});
    const softmax_forward::primitive_desc softmax(*eng, prop_kind::forward_inference, algorithm::softmax_accurate, nchw({0, 3}), nchw({0, 3}), 1);
    memory row(nchw({0, 3}), *eng), other(nchw({0, 3}), *eng);
    softmax_forward(softmax).execute(*str, {{DNNL_ARG_SRC, row}, {DNNL_ARG_DST, other}});
    memory sums(nchw({1, 3}), *eng);
    const reduction::primitive_desc sum(*eng, algorithm::reduction_sum, nchw({0, 3}), nchw({1, 3}), 0, 0);
    reduction(sum).execute(*str, {{DNNL_ARG_SRC, row}, {DNNL_ARG_DST, sums}});
    str->wait();
    CHECK(close_to(to_host(sums, nchw({1, 3})), {0, 0, 0}, 0));
    // Statistics of no elements are zeros.
    const batch_normalization_forward::primitive_desc normal(
            *eng, prop_kind::forward_training, nchw({0, 3, 4, 4}), nchw({0, 3, 4, 4}), 1e-3f, normalization_flags::none);
    memory mean = device_of<float>(nchw({3}), {1, 2, 3}), variance = device_of<float>(nchw({3}), {4, 5, 6});
    batch_normalization_forward(normal).execute(*str, {{DNNL_ARG_SRC, none}, {DNNL_ARG_DST, none}, {DNNL_ARG_MEAN, mean}, {DNNL_ARG_VARIANCE, variance}});
    str->wait();
    CHECK(close_to(to_host(mean, nchw({3})), {0, 0, 0}, 0) && close_to(to_host(variance, nchw({3})), {0, 0, 0}, 0));
}

static void edges_of_functions() {
    const float inf = INFINITY;
    dnnl_primitive_desc_t raw = nullptr;
    const memory::desc md = nchw({2, 3});
    OK(dnnl_softmax_forward_primitive_desc_create(&raw, eng->get(), dnnl_forward_inference, (dnnl_alg_kind_t)0x1002, md.get(), md.get(), 1, nullptr));
    const softmax_forward::primitive_desc pd(raw);
    OK(dnnl_primitive_desc_destroy(raw));
    memory x = device_of<float>(md, {-inf, -inf, -inf, 0, -inf, 0}), y(md, *eng);
    softmax_forward(pd).execute(*str, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
    str->wait();
    CHECK(close_to(to_host(y, md), {0, 0, 0, 0.5, 0, 0.5}, 1e-6));
    const eltwise_forward::primitive_desc soft(*eng, prop_kind::forward_inference, algorithm::eltwise_soft_relu, nchw({4}), nchw({4}), 0.0f);
    memory v = device_of<float>(nchw({4}), {-1, 0, 1, 2}), r(nchw({4}), *eng);
    eltwise_forward(soft).execute(*str, {{DNNL_ARG_SRC, v}, {DNNL_ARG_DST, r}});
    str->wait();
    const floats got = to_host(r, nchw({4}));
    CHECK(std::isinf(got[0]) && got[0] > 0 && std::isinf(got[3]));
    // The gradient passes at the upper bound of one algorithm, and at no bound of the other.
    memory at = device_of<float>(nchw({4}), {-0.5f, 0, 1, 1.5f}), into = device_of<float>(nchw({4}), {2, 3, 4, 5}), back(nchw({4}), *eng);
    for (const algorithm clip : {algorithm::eltwise_clip, algorithm::eltwise_clip_v2}) {
        const eltwise_forward::primitive_desc hint(*eng, prop_kind::forward_training, clip, nchw({4}), nchw({4}), -0.5f, 1.0f);
        const eltwise_backward::primitive_desc gradient(*eng, clip, nchw({4}), nchw({4}), nchw({4}), -0.5f, 1.0f, hint);
        eltwise_backward(gradient).execute(*str, {{DNNL_ARG_SRC, at}, {DNNL_ARG_DIFF_DST, into}, {DNNL_ARG_DIFF_SRC, back}});
        str->wait();
        CHECK(close_to(to_host(back, nchw({4})), {0, 3, clip == algorithm::eltwise_clip ? 4.0 : 0.0, 0}, 0));
    }
    // An image of one place is the same everywhere, whatever the layouts.
    memory pixel = device_of<float>(nchw({1, 3, 1, 1}), {4, 7, 12});
    const memory::desc last({1, 3, 5, 5}, dt::f32, tag::nhwc);
    const resampling_forward::primitive_desc larger(*eng, prop_kind::forward_inference, algorithm::resampling_linear, nchw({1, 3, 1, 1}), last);
    memory image(last, *eng);
    resampling_forward(larger).execute(*str, {{DNNL_ARG_SRC, pixel}, {DNNL_ARG_DST, image}});
    str->wait();
    std::vector<double> want;
    for (int i = 0; i < 75; i++) want.push_back(i < 25 ? 4 : i < 50 ? 7 : 12);
    CHECK(close_to(to_host(image, nchw({1, 3, 5, 5})), want, 1e-6));
}

// A convolution of one tap, a rectifier, a depthwise convolution with a bias, and a product behind all.
static void depthwise(int stride) {
    const int ic = 3, c = 8, size = 7, out = (size + stride - 1) / stride;
    const auto any = [](const dims &d) { return memory::desc(d, dt::f32, tag::any); };
    post_ops ops;
    ops.append_eltwise(algorithm::eltwise_relu, 0.0f, 0.0f);
    ops.append_dw(dt::f32, dt::f32, dt::f32, 3, stride, 1);
    ops.append_binary(algorithm::binary_mul, nchw({1, c, 1, 1}));
    primitive_attr attr;
    attr.set_post_ops(ops);
    const convolution_forward::primitive_desc pd(*eng, prop_kind::forward_inference, algorithm::convolution_auto, any({2, ic, size, size}),
            any({c, ic, 1, 1}), nchw({c}), any({2, c, size, size}), dims {1, 1}, dims {0, 0}, dims {0, 0}, attr);
    CHECK((pd.dst_desc().get_dims() == dims {2, c, out, out}));
    const memory::desc taps = pd.query_md(query::exec_arg_md, DNNL_ARG_ATTR_POST_OP_DW | DNNL_ARG_WEIGHTS);
    CHECK((taps.get_dims() == dims {c, 1, 1, 3, 3}));
    const floats src = random_floats(2 * ic * size * size, 1), wei = random_floats(c * ic, 2), bias = random_floats(c, 3), dw = random_floats(c * 9, 4),
                 dw_bias = random_floats(c, 5), factor = random_floats(c, 6);
    memory x = to_device(pd.src_desc(), src, nchw({2, ic, size, size})), w = to_device(pd.weights_desc(), wei, nchw({c, ic, 1, 1})), b = device_of(nchw({c}), bias);
    memory d = to_device(taps, dw, memory::desc({c, 1, 1, 3, 3}, dt::f32, tag::abcde)), e = device_of(nchw({c}), dw_bias), f = device_of(nchw({1, c, 1, 1}), factor);
    memory y(pd.dst_desc(), *eng);
    convolution_forward(pd).execute(*str, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, b}, {DNNL_ARG_ATTR_POST_OP_DW | DNNL_ARG_WEIGHTS, d},
                                                  {DNNL_ARG_ATTR_POST_OP_DW | DNNL_ARG_BIAS, e}, {DNNL_ARG_DST, y},
                                                  {DNNL_ARG_ATTR_MULTIPLE_POST_OP(2) | DNNL_ARG_SRC_1, f}});
    str->wait();
    std::vector<double> between, want;
    for (int n = 0; n < 2; n++)
        for (int o = 0; o < c; o++)
            for (int at = 0; at < size * size; at++) {
                double sum = bias[o];
                for (int i = 0; i < ic; i++) sum += (double)wei[o * ic + i] * src[(n * ic + i) * size * size + at];
                between.push_back(std::max(sum, 0.0));
            }
    for (int o = 0; o < 2 * c; o++)
        for (int r = 0; r < out; r++)
            for (int q = 0; q < out; q++) {
                double sum = dw_bias[o % c];
                for (int k = 0; k < 9; k++) {
                    const int row = r * stride - 1 + k / 3, column = q * stride - 1 + k % 3;
                    if (row >= 0 && column >= 0 && row < size && column < size) sum += dw[o % c * 9 + k] * between[(o * size + row) * size + column];
                }
                want.push_back(sum * factor[o % c]);
            }
    CHECK(close_to(to_host(y, nchw({2, c, out, out})), want));
}

static void dropouts() {
    const int m = 64, n = 128;
    const memory::desc md = nchw({m, n}), bytes({m, n}, dt::u8, tag::ab);
    const floats x = random_floats(m * n, 1);
    memory src = device_of(md, x);
    post_ops ops;
    ops.append_eltwise(algorithm::eltwise_linear, 2.0f, 1.0f);
    // With and without offsets, from the device and from the host: the same numbers drop the same elements.
    std::vector<uint8_t> first;
    for (const bool on_host : {false, true})
        for (const float p : {0.0f, 0.25f, 1.0f}) {
            primitive_attr attr;
            attr.set_post_ops(ops);
            attr.set_dropout(bytes, dt::s64, true, on_host);
            const eltwise_forward::primitive_desc pd(*eng, prop_kind::forward_inference, algorithm::eltwise_abs, md, md, attr);
            memory y(md, *eng), mask(bytes, *eng);
            memory seed = on_host ? host_scalar<int64_t>(dt::s64, 77) : one<int64_t>(dt::s64, 77), offset = on_host ? host_scalar<int64_t>(dt::s64, 5) : one<int64_t>(dt::s64, 5);
            memory probability = on_host ? host_scalar<float>(dt::f32, p) : one<float>(dt::f32, p);
            const std::unordered_map<int, memory> args = {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, y}, {DNNL_ARG_ATTR_DROPOUT_MASK, mask}, {DNNL_ARG_ATTR_DROPOUT_SEED, seed},
                    {DNNL_ARG_ATTR_DROPOUT_OFFSET, offset}, {DNNL_ARG_ATTR_DROPOUT_PROBABILITY, probability}};
            eltwise_forward(pd).execute(*str, args);
            str->wait();
            const std::vector<uint8_t> kept = host_of<uint8_t>(mask, x.size());
            std::vector<double> want;
            double share = 0;
            for (size_t i = 0; i < x.size(); i++) {
                want.push_back((kept[i] ? std::fabs(x[i]) / (1.0 - p) : 0.0) * 2 + 1);
                share += kept[i];
                if (kept[i] > 1) CHECK(!"a mask of zeros and ones");
            }
            CHECK(close_to(to_host(y, md), want));
            // Six standard deviations.
            CHECK(std::fabs(share / x.size() - (1 - p)) <= 6 * std::sqrt(p * (1 - p) / x.size()));
            if (p == 0.25f && first.empty()) first = kept;
            if (p == 0.25f) CHECK(kept == first);
        }
    // The first form, without a mask: a dropped element is a zero.
    primitive_attr attr;
    attr.set_dropout(memory::desc());
    const matmul::primitive_desc pd(*eng, nchw({m, 1}), nchw({1, n}), md, attr);
    memory a = device_of(nchw({m, 1}), floats(m, 1.0f)), b = device_of(nchw({1, n}), floats(n, 3.0f)), y(md, *eng);
    memory seed = one<int32_t>(dt::s32, 3), probability = one<float>(dt::f32, 0.5f);
    matmul(pd).execute(*str, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}, {DNNL_ARG_ATTR_DROPOUT_SEED, seed}, {DNNL_ARG_ATTR_DROPOUT_PROBABILITY, probability}});
    str->wait();
    size_t zeros = 0, sixes = 0;
    for (const float v : to_host(y, md)) zeros += v == 0, sixes += v == 6;
    CHECK(zeros + sixes == (size_t)m * n && zeros > m * n / 3 && sixes > m * n / 3);
}

static float of_bf16(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

// The mean over many seeds is the value, and each result one of its two neighbours; as a result of a product and as a gradient.
static void rounding_at_random() {
    const int n = 256, seeds = 64;
    const float value = 1.0f + 0.3f / 128;
    primitive_attr attr;
    attr.set_rounding_mode(DNNL_ARG_DST, rounding_mode::stochastic);
    const memory::desc row({1, n}, dt::bf16, tag::ab);
    const matmul pd(matmul::primitive_desc(*eng, nchw({1, 1}), nchw({1, n}), row, attr));
    memory a = device_of<float>(nchw({1, 1}), {1}), b = device_of(nchw({1, n}), floats(n, value)), y(row, *eng);
    double up = 0;
    bool neighbours = true;
    for (int seed = 0; seed < seeds; seed++) {
        memory m_seed = one<int32_t>(dt::s32, seed);
        pd.execute(*str, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}, {DNNL_ARG_ATTR_ROUNDING_SEED, m_seed}});
        str->wait();
        for (const uint16_t bits : host_of<uint16_t>(y, n)) {
            const float got = of_bf16(bits);
            neighbours = neighbours && (got == 1.0f || got == 1.0f + 1.0f / 128);
            up += got > 1.0f;
        }
    }
    CHECK(neighbours);
    const double share = up / (n * seeds);
    CHECK(std::fabs(share - 0.3) < 6 * std::sqrt(0.3 * 0.7 / (n * seeds)));
    // What the type holds stays, and so do infinities.
    memory exact = device_of(nchw({1, n}), floats(n, -2.5f)), m_seed = one<int32_t>(dt::s32, 1);
    pd.execute(*str, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, exact}, {DNNL_ARG_DST, y}, {DNNL_ARG_ATTR_ROUNDING_SEED, m_seed}});
    str->wait();
    for (const uint16_t bits : host_of<uint16_t>(y, n)) if (of_bf16(bits) != -2.5f) CHECK(!"an exact number stays");

    primitive_attr of_gradient;
    of_gradient.set_rounding_mode(DNNL_ARG_DIFF_SRC, rounding_mode::stochastic);
    const memory::desc image({1, 1, 16, 16}, dt::bf16, tag::abcd), wide = nchw({1, 1, 16, 16});
    const convolution_forward::primitive_desc hint(*eng, prop_kind::forward_training, algorithm::convolution_direct, image, memory::desc({1, 1, 1, 1}, dt::bf16, tag::abcd), image,
            dims {1, 1}, dims {0, 0}, dims {0, 0});
    const convolution_backward_data::primitive_desc back(*eng, algorithm::convolution_direct, image, memory::desc({1, 1, 1, 1}, dt::bf16, tag::abcd), image, dims {1, 1},
            dims {0, 0}, dims {0, 0}, hint, of_gradient);
    memory dy = to_device(image, floats(256, 1.0f + 1.0f / 128), wide), w = to_device(memory::desc({1, 1, 1, 1}, dt::bf16, tag::abcd), {1.0f + 1.0f / 128}, nchw({1, 1, 1, 1})), dx(image, *eng);
    convolution_backward_data(back).execute(*str, {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, dx}, {DNNL_ARG_ATTR_ROUNDING_SEED, m_seed}});
    str->wait();
    // The square is between two numbers of the type.
    const double square = (1 + 1.0 / 128) * (1 + 1.0 / 128);
    for (const uint16_t bits : host_of<uint16_t>(dx, 256)) if (std::fabs(of_bf16(bits) - square) >= 1.0 / 128) CHECK(!"a neighbour");
}

// Weights in bytes with zero points by groups, which take from the product what the sums of the source say that are passed.
static void precomputed_reductions() {
    const int m = 3, k = 8, n = 4, group = 4;
    std::vector<int8_t> a, w, zero;
    for (int i = 0; i < m * k; i++) a.push_back(i * 7 % 11 - 5);
    for (int i = 0; i < k * n; i++) w.push_back(i * 5 % 13 - 6);
    for (int i = 0; i < k / group * n; i++) zero.push_back(i % 5 - 2);
    std::vector<int32_t> sums;
    for (int i = 0; i < m; i++)
        for (int g = 0; g < k / group; g++) {
            int sum = 0;
            for (int p = 0; p < group; p++) sum += a[i * k + g * group + p];
            sums.push_back(sum);
        }
    primitive_attr attr;
    attr.set_zero_points(DNNL_ARG_WEIGHTS, 3, {group, 1}, dt::s8);
    attr.set_precomputed_reductions(DNNL_ARG_SRC, 3, {1, group});
    const memory::desc src({m, k}, dt::s8, tag::ab), wei({k, n}, dt::s8, tag::ab);
    const matmul::primitive_desc pd(*eng, src, wei, nchw({m, n}), attr);
    memory x = device_of(src, a), b = device_of(wei, w), z = device_of(memory::desc({k / group, n}, dt::s8, tag::ab), zero), y(nchw({m, n}), *eng);
    memory r = device_of(memory::desc({m, k / group}, dt::s32, tag::ab), sums);
    const auto run = [&](memory &given) {
        matmul(pd).execute(*str, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}, {DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_WEIGHTS, z},
                                         {DNNL_ARG_ATTR_PRECOMPUTED_REDUCTIONS | DNNL_ARG_SRC, given}});
        str->wait();
        return to_host(y, nchw({m, n}));
    };
    CHECK(close_to(run(r), product(m, n, k, [&](int i, int p) { return a[i * k + p]; }, [&](int p, int j) { return w[p * n + j] - zero[p / group * n + j]; })));
    // Other sums, another result.
    memory none = device_of(memory::desc({m, k / group}, dt::s32, tag::ab), std::vector<int32_t>(m * k / group, 0));
    CHECK(close_to(run(none), product(m, n, k, [&](int i, int p) { return a[i * k + p]; }, [&](int p, int j) { return w[p * n + j]; })));
    primitive_attr alone;
    alone.set_precomputed_reductions(DNNL_ARG_SRC, 3, {1, group});
    CHECK(status_of([&] { matmul::primitive_desc(*eng, src, wei, nchw({m, n}), alone); }) == dnnl_unimplemented);
    attr.set_precomputed_reductions(DNNL_ARG_SRC, 3, {1, 2 * group});
    CHECK(status_of([&] { matmul::primitive_desc(*eng, src, wei, nchw({m, n}), attr); }) == dnnl_invalid_arguments);
}

// Results in f8 with scales that the product finds: powers of two for 32 elements, or f8 for 16.
static void found_scales() {
    const int m = 3, k = 4, n = 64;
    const floats a = random_floats(m * k, 1), b = random_floats(k * n, 2);
    const memory::desc dst({m, n}, dt::f8_e4m3, tag::ab);
    const std::vector<double> exact = product(m, n, k, [&](int i, int p) { return a[i * k + p]; }, [&](int p, int j) { return b[p * n + j]; });
    memory x = device_of(nchw({m, k}), a), w = device_of(nchw({k, n}), b), y(dst, *eng), wide(nchw({m, n}), *eng);
    for (const bool powers : {true, false}) {
        const int group = powers ? 32 : 16;
        primitive_attr attr;
        attr.set_scales(DNNL_ARG_DST, 3, {1, group}, powers ? dt::e8m0 : dt::f8_e4m3, false, powers ? quantization_mode::dynamic_mx : quantization_mode::dynamic_fp);
        const matmul::primitive_desc pd(*eng, nchw({m, k}), nchw({k, n}), dst, attr);
        memory scales(memory::desc({m, n / group}, powers ? dt::e8m0 : dt::f8_e4m3, tag::ab), *eng), wide_scales(nchw({m, n / group}), *eng);
        matmul(pd).execute(*str, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}, {DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, scales}});
        reorder(y, wide).execute(*str, y, wide);
        str->wait();
        std::vector<double> found;
        if (powers)
            for (const uint8_t bits : host_of<uint8_t>(scales, m * n / group)) found.push_back(std::ldexp(1.0, bits - 127));
        else {
            reorder(scales, wide_scales).execute(*str, scales, wide_scales);
            str->wait();
            for (const float scale : to_host(wide_scales, nchw({m, n / group}))) found.push_back(scale);
        }
        const floats stored = to_host(wide, nchw({m, n}));
        bool right = true;
        for (size_t g = 0; g < found.size(); g++) {
            double most = 0;
            for (int i = 0; i < group; i++) most = std::max(most, std::fabs(exact[g * group + i]));
            const double want = powers ? std::ldexp(1.0, std::ilogb(most) - 8) : most / 448;
            // Half of the type's least number, for small ones.
            right = right && std::fabs(found[g] - want) <= (powers ? 0 : std::max(want / 16, 1.0 / 1024));
            for (int i = 0; i < group; i++) {
                const double x = exact[g * group + i] / found[g], clamped = std::min(std::max(x, -448.0), 448.0);
                right = right && std::fabs(stored[g * group + i] - clamped) <= std::fabs(clamped) / 16 + 0.002;
            }
        }
        CHECK(right);
    }
    // Such scales come in too.
    primitive_attr attr;
    attr.set_scales(DNNL_ARG_WEIGHTS, 3, {2, 1}, dt::e8m0);
    const matmul::primitive_desc pd(*eng, nchw({m, k}), nchw({k, n}), nchw({m, n}), attr);
    std::vector<uint8_t> bits;
    for (int i = 0; i < k / 2 * n; i++) bits.push_back(120 + i % 12);
    memory scales = device_of(memory::desc({k / 2, n}, dt::e8m0, tag::ab), bits), z(nchw({m, n}), *eng);
    matmul(pd).execute(*str, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, z}, {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, scales}});
    str->wait();
    CHECK(close_to(to_host(z, nchw({m, n})),
            product(m, n, k, [&](int i, int p) { return a[i * k + p]; }, [&](int p, int j) { return b[p * n + j] * std::ldexp(1.0, bits[p / 2 * n + j] - 127); })));
}

// Scales and zero points from the host give what those from the device give, in each primitive that has them.
static void host_scalars() {
    struct trial {
        const char *name;
        std::map<int, float> scales;
        std::map<int, int32_t> points;
        std::function<primitive_desc_base(const primitive_attr &)> make;
    };
    const memory::desc image({1, 4, 5, 5}, dt::s8, tag::nchw), taps({6, 4, 3, 3}, dt::s8, tag::oihw), out({1, 6, 5, 5}, dt::s8, tag::nchw), rows({5, 6}, dt::s8, tag::ab), cols({6, 7}, dt::s8, tag::ab),
            product({5, 7}, dt::s8, tag::ab), turned({7, 6}, dt::s8, tag::ab);
    const dims ones {1, 1};
    const std::vector<trial> trials = {
            {"matmul", {{DNNL_ARG_SRC, 0.5f}, {DNNL_ARG_WEIGHTS, 0.25f}, {DNNL_ARG_DST, 2}}, {{DNNL_ARG_SRC, 3}, {DNNL_ARG_DST, -2}}, [&](const primitive_attr &attr) { return matmul::primitive_desc(*eng, rows, cols, product, attr); }},
            {"inner product", {{DNNL_ARG_SRC, 0.5f}, {DNNL_ARG_WEIGHTS, 0.25f}, {DNNL_ARG_DST, 2}}, {}, [&](const primitive_attr &attr) { return inner_product_forward::primitive_desc(*eng, prop_kind::forward_inference, rows, turned, product, attr); }},
            {"convolution", {{DNNL_ARG_SRC, 0.5f}, {DNNL_ARG_WEIGHTS, 0.25f}, {DNNL_ARG_DST, 2}}, {{DNNL_ARG_SRC, 3}}, [&](const primitive_attr &attr) { return convolution_forward::primitive_desc(*eng, prop_kind::forward_inference, algorithm::convolution_direct, image, taps, out, ones, ones, ones, attr); }},
            {"deconvolution", {{DNNL_ARG_SRC, 0.5f}, {DNNL_ARG_WEIGHTS, 0.25f}}, {}, [&](const primitive_attr &attr) { return deconvolution_forward::primitive_desc(*eng, prop_kind::forward_inference, algorithm::deconvolution_direct, image, taps, out, ones, ones, ones, attr); }},
            {"binary", {{DNNL_ARG_SRC_0, 0.5f}, {DNNL_ARG_SRC_1, 0.25f}}, {}, [&](const primitive_attr &attr) { return binary::primitive_desc(*eng, algorithm::binary_add, rows, rows, rows, attr); }},
            {"softmax", {{DNNL_ARG_DST, 0.01f}}, {}, [&](const primitive_attr &attr) { return softmax_forward::primitive_desc(*eng, prop_kind::forward_inference, algorithm::softmax_accurate, nchw({5, 6}), rows, 1, attr); }},
            {"layer normalization", {{DNNL_ARG_DST, 0.1f}}, {}, [&](const primitive_attr &attr) { return layer_normalization_forward::primitive_desc(*eng, prop_kind::forward_inference, nchw({5, 6}), rows, 0.1f, normalization_flags::none, attr); }},
            {"reorder", {{DNNL_ARG_SRC, 0.5f}, {DNNL_ARG_DST, 2}}, {{DNNL_ARG_SRC, 3}}, [&](const primitive_attr &attr) { return reorder::primitive_desc(*eng, rows, *eng, rows, attr); }},
    };
    for (const trial &each : trials) {
        std::vector<std::vector<int8_t>> results;
        for (const bool on_host : {false, true}) {
            primitive_attr attr;
            std::unordered_map<int, memory> args;
            for (const auto &scale : each.scales) {
                if (on_host) attr.set_host_scale(scale.first);
                else attr.set_scales_mask(scale.first, 0);
                args[DNNL_ARG_ATTR_SCALES | scale.first] = on_host ? host_scalar<float>(dt::f32, scale.second) : one<float>(dt::f32, scale.second);
            }
            for (const auto &point : each.points) {
                if (on_host) attr.set_host_zero_point(point.first);
                else attr.set_zero_points_mask(point.first, 0);
                args[DNNL_ARG_ATTR_ZERO_POINTS | point.first] = on_host ? host_scalar<int32_t>(dt::s32, point.second) : one<int32_t>(dt::s32, point.second);
            }
            const primitive_desc_base pd = each.make(attr);
            for (const int arg : {DNNL_ARG_SRC_0, DNNL_ARG_SRC_1, DNNL_ARG_WEIGHTS}) {
                const memory::desc md = pd.query_md(query::exec_arg_md, arg);
                if (md.get_ndims() == 0) continue;
                if (md.get_data_type() == dt::f32) {
                    args[arg] = device_of(md, random_floats(md.get_size() / 4, 3));
                    continue;
                }
                std::vector<int8_t> values;
                for (size_t i = 0; i < md.get_size(); i++) values.push_back((int8_t)(i * 37 % 23) - 11);
                args[arg] = device_of(md, values);
            }
            const memory::desc md = pd.query_md(query::exec_arg_md, DNNL_ARG_DST);
            memory y(md, *eng);
            args[DNNL_ARG_DST] = y;
            primitive(pd.get()).execute(*str, args);
            str->wait();
            results.push_back(host_of<int8_t>(y, md.get_size()));
        }
        if (results[0] != results[1]) printf("%s\n", each.name);
        CHECK(results[0] == results[1]);
        bool any = false;
        for (const int8_t v : results[0]) any = any || v != 0;
        CHECK(any);
    }
}

// A sparse matrix by coordinates or rows, or packed, times a dense one, on either side.
static void sparse(bool by_rows, bool on_the_left) {
    const int m = 4, k = 6, n = 5, entries = 5;
    // Rows and columns of the sparse matrix.
    const int rows = on_the_left ? m : k, cols = on_the_left ? k : n;
    const floats values = {2.5f, 1.5f, -1.5f, 2.0f, 0.5f};
    const std::vector<int32_t> row = {0, 1, 2, 2, 3}, col = {0, 2, 0, 4, 1};
    std::vector<int32_t> pointers(rows + 1, entries);
    for (int r = 0; r <= rows; r++) {
        pointers[r] = 0;
        for (const int32_t at : row) pointers[r] += at < r;
    }
    std::vector<double> dense(rows * cols);
    for (int e = 0; e < entries; e++) dense[row[e] * cols + col[e]] = values[e];
    const memory::desc md = by_rows ? memory::desc::csr({rows, cols}, dt::f32, entries, dt::s32, dt::s32) : memory::desc::coo({rows, cols}, dt::f32, entries, dt::s32);
    CHECK(md.get_format_kind() == memory::format_kind::sparse && md.get_nnz() == entries);
    CHECK(md.get_sparse_encoding() == (by_rows ? memory::sparse_encoding::csr : memory::sparse_encoding::coo));
    memory sparse_memory(md, *eng);
    const auto put = [&](int index, const void *from, size_t bytes) {
        CHECK(md.get_size(index) == bytes);
        void *p = sparse_memory.map_data(index);
        std::memcpy(p, from, bytes);
        sparse_memory.unmap_data(p, index);
    };
    put(0, values.data(), entries * 4);
    if (by_rows) {
        put(1, col.data(), entries * 4);
        put(2, pointers.data(), (rows + 1) * 4);
    } else {
        put(1, row.data(), entries * 4);
        put(2, col.data(), entries * 4);
    }
    const floats other = random_floats(on_the_left ? k * n : m * k, 3), bias = random_floats(n, 4);
    const memory::desc other_md = on_the_left ? nchw({k, n}) : nchw({m, k});
    post_ops ops;
    ops.append_eltwise(algorithm::eltwise_relu, 0.5f, 0.0f);
    primitive_attr attr;
    attr.set_post_ops(ops);
    const matmul::primitive_desc pd(*eng, on_the_left ? md : other_md, on_the_left ? other_md : md, nchw({1, n}), nchw({m, n}), attr);
    CHECK((on_the_left ? pd.src_desc() : pd.weights_desc()) == md);
    memory x = device_of(other_md, other), b = device_of(nchw({1, n}), bias), y(nchw({m, n}), *eng);
    matmul(pd).execute(*str, {{on_the_left ? DNNL_ARG_SRC : DNNL_ARG_WEIGHTS, sparse_memory}, {on_the_left ? DNNL_ARG_WEIGHTS : DNNL_ARG_SRC, x}, {DNNL_ARG_BIAS, b}, {DNNL_ARG_DST, y}});
    str->wait();
    std::vector<double> want = product(m, n, k, [&](int i, int p) { return on_the_left ? dense[i * k + p] : other[i * k + p]; },
            [&](int p, int j) { return on_the_left ? other[p * n + j] : dense[p * n + j]; });
    for (size_t i = 0; i < want.size(); i++) want[i] += bias[i % n], want[i] *= want[i] < 0 ? 0.5 : 1;
    CHECK(close_to(to_host(y, nchw({m, n})), want));
}

// How packed weights lie is the library's to say.
static void packed() {
    const floats a = random_floats(12, 1), b = random_floats(20, 2);
    const memory::desc md = memory::desc::packed({4, 5}, dt::f32, 7);
    CHECK(md.get_sparse_encoding() == memory::sparse_encoding::packed && md.get_nnz() == 7);
    CHECK(status_of([&] { memory none(md, *eng); }) != dnnl_success);
    const matmul::primitive_desc pd(*eng, nchw({3, 4}), md, nchw({3, 5}));
    memory x = device_of(nchw({3, 4}), a), w = to_device(pd.weights_desc(), b, nchw({4, 5})), y(nchw({3, 5}), *eng);
    matmul(pd).execute(*str, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
    str->wait();
    CHECK(close_to(to_host(y, nchw({3, 5})), product(3, 5, 4, [&](int i, int p) { return a[i * 4 + p]; }, [&](int p, int j) { return b[p * 5 + j]; })));
}

/* Headers declare it where an experimental feature is on. */
extern "C" dnnl_status_t dnnl_memory_desc_create_with_grouped_encoding(dnnl_memory_desc_t *, int, const dnnl_dims_t, dnnl_data_type_t, int, dnnl_dim_t, dnnl_data_type_t);

// Groups are described; products of them are in grouped.cpp.
static void grouped() {
    const dnnl_dims_t size = {9, 4};
    dnnl_memory_desc_t raw = nullptr;
    OK(dnnl_memory_desc_create_with_grouped_encoding(&raw, 2, size, dnnl_f32, 0, 3, dnnl_s32));
    const memory::desc md(raw);
    CHECK(md.get_size(0) == 9 * 4 * 4 && md.get_size(1) == 3 * 4);
    memory m(md, *eng);
    CHECK(status_of([&] { matmul::primitive_desc(*eng, md, nchw({4, 5}), nchw({9, 5})); }) == dnnl_unimplemented);
    INVALID(dnnl_memory_desc_create_with_grouped_encoding(&raw, 2, size, dnnl_f32, 2, 3, dnnl_s32));
    INVALID(dnnl_memory_desc_create_with_grouped_encoding(&raw, 2, size, dnnl_f32, 0, 0, dnnl_s32));
}

// Scales and zero points that mean nothing, and those of primitives that have none.
static void what_takes_no_numbers() {
    const memory::dims groups {1, 4};
    const auto status = [&](const std::function<void(primitive_attr &)> &set) {
        primitive_attr attr;
        return status_of([&] { set(attr); });
    };
    CHECK(status([&](primitive_attr &a) { a.set_scales(DNNL_ARG_SRC, 3, groups, dt::bf16); }) == dnnl_success);
    CHECK(status([&](primitive_attr &a) { a.set_scales(DNNL_ARG_SRC, 3, groups, dt::s32); }) == dnnl_invalid_arguments);
    CHECK(status([&](primitive_attr &a) { a.set_scales(DNNL_ARG_SRC, 0, groups); }) == dnnl_invalid_arguments);
    CHECK(status([&](primitive_attr &a) { a.set_scales(DNNL_ARG_SRC, 3, {4}); }) == dnnl_invalid_arguments);
    CHECK(status([&](primitive_attr &a) { a.set_zero_points(DNNL_ARG_SRC, 3, groups, dt::u4); }) == dnnl_success);
    CHECK(status([&](primitive_attr &a) { a.set_zero_points(DNNL_ARG_SRC, 3, groups, dt::f32); }) == dnnl_invalid_arguments);
    CHECK(status([&](primitive_attr &a) { a.set_scales_mask(DNNL_ARG_BIAS, 0); }) == dnnl_invalid_arguments);
    CHECK(status([&](primitive_attr &a) { a.set_scales_mask(DNNL_ARG_DIFF_SRC, 0); }) == dnnl_invalid_arguments);

    const memory::desc md = nchw({1, 2, 4, 4}), half = nchw({1, 2, 2, 2}), ones = nchw({1, 2, 1, 1});
    primitive_attr of_src, of_dst;
    of_src.set_scales_mask(DNNL_ARG_SRC, 0);
    of_dst.set_scales_mask(DNNL_ARG_DST, 0);
    const prop_kind forward = prop_kind::forward_inference;
    for (const primitive_attr &attr : {of_src, of_dst}) {
        CHECK(status_of([&] { eltwise_forward::primitive_desc(*eng, forward, algorithm::eltwise_relu, md, md, 0.f, 0.f, attr); }) == dnnl_unimplemented);
        CHECK(status_of([&] { pooling_forward::primitive_desc(*eng, forward, algorithm::pooling_max, md, half, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {0, 0}, attr); }) == dnnl_unimplemented);
        CHECK(status_of([&] { reduction::primitive_desc(*eng, algorithm::reduction_sum, md, ones, 0.f, 0.f, attr); }) == dnnl_unimplemented);
        CHECK(status_of([&] { resampling_forward::primitive_desc(*eng, forward, algorithm::resampling_nearest, md, half, attr); }) == dnnl_unimplemented);
    }
    CHECK(status_of([&] { binary::primitive_desc(*eng, algorithm::binary_add, md, md, md, of_src); }) == dnnl_success);
    CHECK(status_of([&] { binary::primitive_desc(*eng, algorithm::binary_add, md, md, md, of_dst); }) == dnnl_unimplemented);

    post_ops many;
    for (int i = 0; i < 32; i++) many.append_eltwise(algorithm::eltwise_relu, 0, 0);
    CHECK(status_of([&] { many.append_eltwise(algorithm::eltwise_relu, 0, 0); }) == dnnl_out_of_memory);
    const memory::desc wei = nchw({3, 2, 3, 3}), out = nchw({1, 3, 2, 2});
    const convolution_forward::primitive_desc left(*eng, forward, algorithm::convolution_auto, md, wei, out, memory::dims {1, 1}, memory::dims {0, 0}, memory::dims {0, 0});
    CHECK(left.get_algorithm() == algorithm::convolution_direct);
}

// Sources, weights, bias and operands of post-operations are inputs; factors and seeds are none. Products have no propagation kind.
static void counts() {
    const auto numbers = [](const primitive_attr &attr) {
        const matmul::primitive_desc pd(*eng, nchw({5, 7}), nchw({7, 3}), nchw({1, 3}), memory::desc({5, 3}, dt::bf16, tag::ab), attr);
        int inputs = 0, outputs = 0, kind = 0;
        CHECK(dnnl_primitive_desc_query(pd.get(), dnnl_query_num_of_inputs_s32, 0, &inputs) == dnnl_success);
        CHECK(dnnl_primitive_desc_query(pd.get(), dnnl_query_num_of_outputs_s32, 0, &outputs) == dnnl_success);
        CHECK(dnnl_primitive_desc_query(pd.get(), dnnl_query_prop_kind, 0, &kind) == dnnl_unimplemented);
        return inputs * 10 + outputs;
    };
    CHECK(numbers({}) == 31);
    post_ops ops;
    ops.append_binary(algorithm::binary_add, nchw({5, 3}));
    ops.append_prelu(2);
    primitive_attr attr;
    attr.set_post_ops(ops);
    CHECK(numbers(attr) == 51);
    attr.set_scales_mask(DNNL_ARG_SRC, 0);
    attr.set_scales_mask(DNNL_ARG_WEIGHTS, 2);
    attr.set_scales_mask(DNNL_ARG_DST, 0);
    attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
    attr.set_rounding_mode(DNNL_ARG_DST, rounding_mode::stochastic);
    attr.set_dropout(memory::desc({5, 3}, dt::u8, tag::ab));
    CHECK(numbers(attr) == 51);
}

static void descriptors_as_bytes() {
    memory::desc all[] = {nchw({2, 3}), memory::desc({2, 17, 3, 3}, dt::bf16, tag::nChw16c), memory::desc({4, unknown}, dt::f32, tag::ab),
            memory::desc::csr({4, 6}, dt::f32, 5, dt::s32, dt::s64), memory::desc::packed({4, 6}, dt::s8, 5), memory::desc({4, 4}, dt::f32, tag::any)};
    for (memory::desc &md : all) {
        const std::vector<uint8_t> blob = md.get_blob();
        CHECK(!blob.empty() && memory::desc(blob) == md);
        std::vector<uint8_t> other = blob;
        other[other.size() / 2] ^= 1;
        CHECK(status_of([&] { memory::desc wrong(other); }) == dnnl_invalid_arguments);
    }
}

// Products in the host's memory, and settings that change nothing.
static void on_the_host() {
    const int m = 3, n = 4, k = 5;
    const floats a = random_floats(m * k, 1), b = random_floats(n * k, 2);
    floats c(m * n, 1.0f);
    CHECK(sgemm('N', 'T', m, n, k, 2.0f, a.data(), k, b.data(), k, 0.5f, c.data(), n) == status::success);
    std::vector<double> want = product(m, n, k, [&](int i, int p) { return 2.0 * a[i * k + p]; }, [&](int p, int j) { return b[j * k + p]; });
    for (double &w : want) w += 0.5;
    CHECK(close_to(c, want));
    CHECK(sgemm('N', 'T', m, n, k, 2.0f, a.data(), k - 1, b.data(), k, 0.5f, c.data(), n) == status::invalid_arguments);
    const std::vector<uint8_t> u(m * k, 200);
    const std::vector<int8_t> s(k * n, -3);
    std::vector<int32_t> sums(m * n);
    const int32_t offset = 7;
    CHECK(gemm_u8s8s32('N', 'N', 'F', m, n, k, 1.0f, u.data(), k, 1, s.data(), n, 2, 0.0f, sums.data(), n, &offset) == status::success);
    for (const int32_t sum : sums) if (sum != 199 * -5 * k + 7) CHECK(!"a sum");
    CHECK(set_max_cpu_isa(cpu_isa::avx2) == status::success && set_jit_dump(1) == status::success);
    CHECK(set_jit_profiling_flags(DNNL_JIT_PROFILE_VTUNE) == status::success && set_jit_profiling_flags(64) == status::invalid_arguments);
    CHECK(set_cpu_isa_hints(cpu_isa_hints::prefer_ymm) == status::success && get_cpu_isa_hints() == cpu_isa_hints::prefer_ymm);
    CHECK(set_cpu_isa_hints(cpu_isa_hints::no_hints) == status::runtime_error);
}

int main(int argc, char **argv) {
    return run_checks(argc, argv, [] {
        group("unknown dimensions", unknown_dimensions);
        group("nothing", nothing);
        group("edges of functions", edges_of_functions);
        group("depthwise", [] { depthwise(1); });
        group("depthwise with steps", [] { depthwise(2); });
        group("dropout", dropouts);
        group("rounding at random", rounding_at_random);
        group("precomputed reductions", precomputed_reductions);
        group("found scales", found_scales);
        group("host scalars", host_scalars);
        for (const bool by_rows : {false, true})
            for (const bool on_the_left : {true, false}) group("sparse product", [=] { sparse(by_rows, on_the_left); });
        group("packed weights", packed);
        group("grouped tensors", grouped);
        group("what takes no numbers", what_takes_no_numbers);
        group("counts", counts);
        group("descriptors as bytes", descriptors_as_bytes);
        group("on the host", on_the_host);
    });
}
