// Finishes the sums of packed.cl: FINISH(i, j) those of part j of a row, which are at `from`. They are exact for integers; zero points are taken
// off the sums, because sum (a - za) (b - zb) = sum ab - za sum b - zb sum a + K za zb.
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
