// For CPUs: products of a few columns, of rows that lie along K. A work-item computes ITEM_ROWS rows, 16 at a time, one column after the
// other: vectors run along K, and their sums for 16 rows are joined into a vector of results. Columns wait in local memory, COLUMN_STEP
// floats each. The last vector of a row ends with it and begins with terms that the one before had, where rows have as many.
#define LANE_NUMBERS (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#if ANYDNN_UNALIGNED
#define LOAD_ROW(at) as_float16(load_32_16(src0, at, 16))
#else
#define LOAD_ROW(at) vload16(0, (const __global float *)src0 + (at))
#endif
// Four rows at a time: as many sums as do not wait for each other.
#define ROWS_AT_ONCE 4
#define OFFSET_OF(row) (first_at + min(row, count - 1) * (idx)M_STEP)

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void matmul_narrow(PARAMS) {
    __local float columns[ROOM] __attribute__((aligned(64)));
    ENTER
    DECLARE_BATCH((idx)get_global_id(1))
    NOT_UNROLLED for (idx col = 0; col < N_SIZE; ++col) {
        NOT_UNROLLED for (idx k = 0; k < COLUMN_STEP; ++k) {
            const idx m = 0;
            float x = 0;
            if (k < K_SIZE) x = LD1_WEIGHTS(OFF_WEIGHTS);
            columns[col * COLUMN_STEP + k] = x;
        }
    }
    const idx whole = K_SIZE / 16 * 16, last = max((idx)(K_SIZE - 16), (idx)0);
    // The lanes of the last vector that count.
    const int16 counts = K_SIZE < 16 ? LANE_NUMBERS < (int16)((int)K_SIZE) : LANE_NUMBERS >= (int16)((int)(whole - last));
    const idx item_m = (idx)get_global_id(0) * ITEM_ROWS, end_m = min(item_m + ITEM_ROWS, (idx)M_SIZE);
    for (idx m = item_m; m < end_m; m += 16) {
        const int count = (int)min((idx)16, end_m - m);
        idx first_at;
        {
            const idx col = 0, k = 0;
            first_at = OFF_SRC0;
        }
        for (idx col = 0; col < N_SIZE; ++col) {
            const __local float *column = columns + col * COLUMN_STEP;
            V sums[16];
            NOT_UNROLLED for (int row = 0; row < 16; row += ROWS_AT_ONCE) {
                idx at[ROWS_AT_ONCE];
                V sum[ROWS_AT_ONCE];
                EACH(i, ROWS_AT_ONCE) at[i] = OFFSET_OF(row + i);
                EACH(i, ROWS_AT_ONCE) sum[i] = (V)(0);
                for (idx k = 0; k < whole; k += 16) {
                    const V factor = vload16(0, column + k);
                    EACH(i, ROWS_AT_ONCE) sum[i] += LOAD_ROW(at[i] + k) * factor;
                }
                if (whole < K_SIZE) {
                    const V factor = vload16(0, column + last);
                    EACH(i, ROWS_AT_ONCE) {
                        const idx from = at[i] + last;
                        // What lies behind a short row is read with it, where there is something.
                        const V x = from + 16 <= SRC_END ? LOAD_ROW(from) : as_float16(load_32_16(src0, from, (int)K_SIZE));
                        sum[i] += counts ? x * factor : (V)(0);
                    }
                }
                EACH(i, ROWS_AT_ONCE) sums[row + i] = sum[i];
            }
            const idx k = 0;
            V v = sums_of(sums);
            ADD_BIAS(v, count)
            POST_OPS(v, count)
            ST_DST(OFF_DST, count, v);
        }
    }
}
