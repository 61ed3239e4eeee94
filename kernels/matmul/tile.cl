// A register tile of a matrix product: adds the products of TILE_M rows of `a` and the vectors of each of `terms` rows of `b` to `sums`,
// or puts them there first. Included once for each number of rows and of vectors, TILE_VECTORS, under the name TILE. Rows are a constant
// distance apart, so that the addresses of all of them share one register. A row is fetched SOURCE_AHEAD terms ahead, one after the other
// term by term. With HAS_AHEAD, AHEAD lines of 64 bytes from `ahead` on are fetched into the
// second-level cache for each four terms. With HAS_NEAR the row of `b` NEAR rows on is fetched into the first. With MISSING
// only the parts of a row of `b` up to `last_part` exist, and that one is read in place of those behind it. Sums are arrays over loops that
// are unrolled, not repeated text: drivers keep what they read of a program as long as it lives.
#if ANYDNN_UNALIGNED
#define ELEMENT(p, i) as_float(vload4(0, (const A_SPACE uchar *)((p) + (i))))
#define QUARTER(p, i) as_float4(vload16(i, (const B_SPACE uchar *)(p)))
#define VECTOR(p) (V)(QUARTER(p, 0), QUARTER(p, 1), QUARTER(p, 2), QUARTER(p, 3))
#else
#define ELEMENT(p, i) (p)[i]
#define VECTOR(p) vload16(0, p)
#endif
#if HAS_AHEAD
#define ALSO_AHEAD , const __global float *ahead
#else
#define ALSO_AHEAD
#endif
#if MISSING
#define ALSO_LAST , const int last_part
#else
#define ALSO_LAST
#endif
#define SUM(i, j) (*(__local V *)(sums + (i) * PANEL + 16 * (j)))

// PoCL 3.1 crashes as it compiles a function of this kind that is not inlined.
static inline __attribute__((always_inline)) void TILE(const A_SPACE float *restrict a, const B_SPACE float *restrict b,
                                                       const int terms, const bool first, __local float *restrict sums
                                                           ALSO_AHEAD ALSO_LAST WITH_SHAPE) {
    V sum[TILE_M][TILE_VECTORS];
    EACH(i, TILE_M) EACH(j, TILE_VECTORS) sum[i][j] = first ? (V)(0) : SUM(i, j);
    for (int k = 0; k < terms; ++k) {
#if HAS_AHEAD
        for (int line = k % 4; line < AHEAD; line += 4) FETCH(ahead + (k / 4 * AHEAD + line) * 16);
#endif
#if SOURCE_AHEAD
        FETCH_NEAR(a + ((k % 16) * A_STEP_M + SOURCE_AHEAD * A_STEP_K));
#endif
#if HAS_NEAR
        EACH(j, TILE_VECTORS) FETCH_NEAR(b + (NEAR * B_STEP_K + B_AT(j)));
#endif
        V weights[TILE_VECTORS];
        EACH(j, TILE_VECTORS) weights[j] = VECTOR(b + B_AT(j));
        EACH(i, TILE_M) {
            const float x = ELEMENT(a, i * A_STEP_M);
            EACH(j, TILE_VECTORS) sum[i][j] += x * weights[j];
        }
        a += A_STEP_K;
        b += B_STEP_K;
    }
    EACH(i, TILE_M) EACH(j, TILE_VECTORS) SUM(i, j) = sum[i][j];
}

#undef ELEMENT
#undef QUARTER
#undef VECTOR
#undef ALSO_AHEAD
#undef ALSO_LAST
#undef SUM
