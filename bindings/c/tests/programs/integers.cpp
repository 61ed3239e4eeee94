// Primitives of integers that compute in floats: normalisations, and tensors side by side with scales, through oneDNN's C++ interface; values
// against plain loops in f64.
#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "values.h"

static memory of_bytes(const memory::desc &md, const std::vector<int8_t> &values) {
    memory m(md, *eng);
    void *p = m.map_data();
    std::memcpy(p, values.data(), values.size());
    m.unmap_data(p);
    return m;
}

static std::vector<int8_t> bytes_of(const memory &m, size_t count) {
    std::vector<int8_t> values(count);
    void *p = m.map_data();
    std::memcpy(values.data(), p, count);
    m.unmap_data(p);
    return values;
}

static std::vector<int8_t> random_bytes(size_t count, unsigned seed) {
    std::vector<int8_t> bytes;
    for (const float x : random_floats(count, seed)) bytes.push_back((int8_t)std::lrint(x * 100));
    return bytes;
}

/* Whether bytes are numbers, saturated and rounded. */
static bool rounded(const std::vector<int8_t> &got, const std::vector<double> &want) {
    for (size_t i = 0; i < want.size(); i++)
        if (std::fabs(got[i] - std::max(-128.0, std::min(127.0, want[i]))) > 0.5001) {
            printf("element %zu is %d, expected %g\n", i, got[i], want[i]);
            return false;
        }
    return got.size() == want.size();
}

static memory number(float value) { return to_device(nchw({1}), {value}, nchw({1})); }

// Rows of integers, by their own statistics or by given ones; the source's scale multiplies what is normalised, that of the result divides it.
static void rows(bool is_given) {
    const int n = 5, c = 12;
    const memory::desc md({n, c}, dt::s8, tag::ab), stat = nchw({n});
    const std::vector<int8_t> x = random_bytes(n * c, 3);
    const floats mean = random_floats(n, 5), spread = {0.5f, 1, 2, 3, 0.25f};
    const float from = 0.25f, to = 0.125f, epsilon = 0.01f;
    primitive_attr attr;
    attr.set_scales_mask(DNNL_ARG_SRC, 0);
    attr.set_scales_mask(DNNL_ARG_DST, 0);
    const auto flags = is_given ? normalization_flags::use_global_stats : normalization_flags::none;
    const layer_normalization_forward::primitive_desc pd(*eng, prop_kind::forward_inference, md, md, stat, epsilon, flags, attr);
    CHECK(pd.src_desc() == md && pd.dst_desc() == md);
    memory src = of_bytes(md, x), dst(md, *eng), means = to_device(stat, mean, stat), variances = to_device(stat, spread, stat);
    std::unordered_map<int, memory> args {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}, {DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, number(from)},
            {DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, number(to)}};
    if (is_given) args.insert({{DNNL_ARG_MEAN, means}, {DNNL_ARG_VARIANCE, variances}});
    layer_normalization_forward(pd).execute(*str, args);
    str->wait();
    std::vector<double> want;
    for (int i = 0; i < n; i++) {
        double sum = 0, squares = 0;
        for (int j = 0; j < c; j++) sum += x[i * c + j];
        for (int j = 0; j < c; j++) squares += std::pow(x[i * c + j] - sum / c, 2);
        const double m = is_given ? mean[i] : sum / c, v = is_given ? spread[i] : squares / c;
        for (int j = 0; j < c; j++) want.push_back(from * (x[i * c + j] - m) / std::sqrt(v + epsilon) / to);
    }
    CHECK(rounded(bytes_of(dst, n * c), want));
}

// Channels of integers by given statistics, with the rectifier behind as a post-operation or fused.
static void channels(bool is_fused) {
    const int n = 2, c = 3, w = 7;
    const memory::desc md({n, c, w}, dt::s8, tag::abc);
    const std::vector<int8_t> x = random_bytes(n * c * w, 7);
    const floats mean = {1, -20, 30}, spread = {400, 900, 25}, scale = {30, 40, 50};
    post_ops ops;
    ops.append_eltwise(algorithm::eltwise_relu, 0, 0);
    primitive_attr attr;
    if (!is_fused) attr.set_post_ops(ops);
    const auto flags = normalization_flags::use_global_stats | normalization_flags::use_scale
            | (is_fused ? normalization_flags::fuse_norm_relu : normalization_flags::none);
    const batch_normalization_forward::primitive_desc pd(*eng, prop_kind::forward_inference, md, md, 0.01f, flags, attr);
    memory src = of_bytes(md, x), dst(md, *eng);
    batch_normalization_forward(pd).execute(*str, {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}, {DNNL_ARG_MEAN, to_device(nchw({c}), mean, nchw({c}))},
                                                          {DNNL_ARG_VARIANCE, to_device(nchw({c}), spread, nchw({c}))},
                                                          {DNNL_ARG_SCALE, to_device(nchw({c}), scale, nchw({c}))}});
    str->wait();
    std::vector<double> want;
    for (size_t i = 0; i < x.size(); i++) {
        const size_t k = i / w % c;
        want.push_back(std::max(0.0, (x[i] - mean[k]) / std::sqrt(spread[k] + 0.01) * scale[k]));
    }
    CHECK(rounded(bytes_of(dst, x.size()), want));
    // The documentation has no scales of these.
    attr.set_scales_mask(DNNL_ARG_SRC, 0);
    try {
        batch_normalization_forward::primitive_desc(*eng, prop_kind::forward_inference, md, md, 0.01f, flags, attr);
        CHECK(!"scales of a batch normalisation");
    } catch (const error &e) {
        CHECK(e.status == dnnl_unimplemented);
    }
}

// Groups of channels of integers, by their own statistics, into floats.
static void groups() {
    const int n = 2, c = 4, w = 6;
    const memory::desc md({n, c, w}, dt::s8, tag::abc), to = nchw({n, c, w});
    const std::vector<int8_t> x = random_bytes(n * c * w, 11);
    const group_normalization_forward::primitive_desc pd(*eng, prop_kind::forward_inference, md, to, 2, 0.01f, normalization_flags::none);
    memory src = of_bytes(md, x), dst(to, *eng);
    group_normalization_forward(pd).execute(*str, {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}});
    std::vector<double> want(x.size());
    const int count = c / 2 * w;
    for (size_t first = 0; first < x.size(); first += count) {
        double sum = 0, squares = 0;
        for (int i = 0; i < count; i++) sum += x[first + i];
        for (int i = 0; i < count; i++) squares += std::pow(x[first + i] - sum / count, 2);
        for (int i = 0; i < count; i++) want[first + i] = (x[first + i] - sum / count) / std::sqrt(squares / count + 0.01);
    }
    CHECK(close_to(to_host(dst, to), want));
}

// Integers beside each other, one of them with a scale.
static void side_by_side() {
    const memory::desc md({2, 3}, dt::s8, tag::ab), to({2, 6}, dt::s8, tag::ab);
    primitive_attr attr;
    attr.set_scales_mask(DNNL_ARG_MULTIPLE_SRC + 1, 0);
    const concat::primitive_desc pd(*eng, to, 1, {md, md}, attr);
    memory a = of_bytes(md, {1, -2, 3, 4, 5, 6}), b = of_bytes(md, {8, -8, 10, 12, 14, 127}), dst(to, *eng);
    concat(pd).execute(*str, {{DNNL_ARG_MULTIPLE_SRC, a}, {DNNL_ARG_MULTIPLE_SRC + 1, b}, {DNNL_ARG_DST, dst},
                                     {DNNL_ARG_ATTR_SCALES | (DNNL_ARG_MULTIPLE_SRC + 1), number(0.5f)}});
    str->wait();
    CHECK(bytes_of(dst, 12) == (std::vector<int8_t> {1, -2, 3, 4, -4, 5, 4, 5, 6, 6, 7, 64}));
}

int main(int argc, char **argv) {
    return run_checks(argc, argv, [] {
        group("rows", [] { rows(false); });
        group("rows by given statistics", [] { rows(true); });
        group("channels", [] { channels(false); });
        group("channels, rectified", [] { channels(true); });
        group("groups", groups);
        group("side by side", side_by_side);
    });
}
