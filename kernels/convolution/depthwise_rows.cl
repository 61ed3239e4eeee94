// One input and one output channel per group, for CPUs: a work-item computes ITEM_LINES rows of the result (fixed n, od, oh) for ITEM_GROUPS
// groups, of which a vector holds LANES, in the order of memory: all groups of some positions before the next positions. Where all taps lie
// in the source, TILE positions go together: each column of it is loaded once for all positions that see it. The last of such tiles may
// begin with positions that are done: they are computed once more and not stored. The last vector of groups may likewise begin with groups
// that are done, which are stored AGAIN. With KNOWN_TAPS, in programs for one shape, the generator writes COLUMNS: COLUMN(x) for every column,
// followed by FEED(i, k, x) for every position i that sees it by its tap k; else each tap loads what the positions see.
// NARROW programs have fewer groups than lanes. They read on into what lies behind the groups, as long as something does, and throw it away,
// or, where the result is FLAT, store it, before the next positions replace it.
#if NARROW
#define SRC_LANES LANES
#define TO_READ(at, size) ((at) + LANES <= (size) ? LANES : n)
#define TAP_LANES TO_READ(OFF_WEIGHTS, WEIGHTS_SIZE)
#define STORE_LANES(v)                                                                                                   \
    if (FLAT && (DST_W - ow) * GROUPS >= LANES) KEEP_DST(OFF_DST, LANES, v);                                             \
    else ST_DST(OFF_DST, n, v);
#else
#define SRC_LANES n
#define TAP_LANES n
#define STORE_LANES(v) ST_DST(OFF_DST, n, v);
#endif
// The last tap of a dimension that lies in the source.
#define LAST_TAP(dim, o) min((idx)KERNEL_##dim - 1, (idx)((SRC_##dim - 1 + PAD_##dim - o * STRIDE_##dim) / DILATION_##dim))
#define CLEAR(i) V sum##i = (V)(0);
#define TAP(k)                                                                                                           \
    V tap##k;                                                                                                            \
    {                                                                                                                    \
        const idx kw = k;                                                                                                \
        tap##k = DEQ_WEIGHTS(LD_WEIGHTS(OFF_WEIGHTS, TAP_LANES), n);                                                     \
    }
#define COLUMN(x) const V column##x = DEQ_SRC0(LD_SRC0(at + x * W_STEP, SRC_LANES), n);
#define FEED(i, k, x) sum##i += column##x * tap##k;
#define ADD(i) sum##i += DEQ_SRC0(LD_SRC0(at + i * STRIDE_W * W_STEP, SRC_LANES), n) * tap;
#define KEEP(i) done[i] = sum##i;
#define FINISH(i)                                                                                                        \
    if (start + i >= next) {                                                                                             \
        const idx ow = start + i;                                                                                        \
        STORE(sum##i)                                                                                                    \
    }
#define STORE(sum)                                                                                                       \
    V v = OUT_SRC0(OUT_WEIGHTS(sum, n), n);                                                                              \
    ADD_BIAS(v, n)                                                                                                       \
    POST_OPS(v, n)                                                                                                       \
    v = FINAL(v);                                                                                                        \
    STORE_LANES(v)

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void convolution_depthwise_rows(PARAMS) {
    ENTER
    const idx number = (idx)get_global_id(0), kd = 0, kh = 0, kw = 0;
    const idx first_group = number % PARTS * ITEM_GROUPS, end_group = min(first_group + ITEM_GROUPS, (idx)GROUPS);
    const idx first_line = number / PARTS * ITEM_LINES, end_line = min(first_line + ITEM_LINES, (idx)LINES);
    DECLARE_FACTORS
    // The positions that see all taps.
    const idx full_start = STEPS_BEFORE(PAD_W, STRIDE_W);
    const idx full_end = STEPS_WITHIN(SRC_W - 1 + PAD_W - (KERNEL_W - 1) * DILATION_W, STRIDE_W);
    for (idx line = first_line; line < end_line; ++line) {
        DECLARE_LINE(line)
        for (idx next = 0; next < DST_W;) {
            const bool is_full = next >= full_start && next < full_end && full_end - full_start >= TILE;
            const idx start = is_full ? min(next, (idx)(full_end - TILE)) : next;
            for (idx from = first_group; from < end_group; from += LANES) {
                const bool again = AGAIN && from + LANES > GROUPS && GROUPS - LANES >= first_group;
                const idx g = again ? (idx)(GROUPS - LANES) : from;
                const int n = (int)min((idx)LANES, GROUPS - g);
#if NARROW
                bool at_once = is_full;
                if (is_full) {
                    const idx kd = LAST_TAP(D, od), kh = LAST_TAP(H, oh), kw = KERNEL_W - 1, ow = start + TILE - 1;
                    at_once = OFF_SRC0 + LANES <= SRC_SIZE;
                }
#else
                const bool at_once = is_full && n == LANES;
#endif
                if (at_once) {
#if !NARROW
                    const int n = LANES;
#endif
                    EACH_POSITION(CLEAR)
                    for (idx kd = 0; kd < KERNEL_D; ++kd) {
                        if (!INSIDE_DEPTH) continue;
                        for (idx kh = 0; kh < KERNEL_H; ++kh) {
                            if (!INSIDE_HEIGHT) continue;
                            const idx ow = start;
#if KNOWN_TAPS
                            const idx kw = 0, at = OFF_SRC0;
                            EACH_TAP(TAP)
                            COLUMNS
#else
                            for (idx kw = 0; kw < KERNEL_W; ++kw) {
                                const idx at = OFF_SRC0;
                                const V tap = DEQ_WEIGHTS(LD_WEIGHTS(OFF_WEIGHTS, TAP_LANES), n);
                                EACH_POSITION(ADD)
                            }
#endif
                        }
                    }
#if NARROW
                    V done[TILE];
                    EACH_POSITION(KEEP)
                    NOT_UNROLLED for (idx ow = next; ow < start + TILE; ++ow) {
                        const V sum = done[ow - start];
                        STORE(sum)
                    }
#else
                    EACH_POSITION(FINISH)
#endif
                    continue;
                }
                for (idx ow = next; ow < (is_full ? start + TILE : next + 1); ++ow) {
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
            next = start + (is_full ? TILE : 1);
        }
    }
}
