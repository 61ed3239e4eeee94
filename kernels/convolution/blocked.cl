// For CPUs: a work-item computes ITEM_LINES rows of the result (fixed n, od, oh), or one of PARTS of a row, PART_TILES tiles, for a panel of
// PANEL output channels of a group, in the register tiles of `convolution/tile.cl`, TILE_SIZE positions at a time, one less behind the first
// LONG_TILES of a row.
// A tap is added to those positions of a tile that see it. Taps side by side that the same positions see go together: they are
// PLANES_OF(taps) runs of TERMS_OF(taps) terms. The program serves convolutions of every shape: nothing of one is known when it is
// compiled; local memory has room for ROOM vectors a position, and the last of all POSITIONS may end inside a line. Its register tiles
// have one vector of a panel, two, four or, WITH_HALVES, a half; with JOINS_TILES they may serve two of the lines' tiles at once. OF_ALL, in programs for
// one shape, they have all vectors of a panel, and the sizes of EACH_SIZE(X) = X(14, 13) X(13, 7) X(7, 1) X(1, 0), of which each serves
// more positions than its second number; those of a last panel of fewer vectors, LAST_VECTORS, are named after it.
#define TILE_START(tile) min((tile) * TILE_SIZE - max((idx)((tile) - LONG_TILES), (idx)0), line_end)
#define LANES_OF(j) clamp(columns - 16 * (j), 0, min(16, PANEL - 16 * (j)))
// The positions of a tile that see a tap, and the rows of taps that lie in the source.
#define BEFORE(offset, step, by) ((offset) <= 0 ? 0 : by((offset) + (step) - 1))
#define WITHIN(offset, by) ((offset) < 0 ? 0 : by(offset) + 1)
#define SEEING_FROM(kw) max(start, (idx)BEFORE(PAD_W - (kw) * DILATION_W, STRIDE_W, BY_STRIDE_W))
#define SEEING_TO(kw) min(end, (idx)WITHIN(SRC_W - 1 + PAD_W - (kw) * DILATION_W, BY_STRIDE_W))

// A register tile may compute positions that are thrown away, behind those that are wanted or before them, as long as they lie in the source.
#define CALL(function, m, at, j)                                                                                         \
    function(a + (at) * a_step_m, b + 16 * (j), PLANES_OF(taps), runs, terms, max(done - (at), 0),                       \
             min(m, positions - (at)), to + (at) * (VECTORS * 16) + 16 * (j), TILE_MOST - (int)(from - start) - (at),    \
             at_once ? before + 16 * (j) : 0, out + (at) * dst_step + 16 * (j),                                          \
             HAS_ADDEND ? addend + (at) * ADDEND_STEP + 16 * (j) : 0, factors AND_SHAPE)
#if OF_ALL
#define FITS(m, least) (positions - done > (least) && (positions - done >= (m) || last + (done + (m) - 1) * a_step_m < source_size))
#define TILE_OF(m, least)                                                                                                \
    while (FITS(m, least)) {                                                                                             \
        CALL_ALL(m);                                                                                                     \
        done += m;                                                                                                       \
    }
#if LAST_VECTORS
#define CALL_ALL(m)                                                                                                      \
    if (columns <= 16 * LAST_VECTORS) CALL(last_##m, m, done, 0);                                                        \
    else CALL(tile_##m, m, done, 0)
#else
#define CALL_ALL(m) CALL(tile_##m, m, done, 0)
#endif
#define EACH_TILE EACH_SIZE(TILE_OF)
#else
// The number m of a tile's positions, `size` unless so many are not in the source, and the first of them.
#define PLACE_TILE(size)                                                                                                 \
    int m = size, at = done;                                                                                             \
    if (positions - done < m && last + (done + m - 1) * a_step_m >= source_size) {                                       \
        at = positions - m;                                                                                              \
        if (src_at + at * a_step_m < 0) {                                                                                \
            m = 1;                                                                                                       \
            at = done;                                                                                                   \
        }                                                                                                                \
    }
#if FEW_SUMS
// Tiles of six positions or four, in vectors after each other, and of twelve or six positions of half a vector.
#define EACH_TILE                                                                                                        \
    NOT_UNROLLED while (whole > 0 && done < positions) {                                                                 \
        const int left = positions - done;                                                                               \
        PLACE_TILE(left > 8 || (left > 4 && left <= 6) ? 6 : left > 1 ? 4 : 1)                                           \
        NOT_UNROLLED for (int j = 0; j < whole; ++j) {                                                                   \
            if (m == 6) CALL(tile_6, 6, at, j);                                                                          \
            else if (m == 4) CALL(tile_4, 4, at, j);                                                                     \
            else CALL(tile_1, 1, at, j);                                                                                 \
        }                                                                                                                \
        done = at + m;                                                                                                   \
    }                                                                                                                    \
    done = 0;                                                                                                            \
    NOT_UNROLLED while (halves > 0 && done < positions) {                                                          \
        PLACE_TILE(positions - done > 6 ? 12 : positions - done > 1 ? 6 : 1)                                             \
        if (m == 12) CALL(half_12, 12, at, whole);                                                               \
        else if (m == 6) CALL(half_6, 6, at, whole);                                                             \
        else CALL(half_1, 1, at, whole);                                                                         \
        done = at + m;                                                                                                   \
    }
#else
// Tiles of two vectors at a time, where there are as many, each of them once in the text: weights that do not stay near are read once for
// fourteen positions. A single position is all vectors at once, so that its weights are read in their order.
#define EACH_TILE                                                                                                        \
    NOT_UNROLLED while (done < positions) {                                                                              \
        PLACE_TILE(positions - done > 7 ? 14 : positions - done > 1 ? 7 : 1)                                             \
        const int j1 = m == 1 ? whole / 4 * 4 : whole / 2 * 2;                                                           \
        if (m == 1) {                                                                                                    \
            if (j1) CALL(four_1, 1, at, 0);                                                                              \
            NOT_UNROLLED for (int j = j1; j < whole; ++j) CALL(tile_1, 1, at, j);                                        \
        } else {                                                                                                         \
            NOT_UNROLLED for (int j = 0; j < j1; j += 2) {                                                               \
                if (m == 14) CALL(two_14, 14, at, j);                                                                    \
                else CALL(two_7, 7, at, j);                                                                              \
            }                                                                                                            \
            if (j1 < whole) {                                                                                            \
                if (m == 14) CALL(tile_14, 14, at, j1);                                                                  \
                else CALL(tile_7, 7, at, j1);                                                                            \
            }                                                                                                            \
        }                                                                                                                \
        HALF_TILES                                                                                                       \
        done = at + m;                                                                                                   \
    }
#if WITH_HALVES
#define HALF_TILES                                                                                                       \
    if (halves) {                                                                                                        \
        if (m == 14) CALL(half_14, 14, at, whole);                                                                       \
        else if (m == 7) CALL(half_7, 7, at, whole);                                                                     \
        else CALL(half_1, 1, at, whole);                                                                                 \
    }
#else
#define HALF_TILES
#endif
#endif
#endif

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void convolution_blocked(PARAMS) {
    __local float sums[(TILE_MOST + 1) * ROOM * 16] __attribute__((aligned(64)));
    // What sums begin with.
    __local float before[ROOM * 16] __attribute__((aligned(64)));
    ENTER
    const idx number = (idx)get_global_id(0);
    const idx of_inner = BY_INNER(number), inner = number - of_inner * INNER;
    DECLARE_PANEL(PANELS_INSIDE ? inner : of_inner)
    const idx item = PANELS_INSIDE ? of_inner : inner, of_parts = BY_PARTS(item);
    const idx first_line = of_parts * ITEM_LINES;
    const idx first_tile = (item - of_parts * PARTS) * PART_TILES, end_tile = min(first_tile + PART_TILES, (idx)TILES);
    const idx end_line = min(first_line + ITEM_LINES, (idx)LINES);
    DECLARE_FACTORS
    const int columns = (int)min((idx)PANEL, GROUP_OUTPUTS - panel * PANEL);
    const idx c = 0, kd = 0, kh = 0, kw = 0, lane = 0;
    const idx a_step_m = A_STEP_M, source_size = SRC_SIZE, dst_step = DST_STEP;
    // The vectors of the panel that have columns, and the lanes behind the whole ones of those.
    const int whole = min((columns + 15) / 16, WHOLE_VECTORS), halves = columns > 16 * WHOLE_VECTORS, used = whole + halves;
    // All of a position's results are less than half a vector, and those of the next one follow.
    const bool is_narrow = PLAIN && VECTORS == 1 && columns < 8 && dst_step == columns;
    // Register tiles of all vectors store results of all columns.
    const bool ends_at_once = AT_ONCE && (!OF_ALL || columns == PANEL);
    {
        DECLARE_LINE((idx)0)
        const idx ow = 0;
        NOT_UNROLLED for (int j = 0; j < VECTORS; ++j) {
            // Lanes may have ONE_BIAS in common: that of the first.
            const idx lane = ONE_BIAS ? 0 : 16 * j;
            V x = (V)(0);
            if (HAS_BIAS) x = ONE_BIAS ? (V)(LD1_BIAS(OFF_BIAS)) : LD_BIAS(OFF_BIAS, LANES_OF(j));
            *(__local V *)(before + j * 16) = x;
        }
    }
    // The positions that see all taps of a row.
    const idx start = 0, end = DST_W, all_from = SEEING_FROM(0), all_to = SEEING_TO(KERNEL_W - 1);
    for (idx line = first_line; line < end_line; ++line) {
        DECLARE_LINE(line)
        const idx line_end = min((idx)DST_W, POSITIONS - line * DST_W);
        const idx kh = BEFORE(PAD_H - oh * STRIDE_H, DILATION_H, BY_DILATION_H);
        const idx end_kh = min((idx)KERNEL_H, (idx)WITHIN(SRC_H - 1 + PAD_H - oh * STRIDE_H, BY_DILATION_H));
        const int rows = (int)max(end_kh - kh, (idx)0);
        const idx ow = 0, src_line = OFF_SRC0, weights_line = OFF_WEIGHTS, dst_line = OFF_DST, addend_line = OFF_EXTRA0;
        for (idx tile = first_tile; tile < end_tile; ++tile) {
            const idx start = TILE_START(tile);
            idx end = TILE_START(tile + 1);
            if (start >= end) break;
#if JOINS_TILES
            // Neighbours whose positions see every tap go together: their additions have the same order.
            const idx next_end = TILE_START(tile + 2);
            if (tile + 1 < end_tile && next_end - start <= TILE_MOST && all_from <= start && all_to >= next_end) {
                end = next_end;
                ++tile;
            }
#endif
            // What the register tiles compute is final.
            const bool at_once = ends_at_once && rows > 0 && IS_SIZE(end - start)
                                 && all_from <= start && all_to >= end;
            if (!at_once) {
                NOT_UNROLLED for (int i = 0; i < (end - start) * VECTORS; i += VECTORS) {
                    NOT_UNROLLED for (int j = 0; j < (OF_ALL && !LAST_VECTORS ? VECTORS : used); ++j)
                        *(__local V *)(sums + (i + j) * 16) = *(const __local V *)(before + j * 16);
                }
            }
            NOT_UNROLLED for (idx kd = 0; kd < KERNEL_D; ++kd) {
                if (!INSIDE_DEPTH) continue;
                NOT_UNROLLED for (idx kw = 0, taps = 1; kw < KERNEL_W; kw += taps, taps = 1) {
                    idx from = start, to_end = end;
                    if (all_from <= start && all_to >= end) {
                        taps = KERNEL_W;
                    } else {
                        from = SEEING_FROM(kw);
                        to_end = SEEING_TO(kw);
                        while (kw + taps < KERNEL_W && SEEING_FROM(kw + taps) == from && SEEING_TO(kw + taps) == to_end) ++taps;
                    }
                    const int positions = (int)(to_end - from);
                    if (positions <= 0) continue;
                    const idx src_at = src_line + from * a_step_m + kw * A_STEP_KW + kd * A_STEP_KD;
                    const __global float *a = (const __global float *)src0 + src_at;
                    const __global float *b = (const __global float *)weights + weights_line + kw * B_STEP_KW + kd * B_STEP_KD;
                    __local float *to = sums + (from - start) * (VECTORS * 16);
                    __global float *out = (__global float *)dst + dst_line + from * dst_step;
                    const __global float *addend = (const __global float *)extra0 + addend_line + from * ADDEND_STEP;
                    const idx last = src_at + (PLANES_OF(taps) - 1) * A_STEP_PLANE + (rows - 1) * A_STEP_ROW
                                     + (TERMS_OF(taps) - 1) * A_STEP_K;
                    // Rows that follow one another in both operands are one run.
                    const int row_terms = TERMS_OF(taps);
                    const bool is_one = A_STEP_ROW == row_terms * A_STEP_K && B_STEP_ROW == row_terms * B_STEP_K;
                    const int runs = is_one ? min(rows, 1) : rows, terms = is_one ? rows * row_terms : row_terms;
                    int done = 0;
                    EACH_TILE
                }
            }
            if (OF_ALL && at_once) continue;
            const idx ow = start;
            if (!at_once) {
                APPLY_STEPS(end - start)
            } else if (HAS_ADDEND) {
                const __global uchar *addends = extra0 + (addend_line + start * ADDEND_STEP) * sizeof(float);
                NOT_UNROLLED for (int i = 0; i < end - start; ++i) {
                    NOT_UNROLLED for (int j = 0; j < used; ++j)
                        *(__local V *)(sums + (i * VECTORS + j) * 16) +=
                            unpack_f32_16(load_32_16(addends, i * ADDEND_STEP + 16 * j, LANES_OF(j)));
                }
            }
            if (is_narrow) {
                const int count = (int)(end - start) * columns;
                // What a vector has behind its columns gives way to the next one.
                NOT_UNROLLED for (int i = 1; i < end - start; ++i)
                    vstore16(*(const __local V *)(sums + i * 16), 0, sums + i * columns);
                NOT_UNROLLED for (int i = 0; i < count; i += 16) {
                    const V v = FINAL(*(const __local V *)(sums + i));
                    store_32_16(dst, dst_line + start * dst_step + i, min(count - i, 16), pack_f32_16(v));
                }
                continue;
            }
            STORE_POSITIONS(start, end - start)
        }
    }
}
