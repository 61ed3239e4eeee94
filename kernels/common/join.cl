// Sums of the lanes of 16 vectors of 16 floats.
#define PLUS_PAIRS(a, b) (V)(a.even + a.odd, b.even + b.odd)

// The sums of the vectors, in order.
static inline V sums_of(const __private V *x) {
    const V a0 = PLUS_PAIRS(x[0], x[1]), a1 = PLUS_PAIRS(x[2], x[3]), a2 = PLUS_PAIRS(x[4], x[5]);
    const V a3 = PLUS_PAIRS(x[6], x[7]), a4 = PLUS_PAIRS(x[8], x[9]), a5 = PLUS_PAIRS(x[10], x[11]);
    const V a6 = PLUS_PAIRS(x[12], x[13]), a7 = PLUS_PAIRS(x[14], x[15]);
    const V b0 = PLUS_PAIRS(a0, a1), b1 = PLUS_PAIRS(a2, a3), b2 = PLUS_PAIRS(a4, a5), b3 = PLUS_PAIRS(a6, a7);
    const V c0 = PLUS_PAIRS(b0, b1), c1 = PLUS_PAIRS(b2, b3);
    return PLUS_PAIRS(c0, c1);
}
