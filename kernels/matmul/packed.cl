// For CPUs: products of operands of one or two bytes by the units of anydnn-opencl's `units.rs` that multiply blocks of up to TILE_ROWS rows by a
// panel of 16 * PARTS columns. The source's bytes lie in rows, the weights' in parts of 16 columns: `[K / 4][16][4]` bytes, padded with zeros
// to what a unit multiplies at once, PART_BYTES of a part. Or PACKS: a work-item copies the weights of its panel into local memory first.
#define LOCATE(j) const idx part = j, lane = 0;
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void matmul_packed(PARAMS) {
#if IS_FINAL
    START_FIRST_SUMS
#else
    __local SUM sums[TILE_ROWS * PANEL] __attribute__((aligned(64)));
#endif
#if HAS_ZERO_SRC0 || START_FROM_COLUMN_SUMS
    __local SUM column_sums[PANEL] __attribute__((aligned(64)));
#endif
#if PACKS
    __local uint own_weights[PACKS_ROOM / 4] __attribute__((aligned(64)));
#endif
    UNIT_MEMORY
    ENTER
    const idx panel = (idx)get_global_id(0);
    const idx item_m = (idx)get_global_id(1) * ITEM_ROWS, end_m = min(item_m + ITEM_ROWS, (idx)M_SIZE);
    const int columns = (int)min((idx)PANEL, N_SIZE - panel * PANEL);
    DECLARE_BATCH((idx)get_global_id(2))
    START_UNIT
    const int last_part = (columns - 1) / 16;
#if PACKS
    for (int j = 0; j <= last_part; ++j) {
        const idx part = j;
        const int own_columns = min(16, columns - 16 * j);
        __local uint *to = own_weights + j * (B_STEP / 4);
        PACK_PART(own_columns, to)
    }
    WEIGHTS_POINTER b = (const __local uchar *)own_weights;
#else
    WEIGHTS_POINTER b;
    {
        const idx part = 0, lane = 0, k = 0;
        b = weights + OFF_WEIGHTS;
    }
#endif
#if HAS_ZERO_SRC0 || START_FROM_COLUMN_SUMS
    SUM_COLUMNS(b, last_part, column_sums)
#endif
#if IS_FINAL && HAS_FIRST_SUMS
    {
        const idx m = 0;
        EACH_V(FIRST_SUMS, 0)
    }
#endif
    for (idx block_m = item_m; block_m < end_m; block_m += TILE_ROWS) {
        const int block_rows = (int)min((idx)TILE_ROWS, end_m - block_m);
#if IS_FINAL
        const idx m = block_m, k = 0;
        LOCATE(0)
        MULTIPLY_TO(src0 + OFF_SRC0, block_rows, b, last_part, dst + OFF_DST * RESULT_BYTES, columns, (idx)(DST_ROW_STEP), first)
#else
        {
            const idx m = block_m, k = 0;
            MULTIPLY(src0 + OFF_SRC0, block_rows, b, last_part, sums)
        }
        __local SUM *from = sums;
        for (idx m = block_m; m < block_m + block_rows; ++m, from += PANEL) {
            const idx k = 0;
#if HAS_ZERO_WEIGHTS
            const int total = sum_row(src0 + OFF_SRC0 AND_SHAPE);
#endif
            EACH_V(FINISH, 0)
        }
#endif
    }
    END_UNIT
}
