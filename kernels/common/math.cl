// Exponentials and what is made of them. With OWN_MATH in f32 vectors: range reductions and minimax polynomials, within a few units in
// the last place, where some devices' built-in functions go lane by lane. Infinities and NaN are as usual; results below the smallest
// normal number are zero.

#if OWN_MATH

// Adding it rounds to an integer, which is then in the lowest bits.
#define ROUNDER K(12582912.0)
// e^r - 1 - r for |r| <= ln(2) / 2, divided by r^2.
#define EXP_REST(r) ((((r) * K(8.312501429e-03) + K(4.189033179e-02)) * (r) + K(1.666711539e-01)) * (r) + K(4.999923031e-01))
// x without its multiple n of ln(2), in two parts of which the first is exact.
#define EXP_REDUCED(x, n) (((x) - (n) * K(0.693359375)) + (n) * K(2.12194440e-4))

static inline V own_exp(const V x) {
    const V t = x * K(1.44269504088896341) + ROUNDER, n = t - ROUNDER, r = EXP_REDUCED(x, n);
    const V p = (EXP_REST(r) * (r * r) + r) + K(1.0);
    const V y = AS(float, AS(int, p) + (AS(int, t) << 23));
    return x <= (V)(K(88.722832)) ? (x < (V)(K(-87.336544)) ? (V)(K(0.0)) : y) : x * (V)(INFINITY);
}
// The same for x <= 0.
static inline V own_exp_negative(const V x) {
    const V t = x * K(1.44269504088896341) + ROUNDER, n = t - ROUNDER, r = EXP_REDUCED(x, n);
    const V p = (EXP_REST(r) * (r * r) + r) + K(1.0);
    const V y = p * AS(float, (AS(int, t) << 23) + 0x3f800000);
    return x < (V)(K(-87.336544)) ? (V)(K(0.0)) : y;
}
// e^x - 1 for x <= 0.
static inline V own_expm1_negative(const V x) {
    const V c = x < (V)(K(-87.0)) ? (V)(K(-87.0)) : x;
    const V t = c * K(1.44269504088896341) + ROUNDER, n = t - ROUNDER, r = EXP_REDUCED(c, n);
    const V p = EXP_REST(r) * (r * r) + r;
    const V scale = AS(float, (AS(int, t) << 23) + 0x3f800000);
    return p * scale + (scale - K(1.0));
}
// x times a quotient of polynomials of x^2, up to where the tangent rounds to one.
static inline V own_tanh(const V x) {
    const V c = x > (V)(K(9.02)) ? (V)(K(9.02)) : (x < (V)(K(-9.02)) ? (V)(K(-9.02)) : x), z = c * c;
    V p = z * K(1.331889754e-08) + K(2.058335245e-05);
    p = p * z + K(3.494026719e-03);
    p = p * z + K(1.337971137e-01);
    p = p * z + K(9.999999790e-01);
    V q = z * K(7.761947017e-07) + K(3.283080000e-04);
    q = q * z + K(2.587104346e-02);
    q = q * z + K(4.671302662e-01);
    q = q * z + K(1.0);
    const V y = c * p / q;
    return y > (V)(K(1.0)) ? (V)(K(1.0)) : (y < (V)(K(-1.0)) ? (V)(K(-1.0)) : y);
}
// Twice the inverse hyperbolic tangent of s in [0, 1/3]: log((1 + s) / (1 - s)).
static inline V twice_atanh(const V s) {
    const V z = s * s, d = s + s;
    V p = z * K(1.400599219e-01) + K(1.400090290e-01);
    p = p * z + K(2.001076360e-01);
    p = p * z + K(3.333320814e-01);
    return p * z * d + d;
}
static inline V own_log(const V x) {
    const VEC(int) tiny = x < (V)(K(1.17549435e-38));
    const VEC(int) bits = AS(int, tiny ? x * K(8388608.0) : x);
    const VEC(int) exponent = (bits - 0x3f3504f3) >> 23;
    const V m = AS(float, bits - (exponent << 23));
    const V n = CONVERT(float, exponent) - (tiny ? (V)(K(23.0)) : (V)(K(0.0)));
    const V y = n * K(0.693359375) + (twice_atanh((m - K(1.0)) / (m + K(1.0))) - n * K(2.12194440e-4));
    return x > (V)(K(0.0)) ? (x < (V)(INFINITY) ? y : x) : (x == (V)(K(0.0)) ? (V)(-INFINITY) : (V)(NAN));
}
// log(1 + e^x).
static inline V own_soft_plus(const V x) {
    const V e = own_exp_negative(-fabs(x));
    return (x < (V)(K(0.0)) ? (V)(K(0.0)) : x) + twice_atanh(e / (e + K(2.0)));
}
// The hyperbolic tangent of log(1 + e^x) is a quotient of polynomials of e^x.
static inline V tanh_of_soft_plus(const V x) {
    const V e = own_exp(x > (V)(K(20.0)) ? (V)(K(20.0)) : x), w = e * (e + K(2.0));
    return w / (w + K(2.0));
}
// By a polynomial of 1 / (1 + 0.4 |x|), which times e^(-x^2) is near enough for all |x| with a normal result.
static inline V own_erfc(const V x) {
    const V a = fabs(x), t = K(1.0) / (a * K(0.4) + K(1.0));
    V p = t * K(4.026747830e-02) + K(-1.354710015e-01);
    p = p * t + K(7.384196598e-02);
    p = p * t + K(9.972977455e-02);
    p = p * t + K(7.150818457e-02);
    p = p * t + K(1.969630735e-01);
    p = p * t + K(2.009585730e-01);
    p = p * t + K(2.265757111e-01);
    p = p * t + K(2.256262981e-01);
    const V y = p * t * own_exp_negative(-a * a);
    return x < (V)(K(0.0)) ? K(2.0) - y : y;
}
// x times a polynomial of x^2 up to one, where the complementary function would lose digits.
static inline V own_erf(const V x) {
    const V a = fabs(x), z = x * x, far = K(1.0) - own_erfc(a);
    V p = z * K(-5.648059865e-04) + K(4.921762028e-03);
    p = p * z + K(-2.671505423e-02);
    p = p * z + K(1.128031665e-01);
    p = p * z + K(-3.761234378e-01);
    p = p * z + K(1.128379126);
    const V side = x < (V)(K(0.0)) ? -far : far;
    return a > (V)(K(1.0)) ? side : x * p;
}
#define EXP(x) own_exp(x)
#define EXP_NEGATIVE(x) own_exp_negative(x)
#define EXPM1_NEGATIVE(x) own_expm1_negative(x)
#define TANH(x) own_tanh(x)
#define LOG(x) own_log(x)
#define SOFT_PLUS(x) own_soft_plus(x)
#define TANH_OF_SOFT_PLUS(x) tanh_of_soft_plus(x)
#define ERFC(x) own_erfc(x)
#define ERF(x) own_erf(x)

#else

#define EXP(x) exp(x)
#define EXP_NEGATIVE(x) exp(x)
#define EXPM1_NEGATIVE(x) expm1(x)
#define TANH(x) tanh(x)
#define LOG(x) log(x)
#define SOFT_PLUS(x) built_in_soft_plus(x)
#define TANH_OF_SOFT_PLUS(x) tanh(built_in_soft_plus(x))
#define ERFC(x) erfc(x)
#define ERF(x) erf(x)
#if !R_IS_INTEGER
static inline V built_in_soft_plus(const V x) { return x > (V)(K(30.0)) ? x : log1p(exp(x)); }
#endif

#endif
