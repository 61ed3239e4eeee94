// For CPUs: convolutions of operands of one or two bytes by the units of anydnn-opencl's `units.rs` that multiply panels. A tile's rows are places
// along the width of the result, of which LINE_TILES tiles make a line (the first TILES_MORE of them of a place more than TILE_LEAST); a
// work-item computes ITEM_TILES of them for a panel of PARTS parts of 16 output channels. The source lies with its borders and channels
// innermost, so that taps side by side are one run of terms.
#define LOCATE(j) const idx panel = first_panel + j, lane = 0;
#define TILE_START(t) ((t) * TILE_LEAST + min(t, (idx)TILES_MORE))
#define PLACE(tile, a, rows)                                                                                             \
    {                                                                                                                    \
        const idx t = (tile) % LINE_TILES, ow = TILE_START(t);                                                           \
        DECLARE_LINE((tile) / LINE_TILES)                                                                                \
        a = src0 + OFF_SRC0;                                                                                             \
        rows = (int)(TILE_START(t + 1) - ow);                                                                            \
    }
#if HAS_ZERO_WEIGHTS
#define TOTAL const int total = sum_row(src0 + OFF_SRC0 AND_SHAPE);
#else
#define TOTAL
#endif
#define FINISH_TILE(tile, sums)                                                                                          \
    {                                                                                                                    \
        const idx t = (tile) % LINE_TILES, end = TILE_START(t + 1);                                                      \
        DECLARE_LINE((tile) / LINE_TILES)                                                                                \
        __local SUM *from = sums;                                                                                        \
        for (idx ow = TILE_START(t); ow < end; ++ow, from += PANEL) {                                                    \
            TOTAL                                                                                                        \
            EACH_V(FINISH, 0)                                                                                            \
        }                                                                                                                \
    }

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void convolution_packed(PARAMS) {
#if IS_FINAL
    START_FIRST_SUMS
#else
    __local SUM sums[AT_ONCE * TILE_ROWS * PANEL] __attribute__((aligned(64)));
#endif
#if HAS_ZERO_SRC0 || START_FROM_COLUMN_SUMS
    __local SUM column_sums[PANEL] __attribute__((aligned(64)));
#endif
    UNIT_MEMORY
    ENTER
    const idx kd = 0, kh = 0, kw = 0, c = 0;
    const idx first_panel = (idx)get_global_id(0) * PARTS;
    const int columns = (int)min((idx)PANEL, GROUP_OUTPUTS - first_panel * 16);
    DECLARE_GROUP((idx)get_global_id(2))
    START_UNIT
    const __global uchar *b;
    {
        LOCATE(0)
        b = weights + OFF_WEIGHTS;
    }
    const int last_part = (columns - 1) / 16;
#if HAS_ZERO_SRC0 || START_FROM_COLUMN_SUMS
    SUM_COLUMNS(b, last_part, column_sums)
#endif
#if IS_FINAL && HAS_FIRST_SUMS
    {
        const idx ow = 0;
        DECLARE_LINE((idx)0)
        EACH_V(FIRST_SUMS, 0)
    }
#endif
    const idx first_tile = (idx)get_global_id(1) * ITEM_TILES, end_tile = min(first_tile + ITEM_TILES, (idx)TILES);
    for (idx tile = first_tile; tile < end_tile; tile += AT_ONCE) {
        const __global uchar *a0, *a1;
        int rows0, rows1 = 0;
        PLACE(tile, a0, rows0)
#if IS_FINAL
        __global uchar *out;
        {
            const idx ow = TILE_START(tile % LINE_TILES);
            DECLARE_LINE(tile / LINE_TILES)
            LOCATE(0)
            out = dst + OFF_DST * RESULT_BYTES;
        }
        MULTIPLY_TO(a0, rows0, b, last_part, out, columns, (idx)(DST_ROW_STEP), first)
#else
        if (AT_ONCE > 1 && tile + 1 < end_tile) PLACE(tile + 1, a1, rows1)
        MULTIPLY_TILES(a0, rows0, a1, rows1, b, last_part, sums)
        FINISH_TILE(tile, sums)
        if (rows1 > 0) FINISH_TILE(tile + 1, sums + TILE_ROWS * PANEL)
#endif
    }
    END_UNIT
}
