// Products of groups whose sizes are in memory alone, as those of the experts of a mixture, through oneDNN's C++ interface; values against plain
// loops in f64.
#include <cstdint>
#include <map>

#include "values.h"

/* Headers declare these where an experimental feature is on. */
extern "C" dnnl_status_t dnnl_memory_desc_create_with_grouped_encoding(dnnl_memory_desc_t *, int, const dnnl_dims_t, dnnl_data_type_t, int, dnnl_dim_t, dnnl_data_type_t);
static const int largest_group = 384;

typedef std::vector<int32_t> sizes;

static memory::desc grouped_desc(const dims &size, dt type, int axis, int count) {
    dnnl_memory_desc_t raw = nullptr;
    OK(dnnl_memory_desc_create_with_grouped_encoding(&raw, (int)size.size(), size.data(), memory::convert_to_c(type), axis, count, dnnl_s32));
    return memory::desc(raw);
}

template <typename T>
static void put(const memory &m, const std::vector<T> &values, int part = 0) {
    void *p = m.map_data(part);
    std::memcpy(p, values.data(), values.size() * sizeof(T));
    m.unmap_data(p, part);
}

template <typename T>
static memory dense(const memory::desc &md, const std::vector<T> &values) {
    memory m(md, *eng);
    put(m, values);
    return m;
}

static sizes ends_of(const sizes &counts) {
    sizes ends;
    for (const int32_t count : counts) ends.push_back(count + (ends.empty() ? 0 : ends.back()));
    return ends;
}

template <typename T>
static memory in_groups(const memory::desc &md, const std::vector<T> &values, const sizes &counts) {
    memory m(md, *eng);
    if (!values.empty()) put(m, values);
    put(m, ends_of(counts), 1);
    return m;
}

static floats values_of(const memory &m, size_t count) {
    const float *p = m.map_data<float>(0);
    floats v(p, p + count);
    m.unmap_data((void *)p, 0);
    return v;
}

static std::vector<int8_t> small(size_t count, unsigned seed) {
    std::vector<int8_t> v;
    for (const float x : random_floats(count, seed)) v.push_back((int8_t)(x * 8));
    return v;
}

static int group_of(const sizes &counts, int row) {
    const sizes ends = ends_of(counts);
    int g = 0;
    while (g < (int)ends.size() && ends[g] <= row) g++;
    return g;
}

static int total(const sizes &counts) { return counts.empty() ? 0 : ends_of(counts).back(); }

static dnnl_status_t status_of(const std::function<void()> &body) {
    try {
        body();
    } catch (const error &e) {
        return e.status;
    }
    return dnnl_success;
}

static primitive_attr with(const post_ops &ops) {
    primitive_attr attr;
    attr.set_post_ops(ops);
    return attr;
}

// Tokens of experts through a layer with a bias, a function, and factors for each element, token and expert. One primitive serves other
// sizes of the groups.
static void rows() {
    const int k = 37, n = 45, experts = 5;
    const sizes first = {7, 0, 1, 13, 2}, second = {0, 0, 23, 0, 0};
    const int m = total(first);
    const floats src = random_floats(m * k, 1), wei = random_floats(experts * k * n, 2), bia = random_floats(experts * n, 3);
    const floats each = random_floats(m * n, 4), token = random_floats(m, 5), expert = random_floats(experts, 6);
    const memory::desc src_md = grouped_desc({m, k}, dt::f32, 0, experts), dst_md = grouped_desc({m, n}, dt::f32, 0, experts);
    for (const bool is_grouped : {true, false}) {
        const memory::desc each_md = is_grouped ? dst_md : nchw({m, n});
        post_ops ops;
        ops.append_eltwise(algorithm::eltwise_swish, 1.0f, 0.0f);
        ops.append_binary(algorithm::binary_mul, each_md);
        ops.append_binary(algorithm::binary_mul, nchw({m, 1}));
        ops.append_binary(algorithm::binary_mul, nchw({experts, 1}));
        const matmul::primitive_desc pd(*eng, src_md, memory::desc({experts, k, n}, dt::f32, tag::any), nchw({experts, n}), dst_md, with(ops));
        CHECK(pd.src_desc() == src_md && pd.dst_desc() == dst_md && pd.query_md(query::exec_arg_md, DNNL_ARG_DST) == dst_md);
        const matmul product(pd);
        for (const sizes &counts : {first, second}) {
            memory x = in_groups(src_md, src, counts), y = in_groups<float>(dst_md, {}, counts);
            memory w = to_device(pd.weights_desc(), wei, nchw({experts, k, n}));
            memory e = is_grouped ? in_groups(dst_md, each, counts) : dense(each_md, each);
            memory most(memory::desc::host_scalar(dt::s32), (int32_t)23);
            product.execute(*str,
                    {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, dense(nchw({experts, n}), bia)}, {DNNL_ARG_DST, y},
                            {DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1, e},
                            {DNNL_ARG_ATTR_MULTIPLE_POST_OP(2) | DNNL_ARG_SRC_1, dense(nchw({m, 1}), token)},
                            {DNNL_ARG_ATTR_MULTIPLE_POST_OP(3) | DNNL_ARG_SRC_1, dense(nchw({experts, 1}), expert)}, {largest_group, most}});
            str->wait();
            std::vector<double> want;
            for (int i = 0; i < m; i++)
                for (int j = 0; j < n; j++) {
                    const int g = group_of(counts, i);
                    double sum = bia[g * n + j];
                    for (int p = 0; p < k; p++) sum += (double)src[i * k + p] * wei[(g * k + p) * n + j];
                    want.push_back(sum / (1 + std::exp(-sum)) * each[i * n + j] * token[i] * expert[g]);
                }
            CHECK(close_to(values_of(y, m * n), want));
        }
    }
}

// Bytes with a scale for each token and for each expert's column, and zero points of the tokens.
static void quantized() {
    const int k = 40, n = 33, experts = 3;
    const sizes counts = {4, 6, 1};
    const int m = total(counts);
    const std::vector<int8_t> src = small(m * k, 1), wei = small(experts * k * n, 2);
    floats of_token = random_floats(m, 3), of_column = random_floats(experts * n, 4);
    sizes zeros(m);
    for (int i = 0; i < m; i++) zeros[i] = i % 5 - 2;
    const memory::desc src_md = grouped_desc({m, k}, dt::s8, 0, experts), dst_md = grouped_desc({m, n}, dt::f32, 0, experts);
    const memory::desc wei_md({experts, k, n}, dt::s8, tag::abc);
    primitive_attr attr;
    attr.set_scales_mask(DNNL_ARG_SRC, 1);
    attr.set_zero_points_mask(DNNL_ARG_SRC, 1);
    attr.set_scales_mask(DNNL_ARG_WEIGHTS, 5);
    const matmul::primitive_desc pd(*eng, src_md, wei_md, dst_md, attr);
    memory y = in_groups<float>(dst_md, {}, counts);
    matmul(pd).execute(*str,
            {{DNNL_ARG_SRC, in_groups(src_md, src, counts)}, {DNNL_ARG_WEIGHTS, dense(wei_md, wei)}, {DNNL_ARG_DST, y},
                    {DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, dense(nchw({m}), of_token)},
                    {DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, dense(memory::desc({m}, dt::s32, tag::a), zeros)},
                    {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, dense(nchw({experts, n}), of_column)}});
    str->wait();
    std::vector<double> want;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            const int g = group_of(counts, i);
            double sum = 0;
            for (int p = 0; p < k; p++) sum += (src[i * k + p] - zeros[i]) * (double)wei[(g * k + p) * n + j];
            want.push_back(sum * of_token[i] * of_column[g * n + j]);
        }
    CHECK(close_to(values_of(y, m * n), want));
}

// Floats with weights in bytes, whose scales are shared by eight terms of a column.
static void weights_in_groups() {
    const int k = 32, n = 20, experts = 2, shared = 8;
    const sizes counts = {3, 9};
    const int m = total(counts);
    const floats src = random_floats(m * k, 1), scales = random_floats(experts * k / shared * n, 3);
    const std::vector<int8_t> wei = small(experts * k * n, 2);
    const memory::desc src_md = grouped_desc({m, k}, dt::f32, 0, experts), dst_md = grouped_desc({m, n}, dt::f32, 0, experts);
    const memory::desc wei_md({experts, k, n}, dt::s8, tag::abc);
    primitive_attr attr;
    attr.set_fpmath_mode(fpmath_mode::f16, true);
    attr.set_scales(DNNL_ARG_WEIGHTS, 7, {shared, 1}, dt::f32);
    const matmul::primitive_desc pd(*eng, src_md, wei_md, dst_md, attr);
    memory y = in_groups<float>(dst_md, {}, counts);
    matmul(pd).execute(*str,
            {{DNNL_ARG_SRC, in_groups(src_md, src, counts)}, {DNNL_ARG_WEIGHTS, dense(wei_md, wei)}, {DNNL_ARG_DST, y},
                    {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, dense(nchw({experts, k / shared, n}), scales)}});
    str->wait();
    std::vector<double> want;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            const int g = group_of(counts, i);
            double sum = 0;
            for (int p = 0; p < k; p++) sum += (double)src[i * k + p] * wei[(g * k + p) * n + j] * scales[(g * (k / shared) + p / shared) * n + j];
            want.push_back(sum);
        }
    // The mode lets products round to half floats.
    CHECK(close_to(values_of(y, m * n), want, 2e-2));
}

// Sums of each group's terms, as gradients of the experts' weights.
static void terms() {
    const int m = 19, n = 34, experts = 4;
    const sizes counts = {9, 0, 1, 20};
    const int k = total(counts);
    const floats src = random_floats(m * k, 1), wei = random_floats(k * n, 2);
    // Columns of the source lie one after the other.
    const memory::desc src_md = grouped_desc({m, k}, dt::f32, 1, experts), wei_md = grouped_desc({k, n}, dt::f32, 0, experts);
    const memory::desc dst_md = nchw({experts, m, n});
    const matmul::primitive_desc pd(*eng, src_md, wei_md, dst_md);
    memory y(dst_md, *eng);
    matmul(pd).execute(*str, {{DNNL_ARG_SRC, in_groups(src_md, src, counts)}, {DNNL_ARG_WEIGHTS, in_groups(wei_md, wei, counts)}, {DNNL_ARG_DST, y}});
    str->wait();
    std::vector<double> want;
    for (int g = 0; g < experts; g++)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                double sum = 0;
                for (int p = 0; p < k; p++)
                    if (group_of(counts, p) == g) sum += (double)src[p * m + i] * wei[p * n + j];
                want.push_back(sum);
            }
    CHECK(close_to(to_host(y, dst_md), want));
}

static void wrong_operands() {
    const memory::desc src = grouped_desc({9, 4}, dt::f32, 0, 3), dst = grouped_desc({9, 5}, dt::f32, 0, 3), wei = nchw({3, 4, 5});
    const auto made = [](const memory::desc &a, const memory::desc &b, const memory::desc &c, const primitive_attr &attr = primitive_attr()) {
        return status_of([&] { matmul::primitive_desc(*eng, a, b, c, attr); });
    };
    CHECK(made(src, wei, dst) == dnnl_success);
    CHECK(made(src, nchw({2, 4, 5}), dst) == dnnl_invalid_arguments);
    CHECK(made(src, nchw({3, 6, 5}), dst) == dnnl_invalid_arguments);
    CHECK(made(src, wei, grouped_desc({9, 6}, dt::f32, 0, 3)) == dnnl_invalid_arguments);
    CHECK(made(src, wei, grouped_desc({9, 5}, dt::f32, 0, 2)) == dnnl_invalid_arguments);
    CHECK(made(src, wei, nchw({9, 5})) == dnnl_unimplemented);
    CHECK(made(nchw({9, 4}), wei, dst) == dnnl_unimplemented);
    CHECK(made(grouped_desc({1, 9, 4}, dt::f32, 0, 3), wei, dst) == dnnl_unimplemented);
    post_ops ops;
    ops.append_binary(algorithm::binary_mul, grouped_desc({9, 5}, dt::f32, 0, 2));
    CHECK(made(src, wei, dst, with(ops)) == dnnl_invalid_arguments);
    const memory::desc by_terms = grouped_desc({4, 9}, dt::f32, 1, 3), its_weights = grouped_desc({9, 5}, dt::f32, 0, 3);
    CHECK(made(by_terms, its_weights, nchw({3, 4, 5})) == dnnl_success);
    CHECK(made(by_terms, its_weights, nchw({4, 5})) == dnnl_invalid_arguments);
    post_ops relu;
    relu.append_eltwise(algorithm::eltwise_relu, 0.0f, 0.0f);
    CHECK(made(by_terms, its_weights, nchw({3, 4, 5}), with(relu)) == dnnl_unimplemented);
    CHECK(status_of([&] { reorder::primitive_desc(*eng, src, *eng, nchw({9, 4})); }) == dnnl_unimplemented);
}

int main(int argc, char **argv) {
    return run_checks(argc, argv, [] {
        group("rows of groups", rows);
        group("rows of bytes", quantized);
        group("weights with scales of groups", weights_in_groups);
        group("terms of groups", terms);
        group("wrong operands", wrong_operands);
    });
}
