// For CPUs, of convolutions with few outputs: vectors lie along the channels, and of several positions side by side and OUTS outputs each has
// a vector of sums, whose lanes are added at the end. A work-item computes ITEM_LINES rows of the result (fixed n, od, oh). Where all taps
// lie in the source POSITIONS positions go together; the last of such tiles may begin with positions that are done: they are computed once
// more and not stored. With MERGED the channels of taps side by side follow one another in both operands, and are one run of terms. A run
// has at least sixteen terms, floats or bf16: its last vector ends where it does, and what it has twice counts as zero.
// The same taps reach positions of a transposed convolution that are STRIDE_W apart, from sources side by side: a row is taken in as many
// TURNS, whose taps' sources lie one before the other.
#if TRANSPOSED
#define TURNS STRIDE_W
#define A_STEP_RUN (-A_STEP_M)
#define B_STEP_RUN (B_STEP_KW * STRIDE_W)
#else
#define TURNS 1
#define A_STEP_RUN A_STEP_KW
#define B_STEP_RUN B_STEP_KW
#endif
#if ELEMENT_BYTES == 4
#define ELEMENTS float
#if ANYDNN_UNALIGNED
#define QUARTER(p, i) as_float4(vload16(i, (const __global uchar *)(p)))
#define VECTOR(p) (float16)(QUARTER(p, 0), QUARTER(p, 1), QUARTER(p, 2), QUARTER(p, 3))
#else
#define VECTOR(p) vload16(0, p)
#endif
#else
#define ELEMENTS ushort
#if ANYDNN_UNALIGNED
#define HALVES(p, i) as_ushort8(vload16(i, (const __global uchar *)(p)))
#define BITS(p) (ushort16)(HALVES(p, 0), HALVES(p, 1))
#else
#define BITS(p) vload16(0, p)
#endif
#define VECTOR(p) as_float16(convert_uint16(BITS(p)) << (uint16)(16))
#endif
#define OUTPUT(o) ((idx)min((int)(o), last_output) * B_STEP_O)

static inline __attribute__((always_inline)) void dots(const __global ELEMENTS *restrict a, const __global ELEMENTS *restrict b,
                                                       const int positions, const int runs, const int terms, const int last_output,
                                                       float16 sums[POSITIONS][OUTS] WITH_SHAPE) {
    const idx a_step_m = A_STEP_M;
    const int rest = terms % 16;
    const int16 kept = rest > (int16)(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (int run = 0; run < runs; ++run) {
        const __global ELEMENTS *a_run = a + run * A_STEP_RUN, *b_run = b + run * B_STEP_RUN;
        // One body for whole vectors and the last one: two of them take four times as long to compile.
        NOT_UNROLLED for (int k = 0; k < terms; k += 16) {
            const int at = min(k, terms - 16);
            const int16 mask = k == at ? (int16)(-1) : kept;
            float16 weights[OUTS];
            EACH(o, OUTS) weights[o] = as_float16(as_int16(VECTOR(b_run + OUTPUT(o) + at)) & mask);
            EACH(i, positions) {
                const float16 x = as_float16(as_int16(VECTOR(a_run + i * a_step_m + at)) & mask);
                EACH(o, OUTS) sums[i][o] += x * weights[o];
            }
        }
    }
}

// The lanes of a vector together.
static inline float together(const float16 v) {
    const float8 of_8 = v.lo + v.hi;
    const float4 of_4 = of_8.lo + of_8.hi;
    const float2 of_2 = of_4.lo + of_4.hi;
    return of_2.x + of_2.y;
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void convolution_dots(PARAMS) {
    ENTER
    const idx first_line = (idx)get_global_id(0) * ITEM_LINES, end_line = min(first_line + ITEM_LINES, (idx)LINES);
    const idx kd = 0, kh = 0, kw = 0;
    DECLARE_FACTORS
    for (idx line = first_line; line < end_line; ++line) {
        DECLARE_LINE(line)
        for (idx of_groups = 0; of_groups < GROUPS * BLOCKS; ++of_groups) {
            const idx g = of_groups / BLOCKS, og = of_groups % BLOCKS * OUTS;
            const int n = (int)min((idx)OUTS, OUTPUTS - og), last_output = n - 1;
            for (idx turn = 0; turn < TURNS; ++turn) {
                // The positions of this turn, and those of them that see all of its taps.
#if TRANSPOSED
                const idx before = (turn + PAD_W) / STRIDE_W, first_tap = (turn + PAD_W) % STRIDE_W;
                const idx turn_taps = STEPS_WITHIN(KERNEL_W - 1 - first_tap, STRIDE_W);
                const idx turn_end = STEPS_WITHIN(DST_W - 1 - turn, STRIDE_W);
                const idx full_start = max(turn_taps - 1 - before, (idx)0), full_end = min(turn_end, (idx)(SRC_W - before));
#else
                const idx turn_end = DST_W, full_start = STEPS_BEFORE(PAD_W, STRIDE_W);
                const idx full_end = min((idx)DST_W, (idx)STEPS_WITHIN(SRC_W - 1 + PAD_W - (KERNEL_W - 1) * DILATION_W, STRIDE_W));
#endif
                for (idx next = 0; next < turn_end;) {
                    const bool is_full = next >= full_start && next < full_end && full_end - full_start >= POSITIONS;
                    const idx start = is_full ? min(next, (idx)(full_end - POSITIONS)) : next;
                    const idx ow = start * TURNS + turn, c = 0;
#if TRANSPOSED
                    const idx skipped = is_full ? 0 : max(start + before - (SRC_W - 1), (idx)0);
                    const idx first_kw = first_tap + skipped * STRIDE_W;
                    const int taps = max((int)(min(turn_taps, start + before + 1) - skipped), 0);
#else
                    const idx first_kw = is_full ? 0 : STEPS_BEFORE(PAD_W - ow * STRIDE_W, DILATION_W);
                    const idx end_kw = min((idx)KERNEL_W, (idx)STEPS_WITHIN(SRC_W - 1 + PAD_W - ow * STRIDE_W, DILATION_W));
                    const int taps = max((int)(end_kw - first_kw), 0);
#endif
                    const int runs = MERGED ? min(taps, 1) : taps, terms = MERGED ? taps * (int)CHANNELS : (int)CHANNELS;
                    float16 sums[POSITIONS][OUTS];
                    EACH(i, POSITIONS) EACH(o, OUTS) sums[i][o] = (float16)(0);
                    for (idx kd = 0; kd < KERNEL_D; ++kd) {
                        if (!INSIDE_DEPTH) continue;
                        for (idx kh = 0; kh < KERNEL_H; ++kh) {
                            if (!INSIDE_HEIGHT) continue;
                            const idx kw = first_kw;
                            const __global ELEMENTS *a = (const __global ELEMENTS *)src0 + OFF_SRC0;
                            const __global ELEMENTS *b = (const __global ELEMENTS *)weights + OFF_WEIGHTS;
                            if (is_full) dots(a, b, POSITIONS, runs, terms, last_output, sums AND_SHAPE);
                            else dots(a, b, 1, runs, terms, last_output, sums AND_SHAPE);
                        }
                    }
                    float results[POSITIONS * OUTS + LANES];
                    EACH(i, POSITIONS) EACH(o, OUTS) results[i * OUTS + o] = together(sums[i][o]);
                    const idx end = start + (is_full ? POSITIONS : 1);
                    NOT_UNROLLED for (idx at = next; at < end; ++at) {
                        const idx ow = at * TURNS + turn;
                        V v = PASTE(vload, LANES)(0, results + (at - start) * OUTS);
                        ADD_BIAS(v, n)
                        POST_OPS(v, n)
                        v = FINAL(v);
                        ST_DST(OFF_DST, n, v);
                    }
                    next = end;
                }
            }
        }
    }
}
