// For CPUs: a work-item computes ITEM_LINES rows of the result (fixed n, od, oh) for a panel of PANEL output channels of a group, in the
// register tiles of `convolution/tile.cl`: the first TILES_MORE tiles of a row are of TILE_LEAST + 1 positions, the others of TILE_LEAST.
// A tap is added to those positions of a tile that see it: the generator writes EACH_SIZE(X) = X(14) X(13) .. for the numbers of them that
// have a register tile, others are computed one by one. Taps side by side that the same positions see go together, as TERMS and PLANES say.
// With FINISH_AT_ONCE all positions see the one tap there is, and what comes after the sums is computed where they are, in registers.
#define TILE_START(tile) ((tile) * TILE_LEAST + min(tile, (idx)TILES_MORE))
#define MOST_LANES(j) min(16, PANEL - 16 * (j))
#define LANES_OF(j) (GROUP_OUTPUTS % PANEL == 0 ? MOST_LANES(j) : clamp(columns - 16 * (j), 0, MOST_LANES(j)))
// The positions of a tile that see a tap.
#define SEEING_FROM(kw) max(start, (idx)STEPS_BEFORE(PAD_W - (kw) * DILATION_W, STRIDE_W))
#define SEEING_TO(kw) min(end, (idx)STEPS_WITHIN(SRC_W - 1 + PAD_W - (kw) * DILATION_W, STRIDE_W))

#define CLEAR                                                                                                            \
    for (int i = 0; i < TILE_MOST * VECTORS * 16; i += 16) *(__local V *)(sums + i) = (V)(0);
#if FINISH_AT_ONCE
#define SUM(j) sums[i * VECTORS + j]
#define TILE_OF(m)                                                                                                       \
    if (end - start == m) {                                                                                              \
        V sums[m * VECTORS];                                                                                             \
        tile_##m(a, b, 1, 1, CHANNELS, true, sums);                                                                      \
        EACH(i, m) {                                                                                                     \
            const idx ow = start + i;                                                                                    \
            EACH(j, VECTORS) FINISH(j)                                                                                   \
        }                                                                                                                \
    }
#else
#define SUM(j) *(__local V *)(sums + ((ow - start) * VECTORS + j) * 16)
#define TILE_OF(m)                                                                                                       \
    if (positions == m) tile_##m(a, b, PLANES(taps), rows, TERMS(taps), is_first, to);                                   \
    else
#endif
#define FINISH(j)                                                                                                        \
    if (LANES_OF(j) > 0) {                                                                                               \
        const idx lane = 16 * j;                                                                                         \
        const int n_lanes = LANES_OF(j);                                                                                 \
        V v = SUM(j);                                                                                                    \
        ADD_BIAS(v, n_lanes)                                                                                             \
        POST_OPS(v, n_lanes)                                                                                             \
        ST_DST(OFF_DST, n_lanes, v);                                                                                     \
    }

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void convolution_blocked(PARAMS) {
#if !FINISH_AT_ONCE
    __local float sums[TILE_MOST * VECTORS * 16] __attribute__((aligned(64)));
#endif
    ENTER
    const idx number = (idx)get_global_id(0);
    DECLARE_PANEL(PANEL_OF(number))
    const int columns = (int)min((idx)PANEL, GROUP_OUTPUTS - panel * PANEL);
    const idx first_line = ITEM_OF(number) * ITEM_LINES;
    for (idx line = first_line; line < min(first_line + ITEM_LINES, (idx)LINES); ++line) {
        DECLARE_LINE(line)
#if FINISH_AT_ONCE
        for (idx tile = 0; tile < TILES; ++tile) {
            const idx start = TILE_START(tile), end = TILE_START(tile + 1);
            const idx ow = start, kd = 0, kh = 0, kw = 0, c = 0, lane = 0;
            const __global float *a = (const __global float *)src0 + OFF_SRC0;
            const __global float *b = (const __global float *)weights + OFF_WEIGHTS;
            EACH_SIZE(TILE_OF)
        }
#else
        // The rows of taps that lie in the source.
        const idx kh = STEPS_BEFORE(PAD_H - oh * STRIDE_H, DILATION_H);
        const idx end_kh = min((idx)KERNEL_H, (idx)STEPS_WITHIN(SRC_H - 1 + PAD_H - oh * STRIDE_H, DILATION_H));
        const int rows = (int)max(end_kh - kh, (idx)0);
        for (idx tile = 0; tile < TILES; ++tile) {
            const idx start = TILE_START(tile), end = TILE_START(tile + 1);
            bool is_first = true;
            for (idx kd = 0; kd < KERNEL_D; ++kd) {
                if (!INSIDE_DEPTH) continue;
                for (idx kw = 0, taps = 1; kw < KERNEL_W; kw += taps, taps = 1) {
                    const idx from = SEEING_FROM(kw), to_end = SEEING_TO(kw);
                    while (kw + taps < KERNEL_W && SEEING_FROM(kw + taps) == from && SEEING_TO(kw + taps) == to_end) ++taps;
                    const int positions = (int)(to_end - from);
                    if (positions <= 0) continue;
                    if (is_first && positions < end - start) {
                        CLEAR
                        is_first = false;
                    }
                    const idx ow = from, c = 0, lane = 0;
                    const __global float *a = (const __global float *)src0 + OFF_SRC0;
                    const __global float *b = (const __global float *)weights + OFF_WEIGHTS;
                    __local float *to = sums + (from - start) * VECTORS * 16;
                    EACH_SIZE(TILE_OF)
                    for (int i = 0; i < positions; ++i)
                        tile_1(a + i * A_STEP_M, b, PLANES(taps), rows, TERMS(taps), is_first, to + i * VECTORS * 16);
                    is_first = false;
                }
            }
            if (is_first) CLEAR
            for (idx ow = start; ow < end; ++ow) EACH(j, VECTORS) FINISH(j)
        }
#endif
    }
}
