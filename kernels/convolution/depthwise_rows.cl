// One input and one output channel per group, or MEMBERS of both, for CPUs: a work-item computes ITEM_LINES rows of the result (fixed n, od, oh) for ITEM_GROUPS
// groups, of which a vector holds LANES: all groups of some positions, of LINES_AT_ONCE rows, before the next positions. TILE positions go
// together, whose sums stay in registers. The last vector of groups begins with groups that are done, which are stored AGAIN or dropped before
// the steps behind the sums.
// With KNOWN_TAPS the generator writes COLUMNS: for every column that the positions of a tile see, COLUMN(x, load) and FEED(i, k) for each
// position i that sees it by its tap k, in what takes (x, work) for the columns of this place: the first ones, as many as lie before the first
// position's last tap, the last ones, likewise, those between, or those that are both. Most tiles see all columns; at the ends of a line they
// ask for the first and the last ones, and a line shorter than a tile for all, whether the source has them. The last tile of a line begins with
// positions that are done, which are computed once more and not stored, as those behind a short line.
// Else tiles whose positions see all taps are full, and elsewhere each position has taps of its own. Columns move through registers from tap
// to tap where positions are as far apart as taps (SLIDES: tiles of four), and are loaded for each tap where not.
// Of groups of several channels lanes are the channels, GROUPS in all, and a vector holds whole groups: each channel of a group is spread over its
// lanes and has taps of its own, MEMBER_STEP further on.
// NARROW programs have fewer groups than lanes. They read on into what lies behind the groups, as long as something does, and throw it away,
// or, where the result is FLAT, store it, before the next positions replace it.
#if NARROW
#define TO_READ(at, size) ((at) + LANES <= (size) ? LANES : n)
#define STORE_LANES(v)                                                                                                   \
    if (FLAT && (DST_W - ow) * GROUPS >= LANES) KEEP_DST(OFF_DST, LANES, v);                                             \
    else ST_DST(OFF_DST, n, v);
#else
#define TO_READ(at, size) LANES
#define STORE_LANES(v) ST_DST(OFF_DST, n, v);
#endif
#define LOAD(at) DEQ_SRC0(LD_SRC0(at, LANES), n)
#define LOAD_ANY(at) DEQ_SRC0(LD_SRC0(at, TO_READ(at, SRC_SIZE)), n)
#define LOAD_TAP DEQ_WEIGHTS(LD_WEIGHTS(OFF_WEIGHTS, TO_READ(OFF_WEIGHTS, WEIGHTS_SIZE)), n)
#define VLOAD PASTE(vload, LANES)
#define VSTORE PASTE(vstore, LANES)
// The last tap of a dimension that lies in the source.
#define LAST_TAP(dim, o) min((idx)KERNEL_##dim - 1, (idx)((SRC_##dim - 1 + PAD_##dim - o * STRIDE_##dim) / DILATION_##dim))
// Distances of the first and the last position and of the first and the last tap, in columns.
#define POSITIONS_REACH ((TILE - 1) * STRIDE_W)
#define TAPS_REACH ((KERNEL_W - 1) * DILATION_W)
// Columns and taps of a row of taps, from its first ones at `src0` and `weights`.
#define LOAD_COLUMN(x) DEQ_SRC0(LD_SRC0(x * W_STEP, LANES), n)
#define LOAD_ANY_COLUMN(x) DEQ_SRC0(LD_SRC0(x * W_STEP, TO_READ(at + x * W_STEP, SRC_SIZE)), n)
#define TAP(k) const V tap##k = DEQ_WEIGHTS(LD_WEIGHTS(k * TAP_STEP, TO_READ(at_tap + k * TAP_STEP, WEIGHTS_SIZE)), n);
#define COLUMN(x, load) const V column = load(x);
#define FEED(i, k) sums[i] += column * tap##k;
// A row of taps, from its first one at `taps`.
#define ROW(load, load_any)                                                                                              \
    EACH_TAP(TAP)                                                                                                        \
    if (is_full) {                                                                                                       \
        COLUMNS(load, ALWAYS, ALWAYS, ALWAYS, ALWAYS)                                                                    \
    } else if (sees_most) {                                                                                              \
        COLUMNS(load, FROM_START, ALWAYS, UP_TO_END, IN_SOURCE)                                                          \
    } else {                                                                                                             \
        COLUMNS(load_any, IN_SOURCE, IN_SOURCE, IN_SOURCE, IN_SOURCE)                                                    \
    }
#define MEMBER(j)                                                                                                        \
    {                                                                                                                    \
        const __global uchar *const weights = taps + (long)(j * MEMBER_STEP) * WEIGHTS_BYTES;                            \
        ROW(MEMBER_##j, MEMBER_##j)                                                                                      \
    }
#if MEMBERS == 2
#define MEMBER_0(x) LOAD_COLUMN(x).s0022446688aaccee
#define MEMBER_1(x) LOAD_COLUMN(x).s1133557799bbddff
#define EACH_MEMBER MEMBER(0) MEMBER(1)
#elif MEMBERS == 4
#define MEMBER_0(x) LOAD_COLUMN(x).s000044448888cccc
#define MEMBER_1(x) LOAD_COLUMN(x).s111155559999dddd
#define MEMBER_2(x) LOAD_COLUMN(x).s22226666aaaaeeee
#define MEMBER_3(x) LOAD_COLUMN(x).s33337777bbbbffff
#define EACH_MEMBER MEMBER(0) MEMBER(1) MEMBER(2) MEMBER(3)
#endif
#define ALWAYS(x, work) {work}
#define FROM_START(x, work) if (x >= first_column) {work}
#define UP_TO_END(x, work) if (x < end_column) {work}
#define IN_SOURCE(x, work) if (x >= first_column && x < end_column) {work}
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
#if !KNOWN_TAPS
    // The positions that see all taps.
    const idx full_start = STEPS_BEFORE(PAD_W, STRIDE_W);
    const idx full_end = min((idx)DST_W, (idx)STEPS_WITHIN(SRC_W - 1 + PAD_W - (KERNEL_W - 1) * DILATION_W, STRIDE_W));
    const bool has_full = full_end - full_start >= TILE;
#endif
    for (idx some_lines = first_line; some_lines < end_line; some_lines += LINES_AT_ONCE) {
        const idx end_of_some = min(some_lines + LINES_AT_ONCE, end_line);
        for (idx next = 0; next < DST_W;) {
#if KNOWN_TAPS
            const idx start = min(next, (idx)max(DST_W - TILE, 0)), end = min(next + TILE, (idx)DST_W);
            const idx first_column = PAD_W - start * STRIDE_W, end_column = first_column + SRC_W;
            const bool sees_all = first_column <= 0 && POSITIONS_REACH + TAPS_REACH < end_column;
            const bool sees_most = !NARROW && first_column <= TAPS_REACH && POSITIONS_REACH < end_column;
#else
            const bool sees_all = has_full && next >= full_start && next < full_end;
            const idx start = sees_all ? min(next, (idx)(full_end - TILE)) : next;
            const idx end = min(start + TILE, has_full && next < full_start ? full_start : (idx)DST_W);
            int first_tap[TILE], end_tap[TILE];
            if (!sees_all || NARROW) {
                NOT_UNROLLED for (idx ow = start; ow < end; ++ow) {
                    const idx before = PAD_W - ow * STRIDE_W;
                    first_tap[ow - start] = (int)STEPS_BEFORE(before, DILATION_W);
                    end_tap[ow - start] = (int)min((idx)KERNEL_W, (idx)STEPS_WITHIN(SRC_W - 1 + before, DILATION_W));
                }
            }
#endif
            for (idx line = some_lines; line < end_of_some; ++line) {
                DECLARE_LINE(line)
                bool is_full = sees_all, is_readable = true;
#if NARROW
                {
                    const idx kd = LAST_TAP(D, od), kh = LAST_TAP(H, oh), kw = 0, ow = 0, g = 0;
                    const idx last_column = sees_all ? start * STRIDE_W + POSITIONS_REACH + TAPS_REACH : SRC_W - 1 + PAD_W;
                    is_readable = OFF_SRC0 + last_column * W_STEP + LANES <= SRC_SIZE;
                    is_full = is_full && is_readable;
                }
#endif
                for (idx from = first_group; from < end_group; from += LANES) {
                    const int done = NARROW ? 0 : LANES - (int)min((idx)LANES, GROUPS - from);
                    float results[(TILE + 1) * LANES];
                    {
                        const idx g = from - done;
                        const int n = NARROW ? (int)GROUPS : LANES;
                        V sums[TILE];
                        EACH(i, TILE) sums[i] = (V)(0);
#if !KNOWN_TAPS
                        if (!is_full) EACH(i, TILE) VSTORE((V)(0), i, results);
#endif
                        for (idx kd = 0; kd < KERNEL_D; ++kd) {
                            if (!INSIDE_DEPTH) continue;
                            for (idx kh = 0; kh < KERNEL_H; ++kh) {
                                if (!INSIDE_HEIGHT) continue;
#if !KNOWN_TAPS
                                if (!is_full) {
                                    // Rows of taps of different positions do not wait for one another.
                                    NOT_UNROLLED for (idx ow = start; ow < end; ++ow) {
                                        V sum = VLOAD(ow - start, results);
                                        const idx end_kw = end_tap[ow - start];
                                        NOT_UNROLLED for (idx kw = first_tap[ow - start]; kw < end_kw; ++kw) sum += LOAD_ANY(OFF_SRC0) * LOAD_TAP;
                                        VSTORE(sum, ow - start, results);
                                    }
                                    continue;
                                }
#endif
                                const idx ow = start, kw = 0, at = OFF_SRC0;
#if KNOWN_TAPS
                                const idx at_tap = OFF_WEIGHTS;
                                // Distances from a pointer are the same for all rows: they stay in registers.
                                const __global uchar *const row = src0 + (long)at * SRC_BYTES;
                                const __global uchar *const taps = weights + (long)at_tap * WEIGHTS_BYTES;
                                {
                                    const __global uchar *const src0 = row;
#if MEMBERS > 1
                                    EACH_MEMBER
#else
                                    const __global uchar *const weights = taps;
                                    ROW(LOAD_COLUMN, LOAD_ANY_COLUMN)
#endif
                                }
#else
                                if (SLIDES && STRIDE_W == DILATION_W) {
                                    const idx step = STRIDE_W * W_STEP;
                                    V first = LOAD(at), second = LOAD(at + step), third = LOAD(at + 2 * step);
                                    NOT_UNROLLED for (idx kw = 0; kw < KERNEL_W; ++kw) {
                                        const V tap = LOAD_TAP, fourth = LOAD(at + (kw + 3) * step);
                                        sums[0] += first * tap;
                                        sums[1] += second * tap;
                                        sums[2] += third * tap;
                                        sums[3] += fourth * tap;
                                        first = second;
                                        second = third;
                                        third = fourth;
                                    }
                                } else {
                                    for (idx kw = 0; kw < KERNEL_W; ++kw) {
                                        const idx at = OFF_SRC0;
                                        const V tap = LOAD_TAP;
                                        EACH(i, TILE) sums[i] += LOAD(at + i * STRIDE_W * W_STEP) * tap;
                                    }
                                }
#endif
                            }
                        }
                        const bool together = KNOWN_TAPS || is_full;
                        if (together && !NARROW && (done == 0 || (AGAIN && g >= first_group))) {
                            EACH(i, TILE) if (start + i >= next && start + i < end) {
                                const idx ow = start + i;
                                STORE(sums[i])
                            }
                            continue;
                        }
                        if (together) EACH(i, TILE) VSTORE(sums[i], i, results);
                    }
                    const int dropped = AGAIN && from - done >= first_group ? 0 : done, n = NARROW ? (int)GROUPS : LANES - dropped;
                    const idx g = from - done + dropped;
                    NOT_UNROLLED for (idx ow = next; ow < end; ++ow) {
                        const V sum = VLOAD(0, results + (ow - start) * LANES + dropped);
                        STORE(sum)
                    }
                }
            }
            next = end;
        }
    }
}
