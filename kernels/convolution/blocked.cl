// For CPUs: a work-item computes one row of the result (fixed n, od, oh) for a panel of PANEL output channels of a group, in the register
// tiles of `matmul/tile.cl`, whose rows are positions along the width: `tile_more` (the first TILES_MORE of them, of a position more) and
// `tile_least`. Taps side by side that all positions of a tile see are one sum over RUN_TAPS * CHANNELS terms. Positions at the edges, which
// see fewer, are computed one by one.
#define TILE_START(tile) ((tile) * TILE_LEAST + min(tile, (idx)TILES_MORE))
#define LANES_OF(j) (GROUP_OUTPUTS % PANEL == 0 ? 16 : clamp(columns - 16 * (j), 0, 16))
// The first position whose taps all lie in the source, and the one behind the last.
#define FULL_START ((PAD_W + STRIDE_W - 1) / STRIDE_W)
#define FULL_END ((SRC_W - 1 + PAD_W - (KERNEL_W - 1) * DILATION_W) / STRIDE_W + 1)

// Adds what positions from `at` on see of the taps `kw` .. `kw + taps`, by a register tile.
#define ADD(TILE_NAME, at, taps)                                                                                         \
    {                                                                                                                    \
        const idx ow = at, c = 0, lane = 0;                                                                              \
        TILE_NAME((const __global float *)src0 + OFF_SRC0, (const __global float *)weights + OFF_WEIGHTS,                \
                  (int)(taps) * CHANNELS, 0, sums + (ow - start) * PANEL);                                               \
    }
#define FINISH(i, j)                                                                                                     \
    if (LANES_OF(j) > 0) {                                                                                               \
        const idx lane = 16 * j;                                                                                         \
        const int n_lanes = LANES_OF(j);                                                                                 \
        V v = *(__local V *)(sums + (ow - start) * PANEL + 16 * j);                                                      \
        ADD_BIAS(v, n_lanes)                                                                                             \
        POST_OPS(v, n_lanes)                                                                                             \
        ST_DST(OFF_DST, n_lanes, v);                                                                                     \
    }

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void convolution_blocked(PARAMS) {
    __local float sums[TILE_MOST * PANEL] __attribute__((aligned(64)));
    ENTER
    DECLARE_PANEL((idx)get_global_id(0))
    DECLARE_LINE((idx)get_global_id(1))
    const int columns = (int)min((idx)PANEL, GROUP_OUTPUTS - panel * PANEL);
    for (idx tile = 0; tile < TILES; ++tile) {
        const idx start = TILE_START(tile), end = TILE_START(tile + 1);
        const idx full_start = clamp((idx)FULL_START, start, end), full_end = clamp((idx)FULL_END, full_start, end);
        const int full = (int)(full_end - full_start);
        for (int i = 0; i < TILE_MOST * PANEL; i += 16) *(__local V *)(sums + i) = (V)(0);
        for (idx kd = 0; kd < KERNEL_D; ++kd) {
            if (!INSIDE_DEPTH) continue;
            for (idx kh = 0; kh < KERNEL_H; ++kh) {
                if (!INSIDE_HEIGHT) continue;
                for (idx kw = 0; kw < KERNEL_W; kw += RUN_TAPS) {
                    if (full == TILE_LEAST + 1 && TILES_MORE > 0) ADD(tile_more, full_start, RUN_TAPS)
                    else if (full == TILE_LEAST) ADD(tile_least, full_start, RUN_TAPS)
                    else if (full == TILE_LEAST - 1 && full > 1) ADD(tile_edge, full_start, RUN_TAPS)
                    else for (idx position = full_start; position < full_end; ++position) ADD(tile_one, position, RUN_TAPS)
                }
                for (idx position = start; position < end; ++position) {
                    if (position == full_start) position = full_end;
                    if (position >= end) break;
                    // The taps that lie in the source.
                    const idx ow = position;
                    idx kw = 0, stop = KERNEL_W;
                    while (kw < stop && !INSIDE_WIDTH) ++kw;
                    if (RUN_TAPS == 1) {
                        for (; kw < stop; ++kw)
                            if (INSIDE_WIDTH) ADD(tile_one, position, 1)
                    } else {
                        const idx first = kw;
                        while (kw < stop && INSIDE_WIDTH) ++kw;
                        stop = kw;
                        kw = first;
                        if (kw < stop) ADD(tile_one, position, stop - kw)
                    }
                }
            }
        }
        for (idx ow = start; ow < end; ++ow) {
            EACH_V(FINISH, 0)
        }
    }
}
