// Products of groups whose ends lie in memory: a work-item finds out which rows its tile has, TILE_M of one group (BY_ROWS), or which terms
// its group has, and computes LANES columns. Rows past the tile's last one read that again and are not stored.
#define START_ROW(i) SUM sum##i = (SUM)(0);
#define MULTIPLY_ROW(i)                                                                                                  \
    {                                                                                                                    \
        const idx m = min(first_m + i, last_m - 1);                                                                      \
        sum##i += FACTOR_SRC0 * weight;                                                                                  \
    }
#define FINISH_ROW(i)                                                                                                    \
    if (first_m + i < last_m) {                                                                                          \
        const idx m = first_m + i;                                                                                       \
        V v = (V)(sum##i);                                                                                               \
        if (is_in_group) {                                                                                               \
            v = OUT_SRC0(OUT_WEIGHTS(v, n_lanes), n_lanes);                                                              \
            ADD_BIAS(v, n_lanes)                                                                                         \
        }                                                                                                                \
        POST_OPS(v, n_lanes)                                                                                             \
        ST_DST(OFF_DST, n_lanes, v);                                                                                     \
    }
// A group begins where the one before it ends, and ends on the axis.
#define NEXT_GROUP(extent)                                                                                               \
    first = last;                                                                                                        \
    last = (idx)clamp((long)NAT1_ENDS(OFF_ENDS), (long)first, (long)(extent));

__kernel void matmul_grouped(PARAMS) {
    ENTER
    const idx item = (idx)get_global_id(0);
    if (item >= ITEMS) return;
    const idx col = item % VECTORS * LANES;
    const int n_lanes = WHOLE_COLUMNS ? LANES : (int)min((idx)LANES, N_SIZE - col);
    idx tile = item / VECTORS;
    idx first = 0, last = 0, group = 0;
#if BY_ROWS
    for (; group < GROUPS; ++group) {
        NEXT_GROUP(M_SIZE)
        const idx tiles = (last - first + TILE_M - 1) / TILE_M;
        if (tile < tiles) break;
        tile -= tiles;
    }
    const bool is_in_group = group < GROUPS;
    if (!is_in_group) {
        // Rows behind the last group.
        first = last;
        last = M_SIZE;
    }
    const idx first_m = first + tile * TILE_M, last_m = min(first_m + TILE_M, last);
    const idx first_k = 0, last_k = is_in_group ? K_SIZE : 0;
    if (first_m >= last) return;
#else
    const idx wanted = tile / ROW_TILES;
    NEXT_GROUP(K_SIZE)
    while (group < wanted) {
        ++group;
        NEXT_GROUP(K_SIZE)
    }
    const bool is_in_group = true;
    const idx first_m = tile % ROW_TILES * TILE_M, last_m = min(first_m + TILE_M, (idx)M_SIZE);
    const idx first_k = first, last_k = last;
#endif
    EACH_M(START_ROW)
    for (idx k = first_k; k < last_k; ++k) {
        const SUM weight = FACTOR_WEIGHTS;
        EACH_M(MULTIPLY_ROW)
    }
    const idx k = 0;
    EACH_M(FINISH_ROW)
}
