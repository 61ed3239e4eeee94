// Post-operations that come with the launch as a list, applied to the finished sums of a register tile: `count` positions of VECTORS vectors
// each in local memory. The generator writes:
//   STEP_LIST                 STEPS times kind, alpha, beta (the bits of floats) and operand, of which STEP_COUNT count
//   EACH_FUNCTION(X)          X(kind, expression in v) for functions that only some programs have
//   EXTRAS, EXTRAS_AT         the operands' pointers and their elements at the first position and lane
//   EXTRAS_STEP, EXTRAS_LANE  how far their elements of the next position and lane are, the latter one or zero
//   FINAL(v)                  the functions that come behind the list, of registers, with what DECLARE_FACTORS declares: FIRST(v), where
//                             HAS_FIRST is not zero, and LAST(v)
//   FACTORS                   four times FACTOR(bits of a float, operand or -1, its element)
// A step is a loop over the tile, so that choosing it costs nothing beside it.
#define EVERY(expression)                                                                                                \
    NOT_UNROLLED for (int i = 0; i < count * VECTORS; ++i) {                                                             \
        const V v = *(const __local V *)(sums + i * 16);                                                                 \
        *(__local V *)(sums + i * 16) = expression;                                                                      \
    }                                                                                                                    \
    break;
#define EVERY_WITH(expression)                                                                                           \
    NOT_UNROLLED for (int i = 0; i < count * VECTORS; ++i) {                                                             \
        const V v = *(const __local V *)(sums + i * 16);                                                                 \
        const idx at = extra_at + i / VECTORS * extra_step + i % VECTORS * 16 * extra_lane;                              \
        const int n = clamp(columns - i % VECTORS * 16, 0, 16);                                                          \
        const V x = extra_lane ? unpack_f32_16(load_32_16(extra, at, n)) : (V)(unpack_f32_1(get_32(extra, at)));         \
        *(__local V *)(sums + i * 16) = expression;                                                                      \
    }                                                                                                                    \
    break;
#define FACTOR(bits, operand, element)                                                                                   \
    ((operand) < 0 ? as_float((int)(bits))                                                                               \
                   : as_float((int)(bits)) * unpack_f32_1(get_32(extras[max((int)(operand), 0)], element)))
#define DECLARE_FACTORS                                                                                                  \
    float4 factors;                                                                                                      \
    {                                                                                                                    \
        const __global uchar *const extras[] = {EXTRAS};                                                                 \
        factors = (float4)(FACTORS);                                                                                     \
    }
#define FUNCTION(kind, expression) case kind: EVERY(expression)

#define APPLY_STEPS(positions)                                                                                           \
    if (STEP_COUNT > 0) {                                                                                                \
        const idx steps[STEPS * 4] = STEP_LIST;                                                                          \
        const int count = (int)(positions);                                                                              \
        NOT_UNROLLED for (int s = 0; s < STEP_COUNT; ++s) {                                                              \
            const float alpha = as_float((int)steps[s * 4 + 1]), beta = as_float((int)steps[s * 4 + 2]);                 \
            const __global uchar *const extras[] = {EXTRAS};                                                             \
            const idx extras_at[] = {EXTRAS_AT}, extra_steps[] = {EXTRAS_STEP}, extra_lanes[] = {EXTRAS_LANE};           \
            const int operand = (int)steps[s * 4 + 3];                                                                   \
            const __global uchar *const extra = extras[operand];                                                         \
            const idx extra_at = extras_at[operand], extra_step = extra_steps[operand], extra_lane = extra_lanes[operand]; \
            switch ((int)steps[s * 4]) {                                                                                 \
            case 0: EVERY(eltwise_clamp(v, alpha, beta))                                                                 \
            case 1: EVERY(eltwise_linear(v, alpha, beta))                                                                \
            case 2: EVERY(eltwise_hard_swish(v, alpha, beta))                                                            \
            case 3: EVERY(eltwise_leaky_relu(v, alpha))                                                                  \
            case 4: EVERY_WITH(alpha * v + beta * x)                                                                     \
            case 5: EVERY_WITH(v * x)                                                                                    \
            case 6: EVERY((beta != 0 ? v : (V)(1)) / ((V)(1) + EXP(-alpha * v)))                                         \
            case 7: EVERY(eltwise_gelu_erf(v))                                                                           \
            case 8: EVERY(eltwise_gelu_tanh(v))                                                                          \
            case 9: EVERY(eltwise_tanh(v))                                                                               \
            EACH_FUNCTION(FUNCTION)                                                                                      \
            }                                                                                                            \
        }                                                                                                                \
    }
