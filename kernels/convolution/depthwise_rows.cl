// One input and one output channel per group, for CPUs: a work-item computes ITEM_LINES rows of the result (fixed n, od, oh) for ITEM_GROUPS
// groups, of which lanes hold sixteen, in the order of memory: all groups of some positions before the next positions. Where all taps lie in the source, TILE positions go together: each column of it is loaded once for all
// positions that see it. The generator writes COLUMNS: COLUMN(x) for every column, followed by FEED(i, k, x) for every position i that
// sees it by its tap k.
#define FULL_START STEPS_BEFORE(PAD_W, STRIDE_W)
#define FULL_END STEPS_WITHIN(SRC_W - 1 + PAD_W - (KERNEL_W - 1) * DILATION_W, STRIDE_W)
#define CLEAR(i) V sum##i = (V)(0);
#define TAP(k)                                                                                                           \
    V tap##k;                                                                                                            \
    {                                                                                                                    \
        const idx kw = k;                                                                                                \
        tap##k = DEQ_WEIGHTS(LD_WEIGHTS(OFF_WEIGHTS, n), n);                                                             \
    }
#define COLUMN(x) const V column##x = DEQ_SRC0(LD_SRC0(at + x * W_STEP, n), n);
#define FEED(i, k, x) sum##i += column##x * tap##k;
#define FINISH(i)                                                                                                        \
    {                                                                                                                    \
        const idx ow = start + i;                                                                                        \
        STORE(sum##i)                                                                                                    \
    }
#define STORE(sum)                                                                                                       \
    V v = OUT_SRC0(OUT_WEIGHTS(sum, n), n);                                                                              \
    ADD_BIAS(v, n)                                                                                                       \
    POST_OPS(v, n)                                                                                                       \
    ST_DST(OFF_DST, n, v);

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void convolution_depthwise_rows(PARAMS) {
    ENTER
    const idx number = (idx)get_global_id(0), c = 0, og = 0;
    const idx first_group = number % PARTS * ITEM_GROUPS, end_group = min(first_group + ITEM_GROUPS, (idx)GROUPS);
    const idx first_line = number / PARTS * ITEM_LINES, end_line = min(first_line + ITEM_LINES, (idx)LINES);
    for (idx line = first_line; line < end_line; ++line) {
        DECLARE_LINE(line)
        for (idx start = 0; start < DST_W;) {
            const bool is_full = start >= FULL_START && start + TILE <= FULL_END;
            for (idx g = first_group; g < end_group; g += 16) {
                const int n = GROUPS % 16 == 0 ? 16 : (int)min((idx)16, GROUPS - g);
                if (is_full) {
                    EACH_POSITION(CLEAR)
                    for (idx kd = 0; kd < KERNEL_D; ++kd) {
                        if (!INSIDE_DEPTH) continue;
                        for (idx kh = 0; kh < KERNEL_H; ++kh) {
                            if (!INSIDE_HEIGHT) continue;
                            const idx ow = start, kw = 0;
                            const idx at = OFF_SRC0;
                            EACH_TAP(TAP)
                            COLUMNS
                        }
                    }
                    EACH_POSITION(FINISH)
                } else {
                    const idx ow = start;
                    V sum = (V)(0);
                    for (idx kd = 0; kd < KERNEL_D; ++kd) {
                        if (!INSIDE_DEPTH) continue;
                        for (idx kh = 0; kh < KERNEL_H; ++kh) {
                            if (!INSIDE_HEIGHT) continue;
                            for (idx kw = 0; kw < KERNEL_W; ++kw) {
                                if (!INSIDE_WIDTH) continue;
                                sum += DEQ_SRC0(LD_SRC0(OFF_SRC0, n), n) * DEQ_WEIGHTS(LD_WEIGHTS(OFF_WEIGHTS, n), n);
                            }
                        }
                    }
                    STORE(sum)
                }
            }
            start += is_full ? TILE : 1;
        }
    }
}
