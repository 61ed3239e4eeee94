// A register tile of a convolution: adds what TILE_M positions side by side see to `sums`, or puts it there first. The terms of a sum are
// `rows` runs of `terms` terms that follow each other in both operands; the runs are A_STEP_ROW and B_STEP_ROW apart. Included once for each
// number of positions, under the name TILE; the generator writes the repetitions EACH_M(X) = X(0) X(1) .. and
// EACH_V(X, i) = X(i, 0) X(i, 1) .., so that every sum is a named register that stays one over all rows. Where NEAR is not zero, the weights
// of the term so many terms on are fetched into the first-level cache. With FINISH_AT_ONCE `sums` is an array that becomes registers.
#if ANYDNN_UNALIGNED
#define ELEMENT(p, i) as_float(vload4(0, (const __global uchar *)((p) + (i))))
#define QUARTER(p, i) as_float4(vload16(i, (const __global uchar *)(p)))
#define VECTOR(p) (V)(QUARTER(p, 0), QUARTER(p, 1), QUARTER(p, 2), QUARTER(p, 3))
#else
#define ELEMENT(p, i) (p)[i]
#define VECTOR(p) vload16(0, p)
#endif
#if FINISH_AT_ONCE
#define SUMS V *
#define SUM(i, j) sums[i * (PANEL / 16) + j]
#else
#define SUMS __local float *restrict
#define SUM(i, j) *(__local V *)(sums + i * PANEL + 16 * j)
#endif
#define START(i) EACH_V(START_SUM, i)
#define START_SUM(i, j) V sum##i##_##j = first ? (V)(0) : SUM(i, j);
#define FETCH_TERM(i, j) FETCH_NEAR(b_term + NEAR * B_STEP_K + 16 * j);
#define LOAD(i, j) const V b##j = VECTOR(b_term + 16 * j);
#define MULTIPLY_POSITION(i)                                                                                             \
    {                                                                                                                    \
        const float x = ELEMENT(a_term, i * A_STEP_M);                                                                   \
        EACH_V(MULTIPLY, i)                                                                                              \
    }
#define MULTIPLY(i, j) sum##i##_##j += x * b##j;
#define KEEP_POSITION(i) EACH_V(KEEP_SUM, i)
#define KEEP_SUM(i, j) SUM(i, j) = sum##i##_##j;

// PoCL 3.1 crashes as it compiles a function of this kind that is not inlined.
static inline __attribute__((always_inline)) void TILE(const __global float *restrict a, const __global float *restrict b,
                                                       const int rows, const int terms, const bool first, SUMS sums) {
    EACH_M(START)
    for (int row = 0; row < rows; ++row) {
        const __global float *a_term = a, *b_term = b;
        for (int k = 0; k < terms; ++k) {
#if NEAR
            EACH_V(FETCH_TERM, 0)
#endif
            EACH_V(LOAD, 0)
            EACH_M(MULTIPLY_POSITION)
            a_term += A_STEP_K;
            b_term += B_STEP_K;
        }
        a += A_STEP_ROW;
        b += B_STEP_ROW;
    }
    EACH_M(KEEP_POSITION)
}

#undef ELEMENT
#undef QUARTER
#undef VECTOR
#undef SUMS
#undef SUM
#undef START
#undef START_SUM
#undef FETCH_TERM
#undef LOAD
#undef MULTIPLY_POSITION
#undef MULTIPLY
#undef KEEP_POSITION
#undef KEEP_SUM
