// For CPUs: a work-item computes whole lines of the result. The rows of the source that a line's windows cover are first joined into one
// line in local memory, INNER values (the channels, where they lie side by side) for each column, with START on both sides; then its
// columns are joined. Lanes run along the line. SRC0 is addressed by `ow` as a column of the source (and by `c`). LINE, COLUMNS and MOST_ROWS
// are room for lines of many sizes; STEPPING is the stride along the line where lanes are taken by it, else zero.
#define LANE_NUMBERS (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define MARGIN (PAD_W * INNER)

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void pooling_lines(PARAMS) {
    ENTER
    __local float line[LINE];
#if AVERAGE
    // How many columns of each window count.
    __local float columns[COLUMNS];
    NOT_UNROLLED for (int x = 0; x < DST_W; ++x) {
        int counted = 0;
        NOT_UNROLLED for (int k = 0; k < KERNEL_W; ++k) {
            const int at = x * STRIDE_W - PAD_W + k * DILATION_W;
            counted += COUNT_PADDING ? at < SRC_W + PAD_END_W : at >= 0 && at < SRC_W;
        }
        columns[x] = counted;
    }
    NOT_UNROLLED for (int x = DST_W; x < COLUMNS; ++x) columns[x] = 1;
#endif
    for (int i = 0; i < LINE_SIZE; ++i) line[i] = START;
    for (idx l = (idx)get_global_id(0) * LINES_PER_ITEM, end = min(l + LINES_PER_ITEM, (idx)LINES); l < end; ++l) {
        DECLARE_LINE(l)
        // The rows under the line's windows: how many count, and where those that are there begin.
        int counted = 0, rows = 0;
        idx at[MOST_ROWS];
        NOT_UNROLLED for (idx kd = 0; kd < KERNEL_D; ++kd) {
            NOT_UNROLLED for (idx kh = 0; kh < KERNEL_H; ++kh) {
                const bool inside = INSIDE_DEPTH && INSIDE_HEIGHT;
                counted += inside || (COUNT_PADDING && IN_DEPTH < SRC_D + PAD_END_D && IN_HEIGHT < SRC_H + PAD_END_H);
                if (!inside) continue;
#if BY_CHANNELS
                const idx c = 0;
#endif
                const idx ow = 0, kw = 0;
                at[rows++] = OFF_SRC0;
            }
        }
        for (int i = 0; i < SRC_W * INNER; i += 16) {
            const int n = min(16, (int)(SRC_W * INNER) - i);
            V v = (V)(START);
            for (int r = 0; r < rows; ++r) v = JOIN(v, LD_SRC0(at[r] + i, n));
            vstore16(n == 16 ? v : (LANE_NUMBERS < (int16)(n) ? v : (V)(START)), 0, line + MARGIN + i);
        }
#if BY_CHANNELS
        for (idx ow = 0; ow < DST_W; ++ow) {
            for (idx c = 0; c < INNER; c += 16) {
                const int n = (int)min((idx)16, INNER - c);
                V v = (V)(START);
                for (int k = 0; k < KERNEL_W; ++k)
                    v = JOIN(v, vload16(0, line + (ow * STRIDE_W + k * DILATION_W) * INNER + c));
#if AVERAGE
                v /= (V)(columns[ow] * counted);
#endif
                POST_OPS(v, n)
                ST_DST(OFF_DST, n, v);
            }
        }
#else
        for (idx ow = 0; ow < DST_W; ow += 16) {
            const int n = (int)min((idx)16, DST_W - ow);
            V v = (V)(START);
            for (int k = 0; k < KERNEL_W; ++k) {
                const __local float *from = line + ow * STRIDE_W + k * DILATION_W;
#if STEPPING == 1
                const V x = vload16(0, from);
#elif STEPPING == 2
                const V x = (V)(vload16(0, from).even, vload16(0, from + 16).even);
#else
                float t[16];
                NOT_UNROLLED for (int j = 0; j < 16; ++j) t[j] = from[j * STRIDE_W];
                const V x = vload16(0, t);
#endif
                v = JOIN(v, x);
            }
#if AVERAGE
            v /= vload16(0, columns + ow) * (V)((float)counted);
#endif
            POST_OPS(v, n)
            ST_DST(OFF_DST, n, v);
        }
#endif
    }
}
