// Recurrent layers of every cell and direction, through oneDNN's C++ interface; values against plain loops in f64.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "engine.h"

using namespace dnnl;
using dims = memory::dims;
using dt = memory::data_type;
using tag = memory::format_tag;
typedef std::vector<float> floats;
typedef std::vector<double> doubles;

enum class cell { vanilla, lstm, gru, lbr_gru };

static const int T = 4, N = 3, I = 5, H = 6;

static floats random_floats(size_t n, unsigned seed) {
    floats v(n);
    for (auto &x : v) {
        seed = seed * 1664525u + 1013904223u;
        x = (float)((seed >> 8) % 2001) / 1000.0f - 1.0f;
    }
    return v;
}

static memory filled(const memory::desc &md, const floats &values) {
    memory m(md, *eng);
    float *p = (float *)m.map_data();
    std::memcpy(p, values.data(), values.size() * sizeof(float));
    m.unmap_data(p);
    return m;
}

static bool close_to(const memory &m, const doubles &want) {
    const float *got = (const float *)m.map_data();
    bool close = true;
    for (size_t i = 0; i < want.size() && close; i++) {
        close = std::fabs(got[i] - want[i]) <= 1e-4 * (1 + std::fabs(want[i]));
        if (!close) printf("element %zu is %g, expected %g\n", i, got[i], want[i]);
    }
    m.unmap_data((void *)got);
    return close;
}

static double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// One direction of one layer: states behind each step into `out`, [T, N, H], and `h` and `c` in place.
static void run(cell kind, bool backward, const doubles &x, int inputs, const float *w, const float *r, const float *b, double *h,
        double *c, doubles &out) {
    const int G = kind == cell::vanilla ? 1 : kind == cell::lstm ? 4 : 3;
    for (int s = 0; s < T; s++) {
        const int t = backward ? T - 1 - s : s;
        for (int n = 0; n < N; n++) {
            const auto product = [&](const float *m, const double *v, int count, int g, int j) {
                double sum = 0;
                for (int k = 0; k < count; k++) sum += v[k] * m[(k * G + g) * H + j];
                return sum;
            };
            const double *in = &x[(size_t)(t * N + n) * inputs];
            double *state = h + n * H, *old = c + n * H, next[H], reset[H], from[H];
            const auto sum = [&](int g, int j) { return product(w, in, inputs, g, j) + product(r, state, H, g, j) + b[g * H + j]; };
            for (int j = 0; j < H && (kind == cell::gru || kind == cell::lbr_gru); j++) {
                reset[j] = logistic(sum(1, j));
                from[j] = reset[j] * state[j];
            }
            for (int j = 0; j < H; j++) {
                if (kind == cell::vanilla) next[j] = std::tanh(sum(0, j));
                if (kind == cell::lstm) {
                    const double i = logistic(sum(0, j)), f = logistic(sum(1, j)), o = logistic(sum(3, j));
                    old[j] = f * old[j] + i * std::tanh(sum(2, j));
                    next[j] = o * std::tanh(old[j]);
                }
                const double input = kind == cell::vanilla || kind == cell::lstm ? 0 : product(w, in, inputs, 2, j) + b[2 * H + j];
                if (kind == cell::gru) next[j] = std::tanh(input + product(r, from, H, 2, j));
                if (kind == cell::lbr_gru) next[j] = std::tanh(input + reset[j] * (product(r, state, H, 2, j) + b[3 * H + j]));
                if (kind == cell::gru || kind == cell::lbr_gru) {
                    const double u = logistic(sum(0, j));
                    next[j] = u * state[j] + (1 - u) * next[j];
                }
            }
            for (int j = 0; j < H; j++) {
                out[(size_t)(t * N + n) * H + j] = state[j] = next[j];
            }
        }
    }
}

static void layers(cell kind, rnn_direction direction, int L) {
    const int G = kind == cell::vanilla ? 1 : kind == cell::lstm ? 4 : 3, rows = kind == cell::lbr_gru ? 4 : G;
    const bool both = direction == rnn_direction::bidirectional_concat || direction == rnn_direction::bidirectional_sum;
    const bool adds = direction == rnn_direction::bidirectional_sum;
    const int D = both ? 2 : 1, side = both && !adds ? 2 : 1, inputs = L > 1 ? H : I;
    const memory::desc src({T, N, inputs}, dt::f32, tag::tnc), states({L, D, N, H}, dt::f32, tag::ldnc);
    const memory::desc w({L, D, inputs, G, H}, dt::f32, tag::ldigo), r({L, D, H, G, H}, dt::f32, tag::ldigo);
    const memory::desc b({L, D, rows, H}, dt::f32, tag::ldgo), dst({T, N, side * H}, dt::f32, tag::tnc);
    const size_t of_states = (size_t)L * D * N * H;
    const floats x = random_floats((size_t)T * N * inputs, 1), wv = random_floats((size_t)L * D * inputs * G * H, 2);
    const floats rv = random_floats((size_t)L * D * H * G * H, 3), bv = random_floats((size_t)L * D * rows * H, 4);
    const floats hv = random_floats(of_states, 5), cv = random_floats(of_states, 6);
    const prop_kind inference = prop_kind::forward_inference;
    memory out(dst, *eng), last(states, *eng), last_c(states, *eng);
    std::unordered_map<int, memory> args = {{DNNL_ARG_SRC_LAYER, filled(src, x)}, {DNNL_ARG_SRC_ITER, filled(states, hv)},
            {DNNL_ARG_WEIGHTS_LAYER, filled(w, wv)}, {DNNL_ARG_WEIGHTS_ITER, filled(r, rv)}, {DNNL_ARG_BIAS, filled(b, bv)},
            {DNNL_ARG_DST_LAYER, out}, {DNNL_ARG_DST_ITER, last}};
    if (kind == cell::lstm) {
        args[DNNL_ARG_SRC_ITER_C] = filled(states, cv);
        args[DNNL_ARG_DST_ITER_C] = last_c;
        const lstm_forward::primitive_desc pd(*eng, inference, direction, src, states, states, w, r, b, dst, states, states);
        CHECK(pd.get_cell_kind() == algorithm::vanilla_lstm);
        CHECK(pd.get_direction() == direction);
        CHECK(pd.bias_desc() == b);
        lstm_forward(pd).execute(*str, args);
    } else if (kind == cell::vanilla) {
        vanilla_rnn_forward(vanilla_rnn_forward::primitive_desc(*eng, inference, algorithm::eltwise_tanh, direction, src, states, w, r, b, dst, states)).execute(*str, args);
    } else if (kind == cell::gru) {
        gru_forward(gru_forward::primitive_desc(*eng, inference, direction, src, states, w, r, b, dst, states)).execute(*str, args);
    } else {
        lbr_gru_forward(lbr_gru_forward::primitive_desc(*eng, inference, direction, src, states, w, r, b, dst, states)).execute(*str, args);
    }
    str->wait();
    doubles h(hv.begin(), hv.end()), c(cv.begin(), cv.end()), result((size_t)T * N * side * H);
    // Each direction is a stack of layers by itself.
    for (int d = 0; d < D; d++) {
        doubles in(x.begin(), x.end()), own;
        for (int l = 0; l < L; l++) {
            own.assign((size_t)T * N * H, 0);
            const size_t at = (size_t)l * D + d;
            const bool backward = direction == rnn_direction::unidirectional_right2left || d == 1;
            run(kind, backward, in, inputs, &wv[at * inputs * G * H], &rv[at * H * G * H], &bv[at * rows * H], &h[at * N * H],
                    &c[at * N * H], own);
            in = own;
        }
        for (size_t i = 0; i < own.size(); i++) result[(i / H * side + (side == 2 ? d : 0)) * H + i % H] += own[i];
    }
    CHECK(close_to(out, result));
    CHECK(close_to(last, h));
    if (kind == cell::lstm) CHECK(close_to(last_c, c));
}

static float total(const memory &m, size_t count) {
    const float *got = (const float *)m.map_data();
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += got[i];
    m.unmap_data((void *)got);
    return (float)sum;
}

// Two layers of an LSTM in both directions: the gradient of the sum of all results by some biases beside differences, added to what was
// there; descriptors that are told, and hints of other layers.
static void training() {
    const int L = 2, D = 2, G = 4, inputs = H;
    const memory::desc src({T, N, inputs}, dt::f32, tag::tnc), states({L, D, N, H}, dt::f32, tag::ldnc), none;
    const memory::desc w({L, D, inputs, G, H}, dt::f32, tag::any), r({L, D, H, G, H}, dt::f32, tag::any);
    const memory::desc b({L, D, G, H}, dt::f32, tag::ldgo), dst({T, N, 2 * H}, dt::f32, tag::tnc);
    const rnn_direction both = rnn_direction::bidirectional_concat;
    const lstm_forward::primitive_desc forward(*eng, prop_kind::forward_training, both, src, none, none, w, r, b, dst, states, none);
    CHECK(forward.workspace_desc().get_size() > 0);
    const size_t of_weights = (size_t)L * D * inputs * G * H, of_bias = (size_t)L * D * G * H, of_dst = (size_t)T * N * 2 * H;
    floats wv = random_floats(of_weights, 2), rv = random_floats((size_t)L * D * H * G * H, 3), bv = random_floats(of_bias, 4);
    for (auto &x : wv) x *= 0.3f;
    for (auto &x : rv) x *= 0.3f;
    const memory in = filled(src, random_floats((size_t)T * N * inputs, 1));
    const memory weights = filled(forward.weights_layer_desc(), wv), state_weights = filled(forward.weights_iter_desc(), rv);
    const memory out(dst, *eng), last(states, *eng), kept(forward.workspace_desc(), *eng);
    const auto run_with = [&](const floats &bias) {
        lstm_forward(forward).execute(*str, {{DNNL_ARG_SRC_LAYER, in}, {DNNL_ARG_WEIGHTS_LAYER, weights}, {DNNL_ARG_WEIGHTS_ITER, state_weights},
                {DNNL_ARG_BIAS, filled(b, bias)}, {DNNL_ARG_DST_LAYER, out}, {DNNL_ARG_DST_ITER, last}, {DNNL_ARG_WORKSPACE, kept}});
        str->wait();
        return total(out, of_dst);
    };
    {
        const lstm_backward::primitive_desc backward(*eng, prop_kind::backward, both, src, none, none, w, r, b, dst, states, none, src, none,
                none, w, r, b, dst, states, none, forward, primitive_attr(), false);
        CHECK(backward.diff_weights_layer_desc().get_dims() == w.get_dims());
        CHECK(backward.diff_bias_desc() == b && backward.diff_src_layer_desc() == src);
        CHECK(backward.workspace_desc() == forward.workspace_desc());
        run_with(bv);
        const memory by_bias = filled(b, floats(of_bias, 1.0f)), by_weights(backward.diff_weights_layer_desc(), *eng);
        const memory by_state_weights(backward.diff_weights_iter_desc(), *eng), by_in(src, *eng);
        lstm_backward(backward).execute(*str, {{DNNL_ARG_SRC_LAYER, in}, {DNNL_ARG_WEIGHTS_LAYER, weights}, {DNNL_ARG_WEIGHTS_ITER, state_weights},
                {DNNL_ARG_BIAS, filled(b, bv)}, {DNNL_ARG_DST_LAYER, out}, {DNNL_ARG_DST_ITER, last}, {DNNL_ARG_WORKSPACE, kept},
                {DNNL_ARG_DIFF_DST_LAYER, filled(dst, floats(of_dst, 1.0f))}, {DNNL_ARG_DIFF_DST_ITER, filled(states, floats((size_t)L * D * N * H, 0.0f))},
                {DNNL_ARG_DIFF_SRC_LAYER, by_in}, {DNNL_ARG_DIFF_WEIGHTS_LAYER, by_weights}, {DNNL_ARG_DIFF_WEIGHTS_ITER, by_state_weights},
                {DNNL_ARG_DIFF_BIAS, by_bias}});
        str->wait();
        const float *got = (const float *)by_bias.map_data();
        for (size_t i = 0; i < of_bias; i += 7) {
            floats more = bv, less = bv;
            more[i] += 0.01f, less[i] -= 0.01f;
            const float want = (run_with(more) - run_with(less)) / 0.02f + 1;
            const bool close = std::fabs(got[i] - want) <= 0.02f * (1 + std::fabs(want));
            if (!close) printf("gradient by bias %zu is %g, expected %g\n", i, (double)got[i], (double)want);
            CHECK(close);
        }
        by_bias.unmap_data((void *)got);
    }
    // A hint of a layer alone, and one that keeps nothing.
    const memory::desc w1({1, D, inputs, G, H}, dt::f32, tag::any), r1({1, D, H, G, H}, dt::f32, tag::any), b1({1, D, G, H}, dt::f32, tag::ldgo);
    const lstm_forward::primitive_desc alone(*eng, prop_kind::forward_training, both, src, none, none, w1, r1, b1, dst, none, none);
    const lstm_forward::primitive_desc inference(*eng, prop_kind::forward_inference, both, src, none, none, w, r, b, dst, none, none);
    for (const lstm_forward::primitive_desc &hint : {alone, inference}) {
        const lstm_backward::primitive_desc refused(*eng, prop_kind::backward, both, src, none, none, w, r, b, dst, none, none, src, none, none, w,
                r, b, dst, none, none, hint, primitive_attr(), true);
        CHECK(!refused);
    }
}

// A layer in integers as a program makes one: what is told of attributes, floats that become integers by them, and the layer beside loops in
// f64 over the numbers that its integers stand for.
static void quantized() {
    const int G = 4;
    const float scale = 60, shift = 64;
    const int by_gate_and_unit = (1 << 3) | (1 << 4);
    floats factors((size_t)G * H);
    for (size_t i = 0; i < factors.size(); i++) factors[i] = 100.0f + 5.0f * (float)(i % 7);
    primitive_attr attr;
    {
        float own_scale = 0, own_shift = 1;
        attr.get_rnn_data_qparams(own_scale, own_shift);
        CHECK(own_scale == 1 && own_shift == 0);
        int mask = 1;
        floats none;
        attr.get_rnn_weights_qparams(mask, none);
        CHECK(mask == 0 && none == floats {1.0f});
        attr.set_rnn_data_qparams(scale, shift);
        attr.set_rnn_weights_qparams(by_gate_and_unit, factors);
        attr.get_rnn_data_qparams(own_scale, own_shift);
        CHECK(own_scale == scale && own_shift == shift);
        attr.get_rnn_weights_qparams(mask, none);
        CHECK(mask == by_gate_and_unit && none == factors);
        primitive_attr other;
        other.set_rnn_weights_projection_qparams(0, {7.0f});
        other.get_rnn_weights_projection_qparams(mask, none);
        CHECK(mask == 0 && none == floats {7.0f});
        const float one = 1;
        CHECK(dnnl_primitive_attr_set_rnn_weights_qparams(other.get(), 0, 0, &one) == dnnl_invalid_arguments);
        CHECK(dnnl_primitive_attr_set_rnn_weights_qparams(other.get(), 1, -1, &one) == dnnl_invalid_arguments);
        CHECK(dnnl_primitive_attr_set_rnn_weights_qparams(other.get(), 1, 0, nullptr) == dnnl_invalid_arguments);
    }
    const memory::desc src({T, N, I}, dt::u8, tag::tnc), states({1, 1, N, H}, dt::f32, tag::ldnc), none;
    const memory::desc w({1, 1, I, G, H}, dt::s8, tag::any), r({1, 1, H, G, H}, dt::s8, tag::any), b({1, 1, G, H}, dt::f32, tag::ldgo);
    const memory::desc dst({T, N, H}, dt::f32, tag::tnc);
    const rnn_direction way = rnn_direction::unidirectional_left2right;
    const lstm_forward::primitive_desc pd(*eng, prop_kind::forward_inference, way, src, none, none, w, r, b, dst, none, states, attr);
    const floats x = random_floats((size_t)T * N * I, 1), wv = random_floats((size_t)I * G * H, 2), rv = random_floats((size_t)H * G * H, 3);
    const floats bv = random_floats((size_t)G * H, 4);
    const auto stored = [&](const memory::desc &plain, const memory::desc &md, const floats &values) {
        memory from = filled(plain, values), to(md, *eng);
        reorder(reorder::primitive_desc(*eng, plain, *eng, md, attr)).execute(*str, from, to);
        str->wait();
        return to;
    };
    const memory in = stored({{T, N, I}, dt::f32, tag::tnc}, src, x);
    const memory weights = stored({{1, 1, I, G, H}, dt::f32, tag::ldigo}, pd.weights_layer_desc(), wv);
    const memory state_weights = stored({{1, 1, H, G, H}, dt::f32, tag::ldigo}, pd.weights_iter_desc(), rv);
    const memory out(dst, *eng), last_cell(states, *eng);
    lstm_forward(pd).execute(*str, {{DNNL_ARG_SRC_LAYER, in}, {DNNL_ARG_WEIGHTS_LAYER, weights}, {DNNL_ARG_WEIGHTS_ITER, state_weights},
            {DNNL_ARG_BIAS, filled(b, bv)}, {DNNL_ARG_DST_LAYER, out}, {DNNL_ARG_DST_ITER_C, last_cell}});
    str->wait();
    const auto kept = [&](double value) { return (std::nearbyint(value * scale + shift) - shift) / scale; };
    const auto weight = [&](const floats &of, int k, int g, int j) {
        const size_t i = (size_t)(g * H + j);
        return std::nearbyint(of[(size_t)k * G * H + i] * factors[i]) / factors[i];
    };
    doubles want;
    double h[N][H] = {}, c[N][H] = {};
    for (int t = 0; t < T; t++)
        for (int n = 0; n < N; n++) {
            double next[H];
            for (int j = 0; j < H; j++) {
                const auto sum = [&](int g) {
                    double s = bv[(size_t)(g * H + j)];
                    for (int k = 0; k < I; k++) s += kept(x[(size_t)((t * N + n) * I + k)]) * weight(wv, k, g, j);
                    for (int k = 0; k < H; k++) s += h[n][k] * weight(rv, k, g, j);
                    return s;
                };
                c[n][j] = logistic(sum(1)) * c[n][j] + logistic(sum(0)) * std::tanh(sum(2));
                next[j] = kept(logistic(sum(3)) * std::tanh(c[n][j]));
            }
            for (int j = 0; j < H; j++) want.push_back(h[n][j] = next[j]);
        }
    CHECK(close_to(out, want));
}

int main(int argc, char **argv) {
    return run_checks(argc, argv, [] {
        for (cell kind : {cell::vanilla, cell::lstm, cell::gru, cell::lbr_gru}) {
            for (rnn_direction direction : {rnn_direction::unidirectional_left2right, rnn_direction::unidirectional_right2left,
                         rnn_direction::bidirectional_concat, rnn_direction::bidirectional_sum})
                layers(kind, direction, 1);
            layers(kind, rnn_direction::unidirectional_left2right, 2);
            layers(kind, rnn_direction::bidirectional_concat, 3);
            layers(kind, rnn_direction::bidirectional_sum, 2);
        }
        training();
        quantized();
    });
}
