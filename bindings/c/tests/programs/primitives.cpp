// One primitive of each group, through oneDNN's C++ interface, on the first device of a platform; values against plain loops in f64.
#include "values.h"

struct conv_shape {
    int n, g, ic, oc, h, w, k, s, p;
    int oh() const { return (h + 2 * p - k) / s + 1; }
    int ow() const { return (w + 2 * p - k) / s + 1; }
};

/* Calls f(source, weight, result) for each product of a convolution. */
static void each_product(const conv_shape &c, const std::function<void(size_t, size_t, size_t)> &f) {
    int icg = c.ic / c.g, ocg = c.oc / c.g;
    for (int n = 0; n < c.n; n++)
        for (int o = 0; o < c.oc; o++)
            for (int y = 0; y < c.oh(); y++)
                for (int x = 0; x < c.ow(); x++)
                    for (int i = 0; i < icg; i++)
                        for (int ky = 0; ky < c.k; ky++)
                            for (int kx = 0; kx < c.k; kx++) {
                                int sy = y * c.s - c.p + ky, sx = x * c.s - c.p + kx;
                                if (sy < 0 || sx < 0 || sy >= c.h || sx >= c.w) continue;
                                size_t src = ((size_t)(n * c.ic + o / ocg * icg + i) * c.h + sy) * c.w + sx;
                                size_t wei = ((size_t)(o * icg + i) * c.k + ky) * c.k + kx;
                                f(src, wei, ((size_t)(n * c.oc + o) * c.oh() + y) * c.ow() + x);
                            }
}

static void convolutions(const conv_shape &c, tag image) {
    dims sd = {c.n, c.ic, c.h, c.w}, dd = {c.n, c.oc, c.oh(), c.ow()};
    dims wd = {c.oc, c.ic, c.k, c.k};
    if (c.g > 1) wd = {c.g, c.oc / c.g, c.ic / c.g, c.k, c.k};
    dims strides = {c.s, c.s}, pads = {c.p, c.p};
    auto any = [](const dims &d) { return memory::desc(d, dt::f32, tag::any); };
    memory::desc src_md(sd, dt::f32, image), dst_md(dd, dt::f32, image), bias_md = nchw({c.oc});
    floats src = random_floats(c.n * c.ic * c.h * c.w, 1), wei = random_floats(c.oc * c.ic / c.g * c.k * c.k, 2);
    floats bias = random_floats(c.oc, 3), diff = random_floats(c.n * c.oc * c.oh() * c.ow(), 4);
    size_t area = (size_t)c.oh() * c.ow();

    post_ops ops;
    ops.append_eltwise(algorithm::eltwise_relu, 0.25f, 0.0f);
    ops.append_binary(algorithm::binary_mul, nchw({1, c.oc, 1, 1}));
    ops.append_sum(0.5f);
    primitive_attr attr;
    attr.set_post_ops(ops);
    convolution_forward::primitive_desc fwd(*eng, prop_kind::forward_training, algorithm::convolution_direct, src_md,
            any(wd), bias_md, dst_md, strides, pads, pads, attr);
    CHECK(fwd.src_desc() == src_md && fwd.dst_desc() == dst_md && fwd.get_strides() == strides);
    CHECK(fwd.get_kind() == primitive::kind::convolution && fwd.get_primitive_attr().get_post_ops().len() == 3);
    memory m_src = to_device(src_md, src, nchw(sd)), m_wei = to_device(fwd.weights_desc(), wei, nchw(wd));
    memory m_bias = to_device(bias_md, bias, bias_md), m_dst = to_device(dst_md, diff, nchw(dd));
    memory m_factor = to_device(nchw({1, c.oc, 1, 1}), bias, nchw({1, c.oc, 1, 1}));
    convolution_forward(fwd).execute(*str,
            {{DNNL_ARG_SRC, m_src}, {DNNL_ARG_WEIGHTS, m_wei}, {DNNL_ARG_BIAS, m_bias}, {DNNL_ARG_DST, m_dst},
                    {DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1, m_factor}});
    std::vector<double> want(diff.size());
    each_product(c, [&](size_t s, size_t w, size_t d) { want[d] += (double)src[s] * wei[w]; });
    for (size_t i = 0; i < want.size(); i++) {
        double b = bias[i / area % c.oc], x = want[i] + b;
        want[i] = (x > 0 ? x : 0.25 * x) * b + 0.5 * diff[i];
    }
    CHECK(close_to(to_host(m_dst, nchw(dd)), want));

    convolution_backward_data::primitive_desc bwd(*eng, algorithm::convolution_direct, src_md, any(wd), dst_md, strides,
            pads, pads, fwd);
    memory m_diff = to_device(dst_md, diff, nchw(dd)), m_dsrc(bwd.diff_src_desc(), *eng);
    m_wei = to_device(bwd.weights_desc(), wei, nchw(wd));
    convolution_backward_data(bwd).execute(*str,
            {{DNNL_ARG_DIFF_DST, m_diff}, {DNNL_ARG_WEIGHTS, m_wei}, {DNNL_ARG_DIFF_SRC, m_dsrc}});
    want.assign(src.size(), 0);
    each_product(c, [&](size_t s, size_t w, size_t d) { want[s] += (double)diff[d] * wei[w]; });
    CHECK(close_to(to_host(m_dsrc, nchw(sd)), want));

    convolution_backward_weights::primitive_desc bww(*eng, algorithm::convolution_direct, src_md, any(wd), bias_md,
            dst_md, strides, pads, pads, fwd);
    memory m_dw(bww.diff_weights_desc(), *eng), m_db(bias_md, *eng);
    convolution_backward_weights(bww).execute(*str,
            {{DNNL_ARG_SRC, m_src}, {DNNL_ARG_DIFF_DST, m_diff}, {DNNL_ARG_DIFF_WEIGHTS, m_dw}, {DNNL_ARG_DIFF_BIAS, m_db}});
    want.assign(wei.size(), 0);
    each_product(c, [&](size_t s, size_t w, size_t d) { want[w] += (double)diff[d] * src[s]; });
    CHECK(close_to(to_host(m_dw, nchw(wd)), want));
    std::vector<double> sums(c.oc);
    for (size_t i = 0; i < diff.size(); i++) sums[i / area % c.oc] += diff[i];
    CHECK(close_to(to_host(m_db, bias_md), sums));

    /* Transposed: from the convolution's result to its source, with weights [its source's channels, its result's]. */
    dims td = {c.ic, c.oc, c.k, c.k};
    if (c.g > 1) td = {c.g, c.ic / c.g, c.oc / c.g, c.k, c.k};
    int icg = c.ic / c.g, ocg = c.oc / c.g;
    floats turned(wei.size());
    for (int o = 0; o < c.oc; o++)
        for (int i = 0; i < icg; i++)
            for (int k = 0; k < c.k * c.k; k++)
                turned[(size_t)((o / ocg * icg + i) * ocg + o % ocg) * c.k * c.k + k] = wei[(size_t)(o * icg + i) * c.k * c.k + k];
    deconvolution_forward::primitive_desc dec(*eng, prop_kind::forward_training, algorithm::deconvolution_direct, dst_md,
            any(td), src_md, strides, pads, pads);
    memory m_turned = to_device(dec.weights_desc(), turned, nchw(td));
    deconvolution_forward(dec).execute(*str, {{DNNL_ARG_SRC, m_diff}, {DNNL_ARG_WEIGHTS, m_turned}, {DNNL_ARG_DST, m_dsrc}});
    want.assign(src.size(), 0);
    each_product(c, [&](size_t s, size_t w, size_t d) { want[s] += (double)diff[d] * wei[w]; });
    CHECK(close_to(to_host(m_dsrc, nchw(sd)), want));
}

static void inner_products() {
    dims sd = {3, 4, 2, 2}, wd = {5, 4, 2, 2}, dd = {3, 5};
    floats src = random_floats(48, 1), wei = random_floats(80, 2), bias = random_floats(5, 3), diff = random_floats(15, 4);
    memory::desc src_md(sd, dt::f32, tag::acdb);
    inner_product_forward::primitive_desc fwd(*eng, prop_kind::forward_training, src_md,
            memory::desc(wd, dt::f32, tag::any), nchw({5}), memory::desc(dd, dt::f32, tag::any));
    memory m_src = to_device(src_md, src, nchw(sd)), m_wei = to_device(fwd.weights_desc(), wei, nchw(wd));
    memory m_bias = to_device(nchw({5}), bias, nchw({5})), m_dst(fwd.dst_desc(), *eng);
    inner_product_forward(fwd).execute(*str,
            {{DNNL_ARG_SRC, m_src}, {DNNL_ARG_WEIGHTS, m_wei}, {DNNL_ARG_BIAS, m_bias}, {DNNL_ARG_DST, m_dst}});
    std::vector<double> y(15), dx(48), dw(80);
    for (int n = 0; n < 3; n++)
        for (int o = 0; o < 5; o++) {
            y[n * 5 + o] = bias[o];
            for (int k = 0; k < 16; k++) {
                y[n * 5 + o] += (double)src[n * 16 + k] * wei[o * 16 + k];
                dx[n * 16 + k] += (double)diff[n * 5 + o] * wei[o * 16 + k];
                dw[o * 16 + k] += (double)diff[n * 5 + o] * src[n * 16 + k];
            }
        }
    CHECK(close_to(to_host(m_dst, nchw(dd)), y));
    inner_product_backward_data::primitive_desc bwd(*eng, src_md, fwd.weights_desc(), nchw(dd), fwd);
    memory m_diff = to_device(nchw(dd), diff, nchw(dd)), m_dsrc(src_md, *eng);
    inner_product_backward_data(bwd).execute(*str,
            {{DNNL_ARG_DIFF_DST, m_diff}, {DNNL_ARG_WEIGHTS, m_wei}, {DNNL_ARG_DIFF_SRC, m_dsrc}});
    CHECK(close_to(to_host(m_dsrc, nchw(sd)), dx));
    inner_product_backward_weights::primitive_desc bww(*eng, src_md, nchw(wd), nchw({5}), nchw(dd), fwd);
    memory m_dw(nchw(wd), *eng), m_db(nchw({5}), *eng);
    inner_product_backward_weights(bww).execute(*str,
            {{DNNL_ARG_SRC, m_src}, {DNNL_ARG_DIFF_DST, m_diff}, {DNNL_ARG_DIFF_WEIGHTS, m_dw}, {DNNL_ARG_DIFF_BIAS, m_db}});
    CHECK(close_to(to_host(m_dw, nchw(wd)), dw));
}

static void poolings(algorithm alg) {
    dims sd = {2, 3, 6, 5}, dd = {2, 3, 3, 3}, k = {3, 3}, s = {2, 2}, z = {0, 0}, p = {1, 1}, r = {1, 1};
    floats src = random_floats(180, 1), diff = random_floats(54, 2);
    pooling_forward::primitive_desc fwd(*eng, prop_kind::forward_training, alg, nchw(sd), nchw(dd), s, k, z, p, r);
    memory m_src = to_device(nchw(sd), src, nchw(sd)), m_dst(nchw(dd), *eng), m_ws(fwd.workspace_desc(), *eng);
    pooling_forward(fwd).execute(*str, {{DNNL_ARG_SRC, m_src}, {DNNL_ARG_DST, m_dst}, {DNNL_ARG_WORKSPACE, m_ws}});
    std::vector<double> y(54), dx(180);
    for (int i = 0; i < 54; i++) {
        int c = i / 9, oy = i / 3 % 3, ox = i % 3, best = -1, inside = 0;
        double sum = 0;
        for (int t = 0; t < 9; t++) {
            int iy = oy * 2 - 1 + t / 3, ix = ox * 2 - 1 + t % 3;
            if (iy < 0 || ix < 0 || iy >= 6 || ix >= 5) continue;
            int at = c * 30 + iy * 5 + ix;
            inside++;
            sum += src[at];
            if (best < 0 || src[at] > src[best]) best = at;
        }
        double count = alg == algorithm::pooling_avg_include_padding ? 9 : inside;
        y[i] = alg == algorithm::pooling_max ? src[best] : sum / count;
        if (alg == algorithm::pooling_max) dx[best] += diff[i];
        else
            for (int t = 0; t < 9; t++) {
                int iy = oy * 2 - 1 + t / 3, ix = ox * 2 - 1 + t % 3;
                if (iy >= 0 && ix >= 0 && iy < 6 && ix < 5) dx[c * 30 + iy * 5 + ix] += diff[i] / count;
            }
    }
    CHECK(close_to(to_host(m_dst, nchw(dd)), y));
    pooling_backward::primitive_desc bwd(*eng, alg, nchw(sd), nchw(dd), s, k, z, p, r, fwd);
    memory m_diff = to_device(nchw(dd), diff, nchw(dd)), m_dsrc(nchw(sd), *eng);
    pooling_backward(bwd).execute(*str, {{DNNL_ARG_DIFF_DST, m_diff}, {DNNL_ARG_WORKSPACE, m_ws}, {DNNL_ARG_DIFF_SRC, m_dsrc}});
    CHECK(close_to(to_host(m_dsrc, nchw(sd)), dx));
}

/* Normalises groups of elements; `of` gives an element's group and `channel` its channel. */
static void normalized(const floats &x, const floats &dy, const floats &scale, const floats &shift, int groups,
        const std::function<int(int)> &of, const std::function<int(int)> &channel, std::vector<double> &y,
        std::vector<double> &dx, std::vector<double> &dscale) {
    std::vector<double> mean(groups), var(groups), count(groups), a(groups), b(groups);
    int n = (int)x.size();
    for (int i = 0; i < n; i++) mean[of(i)] += x[i], count[of(i)]++;
    for (int g = 0; g < groups; g++) mean[g] /= count[g];
    for (int i = 0; i < n; i++) var[of(i)] += (x[i] - mean[of(i)]) * (x[i] - mean[of(i)]) / count[of(i)];
    auto hat = [&](int i) { return (x[i] - mean[of(i)]) / std::sqrt(var[of(i)] + 1e-3); };
    y.assign(n, 0), dx.assign(n, 0), dscale.assign(scale.size(), 0);
    for (int i = 0; i < n; i++) {
        y[i] = hat(i) * scale[channel(i)] + shift[channel(i)];
        dscale[channel(i)] += dy[i] * hat(i);
        a[of(i)] += dy[i] * scale[channel(i)] * hat(i) / count[of(i)];
        b[of(i)] += dy[i] * scale[channel(i)] / count[of(i)];
    }
    for (int i = 0; i < n; i++)
        dx[i] = (dy[i] * scale[channel(i)] - b[of(i)] - hat(i) * a[of(i)]) / std::sqrt(var[of(i)] + 1e-3);
}

template <typename Forward, typename Backward>
static void normalization(const typename Forward::primitive_desc &fwd, const typename Backward::primitive_desc &bwd,
        dims d, dims stat, int channels, int groups, const std::function<int(int)> &of, const std::function<int(int)> &channel) {
    int n = 1;
    for (auto x : d) n *= (int)x;
    floats x = random_floats(n, 1), dy = random_floats(n, 2), scale = random_floats(channels, 3), shift = random_floats(channels, 4);
    std::vector<double> y, dx, dscale;
    normalized(x, dy, scale, shift, groups, of, channel, y, dx, dscale);
    memory m_x = to_device(nchw(d), x, nchw(d)), m_y(nchw(d), *eng), m_mean(nchw(stat), *eng), m_var(nchw(stat), *eng);
    memory m_scale = to_device(nchw({channels}), scale, nchw({channels}));
    memory m_shift = to_device(nchw({channels}), shift, nchw({channels}));
    Forward(fwd).execute(*str, {{DNNL_ARG_SRC, m_x}, {DNNL_ARG_DST, m_y}, {DNNL_ARG_MEAN, m_mean}, {DNNL_ARG_VARIANCE, m_var},
                                       {DNNL_ARG_SCALE, m_scale}, {DNNL_ARG_SHIFT, m_shift}});
    CHECK(close_to(to_host(m_y, nchw(d)), y));
    memory m_dy = to_device(nchw(d), dy, nchw(d)), m_dx(nchw(d), *eng), m_ds(nchw({channels}), *eng), m_dh(nchw({channels}), *eng);
    Backward(bwd).execute(*str, {{DNNL_ARG_SRC, m_x}, {DNNL_ARG_MEAN, m_mean}, {DNNL_ARG_VARIANCE, m_var}, {DNNL_ARG_SCALE, m_scale},
                                        {DNNL_ARG_DIFF_DST, m_dy}, {DNNL_ARG_DIFF_SRC, m_dx}, {DNNL_ARG_DIFF_SCALE, m_ds},
                                        {DNNL_ARG_DIFF_SHIFT, m_dh}});
    CHECK(close_to(to_host(m_dx, nchw(d)), dx));
    CHECK(close_to(to_host(m_ds, nchw({channels})), dscale));
}

static void normalizations() {
    auto flags = normalization_flags::use_scale | normalization_flags::use_shift;
    auto fwd = prop_kind::forward_training;
    auto bwd = prop_kind::backward;
    dims d = {2, 6, 3, 4};
    memory::desc md = nchw(d);
    batch_normalization_forward::primitive_desc b(*eng, fwd, md, md, 1e-3f, flags);
    batch_normalization_backward::primitive_desc bb(*eng, bwd, md, md, md, 1e-3f, flags, b);
    auto channel = [](int i) { return i / 12 % 6; };
    normalization<batch_normalization_forward, batch_normalization_backward>(b, bb, d, {6}, 6, 6, channel, channel);
    layer_normalization_forward::primitive_desc l(*eng, fwd, md, md, 1e-3f, flags);
    layer_normalization_backward::primitive_desc lb(*eng, bwd, md, md, md, 1e-3f, flags, l);
    normalization<layer_normalization_forward, layer_normalization_backward>(
            l, lb, d, {2, 6, 3}, 4, 36, [](int i) { return i / 4; }, [](int i) { return i % 4; });
    group_normalization_forward::primitive_desc g(*eng, fwd, md, md, 2, 1e-3f, flags);
    group_normalization_backward::primitive_desc gb(*eng, bwd, md, md, md, 2, 1e-3f, flags, g);
    normalization<group_normalization_forward, group_normalization_backward>(
            g, gb, d, {2, 2}, 6, 4, [](int i) { return i / 36; }, channel);
}

static void elementwise() {
    dims d = {2, 8, 3, 3};
    memory::desc md = nchw(d);
    floats x = random_floats(144, 1), dy = random_floats(144, 2), w = random_floats(8, 3);
    memory m_x = to_device(md, x, md), m_dy = to_device(md, dy, md), m_y(md, *eng), m_dx(md, *eng);
    memory::desc wmd = nchw({1, 8, 1, 1});
    memory m_w = to_device(wmd, w, wmd), m_dw(wmd, *eng);
    std::vector<double> want(144), dw(8);

    eltwise_forward::primitive_desc e(*eng, prop_kind::forward_training, algorithm::eltwise_tanh, md, md);
    eltwise_backward::primitive_desc eb(*eng, algorithm::eltwise_tanh, md, md, md, e);
    eltwise_backward(eb).execute(*str, {{DNNL_ARG_SRC, m_x}, {DNNL_ARG_DIFF_DST, m_dy}, {DNNL_ARG_DIFF_SRC, m_dx}});
    for (int i = 0; i < 144; i++) want[i] = dy[i] * (1 - std::tanh((double)x[i]) * std::tanh((double)x[i]));
    CHECK(close_to(to_host(m_dx, md), want));

    binary::primitive_desc bin(*eng, algorithm::binary_sub, md, wmd, md);
    binary(bin).execute(*str, {{DNNL_ARG_SRC_0, m_x}, {DNNL_ARG_SRC_1, m_w}, {DNNL_ARG_DST, m_y}});
    for (int i = 0; i < 144; i++) want[i] = (double)x[i] - w[i / 9 % 8];
    CHECK(close_to(to_host(m_y, md), want));

    prelu_forward::primitive_desc p(*eng, prop_kind::forward_training, md, wmd, md);
    prelu_forward(p).execute(*str, {{DNNL_ARG_SRC, m_x}, {DNNL_ARG_WEIGHTS, m_w}, {DNNL_ARG_DST, m_y}});
    for (int i = 0; i < 144; i++) want[i] = x[i] > 0 ? x[i] : (double)x[i] * w[i / 9 % 8];
    CHECK(close_to(to_host(m_y, md), want));
    prelu_backward::primitive_desc pb(*eng, md, wmd, md, wmd, md, p);
    prelu_backward(pb).execute(*str, {{DNNL_ARG_SRC, m_x}, {DNNL_ARG_WEIGHTS, m_w}, {DNNL_ARG_DIFF_DST, m_dy},
                                             {DNNL_ARG_DIFF_SRC, m_dx}, {DNNL_ARG_DIFF_WEIGHTS, m_dw}});
    for (int i = 0; i < 144; i++)
        if (x[i] <= 0) dw[i / 9 % 8] += (double)dy[i] * x[i];
    CHECK(close_to(to_host(m_dw, wmd), dw));

    shuffle_forward::primitive_desc s(*eng, prop_kind::forward_training, md, md, 1, 4);
    shuffle_backward::primitive_desc sb(*eng, md, md, 1, 4, s);
    shuffle_forward(s).execute(*str, {{DNNL_ARG_SRC, m_x}, {DNNL_ARG_DST, m_y}});
    shuffle_backward(sb).execute(*str, {{DNNL_ARG_DIFF_DST, m_y}, {DNNL_ARG_DIFF_SRC, m_dx}});
    for (int i = 0; i < 144; i++) want[i] = x[i];
    CHECK(close_to(to_host(m_dx, md), want, 0));

    std::vector<float> scales = {2.0f, -3.0f};
    sum::primitive_desc su(*eng, md, scales, {md, md});
    sum(su).execute(*str, {{DNNL_ARG_MULTIPLE_SRC, m_x}, {DNNL_ARG_MULTIPLE_SRC + 1, m_dy}, {DNNL_ARG_DST, m_y}});
    for (int i = 0; i < 144; i++) want[i] = 2.0 * x[i] - 3.0 * dy[i];
    CHECK(close_to(to_host(m_y, md), want));

    concat::primitive_desc c(*eng, 1, {md, md});
    memory m_c(c.dst_desc(), *eng);
    concat(c).execute(*str, {{DNNL_ARG_MULTIPLE_SRC, m_x}, {DNNL_ARG_MULTIPLE_SRC + 1, m_dy}, {DNNL_ARG_DST, m_c}});
    std::vector<double> both(288);
    for (int i = 0; i < 144; i++) both[i / 72 * 144 + i % 72] = x[i], both[i / 72 * 144 + 72 + i % 72] = dy[i];
    CHECK(close_to(to_host(m_c, c.dst_desc()), both, 0));

    memory::desc rmd = nchw({2, 8, 1, 1});
    reduction::primitive_desc r(*eng, algorithm::reduction_norm_lp_sum, md, rmd, 2.0f, 0.5f);
    memory m_r(rmd, *eng);
    reduction(r).execute(*str, {{DNNL_ARG_SRC, m_x}, {DNNL_ARG_DST, m_r}});
    std::vector<double> norms(16);
    for (int i = 0; i < 144; i++) norms[i / 9] += (double)x[i] * x[i];
    for (auto &norm : norms) norm = std::sqrt(norm + 0.5);
    CHECK(close_to(to_host(m_r, rmd), norms));

    softmax_forward::primitive_desc so(*eng, prop_kind::forward_training, algorithm::softmax_accurate, md, md, 1);
    softmax_forward(so).execute(*str, {{DNNL_ARG_SRC, m_x}, {DNNL_ARG_DST, m_y}});
    softmax_backward::primitive_desc sob(*eng, algorithm::softmax_accurate, md, md, md, 1, so);
    softmax_backward(sob).execute(*str, {{DNNL_ARG_DST, m_y}, {DNNL_ARG_DIFF_DST, m_dy}, {DNNL_ARG_DIFF_SRC, m_dx}});
    floats y = to_host(m_y, md);
    for (int i = 0; i < 144; i++) {
        double sum = 0;
        for (int k = 0; k < 8; k++) sum += (double)y[i / 72 * 72 + k * 9 + i % 9] * dy[i / 72 * 72 + k * 9 + i % 9];
        want[i] = y[i] * (dy[i] - sum);
    }
    CHECK(close_to(to_host(m_dx, md), want));
    /* In place. */
    memory m_place = to_device(md, x, md);
    softmax_forward(so).execute(*str, {{DNNL_ARG_SRC, m_place}, {DNNL_ARG_DST, m_place}});
    for (int i = 0; i < 144; i++) want[i] = y[i];
    CHECK(close_to(to_host(m_place, md), want));

    lrn_forward::primitive_desc l(*eng, prop_kind::forward_training, algorithm::lrn_across_channels, md, md, 5, 0.5f, 0.75f, 2.0f);
    lrn_forward(l).execute(*str, {{DNNL_ARG_SRC, m_x}, {DNNL_ARG_DST, m_y}});
    std::vector<double> omega(144), dx(144);
    for (int i = 0; i < 144; i++) {
        int ch = i / 9 % 8;
        for (int k = std::max(ch - 2, 0); k <= std::min(ch + 2, 7); k++) omega[i] += (double)x[i + (k - ch) * 9] * x[i + (k - ch) * 9];
        omega[i] = 2.0 + 0.5 / 5 * omega[i];
        want[i] = x[i] * std::pow(omega[i], -0.75);
    }
    CHECK(close_to(to_host(m_y, md), want));
    lrn_backward::primitive_desc lb(*eng, algorithm::lrn_across_channels, md, md, md, 5, 0.5f, 0.75f, 2.0f, l);
    lrn_backward(lb).execute(*str, {{DNNL_ARG_SRC, m_x}, {DNNL_ARG_DIFF_DST, m_dy}, {DNNL_ARG_DIFF_SRC, m_dx}});
    for (int i = 0; i < 144; i++) {
        int ch = i / 9 % 8;
        dx[i] = dy[i] * std::pow(omega[i], -0.75);
        for (int k = std::max(ch - 2, 0); k <= std::min(ch + 2, 7); k++) {
            int j = i + (k - ch) * 9;
            dx[i] -= 2 * 0.5 * 0.75 / 5 * x[i] * dy[j] * x[j] * std::pow(omega[j], -1.75);
        }
    }
    CHECK(close_to(to_host(m_dx, md), dx));

    resampling_forward::primitive_desc re(*eng, prop_kind::forward_training, algorithm::resampling_nearest, std::vector<float> {2, 2}, md);
    memory m_re(re.dst_desc(), *eng);
    resampling_forward(re).execute(*str, {{DNNL_ARG_SRC, m_x}, {DNNL_ARG_DST, m_re}});
    std::vector<double> large(576);
    for (int i = 0; i < 576; i++) large[i] = x[i / 36 * 9 + i / 6 % 6 / 2 * 3 + i % 6 / 2];
    CHECK(close_to(to_host(m_re, nchw({2, 8, 6, 6})), large, 0));
}

static void quantized() {
    memory::desc a({4, 6}, dt::s8, tag::ab), b({6, 5}, dt::s8, tag::ab), c({4, 5}, dt::f32, tag::ab);
    primitive_attr attr;
    attr.set_scales_mask(DNNL_ARG_SRC, 0);
    attr.set_scales_mask(DNNL_ARG_WEIGHTS, 2);
    attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
    matmul::primitive_desc pd(*eng, a, b, c, attr);
    memory m_a(a, *eng), m_b(b, *eng), m_c(c, *eng), m_zero({{1}, dt::s32, tag::a}, *eng);
    int8_t *p = (int8_t *)m_a.map_data();
    for (int i = 0; i < 24; i++) p[i] = (int8_t)(i * 7 % 23 - 11);
    m_a.unmap_data(p);
    p = (int8_t *)m_b.map_data();
    for (int i = 0; i < 30; i++) p[i] = (int8_t)(i * 5 % 17 - 8);
    m_b.unmap_data(p);
    int32_t *z = (int32_t *)m_zero.map_data();
    z[0] = 3;
    m_zero.unmap_data(z);
    floats per = {0.5f, 0.25f, 2.0f, 1.0f, 0.125f};
    memory m_one = to_device(nchw({1}), {0.5f}, nchw({1})), m_per = to_device(nchw({5}), per, nchw({5}));
    matmul(pd).execute(*str, {{DNNL_ARG_SRC, m_a}, {DNNL_ARG_WEIGHTS, m_b}, {DNNL_ARG_DST, m_c},
                                     {DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, m_one}, {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, m_per},
                                     {DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, m_zero}});
    std::vector<double> want(20);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 5; j++)
            for (int k = 0; k < 6; k++)
                want[i * 5 + j] += 0.5 * ((i * 6 + k) * 7 % 23 - 11 - 3) * per[j] * ((k * 5 + j) * 5 % 17 - 8);
    CHECK(close_to(to_host(m_c, c), want));
}

/* A product with a slope for negative results, a choice, and a result that is quantised with a scale on the host. */
static void formulas() {
    memory::desc a = nchw({2, 3}), b = nchw({3, 4}), c({2, 4}, dt::s8, tag::ab), cond({2, 4}, dt::s8, tag::ab), o = nchw({2, 4});
    floats x = random_floats(6, 1), w = random_floats(12, 2), slope = {0.5f, -1.0f, 0.25f, 2.0f}, other = random_floats(8, 3);
    post_ops ops;
    ops.append_prelu(2);
    ops.append_binary(algorithm::binary_select, o, cond);
    primitive_attr attr;
    attr.set_post_ops(ops);
    attr.set_scales(DNNL_ARG_DST, 0, {}, dt::f32, true);
    matmul::primitive_desc pd(*eng, a, b, c, attr);
    memory m_a = to_device(a, x, a), m_b = to_device(b, w, b), m_c(c, *eng), m_cond(cond, *eng), m_o = to_device(o, other, o);
    memory m_slope = to_device(nchw({1, 4}), slope, nchw({1, 4}));
    memory m_scale(memory::desc::host_scalar(dt::f32), 0.125f);
    int8_t *p = (int8_t *)m_cond.map_data();
    for (int i = 0; i < 8; i++) p[i] = i % 3 != 0;
    m_cond.unmap_data(p);
    matmul(pd).execute(*str, {{DNNL_ARG_SRC, m_a}, {DNNL_ARG_WEIGHTS, m_b}, {DNNL_ARG_DST, m_c},
                                     {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_WEIGHTS, m_slope},
                                     {DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1, m_o},
                                     {DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_2, m_cond},
                                     {DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, m_scale}});
    std::vector<double> want(8);
    for (int i = 0; i < 8; i++) {
        double y = 0;
        for (int k = 0; k < 3; k++) y += (double)x[i / 4 * 3 + k] * w[k * 4 + i % 4];
        y = y > 0 ? y : y * slope[i % 4];
        want[i] = std::nearbyint((i % 3 ? y : other[i]) / 0.125);
    }
    CHECK(close_to(to_host(m_c, o), want, 0));
}

/* A bias whose elements are not neighbours. */
static void strided_bias() {
    const floats x = random_floats(6, 1), w = random_floats(12, 2), b = random_floats(4, 3);
    const memory::desc src = nchw({2, 3}), wei = nchw({4, 3}), dst = nchw({2, 4}), apart({4}, dt::f32, dims {2});
    const inner_product_forward::primitive_desc pd(*eng, prop_kind::forward_inference, src, wei, apart, dst);
    CHECK(pd.bias_desc() == apart);
    memory m_x = to_device(src, x, src), m_w = to_device(wei, w, wei), m_b = to_device(apart, b, nchw({4})), m_y(dst, *eng);
    inner_product_forward(pd).execute(*str, {{DNNL_ARG_SRC, m_x}, {DNNL_ARG_WEIGHTS, m_w}, {DNNL_ARG_BIAS, m_b}, {DNNL_ARG_DST, m_y}});
    str->wait();
    std::vector<double> want;
    for (int n = 0; n < 2; n++)
        for (int o = 0; o < 4; o++) {
            double sum = b[o];
            for (int i = 0; i < 3; i++) sum += (double)x[n * 3 + i] * w[o * 3 + i];
            want.push_back(sum);
        }
    CHECK(close_to(to_host(m_y, dst), want));
}

/* Descriptors that contradict each other. */
static void contradictions() {
    const auto refused = [](const std::function<void()> &make) {
        try {
            make();
        } catch (const error &e) {
            return e.status == dnnl_invalid_arguments;
        }
        return false;
    };
    const memory::desc src = nchw({3, 4}), wei = nchw({6, 4}), dst = nchw({3, 6});
    for (const memory::desc &bias : {nchw({1}), nchw({1, 6}), nchw({3, 1})})
        CHECK(refused([&] { inner_product_forward::primitive_desc(*eng, prop_kind::forward_inference, src, wei, bias, dst); }));
    for (const memory::desc &stat : {nchw({4}), memory::desc({3}, dt::s8, tag::a), memory::desc({3}, dt::bf16, tag::a)})
        CHECK(refused([&] { layer_normalization_forward::primitive_desc(*eng, prop_kind::forward_training, src, src, stat, 0.1f, normalization_flags::none); }));
}

int main(int argc, char **argv) {
    return run_checks(argc, argv, [] {
        group("convolution", [] { convolutions({2, 1, 5, 7, 8, 6, 3, 1, 1}, tag::nchw); });
        group("strided convolution", [] { convolutions({1, 1, 4, 6, 9, 9, 3, 2, 1}, tag::nhwc); });
        group("convolution in groups", [] { convolutions({2, 2, 4, 6, 5, 7, 3, 1, 1}, tag::nchw); });
        group("inner product", inner_products);
        group("strided bias", strided_bias);
        group("maximum pooling", [] { poolings(algorithm::pooling_max); });
        group("average pooling", [] { poolings(algorithm::pooling_avg_include_padding); });
        group("average pooling inside", [] { poolings(algorithm::pooling_avg_exclude_padding); });
        group("normalization", normalizations);
        group("element-wise", elementwise);
        group("quantized product", quantized);
        group("formulas behind a product", formulas);
        group("contradictions", contradictions);
    });
}
