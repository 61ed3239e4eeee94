// Functions of two elements; truth is one. V is R or a vector of it.

KEEP_PRODUCTS
#define TRUTH(condition) ((condition) ? (V)(1) : (V)(0))

static inline V binary_maximum(const V a, const V b) { return ((a > b) | (a != a)) ? a : b; }
static inline V binary_minimum(const V a, const V b) { return ((a < b) | (a != a)) ? a : b; }
static inline V binary_greater_equal(const V a, const V b) { return TRUTH(a >= b); }
static inline V binary_greater(const V a, const V b) { return TRUTH(a > b); }
static inline V binary_less_equal(const V a, const V b) { return TRUTH(a <= b); }
static inline V binary_less(const V a, const V b) { return TRUTH(a < b); }
static inline V binary_equal(const V a, const V b) { return TRUTH(a == b); }
static inline V binary_not_equal(const V a, const V b) { return TRUTH(a != b); }
static inline V binary_and(const V a, const V b) { return TRUTH((a != (V)(0)) & (b != (V)(0))); }
static inline V binary_or(const V a, const V b) { return TRUTH((a != (V)(0)) | (b != (V)(0))); }
static inline V binary_xor(const V a, const V b) { return TRUTH((a != (V)(0)) != (b != (V)(0))); }

#if R_IS_INTEGER
// Saturating: the exact result, then the nearest that the type holds.
static inline V binary_add(const V a, const V b) { return add_sat(a, b); }
static inline V binary_subtract(const V a, const V b) { return sub_sat(a, b); }
#if LANES == 1
#define ARE_ALL(condition) (condition)
#else
#define ARE_ALL(condition) all(condition)
#endif
static inline V binary_multiply(const V a, const V b) {
    const V low = a * b, edge = (V)(1L << 31);
    // The upper half of a product takes long, and those of factors of 32 bits fit.
    if (ARE_ALL((((a + edge) | (b + edge)) & (V)(-1L << 32)) == (V)(0))) return low;
    const V limit = ((a < (V)(0)) ^ (b < (V)(0))) ? (V)(LONG_MIN) : (V)(LONG_MAX);
    return mul_hi(a, b) == (low >> (V)(63)) ? low : limit;
}
static inline V binary_squared_difference(const V a, const V b) {
    const V d = sub_sat(a, b);
    return binary_multiply(d, d);
}
// Zero where the divisor is; the one quotient that the type does not hold is the nearest that it does.
static inline V binary_quotient(const V a, const V b) {
    const V by = (b == (V)(0)) | (b == (V)(-1)) ? (V)(1) : b;
    return b == (V)(0) ? (V)(0) : (b == (V)(-1) ? sub_sat((V)(0), a) : a / by);
}
static inline V binary_remainder(const V a, const V b) {
    const V by = (b == (V)(0)) | (b == (V)(-1)) ? (V)(1) : b;
    return a % by;
}
static inline V binary_modulo(const V a, const V b) {
    const V rest = binary_remainder(a, b);
    return (rest != (V)(0)) & ((rest < (V)(0)) != (b < (V)(0))) ? rest + b : rest;
}
// A value and a part of an old one.
static inline V binary_sum(const V a, const R part, const V old) { return a + part * old; }
#else
static inline V binary_add(const V a, const V b) { return a + b; }
static inline V binary_sum(const V a, const R part, const V old) { return a + part * old; }
static inline V binary_subtract(const V a, const V b) { return a - b; }
static inline V binary_multiply(const V a, const V b) { return a * b; }
static inline V binary_divide(const V a, const V b) { return a / b; }
static inline V binary_squared_difference(const V a, const V b) {
    const V d = a - b;
    return d * d;
}
static inline V binary_power(const V a, const V b) { return pow(a, b); }
// The division may round up to the next integer; the remainder is exact.
static inline V binary_quotient(const V a, const V b) {
    return b == (V)(0) ? (V)(NAN) : round((a - fmod(a, b)) / b);
}
static inline V binary_remainder(const V a, const V b) { return fmod(a, b); }
static inline V binary_modulo(const V a, const V b) {
    const V rest = fmod(a, b);
    return (rest != (V)(0)) & ((rest < (V)(0)) != (b < (V)(0))) ? rest + b : rest;
}
#endif
JOIN_PRODUCTS
