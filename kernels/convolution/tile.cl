// A register tile of a convolution: adds what TILE_M positions side by side see to `sums`, or puts it there first. The terms of a sum are
// `planes` times `rows` runs of `terms` terms; each of the three steps by its own distances in both operands. Included once for each
// number of positions, under the name TILE; the generator writes the repetitions EACH_M(X) = X(0) X(1) .. and
// EACH_V(X, i) = X(i, 0) X(i, 1) .., so that every sum is a named register that stays one over all terms. EACH_WHOLE and EACH_HALF are the
// parts of EACH_V with sixteen lanes and with eight. Where NEAR is not zero, the weights of the term so many terms on are fetched into the
// first-level cache. With FINISH_AT_ONCE `sums` is an array that becomes registers.
#if ANYDNN_UNALIGNED
#define ELEMENT(p, i) as_float(vload4(0, (const __global uchar *)((p) + (i))))
#define QUARTER(p, i) as_float4(vload16(i, (const __global uchar *)(p)))
#define VECTOR(p) (V)(QUARTER(p, 0), QUARTER(p, 1), QUARTER(p, 2), QUARTER(p, 3))
#define HALF(p) (float8)(QUARTER(p, 0), QUARTER(p, 1))
#else
#define ELEMENT(p, i) (p)[i]
#define VECTOR(p) vload16(0, p)
#define HALF(p) vload8(0, p)
#endif
#if FINISH_AT_ONCE
#define SUMS V *
#define SUM(i, j) sums[i * VECTORS + j]
#else
#define SUMS __local float *restrict
#define SUM(i, j) (*(__local V *)(sums + (i * VECTORS + j) * 16))
#endif
#define START(i) EACH_WHOLE(START_SUM, i) EACH_HALF(START_HALF, i)
#define START_SUM(i, j) V sum##i##_##j = first ? (V)(0) : SUM(i, j);
#define START_HALF(i, j) float8 sum##i##_##j = first ? (float8)(0) : SUM(i, j).lo;
#define FETCH_TERM(i, j) FETCH_NEAR(b_term + NEAR * B_STEP_K + 16 * j);
#define LOAD(i, j) const V b##j = VECTOR(b_term + 16 * j);
#define LOAD_HALF(i, j) const float8 b##j = HALF(b_term + 16 * j);
#define MULTIPLY_POSITION(i)                                                                                             \
    {                                                                                                                    \
        const float x = ELEMENT(a_term, i * A_STEP_M);                                                                   \
        EACH_V(MULTIPLY, i)                                                                                              \
    }
#define MULTIPLY(i, j) sum##i##_##j += x * b##j;
#define KEEP_POSITION(i) EACH_WHOLE(KEEP_SUM, i) EACH_HALF(KEEP_HALF, i)
#define KEEP_SUM(i, j) SUM(i, j) = sum##i##_##j;
#define KEEP_HALF(i, j) SUM(i, j).lo = sum##i##_##j;

// PoCL 3.1 crashes as it compiles a function of this kind that is not inlined.
static inline __attribute__((always_inline)) void TILE(const __global float *restrict a, const __global float *restrict b,
                                                       const int planes, const int rows, const int terms, const bool first,
                                                       SUMS sums) {
    EACH_M(START)
    for (int plane = 0; plane < planes; ++plane) {
        const __global float *a_row = a, *b_row = b;
        for (int row = 0; row < rows; ++row) {
            const __global float *a_term = a_row, *b_term = b_row;
            for (int k = 0; k < terms; ++k) {
#if NEAR
                EACH_V(FETCH_TERM, 0)
#endif
                EACH_WHOLE(LOAD, 0)
                EACH_HALF(LOAD_HALF, 0)
                EACH_M(MULTIPLY_POSITION)
                a_term += A_STEP_K;
                b_term += B_STEP_K;
            }
            a_row += A_STEP_ROW;
            b_row += B_STEP_ROW;
        }
        a += A_STEP_PLANE;
        b += B_STEP_PLANE;
    }
    EACH_M(KEEP_POSITION)
}

#undef ELEMENT
#undef QUARTER
#undef VECTOR
#undef HALF
#undef SUMS
#undef SUM
#undef START
#undef START_SUM
#undef START_HALF
#undef FETCH_TERM
#undef LOAD
#undef LOAD_HALF
#undef MULTIPLY_POSITION
#undef MULTIPLY
#undef KEEP_POSITION
#undef KEEP_SUM
#undef KEEP_HALF
