// For CPUs: products of a few columns, of rows that lie along K. A work-item computes ITEM_ROWS rows, four by AT_ONCE columns at a time:
// vectors run along K, and their sums for 16 rows are joined into a vector of results. Columns wait in local memory, COLUMN_STEP
// floats each, to which those that lie ALONG_K are copied by vectors. The last vector of a row ends with it and begins with terms that
// the one before had, where rows have as many.
#define LANE_NUMBERS (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#if ANYDNN_UNALIGNED
#define LOAD_ROW(at) as_float16(load_32_16(src0, at, 16))
#else
#define LOAD_ROW(at) vload16(0, (const __global float *)src0 + (at))
#endif
#define ROWS_AT_ONCE 4
#define OFFSET_OF(row) (first_at + min(row, count - 1) * (idx)M_STEP)

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void matmul_narrow(PARAMS) {
    __local float columns[ROOM] __attribute__((aligned(64)));
    ENTER
    DECLARE_BATCH((idx)get_global_id(1))
    const idx whole = K_SIZE / 16 * 16, last = max((idx)(K_SIZE - 16), (idx)0);
#if ALONG_K
    NOT_UNROLLED for (idx col = 0; col < N_SIZE; ++col) {
        const idx m = 0;
        for (idx k = 0; k < whole; k += 16) vstore16(as_float16(load_32_16(weights, OFF_WEIGHTS, 16)), 0, columns + col * COLUMN_STEP + k);
    }
#else
    // Terms that do not lie side by side, of all columns before the next ones: their lines are read once.
    NOT_UNROLLED for (idx first = 0; first < whole; first += 16) NOT_UNROLLED for (idx col = 0; col < N_SIZE; ++col) {
        const idx m = 0;
        EACH(i, 16) {
            const idx k = first + i;
            columns[col * COLUMN_STEP + k] = LD1_WEIGHTS(OFF_WEIGHTS);
        }
    }
#endif
    NOT_UNROLLED for (idx col = 0; col < N_SIZE; ++col) NOT_UNROLLED for (idx k = whole; k < COLUMN_STEP; ++k) {
        const idx m = 0;
        float x = 0;
        if (k < K_SIZE) x = LD1_WEIGHTS(OFF_WEIGHTS);
        columns[col * COLUMN_STEP + k] = x;
    }
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
        for (idx first_col = 0; first_col < N_SIZE; first_col += AT_ONCE) {
            const __local float *column[AT_ONCE];
            EACH(j, AT_ONCE) column[j] = columns + min(first_col + j, (idx)(N_SIZE - 1)) * COLUMN_STEP;
            V sums[AT_ONCE][16];
            NOT_UNROLLED for (int row = 0; row < 16; row += ROWS_AT_ONCE) {
                idx at[ROWS_AT_ONCE];
                V sum[ROWS_AT_ONCE][AT_ONCE];
                EACH(i, ROWS_AT_ONCE) at[i] = OFFSET_OF(row + i);
                EACH(i, ROWS_AT_ONCE) EACH(j, AT_ONCE) sum[i][j] = (V)(0);
                for (idx k = 0; k < whole; k += 16) {
                    V x[ROWS_AT_ONCE];
                    EACH(i, ROWS_AT_ONCE) x[i] = LOAD_ROW(at[i] + k);
                    EACH(j, AT_ONCE) {
                        const V factor = vload16(0, column[j] + k);
                        EACH(i, ROWS_AT_ONCE) sum[i][j] += x[i] * factor;
                    }
                }
                if (whole < K_SIZE) {
                    EACH(i, ROWS_AT_ONCE) {
                        const idx from = at[i] + last;
                        // What lies behind a short row is read with it, where there is something.
                        const V x = from + 16 <= SRC_END ? LOAD_ROW(from) : as_float16(load_32_16(src0, from, (int)K_SIZE));
                        EACH(j, AT_ONCE) sum[i][j] += counts ? x * vload16(0, column[j] + last) : (V)(0);
                    }
                }
                EACH(i, ROWS_AT_ONCE) EACH(j, AT_ONCE) sums[j][row + i] = sum[i][j];
            }
            NOT_UNROLLED for (int j = 0; j < min((idx)AT_ONCE, N_SIZE - first_col); ++j) {
                const idx col = first_col + j, k = 0;
                V v = sums_of(sums[j]);
                ADD_BIAS(v, count)
                POST_OPS(v, count)
                ST_DST(OFF_DST, count, v);
            }
        }
    }
}
