// A register tile of a matrix product: adds the products of TILE_M rows of `a` and the vectors of each of `terms` rows of `b` to `sums`,
// or puts them there first. Included once for each number of rows, under the name TILE; the generator writes the repetitions
// EACH_M(X) = X(0) X(1) .. and EACH_V(X, i) = X(i, 0) X(i, 1) .., so that every sum is a named register. Rows are a constant distance
// apart, so that the addresses of all of them share one register. Where AHEAD is not zero, as many lines of 64 bytes from `ahead` on are
// fetched into the second-level cache for each four terms. Where NEAR is not zero, the row of `b` so many rows on is fetched into the first.
#if ANYDNN_UNALIGNED
#define ELEMENT(p, i) as_float(vload4(0, (const A_SPACE uchar *)((p) + (i))))
#define QUARTER(p, i) as_float4(vload16(i, (const B_SPACE uchar *)(p)))
#define VECTOR(p) (V)(QUARTER(p, 0), QUARTER(p, 1), QUARTER(p, 2), QUARTER(p, 3))
#else
#define ELEMENT(p, i) (p)[i]
#define VECTOR(p) vload16(0, p)
#endif
#if AHEAD
#define ALSO_AHEAD , const __global float *ahead
#else
#define ALSO_AHEAD
#endif
#define START(i) EACH_V(START_SUM, i)
#define START_SUM(i, j) V sum##i##_##j = first ? (V)(0) : *(__local V *)(sums + i * PANEL + 16 * j);
#define FETCH_TERM(i, j) FETCH_NEAR(b + (NEAR * B_STEP_K + B_AT(j)));
#define LOAD(i, j) const V b##j = VECTOR(b + B_AT(j));
#define MULTIPLY_ROW(i)                                                                                                  \
    {                                                                                                                    \
        const float x = ELEMENT(a, i * A_STEP_M);                                                                        \
        EACH_V(MULTIPLY, i)                                                                                              \
    }
#define MULTIPLY(i, j) sum##i##_##j += x * b##j;
#define KEEP_ROW(i) EACH_V(KEEP_SUM, i)
#define KEEP_SUM(i, j) *(__local V *)(sums + i * PANEL + 16 * j) = sum##i##_##j;

// PoCL 3.1 crashes as it compiles a function of this kind that is not inlined.
static inline __attribute__((always_inline)) void TILE(const A_SPACE float *restrict a, const B_SPACE float *restrict b,
                                                       const int terms, const bool first, __local float *restrict sums
                                                           ALSO_AHEAD) {
    EACH_M(START)
    for (int k = 0; k < terms; ++k) {
#if AHEAD
        const int turn = k % 4;
        _Pragma("unroll") for (int line = 0; line < AHEAD; line += 4) {
            if (line + turn < AHEAD) FETCH(ahead + (k / 4 * AHEAD + line + turn) * 16);
        }
#endif
#if NEAR
        EACH_V(FETCH_TERM, 0)
#endif
        EACH_V(LOAD, 0)
        EACH_M(MULTIPLY_ROW)
        a += A_STEP_K;
        b += B_STEP_K;
    }
    EACH_M(KEEP_ROW)
}

#undef ELEMENT
#undef QUARTER
#undef VECTOR
#undef ALSO_AHEAD
#undef START
#undef START_SUM
#undef FETCH_TERM
#undef LOAD
#undef MULTIPLY_ROW
#undef MULTIPLY
#undef KEEP_ROW
#undef KEEP_SUM
