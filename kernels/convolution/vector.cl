// For CPUs: a work-item computes LINES_EACH rows of the result (fixed n, od, oh), or one of PARTS of a row, PART positions, for PANELS_EACH
// panels of PANEL output channels of a group, in register tiles of TILE_M positions along the width x TILE_V vectors of output channels. Weights are read from panels
// `[groups][O / PANEL][taps][C][PANEL]`, the source as scalars. The generator writes the repetitions EACH_M(X) = X(0) X(1) .. and
// EACH_V(X, i) = X(i, 0) X(i, 1) .. so that every accumulator is a named register. Positions past the row's end compute what another
// position does and are not stored.
// The same taps reach positions of a transposed convolution that are STRIDE_W apart, from sources side by side. These make a tile: a row is
// taken in STRIDE_W turns of SPAN positions, whose last tiles may begin behind the row's end.
#if TRANSPOSED
#undef IN_WIDTH
#undef INSIDE_WIDTH
#define IN_WIDTH in_w
#define INSIDE_WIDTH (in_w >= 0 && in_w < SRC_W)
#define STEP STRIDE_W
#define LINE (STRIDE_W * SPAN)
#define START(at) ((at) % SPAN * STRIDE_W + (at) / SPAN)
#define SEE(i)                                                                                                           \
    const idx last_w = first_w + i * STEP, is_known = last_w < DST_W, ow = is_known ? last_w : first_w;                  \
    const idx in_w = first_in + (is_known ? i : 0);
#else
#define STEP 1
#define LINE DST_W
#define START(at) (at)
#define SEE(i) const idx ow = min(first_w + i, (idx)(DST_W - 1));
#endif
#define START_ROW(i) EACH_V(CLEAR, i)
#define CLEAR(i, j) V sum##i##_##j = (V)(0);
// Scales and zero points end with the columns, also where panels go on.
#define COLUMNS(j) (GROUP_OUTPUTS % PANEL == 0 ? 16 : max(columns - 16 * j, 0))
#define LOAD(i, j)                                                                                                       \
    V b##j;                                                                                                              \
    {                                                                                                                    \
        const idx lane = 16 * j;                                                                                         \
        b##j = DEQ_WEIGHTS(LD_WEIGHTS(b_at + 16 * j, 16), COLUMNS(j));                                                   \
    }
// The source offset of a tap at each position, and whether it lies in the source.
#define AIM(i)                                                                                                           \
    idx at##i;                                                                                                           \
    bool inside##i;                                                                                                      \
    {                                                                                                                    \
        SEE(i)                                                                                                           \
        inside##i = INSIDE_WIDTH;                                                                                        \
        all_inside = all_inside && inside##i;                                                                            \
        any_inside = any_inside || inside##i;                                                                            \
        const idx c = 0;                                                                                                 \
        at##i = inside##i ? OFF_SRC0 : 0;                                                                                \
    }
#define MULTIPLY_ROW(i)                                                                                                  \
    {                                                                                                                    \
        SEE(i)                                                                                                           \
        const R a = DEQ1_SRC0(LD1_SRC0(at##i + c * C_STEP_SRC0));                                                        \
        EACH_V(MULTIPLY, i)                                                                                              \
    }
#define MULTIPLY_ROW_INSIDE(i)                                                                                           \
    if (inside##i) MULTIPLY_ROW(i)
#define MULTIPLY(i, j) sum##i##_##j += a * b##j;
#define FINISH_ROW(i)                                                                                                    \
    if (first_w + i * STEP < DST_W) {                                                                                    \
        const idx ow = first_w + i * STEP;                                                                               \
        EACH_V(FINISH, i)                                                                                                \
    }
#define FINISH(i, j)                                                                                                     \
    if (columns > 16 * j) {                                                                                              \
        const idx lane = 16 * j;                                                                                         \
        const int n_lanes = min(16, columns - 16 * j);                                                                   \
        V v = OUT_SRC0(OUT_WEIGHTS(sum##i##_##j, n_lanes), n_lanes);                                                     \
        ADD_BIAS(v, n_lanes)                                                                                             \
        POST_OPS(v, n_lanes)                                                                                             \
        ST_DST(OFF_DST, n_lanes, v);                                                                                     \
    }

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void convolution_vector(PARAMS) {
    ENTER
    // Work-items side by side have the same rows, so that cores do not store into the same cache lines, or the same panels where these are
    // more than the source: INNER of the one or the other.
    const idx number = (idx)get_global_id(0), outer = number / INNER, inner = number - outer * INNER;
    const idx of_panels = PANELS_INSIDE ? outer : inner, of_parts = of_panels / PARTS;
    const idx first_panel = (PANELS_INSIDE ? inner : outer) * PANELS_EACH;
    const idx from_w = (of_panels - of_parts * PARTS) * PART, to_w = min(from_w + PART, (idx)LINE);
    const idx first = of_parts * LINES_EACH, end = min(first + LINES_EACH, (idx)LINES);
    for (idx line = first; line < end; ++line) {
        DECLARE_LINE(line)
        for (idx at_w = from_w; at_w < to_w; at_w += TILE_M) {
            const idx first_w = START(at_w);
            if (first_w >= DST_W) continue;
#if TRANSPOSED
            // Taps side by side reach as many turns; where they are further apart all are tried.
            const idx first_tap = DILATION_W == 1 ? (first_w + PAD_W) % STRIDE_W : 0, tap_step = DILATION_W == 1 ? STRIDE_W : 1;
#else
            const idx first_tap = 0, tap_step = 1;
#endif
            for (idx next = first_panel; next < first_panel + PANELS_EACH; ++next) {
                DECLARE_PANEL(next)
                const int columns = (int)min((idx)PANEL, GROUP_OUTPUTS - panel * PANEL);
                EACH_M(START_ROW)
                for (idx kd = 0; kd < KERNEL_D; ++kd) {
                    if (!INSIDE_DEPTH) continue;
                    for (idx kh = 0; kh < KERNEL_H; ++kh) {
                        if (!INSIDE_HEIGHT) continue;
                        for (idx kw = first_tap; kw < KERNEL_W; kw += tap_step) {
#if TRANSPOSED
                            const idx above = first_w + PAD_W - kw * DILATION_W, first_in = above / STRIDE_W;
                            if (above % STRIDE_W != 0) continue;
#endif
                            bool all_inside = true, any_inside = false;
                            EACH_M(AIM)
                            if (!any_inside) continue;
                            idx b_at;
                            {
                                const idx lane = 0, c = 0;
                                b_at = OFF_WEIGHTS;
                            }
                            if (all_inside) {
                                for (idx c = 0; c < CHANNELS; ++c, b_at += C_STEP_WEIGHTS) {
                                    EACH_V(LOAD, 0)
                                    EACH_M(MULTIPLY_ROW)
                                }
                            } else {
                                for (idx c = 0; c < CHANNELS; ++c, b_at += C_STEP_WEIGHTS) {
                                    EACH_V(LOAD, 0)
                                    EACH_M(MULTIPLY_ROW_INSIDE)
                                }
                            }
                        }
                    }
                }
                EACH_M(FINISH_ROW)
            }
        }
    }
}
