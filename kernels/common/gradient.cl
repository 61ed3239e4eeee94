// Derivatives of the functions of eltwise.cl at their argument, and (derivative_of_..) at their value where that says enough.

KEEP_PRODUCTS
#define INSIDE(condition, slope) ((condition) ? (V)(slope) : (V)(K(0.0)))
#define SIGMOID(x) (K(1.0) / (K(1.0) + EXP(-(x))))

static inline V derivative_abs(const V x) { return x > (V)(K(0.0)) ? (V)(K(1.0)) : INSIDE(x < (V)(K(0.0)), K(-1.0)); }
static inline V derivative_clamp(const V x, const R low, const R high) { return INSIDE((x > (V)(low)) & (x < (V)(high)), K(1.0)); }
static inline V derivative_of_clamp(const V y, const R low, const R high) { return derivative_clamp(y, low, high); }
static inline V derivative_elu(const V x, const R alpha) { return x > (V)(K(0.0)) ? (V)(K(1.0)) : alpha * EXP(x); }
static inline V derivative_of_elu(const V x, const R alpha) { return x > (V)(K(0.0)) ? (V)(K(1.0)) : x + alpha; }
static inline V derivative_exp(const V x) { return EXP(x); }
static inline V derivative_of_exp(const V x) { return x; }
static inline V derivative_gelu_erf(const V x) {
    return K(0.5) * ERFC(x * K(-0.70710678118654752440)) + x * EXP(K(-0.5) * x * x) * K(0.39894228040143267794);
}
// In terms of the logistic function s of twice the tangent's argument: (1 + tanh) / 2 keeps its digits where the tangent is close to -1.
static inline V derivative_gelu_tanh(const V x) {
    const V s = SIGMOID(K(1.59576912160573071176) * (x + K(0.044715) * x * x * x));
    const V inner = K(0.79788456080286535588) * (K(1.0) + K(0.134145) * x * x);
    return s + x * (K(2.0) * s * (K(1.0) - s)) * inner;
}
static inline V derivative_hard_sigmoid(const V x, const R alpha, const R beta) {
    const V v = alpha * x + beta;
    return INSIDE((v > (V)(K(0.0))) & (v < (V)(K(1.0))), alpha);
}
static inline V derivative_hard_swish(const V x, const R alpha, const R beta) {
    const V v = alpha * x + beta;
    return v >= (V)(K(1.0)) ? (V)(K(1.0)) : INSIDE(v > (V)(K(0.0)), K(2.0) * alpha * x + beta);
}
static inline V derivative_leaky_relu(const V x, const R alpha) { return x > (V)(K(0.0)) ? (V)(K(1.0)) : (V)(alpha); }
static inline V derivative_of_leaky_relu(const V y, const R alpha) { return derivative_leaky_relu(y, alpha); }
static inline V derivative_linear(const V x, const R alpha, const R beta) { return (V)(alpha); }
static inline V derivative_log(const V x) { return K(1.0) / x; }
static inline V derivative_mish(const V x) {
    const V t = TANH_OF_SOFT_PLUS(x);
    return t + x * ((K(1.0) - t) * (K(1.0) + t)) * SIGMOID(x);
}
static inline V derivative_pow(const V x, const R alpha, const R beta) { return alpha * beta * pow(x, (V)(beta - K(1.0))); }
static inline V derivative_reciprocal(const V x) { return K(-1.0) / (x * x); }
static inline V derivative_relu(const V x) { return INSIDE(x > (V)(K(0.0)), K(1.0)); }
static inline V derivative_of_relu(const V y) { return derivative_relu(y); }
static inline V derivative_round(const V x) { return (V)(K(0.0)); }
// Far from zero what is left of one is a small number, not a difference.
static inline V derivative_sigmoid(const V x) {
    const V e = EXP(-fabs(x)), s = K(1.0) / (K(1.0) + e);
    return e * s * s;
}
static inline V derivative_of_sigmoid(const V x) { return x * (K(1.0) - x); }
static inline V derivative_soft_plus(const V x, const R beta) { return SIGMOID(beta * x); }
static inline V derivative_sqrt(const V x) { return K(0.5) / sqrt(x); }
static inline V derivative_of_sqrt(const V x) { return K(0.5) / x; }
static inline V derivative_square(const V x) { return K(2.0) * x; }
static inline V derivative_swish(const V x, const R alpha) {
    const V s = SIGMOID(alpha * x);
    return s + alpha * x * s * (K(1.0) - s);
}
static inline V derivative_tanh(const V x) { return K(4.0) * derivative_sigmoid(K(2.0) * x); }
// A square near one, rounded, has lost the digits that are left.
static inline V derivative_of_tanh(const V x) { return (K(1.0) - x) * (K(1.0) + x); }
static inline V derivative_acos(const V x) { return K(-1.0) / sqrt((K(1.0) - x) * (K(1.0) + x)); }
static inline V derivative_acosh(const V x) { return K(1.0) / sqrt((x - K(1.0)) * (x + K(1.0))); }
static inline V derivative_asin(const V x) { return K(1.0) / sqrt((K(1.0) - x) * (K(1.0) + x)); }
static inline V derivative_asinh(const V x) { return K(1.0) / sqrt(x * x + K(1.0)); }
static inline V derivative_atan(const V x) { return K(1.0) / (x * x + K(1.0)); }
static inline V derivative_atanh(const V x) { return K(1.0) / ((K(1.0) - x) * (K(1.0) + x)); }
static inline V derivative_cos(const V x) { return -sin(x); }
static inline V derivative_cosh(const V x) { return sinh(x); }
static inline V derivative_erf(const V x) { return K(1.12837916709551257390) * exp(-x * x); }
static inline V derivative_sin(const V x) { return cos(x); }
static inline V derivative_sinh(const V x) { return cosh(x); }
static inline V derivative_tan(const V x) {
    const V t = tan(x);
    return K(1.0) + t * t;
}
// Functions with steps are flat between them.
static inline V derivative_ceil(const V x) { return (V)(K(0.0)); }
static inline V derivative_floor(const V x) { return (V)(K(0.0)); }
static inline V derivative_sign(const V x) { return (V)(K(0.0)); }
static inline V derivative_truncate(const V x) { return (V)(K(0.0)); }
JOIN_PRODUCTS
