// For CPUs: a work-item computes LINES_EACH rows of the result (fixed n, od, oh), or one of PARTS of a row, PART positions, for PANELS_EACH
// panels of PANEL output channels of a group, in register tiles of TILE_M positions along the width x TILE_V vectors of output channels. Weights are read from panels
// `[groups][O / PANEL][taps][C][PANEL]`, the source as scalars. The generator writes the repetitions EACH_M(X) = X(0) X(1) .. and
// EACH_V(X, i) = X(i, 0) X(i, 1) .. so that every accumulator is a named register. Positions past the row's end compute what the
// last position does and are not stored.
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
        const idx ow = min(first_w + i, (idx)(DST_W - 1));                                                               \
        inside##i = INSIDE_WIDTH;                                                                                        \
        all_inside = all_inside && inside##i;                                                                            \
        any_inside = any_inside || inside##i;                                                                            \
        const idx c = 0;                                                                                                 \
        at##i = inside##i ? OFF_SRC0 : 0;                                                                                \
    }
#define MULTIPLY_ROW(i)                                                                                                  \
    {                                                                                                                    \
        const idx ow = min(first_w + i, (idx)(DST_W - 1));                                                               \
        const R a = DEQ1_SRC0(LD1_SRC0(at##i + c * C_STEP_SRC0));                                                        \
        EACH_V(MULTIPLY, i)                                                                                              \
    }
#define MULTIPLY_ROW_INSIDE(i)                                                                                           \
    if (inside##i) MULTIPLY_ROW(i)
#define MULTIPLY(i, j) sum##i##_##j += a * b##j;
#define FINISH_ROW(i)                                                                                                    \
    if (first_w + i < DST_W) {                                                                                           \
        const idx ow = first_w + i;                                                                                      \
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
    // Work-items side by side have the same rows, so that cores do not store into the same cache lines.
    const idx number = (idx)get_global_id(0), of_panels = number / PANEL_ITEMS, of_parts = of_panels / PARTS;
    const idx first_panel = (number - of_panels * PANEL_ITEMS) * PANELS_EACH;
    const idx from_w = (of_panels - of_parts * PARTS) * PART, to_w = min(from_w + PART, (idx)DST_W);
    const idx first = of_parts * LINES_EACH, end = min(first + LINES_EACH, (idx)LINES);
    for (idx line = first; line < end; ++line) {
        DECLARE_LINE(line)
        for (idx first_w = from_w; first_w < to_w; first_w += TILE_M) {
            for (idx next = first_panel; next < first_panel + PANELS_EACH; ++next) {
                DECLARE_PANEL(next)
                const int columns = (int)min((idx)PANEL, GROUP_OUTPUTS - panel * PANEL);
                EACH_M(START_ROW)
                for (idx kd = 0; kd < KERNEL_D; ++kd) {
                    if (!INSIDE_DEPTH) continue;
                    for (idx kh = 0; kh < KERNEL_H; ++kh) {
                        if (!INSIDE_HEIGHT) continue;
                        for (idx kw = 0; kw < KERNEL_W; ++kw) {
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
