// Finishes the sums of packed.cl: FINISH(i, j) those of part j of a row, which are at `from`. They are exact for integers; zero points are taken
// off the sums, because sum (a - za) (b - zb) = sum ab - za sum b - zb sum a + K za zb.
#if IS_FINAL
// What the sums of a row begin with: the bias.
#define FIRST_SUMS(i, j)                                                                                                 \
    {                                                                                                                    \
        LOCATE(j)                                                                                                        \
        const int n_lanes = clamp(columns - 16 * j, 0, 16);                                                              \
        V v = (V)(0);                                                                                                    \
        ADD_BIAS(v, n_lanes)                                                                                             \
        *(__local V *)(first + 16 * j) = v;                                                                              \
    }
#if HAS_FIRST_SUMS
#define START_FIRST_SUMS __local float first[PANEL] __attribute__((aligned(64)));
#else
#define START_FIRST_SUMS const __local float *first = 0;
#endif
#endif
#define FINISH(i, j)                                                                                                     \
    if (columns > 16 * j) {                                                                                              \
        LOCATE(j)                                                                                                        \
        const int n_lanes = min(16, columns - 16 * j);                                                                   \
        SUMS sum = *(__local SUMS *)(from + 16 * j);                                                                     \
        TAKE_ZERO_OF_SRC(j)                                                                                              \
        TAKE_ZERO_OF_WEIGHTS                                                                                             \
        STORE(sum)                                                                                                       \
    }
#if HAS_ZERO_SRC0
#define TAKE_ZERO_OF_SRC(j) sum -= NAT1_ZERO_SRC0(OFF_ZERO_SRC0) * *(__local SUMS *)(column_sums + 16 * j);
#else
#define TAKE_ZERO_OF_SRC(j)
#endif
#if HAS_ZERO_WEIGHTS && HAS_ZERO_SRC0
#define TAKE_ZERO_OF_WEIGHTS sum -= ZERO_OF_WEIGHTS(n_lanes) * (SUMS)(total - K_SIZE * NAT1_ZERO_SRC0(OFF_ZERO_SRC0));
#elif HAS_ZERO_WEIGHTS
#define TAKE_ZERO_OF_WEIGHTS sum -= ZERO_OF_WEIGHTS(n_lanes) * (SUMS)(total);
#else
#define TAKE_ZERO_OF_WEIGHTS
#endif
#if EXACT
#define STORE(sum) STORE_EXACT(as_uint16(sum), n_lanes);
#else
#define STORE(sum)                                                                                                       \
    V v = OUT_SRC0(OUT_WEIGHTS(convert_float16(sum), n_lanes), n_lanes);                                                 \
    ADD_BIAS(v, n_lanes)                                                                                                 \
    POST_OPS(v, n_lanes)                                                                                                 \
    ST_DST(OFF_DST, n_lanes, v);
#endif
#if HAS_ZERO_WEIGHTS && !defined(HAS_OWN_ROW_SUMS)
static inline int sum_row(const __global uchar *a WITH_SHAPE) {
    int16 sums = (int16)(0);
    int sum = 0;
    for (int d = 0; d < RUNS_D; ++d)
        for (int h = 0; h < RUNS_H; ++h)
            for (int w = 0; w < RUNS_W; ++w) {
                const __global uchar *p = a + d * (idx)RUN_STEP_D + h * (idx)RUN_STEP_H + w * (idx)RUN_STEP_W;
                int k = 0;
                for (; k + 16 <= RUN_TERMS; k += 16) sums += UNPACK_SRC0(16)(vload16(0, p + k));
                for (; k < RUN_TERMS; ++k) sum += UNPACK_SRC0(1)(p[k]);
            }
    const int8 eight = sums.lo + sums.hi;
    const int4 four = eight.lo + eight.hi;
    return sum + four.x + four.y + four.z + four.w;
}
#endif
