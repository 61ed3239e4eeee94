// Functions of one element. V is R or a vector of it; K(c) is a constant of type R. Comparisons are written so that NaN stays.
// SHORT_RESULTS says that results are stored as floats of 16 bits, and are computed by the devices' own functions.

KEEP_PRODUCTS
#if !R_IS_INTEGER

// In two steps, each of which is an instruction. NaN stays.
static inline V eltwise_clamp(const V x, const R low, const R high) {
    const V at_least = x < (V)(low) ? (V)(low) : x;
    return at_least > (V)(high) ? (V)(high) : at_least;
}
static inline V eltwise_abs(const V x) { return fabs(x); }
static inline V eltwise_elu(const V x, const R alpha) { return x > (V)(K(0.0)) ? x : alpha * EXPM1_NEGATIVE(x); }
static inline V eltwise_exp(const V x) { return EXP(x); }
#if SHORT_RESULTS
// max(x, 0) - |x| * tail(|x|), where the logarithm of the normal distribution's tail is a polynomial to 5e-6 up to 6, and beyond that falls
// faster than the tail: the result is right to 4e-6 of itself, far below the last digit of 16 bits.
static inline V eltwise_gelu_erf(const V x) {
    const V a = fabs(x), t = a > (V)(K(20.0)) ? (V)(K(20.0)) : a;
    V p = SUM_OF_PRODUCT(t, (V)(K(-1.8346676e-6)), (V)(K(6.159529e-5)));
    p = SUM_OF_PRODUCT(p, t, (V)(K(-9.3049987e-4)));
    p = SUM_OF_PRODUCT(p, t, (V)(K(8.507785e-3)));
    p = SUM_OF_PRODUCT(p, t, (V)(K(-5.395983e-2)));
    p = SUM_OF_PRODUCT(p, t, (V)(K(-4.5846465e-1)));
    p = SUM_OF_PRODUCT(p, t, (V)(K(-1.151251)));
    p = SUM_OF_PRODUCT(p, t, (V)(K(-9.999953e-1)));
    // Half of x and of |x| are max(x, 0), and no number for -INFINITY, as elsewhere.
    return (x * K(0.5) + a * K(0.5)) - t * exp2(p);
}
#elif OWN_MATH
// max(x, 0) - |x| times the tail of the normal distribution: a power of two and a quotient of polynomials, to 1.3e-7 of itself as far as the
// tail is a normal number. What comes behind that is zero but for 2e-38. Half of x and of |x| are max(x, 0), and no number for -INFINITY.
static inline V eltwise_gelu_erf(const V x) {
    const V a = fabs(x), t = a > (V)(K(13.1)) ? (V)(K(13.1)) : a;
    const V u = t * K(-0.72134752044448170368), shifted = u * t + ROUNDER, n = shifted - ROUNDER, r = u * t - n;
    V e = r * K(1.32647e-3) + K(9.67151e-3);
    e = e * r + K(5.550734e-2);
    e = e * r + K(2.4022242e-1);
    e = e * r + K(6.9314698e-1);
    e = e * r + K(1.0);
    V p = t * K(2.36933839e-7) + K(1.43770368e-2);
    p = p * t + K(1.07670777e-1);
    p = p * t + K(3.39984589e-1);
    p = p * t + K(4.99999936e-1);
    V q = t * K(3.60658356e-2) + K(2.69333357e-1);
    q = q * t + K(8.94553371e-1);
    q = q * t + K(1.47784675);
    q = q * t + K(1.0);
    const V scaled = AS(float, AS(int, e) + (AS(int, shifted) << 23));
    return (x * K(0.5) + a * K(0.5)) - p * t / q * scaled;
}
#else
// The complementary function keeps the digits that 1 + erf loses for negative x.
static inline V eltwise_gelu_erf(const V x) { return K(0.5) * x * ERFC(x * K(-0.70710678118654752440)); }
#endif
// 1 + tanh(u) is twice the logistic function of 2u.
static inline V eltwise_gelu_tanh(const V x) {
    return x / (K(1.0) + EXP(K(-1.59576912160573071176) * (x + K(0.044715) * x * x * x)));
}
static inline V eltwise_hard_sigmoid(const V x, const R alpha, const R beta) {
    return eltwise_clamp(alpha * x + beta, K(0.0), K(1.0));
}
static inline V eltwise_hard_swish(const V x, const R alpha, const R beta) {
    return x * eltwise_hard_sigmoid(x, alpha, beta);
}
static inline V eltwise_leaky_relu(const V x, const R alpha) { return x > (V)(K(0.0)) ? x : alpha * x; }
static inline V eltwise_linear(const V x, const R alpha, const R beta) { return alpha * x + beta; }
static inline V eltwise_log(const V x) { return LOG(x); }
static inline V eltwise_mish(const V x) { return x * TANH_OF_SOFT_PLUS(x); }
static inline V eltwise_pow(const V x, const R alpha, const R beta) {
    // Exponents are known when this is compiled.
    if (beta == K(2.0)) return alpha * (x * x);
    if (beta == K(3.0)) return alpha * (x * x * x);
    if (beta == K(1.0)) return alpha * x;
    if (beta == K(-1.0)) return alpha / x;
    if (beta == K(0.5)) return x == (V)(-INFINITY) ? alpha * (V)(INFINITY) : alpha * sqrt(x + K(0.0));
    if (beta == K(-0.5)) return x == (V)(-INFINITY) ? alpha * (V)(0) : alpha / sqrt(x + K(0.0));
    return alpha * pow(x, (V)(beta));
}
static inline V eltwise_reciprocal(const V x) { return K(1.0) / x; }
static inline V eltwise_relu(const V x) { return x < (V)(K(0.0)) ? (V)(K(0.0)) : x; }
static inline V eltwise_round(const V x) { return rint(x); }
static inline V eltwise_sigmoid(const V x) { return K(1.0) / (K(1.0) + EXP(-x)); }
static inline V eltwise_soft_plus(const V x, const R beta) { return SOFT_PLUS(beta * x) / beta; }
static inline V eltwise_sqrt(const V x) { return sqrt(x); }
static inline V eltwise_square(const V x) { return x * x; }
static inline V eltwise_swish(const V x, const R alpha) { return x / (K(1.0) + EXP(-alpha * x)); }
static inline V eltwise_tanh(const V x) { return TANH(x); }
static inline V eltwise_acos(const V x) { return acos(x); }
static inline V eltwise_acosh(const V x) { return acosh(x); }
static inline V eltwise_asin(const V x) { return asin(x); }
static inline V eltwise_asinh(const V x) { return asinh(x); }
static inline V eltwise_atan(const V x) { return atan(x); }
static inline V eltwise_atanh(const V x) { return atanh(x); }
static inline V eltwise_ceil(const V x) { return ceil(x); }
static inline V eltwise_cos(const V x) { return cos(x); }
static inline V eltwise_cosh(const V x) { return cosh(x); }
static inline V eltwise_erf(const V x) { return ERF(x); }
static inline V eltwise_floor(const V x) { return floor(x); }
static inline V eltwise_sign(const V x) {
    return x > (V)(K(0.0)) ? (V)(K(1.0)) : (x < (V)(K(0.0)) ? (V)(K(-1.0)) : x);
}
static inline V eltwise_sin(const V x) { return sin(x); }
static inline V eltwise_sinh(const V x) { return sinh(x); }
static inline V eltwise_tan(const V x) { return tan(x); }
static inline V eltwise_truncate(const V x) { return trunc(x); }

#endif
JOIN_PRODUCTS
