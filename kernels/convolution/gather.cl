// Gathers places for packed.cl: of each KERNEL_D by KERNEL_H lines that a window takes KERNEL_W taps of PIXEL_TERMS terms, the channels and zeros
// behind them, and zeros up to SEGMENT terms. Borders mean zero. What is stored past a place's last term is stored again with the next one.
#if SUM_IS_FLOAT
#define TERM ushort
#else
#define TERM uchar
#endif
#define TERMS16 PASTE(TERM, 16)
#if HAS_ZERO_SRC0
#define BORDER (TERMS16)((TERM)NAT1_ZERO_SRC0(OFF_ZERO_SRC0))
#else
#define BORDER (TERMS16)((TERM)0)
#endif
static inline void fill_terms(__local TERM *to, const int n, const TERMS16 v) {
    NOT_UNROLLED for (int i = 0; i < n; i += 16) vstore16(v, 0, to + i);
}
// Vectors are whole but where the operand ends.
static inline void copy_terms(const __global TERM *from, const int n, __local TERM *to, const __global TERM *end) {
    NOT_UNROLLED for (int i = 0; i < n; i += 16) {
        if (end - from >= i + 16) vstore16(vload16(0, from + i), 0, to + i);
        else
            for (int l = i; l < min(n, i + 16); ++l) to[l] = from[l];
    }
}
// The same of all terms of a line, with the zeros behind them.
static inline void copy_run(const __global TERM *from, const int n, const int segment, __local TERM *to,
                            const __global TERM *end) {
    const int whole = n & ~15;
    if (end - from < whole + 16) {
        copy_terms(from, n, to, end);
        fill_terms(to + n, segment - n, (TERMS16)((TERM)0));
        return;
    }
    NOT_UNROLLED for (int i = 0; i < whole; i += 16) vstore16(vload16(0, from + i), 0, to + i);
    if (whole == segment) return;
    const TERMS16 lanes = (TERMS16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    vstore16(vload16(0, from + whole) & PASTE(as_, TERMS16)(lanes < (TERMS16)((TERM)(n - whole))), 0, to + whole);
    NOT_UNROLLED for (int i = whole + 16; i < segment; i += 16) vstore16((TERMS16)((TERM)0), 0, to + i);
}
#if HOLDS_LINES
#if SUM_IS_FLOAT
#define FAULTS(v) (((v) & (TERMS16)(0x7f80)) == (TERMS16)(0x7f80))
#else
#define FAULTS(v) (char16)(0)
#endif
#define TERM_BYTES (int)sizeof(TERM)
// The same, and whether something may be not finite.
static inline bool hold_terms(const __global TERM *from, const int n, __local TERM *to, const __global TERM *end) {
    int i = 0, whole = min(n, (int)min(end - from - 15, (long)n));
#if SUM_IS_FLOAT
    short16 faults = (short16)(0);
#else
    char16 faults = (char16)(0);
#endif
    NOT_UNROLLED for (; i < whole; i += 16) {
        const TERMS16 v = vload16(0, from + i);
        faults |= FAULTS(v);
        vstore16(v, 0, to + i);
    }
    copy_terms(from + i, n - i, to + i, end);
    return any(faults) || i < n;
}
// The lines of the source that the item's windows take, with their borders.
#define HOLD_LINES(first, last)                                                                                          \
    const idx held_from = first;                                                                                         \
    bool has_faults = false;                                                                                             \
    {                                                                                                                    \
        const __global TERM *src_end = (const __global TERM *)(src0 + SRC_BYTES);                                        \
        __local TERM *to = (__local TERM *)places;                                                                       \
        const idx end = (last) * STRIDE_H - PAD_H + (KERNEL_H - 1) * DILATION_H;                                         \
        const __global uchar *image_at;                                                                                  \
        DECLARE_LINE(first_line)                                                                                         \
        {                                                                                                                \
            const idx oh = 0, ow = 0, kd = 0, kh = 0, kw = 0, c = 0;                                                     \
            image_at = src0 + (OFF_SRC0 + PAD_H * SRC_LINE_STEP + PAD_W * SRC_PLACE_STEP);                               \
        }                                                                                                                \
        const idx borders = min((idx)PAD_W, (idx)WIDTH), inside = clamp((idx)(WIDTH - PAD_W), (idx)0, (idx)SRC_W);       \
        for (idx ih = held_from * STRIDE_H - PAD_H; ih <= end; ++ih, to += PITCH / TERM_BYTES) {                         \
            const bool is_line = (ih >= 0) & (ih < SRC_H);                                                               \
            const idx before = is_line ? borders : (idx)WIDTH, held = is_line ? inside : 0;                              \
            const __global uchar *from = image_at + ih * SRC_LINE_STEP;                                                  \
            HOLD_BORDER(0, before)                                                                                       \
            if (IS_RUN) {                                                                                                \
                if (held)                                                                                                \
                    has_faults |= hold_terms((const __global TERM *)from, held * PIXEL_TERMS, to + before * PIXEL_TERMS, \
                                             src_end);                                                                   \
            } else                                                                                                       \
                for (idx iw = 0; iw < held; ++iw) {                                                                      \
                    __local TERM *place = to + (before + iw) * PIXEL_TERMS;                                              \
                    has_faults |= hold_terms((const __global TERM *)(from + iw * SRC_PLACE_STEP), CHANNELS, place,       \
                                             src_end);                                                                   \
                    fill_terms(place + CHANNELS, PIXEL_TERMS - CHANNELS, (TERMS16)((TERM)0));                            \
                }                                                                                                        \
            HOLD_BORDER(before + held, WIDTH)                                                                            \
            fill_terms(to + WIDTH * PIXEL_TERMS, PITCH / TERM_BYTES - WIDTH * PIXEL_TERMS, (TERMS16)((TERM)0));          \
        }                                                                                                                \
    }                                                                                                                    \
    const int rest_of_run = SUM_IS_FLOAT && has_faults ? RUN_REST : 0;
// Channels that fill up a place are zeros there, too.
#define HOLD_BORDER(first_place, end_place)                                                                              \
    if (PIXEL_TERMS == CHANNELS)                                                                                         \
        fill_terms(to + (first_place) * PIXEL_TERMS, ((end_place) - (first_place)) * PIXEL_TERMS, BORDER);               \
    else                                                                                                                 \
        for (idx w = first_place; w < (end_place); ++w) {                                                                \
            fill_terms(to + w * PIXEL_TERMS, CHANNELS, BORDER);                                                          \
            fill_terms(to + w * PIXEL_TERMS + CHANNELS, PIXEL_TERMS - CHANNELS, (TERMS16)((TERM)0));                     \
        }
#elif SHARES_LINES
// Windows one line apart share the copies of a line: those that the item's windows take, each at all places of a line.
#define GATHER(begin, end)                                                                                               \
    const idx gathered_from = (begin) / LINE * LINE;                                                                     \
    {                                                                                                                    \
        const __global TERM *src_end = (const __global TERM *)(src0 + SRC_BYTES);                                        \
        __local TERM *to = (__local TERM *)places;                                                                       \
        const idx first = (begin) / LINE, last = ((end) - 1) / LINE + (KERNEL_H - 1) * DILATION_H, kd = 0, kh = 0;       \
        DECLARE_LINE(first_line)                                                                                         \
        for (idx line = first; line <= last; ++line) {                                                                   \
            const idx oh = line;                                                                                         \
            for (idx ow = 0; ow < LINE; ++ow, to += SEGMENT) GATHER_LINE                                                 \
        }                                                                                                                \
    }
#else
#define GATHER(begin, end)                                                                                               \
    const idx gathered_from = begin;                                                                                     \
    {                                                                                                                    \
        const __global TERM *src_end = (const __global TERM *)(src0 + SRC_BYTES);                                        \
        __local TERM *to = (__local TERM *)places;                                                                       \
        const idx end_place = end;                                                                                       \
        for (idx place = begin; place < end_place;) {                                                                    \
            DECLARE_LINE(first_line + place / LINE)                                                                      \
            const idx first = place % LINE, line_end = min((idx)LINE, first + end_place - place);                        \
            place += line_end - first;                                                                                   \
            for (idx ow = first; ow < line_end; ++ow)                                                                    \
                for (idx kd = 0; kd < KERNEL_D; ++kd)                                                                    \
                    for (idx kh = 0; kh < KERNEL_H; ++kh, to += SEGMENT) GATHER_LINE                                     \
        }                                                                                                                \
    }
#endif
#define GATHER_LINE                                                                                                      \
    {                                                                                                                    \
        const idx id = od * STRIDE_D - PAD_D + kd * DILATION_D, ih = oh * STRIDE_H - PAD_H + kh * DILATION_H;            \
        const idx first_w = ow * STRIDE_W - PAD_W, c = 0;                                                                \
        const bool is_line = (id >= 0) & (id < SRC_D) & (ih >= 0) & (ih < SRC_H);                                        \
        if (IS_RUN && is_line && first_w >= 0 && first_w + KERNEL_W <= SRC_W) {                                          \
            const idx kw = 0;                                                                                            \
            copy_run((const __global TERM *)(src0 + OFF_SRC0), KERNEL_W * PIXEL_TERMS, SEGMENT, to, src_end);            \
        } else if (IS_RUN) {                                                                                             \
            const idx before = is_line ? clamp(-first_w, (idx)0, (idx)KERNEL_W) : (idx)KERNEL_W;                         \
            const idx kw = before, after = clamp(SRC_W - first_w, before, (idx)KERNEL_W);                                \
            fill_terms(to, before * PIXEL_TERMS, BORDER);                                                                \
            if (after > before)                                                                                          \
                copy_terms((const __global TERM *)(src0 + OFF_SRC0), (after - before) * PIXEL_TERMS,                     \
                           to + before * PIXEL_TERMS, src_end);                                                          \
            fill_terms(to + after * PIXEL_TERMS, (KERNEL_W - after) * PIXEL_TERMS, BORDER);                              \
            fill_terms(to + KERNEL_W * PIXEL_TERMS, SEGMENT - KERNEL_W * PIXEL_TERMS, (TERMS16)((TERM)0));               \
        } else {                                                                                                         \
            for (idx kw = 0; kw < KERNEL_W; ++kw) {                                                                      \
                const idx iw = first_w + kw * DILATION_W;                                                                \
                __local TERM *tap = to + kw * PIXEL_TERMS;                                                               \
                if (is_line && iw >= 0 && iw < SRC_W)                                                                    \
                    copy_terms((const __global TERM *)(src0 + OFF_SRC0), CHANNELS, tap, src_end);                        \
                else fill_terms(tap, CHANNELS, BORDER);                                                                  \
                fill_terms(tap + CHANNELS, PIXEL_TERMS - CHANNELS, (TERMS16)((TERM)0));                                  \
            }                                                                                                            \
            fill_terms(to + KERNEL_W * PIXEL_TERMS, SEGMENT - KERNEL_W * PIXEL_TERMS, (TERMS16)((TERM)0));               \
        }                                                                                                                \
    }
#if HAS_ZERO_WEIGHTS
static inline int sum_place(const __local uchar *p WITH_SHAPE) {
    int16 sums = (int16)(0);
    int sum = 0;
    for (int d = 0; d < RUNS_D; ++d)
        for (int h = 0; h < RUNS_H; ++h) {
            const __local uchar *run = p + d * RUN_STEP_D + h * RUN_STEP_H;
            int k = 0;
            for (; k + 16 <= RUN_TERMS; k += 16) sums += UNPACK_SRC0(16)(vload16(0, run + k));
            for (; k < RUN_TERMS; ++k) sum += UNPACK_SRC0(1)(run[k]);
        }
    const int8 eight = sums.lo + sums.hi;
    const int4 four = eight.lo + eight.hi;
    return sum + four.x + four.y + four.z + four.w;
}
#endif
