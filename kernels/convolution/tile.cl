// A register tile of a convolution: adds what TILE_M positions side by side see to `sums`, or puts it there first. The terms of a sum are
// `planes` times `rows` runs of `terms` terms; each of the three steps by its own distances in both operands. Included once for each
// number of positions, under the name TILE. The first WHOLE_VECTORS vectors of a position have sixteen lanes, one more has eight where
// HALF_VECTORS is 1. Where NEAR is not zero, the weights of the term so many terms on are fetched into the first-level cache. With
// FINISH_AT_ONCE `sums` is an array that becomes registers. Sums are arrays over loops that are unrolled, not repeated text: drivers keep
// what they read of a program as long as it lives.
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

// PoCL 3.1 crashes as it compiles a function of this kind that is not inlined.
static inline __attribute__((always_inline)) void TILE(const __global float *restrict a, const __global float *restrict b,
                                                       const int planes, const int rows, const int terms, const bool first,
                                                       SUMS sums) {
#if WHOLE_VECTORS
    V sum[TILE_M][WHOLE_VECTORS];
    EACH(i, TILE_M) EACH(j, WHOLE_VECTORS) sum[i][j] = first ? (V)(0) : SUM(i, j);
#endif
#if HALF_VECTORS
    float8 half_sum[TILE_M];
    EACH(i, TILE_M) half_sum[i] = first ? (float8)(0) : SUM(i, WHOLE_VECTORS).lo;
#endif
    for (int plane = 0; plane < planes; ++plane) {
        const __global float *a_row = a, *b_row = b;
        for (int row = 0; row < rows; ++row) {
            const __global float *a_term = a_row, *b_term = b_row;
            for (int k = 0; k < terms; ++k) {
#if NEAR
                EACH(j, VECTORS) FETCH_NEAR(b_term + NEAR * B_STEP_K + 16 * j);
#endif
#if WHOLE_VECTORS
                V weights[WHOLE_VECTORS];
                EACH(j, WHOLE_VECTORS) weights[j] = VECTOR(b_term + 16 * j);
#endif
#if HALF_VECTORS
                const float8 half_weights = HALF(b_term + 16 * WHOLE_VECTORS);
#endif
                EACH(i, TILE_M) {
                    const float x = ELEMENT(a_term, i * A_STEP_M);
#if WHOLE_VECTORS
                    EACH(j, WHOLE_VECTORS) sum[i][j] += x * weights[j];
#endif
#if HALF_VECTORS
                    half_sum[i] += x * half_weights;
#endif
                }
                a_term += A_STEP_K;
                b_term += B_STEP_K;
            }
            a_row += A_STEP_ROW;
            b_row += B_STEP_ROW;
        }
        a += A_STEP_PLANE;
        b += B_STEP_PLANE;
    }
#if WHOLE_VECTORS
    EACH(i, TILE_M) EACH(j, WHOLE_VECTORS) SUM(i, j) = sum[i][j];
#endif
#if HALF_VECTORS
    EACH(i, TILE_M) SUM(i, WHOLE_VECTORS).lo = half_sum[i];
#endif
}

#undef ELEMENT
#undef QUARTER
#undef VECTOR
#undef HALF
#undef SUMS
#undef SUM
