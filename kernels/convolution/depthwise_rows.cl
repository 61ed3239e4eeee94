// One input and one output channel per group, for CPUs: a work-item computes ITEM_LINES rows of the result (fixed n, od, oh) for ITEM_GROUPS
// groups, of which a vector holds LANES: all groups of some positions, of LINES_AT_ONCE rows, before the next positions. At most TILE
// positions go together. Where all their taps lie in the source they are full: TILE sums stay in registers, and the last of such tiles may
// begin with positions that are done, which are computed once more and not stored. Elsewhere each position has taps of its own, up to
// EDGE_TILE positions at a time. The last vector of groups begins with groups that are done, which are stored AGAIN or dropped before the
// steps behind the sums.
// With KNOWN_TAPS, in programs for one shape, the generator writes COLUMNS: COLUMN(x) for every column that full positions see, followed by
// FEED(i, k, x) for every position i that sees it by its tap k. With EDGES it writes the same for positions that are not full, as EACH_EDGE:
// an EDGE for each tile of them, of the whole line with ALL_EDGES. Else columns move through registers from tap to tap where positions are
// as far apart as taps (SLIDES: tiles of four), and are loaded for each tap where not.
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
#define TAP(k)                                                                                                           \
    V tap##k;                                                                                                            \
    {                                                                                                                    \
        const idx kw = k;                                                                                                \
        tap##k = LOAD_TAP;                                                                                               \
    }
#define COLUMN(x) const V column##x = LOAD(at + x * W_STEP);
#define FEED(i, k, x) sums[i] += column##x * tap##k;
// Positions that do not see all taps, with those that they see.
#define EDGE(first, count, taps, columns)                                                                                \
    if (next == first) {                                                                                                 \
        V sums[count];                                                                                                   \
        EACH(i, count) sums[i] = (V)(0);                                                                                 \
        for (idx kd = 0; kd < KERNEL_D; ++kd) {                                                                          \
            if (!INSIDE_DEPTH) continue;                                                                                 \
            for (idx kh = 0; kh < KERNEL_H; ++kh) {                                                                      \
                if (!INSIDE_HEIGHT) continue;                                                                            \
                const idx ow = 0, kw = 0, at = OFF_SRC0;                                                                 \
                taps columns                                                                                             \
            }                                                                                                            \
        }                                                                                                                \
        EACH(i, count) VSTORE(sums[i], i, results);                                                                      \
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
    const idx full_end = min((idx)DST_W, (idx)STEPS_WITHIN(SRC_W - 1 + PAD_W - (KERNEL_W - 1) * DILATION_W, STRIDE_W));
    const bool has_full = !ALL_EDGES && full_end - full_start >= TILE;
    for (idx some_lines = first_line; some_lines < end_line; some_lines += LINES_AT_ONCE) {
        const idx end_of_some = min(some_lines + LINES_AT_ONCE, end_line);
        for (idx next = 0; next < DST_W;) {
            const bool sees_all = has_full && next >= full_start && next < full_end;
            const idx start = sees_all ? min(next, (idx)(full_end - TILE)) : next;
            const idx end = min(start + (sees_all ? TILE : EDGE_TILE), has_full && next < full_start ? full_start : (idx)DST_W);
#ifndef KNOWN_SHAPE
            int first_tap[MOST_TILE], end_tap[MOST_TILE];
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
                    const idx last_column = sees_all ? (start + TILE - 1) * STRIDE_W + (KERNEL_W - 1) * DILATION_W : SRC_W - 1 + PAD_W;
                    is_readable = OFF_SRC0 + last_column * W_STEP + LANES <= SRC_SIZE;
                    is_full = is_full && is_readable;
                }
#endif
                for (idx from = first_group; from < end_group; from += LANES) {
                    const int done = NARROW ? 0 : LANES - (int)min((idx)LANES, GROUPS - from);
                    float results[(MOST_TILE + 1) * LANES];
                    {
                        const idx g = from - done;
                        const int n = NARROW ? (int)GROUPS : LANES;
                        V sums[TILE];
                        EACH(i, TILE) sums[i] = (V)(0);
#if EDGES
                        if (!is_full && is_readable) {
                            EACH_EDGE
                        } else
#endif
#ifdef KNOWN_SHAPE
                        // Compilers unroll loops of known length over taps, tests and all.
                        if (!is_full) {
                            NOT_UNROLLED for (idx ow = next; ow < end; ++ow) {
                                V sum = (V)(0);
                                for (idx kd = 0; kd < KERNEL_D; ++kd) {
                                    if (!INSIDE_DEPTH) continue;
                                    for (idx kh = 0; kh < KERNEL_H; ++kh) {
                                        if (!INSIDE_HEIGHT) continue;
                                        for (idx kw = 0; kw < KERNEL_W; ++kw)
                                            if (INSIDE_WIDTH) sum += LOAD_ANY(OFF_SRC0) * LOAD_TAP;
                                    }
                                }
                                VSTORE(sum, ow - start, results);
                            }
                        } else
#else
                        if (!is_full) EACH(i, TILE) VSTORE((V)(0), i, results);
#endif
                        for (idx kd = 0; kd < KERNEL_D; ++kd) {
                            if (!INSIDE_DEPTH) continue;
                            for (idx kh = 0; kh < KERNEL_H; ++kh) {
                                if (!INSIDE_HEIGHT) continue;
#ifndef KNOWN_SHAPE
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
                                EACH_TAP(TAP)
                                COLUMNS
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
                        if (is_full && !NARROW && (done == 0 || (AGAIN && g >= first_group))) {
                            EACH(i, TILE) if (start + i >= next) {
                                const idx ow = start + i;
                                STORE(sums[i])
                            }
                            continue;
                        }
                        if (is_full) EACH(i, TILE) VSTORE(sums[i], i, results);
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
