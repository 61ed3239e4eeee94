// For CPUs: convolutions of operands of one or two bytes by the units of anydnn-opencl's `units.rs` that multiply panels. A tile's rows are places
// along the width of the result, of which LINE_TILES tiles make a line (the first TILES_MORE of them of a place more than TILE_LEAST); where
// places run on from line to line, of LINE places each, so do tiles, up to the end of a stretch of STRETCH_LINES lines. A work-item computes
// ITEM_TILES of the TILES of a stretch for ITEM_PANELS panels of PARTS parts of 16 output channels. The source lies with its borders and
// channels innermost, so that taps side by side are one run of terms; or a work-item gathers its places first, each with all that its window
// takes, or, HOLDS_LINES, the lines that its windows take (`gather.cl`).
#define LOCATE(j) const idx panel = first_panel + j, lane = 0;
#define TILE_START(t) ((t) * TILE_LEAST + min(t, (idx)TILES_MORE))
#if RUNS_ON
#define IN_LINE(place) ((place) % LINE)
#define LINE_OF(tile, place) (first_line + (place) / LINE)
#else
#define IN_LINE(place) (place)
#define LINE_OF(tile, place) ((HOLDS_LINES ? first_line : 0) + (tile) / LINE_TILES)
#endif
// Matrix units take long to change the number of their rows: a row more is multiplied, and not stored, where the source holds it.
#if KEEPS_SUMS
#define ROWS_AT(at, own) ((at) + (MOST_ROWS - 1) * (idx)A_STEP <= LAST_BYTE ? (int)(MOST_ROWS) : (own))
#else
#define ROWS_AT(at, own) (own)
#endif
#if HOLDS_LINES
#define PLACE(tile, a, rows)                                                                                             \
    {                                                                                                                    \
        const idx line = (tile) / LINE_TILES - held_from;                                                                \
        a = TILE_AT(places + line * (STRIDE_H * PITCH) + TILE_START((tile) % LINE_TILES) * A_STEP);                      \
        rows = (int)(MOST_ROWS);                                                                                         \
    }
#elif GATHERS
#define PLACE(tile, a, rows)                                                                                             \
    {                                                                                                                    \
        const idx place = TILE_START(tile);                                                                              \
        a = TILE_AT(places + (place - gathered_from) * A_STEP);                                                          \
        rows = (int)(TILE_START(tile + 1) - place);                                                                      \
    }
#else
#define PLACE(tile, a, rows)                                                                                             \
    {                                                                                                                    \
        const idx t = (tile) % LINE_TILES, place = TILE_START(t), ow = IN_LINE(place);                                   \
        DECLARE_LINE(LINE_OF(tile, place))                                                                               \
        const idx offset = OFF_SRC0;                                                                                     \
        a = TILE_AT(src0 + offset);                                                                                      \
        rows = ROWS_AT(offset, (int)(TILE_START(t + 1) - place));                                                        \
    }
#endif
#if HAS_ZERO_WEIGHTS && HOLDS_LINES
#define TOTAL                                                                                                            \
    const int total = sum_place(places + (oh - held_from) * (STRIDE_H * PITCH) + ow * A_STEP AND_SHAPE);
#elif HAS_ZERO_WEIGHTS && GATHERS
#define TOTAL const int total = sum_place(places + (place - line_end + ow - gathered_from) * A_STEP AND_SHAPE);
#elif HAS_ZERO_WEIGHTS
#define TOTAL const int total = sum_row(src0 + OFF_SRC0 AND_SHAPE);
#else
#define TOTAL
#endif
#define FINISH_TILE(tile, sums)                                                                                          \
    {                                                                                                                    \
        const idx t = (tile) % LINE_TILES, end = TILE_START(t + 1);                                                      \
        __local SUM *from = sums;                                                                                        \
        for (idx place = TILE_START(t); place < end;) {                                                                  \
            DECLARE_LINE(LINE_OF(tile, place))                                                                           \
            const idx first = IN_LINE(place), line_end = RUNS_ON ? min((idx)LINE, first + end - place) : end;            \
            place += line_end - first;                                                                                   \
            for (idx ow = first; ow < line_end; ++ow, from += PANEL) {                                                   \
                TOTAL                                                                                                    \
                EACH_V(FINISH, 0)                                                                                        \
            }                                                                                                            \
        }                                                                                                                \
    }
#define FINISH_TILES(tile, sums)                                                                                         \
    {                                                                                                                    \
        FINISH_TILE(tile, sums)                                                                                          \
        if (AT_ONCE > 1 && tile + 1 < end_tile) FINISH_TILE(tile + 1, sums + TILE_ROWS * PANEL)                          \
        if (AT_ONCE > 2 && tile + 2 < end_tile) FINISH_TILE(tile + 2, sums + 2 * TILE_ROWS * PANEL)                      \
    }
// Units whose sums reach memory late have those of other tiles finished meanwhile.
#define SUMS_AT_ONCE (AT_ONCE * TILE_ROWS * PANEL)

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void convolution_packed(PARAMS) {
#if IS_FINAL
    START_FIRST_SUMS
#else
    __local SUM sums[(1 + KEEPS_SUMS) * SUMS_AT_ONCE] __attribute__((aligned(64)));
#endif
#if HAS_ZERO_SRC0 || START_FROM_COLUMN_SUMS
    __local SUM column_sums[PANEL] __attribute__((aligned(64)));
#endif
#if GATHERS
    __local uchar places[PLACES_ROOM + 64] __attribute__((aligned(64)));
#endif
    UNIT_MEMORY
    ENTER
    const idx first_line = (idx)get_global_id(1) / STRETCH_ITEMS * STRETCH_LINES;
    const idx first_tile = (idx)get_global_id(1) % STRETCH_ITEMS * ITEM_TILES, end_tile = min(first_tile + ITEM_TILES, (idx)TILES);
    DECLARE_GROUP((idx)get_global_id(2))
#if HOLDS_LINES
    HOLD_LINES(first_tile / LINE_TILES, (end_tile - 1) / LINE_TILES)
#elif GATHERS
    GATHER(TILE_START(first_tile), TILE_START(end_tile))
#endif
    const idx kd = 0, kh = 0, kw = 0, c = 0;
    START_UNIT
    const idx end_panel = min((idx)(get_global_id(0) + 1) * (ITEM_PANELS * PARTS), (idx)(GROUP_OUTPUTS + 15) / 16);
    for (idx first_panel = (idx)get_global_id(0) * (ITEM_PANELS * PARTS); first_panel < end_panel; first_panel += PARTS) {
        const int columns = (int)min((idx)PANEL, GROUP_OUTPUTS - first_panel * 16);
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
        int turn = 0;
        for (idx tile = first_tile; tile < end_tile; tile += AT_ONCE) {
            TILE_POINTER at[3];
            int rows[3] = {0, 0, 0};
            PLACE(tile, at[0], rows[0])
#if IS_FINAL
            __global uchar *out;
            {
                const idx place = TILE_START(tile % LINE_TILES), ow = IN_LINE(place);
                DECLARE_LINE(LINE_OF(tile, place))
                LOCATE(0)
                out = dst + OFF_DST * RESULT_BYTES;
            }
            MULTIPLY_TO(at[0], rows[0], b, last_part, out, columns, (idx)(DST_ROW_STEP), first)
#else
            if (AT_ONCE > 1 && tile + 1 < end_tile) PLACE(tile + 1, at[1], rows[1])
            if (AT_ONCE > 2 && tile + 2 < end_tile) PLACE(tile + 2, at[2], rows[2])
            __local SUM *own = sums + KEEPS_SUMS * turn * SUMS_AT_ONCE;
            MULTIPLY_TILES(at, rows, b, last_part, own)
#if KEEPS_SUMS
            if (tile > first_tile) FINISH_TILES(tile - AT_ONCE, sums + (1 - turn) * SUMS_AT_ONCE)
            turn = 1 - turn;
#else
            FINISH_TILES(tile, own)
#endif
#endif
        }
#if KEEPS_SUMS
        FINISH_TILES(first_tile + (end_tile - first_tile - 1) / AT_ONCE * AT_ONCE, sums + (1 - turn) * SUMS_AT_ONCE)
#endif
    }
    END_UNIT
}
