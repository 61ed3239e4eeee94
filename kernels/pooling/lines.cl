// For CPUs: a work-item computes segments of lines of the result, SEGMENT columns and PART channels at a time. The rows of the source that
// a segment's windows cover are first joined into one line in local memory, `inner` values (the channels, where they lie side by side)
// for each column, with START for columns outside; then its columns are joined. Lanes run along the line. SRC0 is addressed by `ow` as a
// column of the source (and by `c`). LINE and MOST_ROWS are room for lines of many sizes; STEPPING is the stride along the line where lanes
// are taken by it, else zero. Where the result is DENSE, vectors are stored whole and the next ones replace what they have behind their
// channels; where windows follow each other, so do vectors, whatever columns they belong to. Windows of one place that
// all lie in the source are COPIED; other windows that share little are joined DIRECT from the source. An average is a product with the
// share of one, where results are floats and may be off by their last digit: a quotient takes as long as some taps.
// Whether all columns of a window are there.
#define IS_FULL(ow) ((ow) * STRIDE_W >= PAD_W && (ow) * STRIDE_W - PAD_W + (KERNEL_W - 1) * DILATION_W < SRC_W)
#if BY_SHARES
#define SHARE_OF(count) const V share = (V)(1.0f / (float)(count));
#define SHARE(v) ((v) * share)
#else
#define SHARE_OF(count) const V share = (V)((float)(count));
#define SHARE(v) ((v) / share)
#endif
// The elements of a run of the result before the first one at which a whole vector of it may begin; all of a vector where that is the first one. A
// run's first vector reaches into the next one, which is stored over it: vectors that lie in two lines of a cache take twice as long to store.
#define HEAD(out) (16 - (int)(((ulong)dst / DST_BYTES + (ulong)(out)) & 15))
// Joins taps of a row of the window to v, by twos.
#define JOIN_TAPS(FROM, TO, n)                                                                                           \
    for (int k = FROM; k + 2 <= TO; k += 2) v = JOIN_TWO(v, LD_SRC0(begin + k * step, n), LD_SRC0(begin + (k + 1) * step, n)); \
    if ((TO - FROM) % 2 != 0) v = JOIN(v, LD_SRC0(begin + (TO - 1) * step, n));

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void pooling_lines(PARAMS) {
    ENTER
    __local float line[LINE] __attribute__((aligned(64)));
    const idx first = (idx)get_global_id(0) * SEGMENTS_PER_ITEM;
    for (idx s = first, end = min(s + SEGMENTS_PER_ITEM, (idx)ALL_SEGMENTS); s < end; ++s) {
        const idx across = s / PARTS, l = across / SEGMENTS;
        const idx first_c = (s - across * PARTS) * PART, inner = min((idx)PART, INNER - first_c);
        const idx from = (across - l * SEGMENTS) * SEGMENT, to = min(from + SEGMENT, (idx)DST_W);
        const bool is_whole = inner == INNER;
        DECLARE_LINE(l)
        // The rows under the windows: how many count, and where those that are there begin.
        int counted = 0, rows = 0;
        idx at[MOST_ROWS];
        NOT_UNROLLED for (idx kd = 0; kd < KERNEL_D; ++kd) {
            NOT_UNROLLED for (idx kh = 0; kh < KERNEL_H; ++kh) {
                const bool inside = INSIDE_DEPTH && INSIDE_HEIGHT;
                counted += inside || (COUNT_PADDING && IN_DEPTH < SRC_D + PAD_END_D && IN_HEIGHT < SRC_H + PAD_END_H);
                if (!inside) continue;
#if BY_CHANNELS
                const idx c = first_c;
#endif
                const idx ow = 0, kw = 0;
                at[rows++] = OFF_SRC0;
            }
        }
#if BY_CHANNELS
        if (COPIED) {
            const bool is_run = DENSE && STRIDE_W == 1 && is_whole;
            NOT_UNROLLED for (idx ow = from; ow < (is_run ? from + 1 : to); ++ow) {
                const idx run = is_run ? (to - from) * INNER : inner, begin = at[0] + ow * STRIDE_W * INNER;
                idx in_run = 0;
                idx c = first_c;
                const idx out = OFF_DST;
                for (idx next = is_run ? HEAD(out) : 16; in_run + 16 <= run; in_run = next, next += 16, c = first_c + in_run) {
                    V v = LD_SRC0(begin + in_run, 16);
                    POST_OPS(v, 16)
                    ST_DST(out + in_run, 16, v);
                }
                if (in_run == run) continue;
                const int n = (int)(run - in_run);
                const bool reads_on = (SRC_W - ow * STRIDE_W) * INNER - first_c - in_run >= 16;
                const bool writes_on = DENSE && is_whole && (to - ow) * INNER - in_run >= 16;
                V v = reads_on ? LD_SRC0(begin + in_run, 16) : LD_SRC0(begin + in_run, n);
                POST_OPS(v, n)
                if (writes_on) KEEP_DST(out + in_run, 16, v);
                else KEEP_DST(out + in_run, n, v);
            }
            continue;
        }
        if (DIRECT) {
            const bool is_run = DENSE && STRIDE_W == 1 && is_whole;
            const idx run_to = min(to, (idx)(SRC_W + PAD_W - (KERNEL_W - 1) * DILATION_W)), step = DILATION_W * INNER;
            NOT_UNROLLED for (idx ow = from; ow < to;) {
                const bool is_full = IS_FULL(ow), in_run = is_run && is_full;
                const idx run = in_run ? (run_to - ow) * INNER : inner, left_of_all = (to - ow) * INNER;
                const idx left = ow * STRIDE_W - PAD_W;
                const int first_k = (int)STEPS_BEFORE(-left, DILATION_W);
                const int last_k = (int)min((idx)KERNEL_W, STEPS_WITHIN(SRC_W - 1 - left, DILATION_W));
#if AVERAGE
                const int columns = COUNT_PADDING ? (int)min((idx)KERNEL_W, STEPS_WITHIN(SRC_W + PAD_END_W - 1 - left, DILATION_W))
                                                  : max(last_k - first_k, 0);
                SHARE_OF(columns * counted)
#endif
                // The last element that vectors at the end of a run may be read up to.
                const idx most = SRC_SIZE - (rows > 0 ? at[rows - 1] : 0) - (left + (last_k - 1) * DILATION_W) * INNER;
                idx c = first_c;
                const idx out = OFF_DST, head = in_run ? HEAD(out) : 16;
                for (idx i = 0, next = head; i < run; i = next, next += 16, c = first_c + i) {
                    const int n = (int)min((idx)16, run - i);
                    V v = (V)(START);
                    if (is_full && (n == 16 || i + 16 <= most)) {
                        NOT_UNROLLED for (int r = 0; r < rows; ++r) {
                            const idx begin = at[r] + left * INNER + i;
                            JOIN_TAPS(0, KERNEL_W, 16)
                        }
                    } else {
                        NOT_UNROLLED for (int r = 0; r < rows; ++r) {
                            const idx begin = at[r] + left * INNER + i;
                            NOT_UNROLLED for (int k = first_k; k < last_k; ++k) v = JOIN(v, LD_SRC0(begin + k * step, n));
                        }
                    }
#if AVERAGE
                    v = SHARE(v);
#endif
                    POST_OPS(v, n)
                    if (n == 16) ST_DST(out + i, 16, v);
                    else if (DENSE && is_whole && left_of_all - i >= 16) KEEP_DST(out + i, 16, v);
                    else KEEP_DST(out + i, n, v);
                }
                ow = in_run ? run_to : ow + 1;
            }
            continue;
        }
#endif
        // The columns under the windows, and those of them that are there.
        const idx left = from * STRIDE_W - PAD_W, right = (to - 1) * STRIDE_W - PAD_W + (KERNEL_W - 1) * DILATION_W + 1;
        const idx begin = clamp(left, (idx)0, (idx)SRC_W), stop = clamp(right, begin, (idx)SRC_W);
        NOT_UNROLLED for (idx i = 0; i < (begin - left) * inner; ++i) line[i] = START;
        NOT_UNROLLED for (idx x = begin; x < (is_whole ? min(begin + 1, stop) : stop); ++x) {
            const idx run = is_whole ? (stop - begin) * INNER : inner, column = x * INNER;
            __local float *to_column = line + (x - left) * inner;
            for (idx i = 0; i < run; i += 16) {
                V v = (V)(START);
                if (i + 16 <= run) {
                    int r = 0;
#if !AVERAGE
                    NOT_UNROLLED for (; r + 2 <= rows; r += 2)
                        v = JOIN_TWO(v, LD_SRC0(at[r] + column + i, 16), LD_SRC0(at[r + 1] + column + i, 16));
#endif
                    for (; r < rows; ++r) v = JOIN(v, LD_SRC0(at[r] + column + i, 16));
                } else {
                    // What lies behind the run is thrown away.
                    const int n = (int)(run - i);
                    NOT_UNROLLED for (int r = 0; r < rows; ++r) {
                        const idx first = at[r] + column + i;
                        v = JOIN(v, LD_SRC0(first, first + 16 <= SRC_SIZE ? 16 : n));
                    }
                }
                vstore16(v, 0, to_column + i);
            }
        }
        NOT_UNROLLED for (idx i = (stop - left) * inner; i < (right - left) * inner; ++i) line[i] = START;
#if BY_CHANNELS
        const bool is_run = DENSE && STRIDE_W == 1 && is_whole;
        // Those of an average have the same number of columns.
        const idx run_from = AVERAGE ? max(from, (idx)PAD_W) : from;
        const idx run_to = AVERAGE ? min(to, (idx)(SRC_W + PAD_W - (KERNEL_W - 1) * DILATION_W)) : to;
        NOT_UNROLLED for (idx ow = from; ow < to;) {
            const bool in_run = is_run && ow >= run_from && ow < run_to;
            const idx run = in_run ? (run_to - ow) * INNER : inner;
            const __local float *first_column = line + (ow - from) * STRIDE_W * inner;
            const idx step = DILATION_W * inner, left_of_all = (to - ow) * INNER;
#if AVERAGE
            int columns = KERNEL_W;
            if (!IS_FULL(ow)) {
                columns = 0;
                NOT_UNROLLED for (int k = 0; k < KERNEL_W; ++k) {
                    const int x = ow * STRIDE_W - PAD_W + k * DILATION_W;
                    columns += COUNT_PADDING ? x < SRC_W + PAD_END_W : x >= 0 && x < SRC_W;
                }
            }
            SHARE_OF(columns * counted)
#endif
            idx c = first_c;
            const idx out = OFF_DST, head = in_run ? HEAD(out) : 16;
            for (idx i = 0, next = head; i < run; i = next, next += 16, c = first_c + i) {
                V v = vload16(0, first_column + i);
#if AVERAGE
                for (int k = 1; k < KERNEL_W; ++k) v = JOIN(v, vload16(0, first_column + k * step + i));
#else
                for (int k = 1; k + 2 <= KERNEL_W; k += 2)
                    v = JOIN_TWO(v, vload16(0, first_column + k * step + i), vload16(0, first_column + (k + 1) * step + i));
                if (KERNEL_W > 1 && KERNEL_W % 2 == 0) v = JOIN(v, vload16(0, first_column + (KERNEL_W - 1) * step + i));
#endif
#if AVERAGE
                v = SHARE(v);
#endif
                const int n = (int)min((idx)16, run - i);
                POST_OPS(v, n)
                if (n == 16) ST_DST(out + i, 16, v);
                else if (DENSE && is_whole && left_of_all - i >= 16) KEEP_DST(out + i, 16, v);
                else KEEP_DST(out + i, n, v);
            }
            ow = in_run ? run_to : ow + 1;
        }
#else
        for (idx ow = from; ow < to; ow += 16) {
            const int n = (int)min((idx)16, to - ow);
            V v = (V)(START);
            for (int k = 0; k < KERNEL_W; ++k) {
                const __local float *in = line + (ow - from) * STRIDE_W + k * DILATION_W;
#if STEPPING == 1
                const V x = vload16(0, in);
#elif STEPPING == 2
                const V x = (V)(vload16(0, in).even, vload16(0, in + 16).even);
#else
                float t[16];
                NOT_UNROLLED for (int j = 0; j < 16; ++j) t[j] = in[j * STRIDE_W];
                const V x = vload16(0, t);
#endif
                v = JOIN(v, x);
            }
#if AVERAGE
            if (IS_FULL(ow) && IS_FULL(ow + n - 1)) {
                v /= (V)((float)(KERNEL_W * counted));
            } else {
                float columns[16];
                NOT_UNROLLED for (int j = 0; j < 16; ++j) {
                    int inside = j >= n;
                    NOT_UNROLLED for (int k = 0; k < KERNEL_W && j < n; ++k) {
                        const int x = (ow + j) * STRIDE_W - PAD_W + k * DILATION_W;
                        inside += COUNT_PADDING ? x < SRC_W + PAD_END_W : x >= 0 && x < SRC_W;
                    }
                    columns[j] = inside * counted;
                }
                v /= vload16(0, columns);
            }
#endif
            POST_OPS(v, n)
            ST_DST(OFF_DST, n, v);
        }
#endif
    }
}
