// For CPUs: a work-item computes M_BLOCK rows of a panel of PANEL columns, in register tiles of TILE_M rows x TILE_V vectors. Weights
// are read as vectors along N (in place, or from panels `[N / PANEL][K][PANEL]`), the source as scalars. The generator writes the
// repetitions EACH_M(X) = X(0) X(1) .. and EACH_V(X, i) = X(i, 0) X(i, 1) .. so that every accumulator is a named register.
// Rows past M read the last row again and are not stored.
#define START_ROW(i)                                                                                                     \
    idx at##i;                                                                                                           \
    {                                                                                                                    \
        const idx m = min(first_m + i, (idx)(M_SIZE - 1));                                                               \
        const idx k = 0;                                                                                                 \
        at##i = OFF_SRC0;                                                                                                \
    }                                                                                                                    \
    EACH_V(CLEAR, i)
#define CLEAR(i, j) V sum##i##_##j = (V)(0);
#define LOAD_WHOLE(i, j) const V b##j = LD_WEIGHTS(b_at + 16 * j, 16);
#define LOAD_PART(i, j) const V b##j = LD_WEIGHTS(b_at + 16 * j, columns - 16 * j);
#define MULTIPLY_ROW(i)                                                                                                  \
    {                                                                                                                    \
        const R a = LD1_SRC0(at##i + k * K_STEP_SRC0);                                                                   \
        EACH_V(MULTIPLY, i)                                                                                              \
    }
#define MULTIPLY(i, j) sum##i##_##j += a * b##j;
#define FINISH_ROW(i)                                                                                                    \
    if (first_m + i < M_SIZE) {                                                                                          \
        const idx m = first_m + i;                                                                                       \
        EACH_V(FINISH, i)                                                                                                \
    }
#define FINISH(i, j)                                                                                                     \
    if (columns > 16 * j) {                                                                                              \
        const idx lane = 16 * j;                                                                                         \
        const int n_lanes = min(16, columns - 16 * j);                                                                   \
        V v = sum##i##_##j;                                                                                              \
        ADD_BIAS(v, n_lanes)                                                                                             \
        POST_OPS(v, n_lanes)                                                                                             \
        ST_DST(OFF_DST, n_lanes, v);                                                                                     \
    }

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void matmul_vector(PARAMS) {
    ENTER
    const idx panel = (idx)get_global_id(0);
    const idx block_m = (idx)get_global_id(1) * M_BLOCK;
    const idx end_m = min(block_m + M_BLOCK, (idx)M_SIZE);
    const int columns = (int)min((idx)PANEL, N_SIZE - panel * PANEL);
    DECLARE_BATCH((idx)get_global_id(2))
    for (idx first_m = block_m; first_m < end_m; first_m += TILE_M) {
        EACH_M(START_ROW)
        idx b_at;
        {
            const idx lane = 0, k = 0;
            b_at = OFF_WEIGHTS;
        }
#if !WHOLE_PANELS
        if (columns < PANEL) {
            for (idx k = 0; k < K_SIZE; ++k, b_at += K_STEP_WEIGHTS) {
                EACH_V(LOAD_PART, 0)
                EACH_M(MULTIPLY_ROW)
            }
        } else
#endif
            for (idx k = 0; k < K_SIZE; ++k, b_at += K_STEP_WEIGHTS) {
                EACH_V(LOAD_WHOLE, 0)
                EACH_M(MULTIPLY_ROW)
            }
        EACH_M(FINISH_ROW)
    }
}
