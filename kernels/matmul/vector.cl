// For CPUs: a work-item computes M_BLOCK rows of a panel of PANEL columns, in register tiles of TILE_M rows x TILE_V vectors. Weights
// are read as vectors along N (in place, or from panels `[N / PANEL][K][PANEL]`), the source as scalars. The generator writes the
// repetitions EACH_M(X) = X(0) X(1) .. and EACH_V(X, i) = X(i, 0) X(i, 1) .. so that every accumulator is a named register.
// Rows past M read the last row again and are not stored. With GATED a second matrix SRC1 makes the product's gate.
#if GATED
#define IF_GATED(text) text
#else
#define IF_GATED(text)
#endif
// Scales and zero points end with the columns, also where panels go on.
#define COLUMNS(j) (WHOLE_COLUMNS ? 16 : max(columns - 16 * j, 0))
#define START_ROW(i)                                                                                                     \
    idx at##i;                                                                                                           \
    {                                                                                                                    \
        const idx m = min(first_m + i, (idx)(M_SIZE - 1));                                                               \
        const idx k = 0;                                                                                                 \
        at##i = OFF_SRC0;                                                                                                \
    }                                                                                                                    \
    EACH_V(START, i)
#if BY_BLOCKS
// Sums wait here between blocks.
#define HELD(i, j) (*(__local V *)(held + (i) * PANEL + 16 * (j)))
#define SO_FAR(i, j) (first_k == 0 ? (V)(0) : HELD(i, j))
#else
#define SO_FAR(i, j) (V)(0)
#endif
#define START(i, j)                                                                                                      \
    V sum##i##_##j = SO_FAR(i, j);                                                                                       \
    IF_GATED(V gate##i##_##j = (V)(0);)
#define LOAD_WHOLE(i, j) LOAD(j, 16 * j, 16, COLUMNS(j))
// Where a panel ends early its last vectors are the matrix's last columns, and move to their places when they are finished.
#if HAS_VECTOR
#define LOAD_PART(i, j) LOAD(j, min(16 * j, columns - 16), 16, 16)
#define MOVED(sum, n) (n < 16 ? moved(sum, 16 - n) : sum)
static inline V moved(const V v, const int by) {
    R lanes[32];
    vstore16(v, 0, lanes);
    vstore16((V)(0), 1, lanes);
    return vload16(0, lanes + by);
}
#else
#define LOAD_PART(i, j) LOAD(j, 16 * j, max(columns - 16 * j, 0), COLUMNS(j))
#define MOVED(sum, n) sum
#endif
#define LOAD(j, first, n, scaled)                                                                                        \
    V b##j;                                                                                                              \
    IF_GATED(V g##j;)                                                                                                    \
    {                                                                                                                    \
        const idx lane = first;                                                                                          \
        b##j = MEANING(j, LD_WEIGHTS(b_at + lane, n), scaled);                                                           \
        IF_GATED(g##j = DEQ_SRC1(LD_SRC1(g_at + lane, n), scaled);)                                                      \
    }
#define MULTIPLY_ROW(i)                                                                                                  \
    {                                                                                                                    \
        const idx m = min(first_m + i, (idx)(M_SIZE - 1));                                                               \
        const R a = DEQ1_SRC0(LD1_SRC0(at##i + k * K_STEP_SRC0));                                                        \
        EACH_V(MULTIPLY, i)                                                                                              \
    }
#define MULTIPLY(i, j)                                                                                                   \
    SUM(i, j) += a * b##j;                                                                                               \
    IF_GATED(gate##i##_##j += a * g##j;)
#define FINISH_ROW(i)                                                                                                    \
    if (first_m + i < M_SIZE) {                                                                                          \
        const idx m = first_m + i;                                                                                       \
        EACH_V(FINISH, i)                                                                                                \
    }
#define FINISH(i, j)                                                                                                     \
    if (columns > 16 * j) {                                                                                              \
        const idx lane = 16 * j;                                                                                         \
        const int n_lanes = min(16, columns - 16 * j);                                                                   \
        V v = OUT_SRC0(OUT_WEIGHTS(MOVED(sum##i##_##j, n_lanes), n_lanes), n_lanes);                                     \
        IF_GATED(v = JOIN(v, ACTIVATION(OUT_SRC0(OUT_SRC1(MOVED(gate##i##_##j, n_lanes), n_lanes), n_lanes)));)          \
        ADD_BIAS(v, n_lanes)                                                                                             \
        POST_OPS(v, n_lanes)                                                                                             \
        ST_DST(OFF_DST, n_lanes, v);                                                                                     \
    }
// Rows of weights in place lie too far apart for a processor to see that they come one after the other.
#if FETCHES
#define FETCH_AHEAD                                                                                                      \
    {                                                                                                                    \
        const idx terms = min((idx)16, K_SIZE - 1 - k);                                                                  \
        const __global float *next = (const __global float *)weights + b_at + terms * K_STEP_WEIGHTS;                    \
        _Pragma("unroll") for (int j = 0; j < PANEL; j += 16) FETCH_NEAR(next + j);                                      \
    }
#else
#define FETCH_AHEAD
#endif
#if GROUPED
// Scales and zero points stay in registers for the GROUP terms that have the same ones; where registers are left the sums of a group, too, whose
// scale waits for its end.
#define FACTORS_WHOLE(i, j) FACTORS(j, 16 * j, COLUMNS(j))
#if HAS_VECTOR
#define FACTORS_PART(i, j) FACTORS(j, min(16 * j, columns - 16), 16)
#else
#define FACTORS_PART(i, j) FACTORS(j, 16 * j, COLUMNS(j))
#endif
#define FACTORS(j, first, n)                                                                                             \
    V zero##j, scale##j;                                                                                                 \
    {                                                                                                                    \
        const idx lane = first, k = first_k;                                                                             \
        zero##j = ZERO_OF_GROUP(n);                                                                                      \
        scale##j = LD_SCALE_WEIGHTS(OFF_SCALE_WEIGHTS, n);                                                               \
    }
#if SUMS_OF_GROUPS
#define MEANING(j, x, n) ((x) - zero##j)
#define START_GROUP(i) EACH_V(START_PART, i)
#define START_PART(i, j) V part##i##_##j = (V)(0);
#define ADD_GROUP(i) EACH_V(ADD_PART, i)
#define ADD_PART(i, j) sum##i##_##j += part##i##_##j * scale##j;
#define SUM(i, j) part##i##_##j
#else
#define MEANING(j, x, n) (((x) - zero##j) * scale##j)
#define START_GROUP(i)
#define ADD_GROUP(i)
#endif
#define EACH_K(KIND)                                                                                                     \
    for (idx first_k = 0; first_k < K_SIZE; first_k += GROUP) {                                                          \
        EACH_V(FACTORS_##KIND, 0)                                                                                        \
        EACH_M(START_GROUP)                                                                                              \
        for (idx k = first_k; k < first_k + GROUP; ++k) {                                                                \
            EACH_V(LOAD_##KIND, 0)                                                                                       \
            EACH_M(MULTIPLY_ROW)                                                                                         \
            b_at += K_STEP_WEIGHTS;                                                                                      \
        }                                                                                                                \
        EACH_M(ADD_GROUP)                                                                                                \
    }
#else
#define MEANING(j, x, n) DEQ_WEIGHTS(x, n)
#define EACH_K(KIND)                                                                                                     \
    for (idx k = 0; k < K_SIZE; ++k) {                                                                                   \
        EACH_V(LOAD_##KIND, 0)                                                                                           \
        FETCH_AHEAD                                                                                                      \
        EACH_M(MULTIPLY_ROW)                                                                                             \
        b_at += K_STEP_WEIGHTS;                                                                                          \
        IF_GATED(g_at += K_STEP_SRC1;)                                                                                   \
    }
#endif
#ifndef SUM
#define SUM(i, j) sum##i##_##j
#endif

#if BY_BLOCKS
// Weights that no cache holds: a few terms of all the item's panels at a time, so that memory is read in runs, and by all rows while the
// terms are near.
#define HOLD_SUMS(i) EACH_V(HOLD, i)
#define HOLD(i, j) HELD(i, j) = sum##i##_##j;
// Rows a power of two apart compete for the few places that the first level has for them, where other tiles read the source, too.
#if ONE_TILE
#define FETCH_NEXT _Pragma("unroll") for (int j = 0; j < PANEL; j += 16) FETCH_NEAR(next + j);
#else
#define FETCH_NEXT _Pragma("unroll") for (int j = 0; j < PANEL; j += 16) FETCH(next + j);
#endif
#define EACH_TERM(LOAD_ALL, AND_FETCH)                                                                                   \
    for (idx k = first_k; k < end_k; ++k) {                                                                              \
        EACH_V(LOAD_ALL, 0)                                                                                              \
        AND_FETCH                                                                                                        \
        EACH_M(MULTIPLY_ROW)                                                                                             \
        b_at += K_STEP_WEIGHTS;                                                                                          \
        next += K_STEP_WEIGHTS;                                                                                          \
    }

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void matmul_vector(PARAMS) {
    ENTER
    __local float sums[ROOM];
    const idx first_panel = (idx)get_global_id(0) * ITEM_PANELS;
    const idx end_panel = min(first_panel + ITEM_PANELS, (idx)PANELS);
    DECLARE_BATCH((idx)get_global_id(2))
    for (idx first_k = 0; first_k < K_SIZE; first_k += K_BLOCK)
    for (idx panel = first_panel; panel < end_panel; ++panel) {
        const idx end_k = min(first_k + K_BLOCK, (idx)K_SIZE);
        const int columns = (int)min((idx)PANEL, N_SIZE - panel * PANEL);
        const idx lane = 0;
        idx from;
        {
            const idx k = first_k;
            from = OFF_WEIGHTS;
        }
        // What is read two panels later.
        const __global float *later;
        {
            const bool is_near = panel + 2 < end_panel;
            const idx k = min(is_near ? first_k : end_k, max(K_SIZE - K_BLOCK, (idx)0)), own = panel;
            const idx panel = is_near ? own + 2 : first_panel;
            later = (const __global float *)weights + OFF_WEIGHTS;
        }
        __local float *held = sums + (panel - first_panel) * (HELD_ROWS * PANEL);
        for (idx first_m = 0; first_m < M_SIZE; first_m += TILE_M, held += TILE_M * PANEL) {
            idx b_at = from;
            const __global float *next = later;
            EACH_M(START_ROW)
            if (columns < PANEL) {
                EACH_TERM(LOAD_PART, )
            } else if (first_m == 0) {
                EACH_TERM(LOAD_WHOLE, FETCH_NEXT)
            } else {
                EACH_TERM(LOAD_WHOLE, )
            }
            if (end_k < K_SIZE) {
                EACH_M(HOLD_SUMS)
            } else {
                EACH_M(FINISH_ROW)
            }
        }
    }
}
#else
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void matmul_vector(PARAMS) {
    ENTER
    const idx first_panel = (idx)get_global_id(0) * ITEM_PANELS;
    const idx end_panel = min(first_panel + ITEM_PANELS, (idx)PANELS);
    const idx block_m = (idx)get_global_id(1) * M_BLOCK;
    const idx end_m = min(block_m + M_BLOCK, (idx)M_SIZE);
    DECLARE_BATCH((idx)get_global_id(2))
    for (idx first_m = block_m; first_m < end_m; first_m += TILE_M)
    for (idx panel = first_panel; panel < end_panel; ++panel) {
        const int columns = (int)min((idx)PANEL, N_SIZE - panel * PANEL);
        EACH_M(START_ROW)
        idx b_at;
        IF_GATED(idx g_at;)
        {
            const idx lane = 0, k = 0;
            b_at = OFF_WEIGHTS;
            IF_GATED(g_at = OFF_SRC1;)
        }
#if !WHOLE_PANELS
        if (columns < PANEL) {
            EACH_K(PART)
        } else
#endif
        {
            EACH_K(WHOLE)
        }
        EACH_M(FINISH_ROW)
    }
}
#endif
