// One input and one output channel per group, for CPUs: lanes run along positions and channels alike, which lie side by side in the source
// and the result, so that few channels fill whole vectors. The stride along the width is one: a tap shifts all lanes by the same distance.
// A work-item computes PIECE elements of each of ITEM_LINES rows of the result (fixed n, od, oh), TILE vectors at a time.
//   GROUPS, PHASES                     channels, and vectors until their sequence begins anew
//   LENGTH, SRC_LENGTH                 elements of a row of the result, and of the source
//   PIECES, PIECE                      parts of a row, of whole sequences
// In local memory are the weights of each tap, and the bias behind them, as the lanes of PHASES vectors have them. Where a row's ends are
// near, what lies beside it is read as well, where it is part of the source, and not added.
#define TILE 4
#define ROW (PHASES * 16)
#define STEP (DILATION_W * GROUPS)
#define AS_LANES (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define LOAD(at) DEQ_SRC0(LD_SRC0(at, 16), 16)

// Sixteen elements of which the first is `shift` before or behind the first of `v`; zero where `v` has none.
static inline V shifted(const V v, const int shift) {
    float near[48] __attribute__((aligned(64)));
    *(V *)near = (V)(0);
    *(V *)(near + 16) = v;
    *(V *)(near + 32) = (V)(0);
    return vload16(0, near + 16 + clamp(shift, -16, 16));
}

// Repeats the first `groups` elements until there are `row` or up to fifteen more.
static inline void spread(__local float *to, const int groups, const int row) {
    const int distance = (15 / groups + 1) * groups;
    NOT_UNROLLED for (int i = groups; i < distance; ++i) to[i] = to[i - groups];
    NOT_UNROLLED for (int i = distance; i < row; i += 16) vstore16(vload16(0, to + i - distance), 0, to + i);
}

// What `count` vectors from `at` on are.
#define COMPUTE(count)                                                                                                   \
    {                                                                                                                    \
        const idx left = at - PAD_W * GROUPS;                                                                            \
        const bool inner = left >= 0 && left + (KERNEL_W - 1) * STEP + (count) * 16 <= SRC_LENGTH;                       \
        int of_phase[count];                                                                                             \
        EACH(i, count) {                                                                                                 \
            of_phase[i] = phase * 16;                                                                                    \
            phase = phase + 1 == PHASES ? 0 : phase + 1;                                                                 \
        }                                                                                                                \
        V sums[count];                                                                                                   \
        EACH(i, count) sums[i] = (V)(0);                                                                                 \
        NOT_UNROLLED for (idx kd = 0; kd < KERNEL_D; ++kd) {                                                             \
            if (!INSIDE_DEPTH) continue;                                                                                 \
            const idx ow = at, g = 0;                                                                                    \
            const __local float *plane = table + kd * KERNEL_H * KERNEL_W * ROW;                                         \
            if (inner) {                                                                                                 \
                NOT_UNROLLED for (idx kh = 0; kh < KERNEL_H; ++kh) {                                                     \
                    if (!INSIDE_HEIGHT) continue;                                                                        \
                    const idx kw = 0, row = OFF_SRC0;                                                                    \
                    const __local float *taps = plane + kh * KERNEL_W * ROW;                                             \
                    NOT_UNROLLED for (int kw = 0; kw < KERNEL_W; ++kw, taps += ROW) {                                    \
                        EACH(i, count) sums[i] += LOAD(row + kw * STEP + i * 16) * TAP_OF(i);                            \
                    }                                                                                                    \
                }                                                                                                        \
                continue;                                                                                                \
            }                                                                                                            \
            NOT_UNROLLED for (idx kw = 0; kw < KERNEL_W; ++kw) {                                                         \
                int16 inside[count];                                                                                     \
                EACH(i, count) {                                                                                         \
                    const int16 column = (int)(left + kw * STEP + i * 16) + AS_LANES;                                    \
                    inside[i] = column >= 0 && column < (int)SRC_LENGTH;                                                 \
                }                                                                                                        \
                NOT_UNROLLED for (idx kh = 0; kh < KERNEL_H; ++kh) {                                                     \
                    if (!INSIDE_HEIGHT) continue;                                                                        \
                    const idx from = OFF_SRC0;                                                                           \
                    const __local float *taps = plane + (kh * KERNEL_W + kw) * ROW;                                      \
                    if (from >= 0 && from + (count) * 16 <= SRC_SIZE) {                                                  \
                        EACH(i, count) sums[i] = inside[i] ? sums[i] + LOAD(from + i * 16) * TAP_OF(i) : sums[i];        \
                        continue;                                                                                        \
                    }                                                                                                    \
                    float near[(count) * 16] __attribute__((aligned(64)));                                               \
                    NOT_UNROLLED for (int i = 0; i < (count); ++i) {                                                     \
                        const idx own = from + i * 16, in_source = clamp(own, (idx)0, (idx)SRC_SIZE - 16);               \
                        *(V *)(near + i * 16) = shifted(LOAD(in_source), (int)(own - in_source));                        \
                    }                                                                                                    \
                    EACH(i, count) sums[i] = inside[i] ? sums[i] + *(const V *)(near + i * 16) * TAP_OF(i) : sums[i];    \
                }                                                                                                        \
            }                                                                                                            \
        }                                                                                                                \
        const idx kd = 0, kh = 0, kw = 0, g = 0;                                                                         \
        V results[count];                                                                                                \
        EACH(i, count) results[i] = sums[i] + *(const __local V *)(biases + of_phase[i]);                                \
        NOT_UNROLLED for (int i = 0; i < (count); ++i) {                                                                 \
            const idx ow = at + i * 16;                                                                                  \
            if (ow >= end) break;                                                                                        \
            const int n = (int)min((idx)16, end - ow);                                                                   \
            V v = results[i];                                                                                            \
            POST_OPS(v, n)                                                                                               \
            v = FINAL(v);                                                                                                \
            ST_DST(OFF_DST, n, v);                                                                                       \
        }                                                                                                                \
    }
#define TAP_OF(i) *(const __local V *)(taps + of_phase[i])

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void convolution_depthwise_flat(PARAMS) {
    __local float table[ROOM + 16] __attribute__((aligned(64)));
    ENTER
    const idx number = (idx)get_global_id(0), piece = number % PIECES, first_line = number / PIECES * ITEM_LINES;
    const idx end_line = min(first_line + ITEM_LINES, (idx)LINES);
    const idx start = piece * PIECE, end = min(start + PIECE, (idx)LENGTH);
    DECLARE_FACTORS
    __local float *biases = table + KERNEL_D * KERNEL_H * KERNEL_W * ROW;
    {
        __local float *to = table;
        DECLARE_LINE((idx)0)
        const idx ow = 0;
        for (idx kd = 0; kd < KERNEL_D; ++kd) {
            for (idx kh = 0; kh < KERNEL_H; ++kh) {
                NOT_UNROLLED for (idx kw = 0; kw < KERNEL_W; ++kw, to += ROW) {
                    NOT_UNROLLED for (idx g = 0; g < GROUPS; ++g) to[g] = DEQ1_WEIGHTS(LD1_WEIGHTS(OFF_WEIGHTS));
                    spread(to, (int)GROUPS, (int)ROW);
                }
            }
        }
        const idx kd = 0, kh = 0, kw = 0;
        NOT_UNROLLED for (idx g = 0; g < GROUPS; ++g) to[g] = BIAS_OF_GROUP;
        spread(to, (int)GROUPS, (int)ROW);
    }
    for (idx line = first_line; line < end_line; ++line) {
        DECLARE_LINE(line)
        int phase = 0;
        idx at = start;
        for (; at + (TILE / 2) * 16 < end; at += TILE * 16) COMPUTE(TILE)
        if (at < end) COMPUTE(TILE / 2)
    }
}
