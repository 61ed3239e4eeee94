// What a warpgroup of wgmma.cl that multiplies does with a block: scores by its keys, their weights, and sums of its values.

// Scores from products; those of keys past the end are minus infinity.
#define SCORES(COMPUTE, RESULT)                                                                                          \
    _Pragma("unroll")                                                                                                    \
    for (int i = 0; i < TILE / 2; ++i) {                                                                                 \
        const idx key = first_t + i / 4 * 8 + lane % 4 * 2 + i % 2;                                                      \
        const idx s = i % 4 < 2 ? low_s : high_s, t = T_SIZE % TILE == 0 ? key : min(key, (idx)(T_SIZE - 1));            \
        COMPUTE(products[i])                                                                                             \
        products[i] = T_SIZE % TILE == 0 || key < T_SIZE ? RESULT : -INFINITY;                                           \
    }

#define MULTIPLY_ALL_KEYS                                                                                                \
    {                                                                                                                    \
        const uint at = (uint)(ulong)memory + slot * SLOT_BYTES;                                                         \
        FENCE;                                                                                                           \
        MULTIPLY_KEYS("0", query[0], DESCRIPTOR(at, 16));                                                                \
        _Pragma("unroll") for (int k = 1; k < D_STEPS; ++k)                                                              \
            MULTIPLY_KEYS("1", query[k], DESCRIPTOR(at + k / 4 * BOX_BYTES + k % 4 * 32, 16));                           \
        COMMIT;                                                                                                          \
    }
#define MULTIPLY_ALL_VALUES                                                                                              \
    {                                                                                                                    \
        const uint at = (uint)(ulong)memory + slot * SLOT_BYTES;                                                         \
        FENCE;                                                                                                           \
        _Pragma("unroll") for (int k = 0; k < TILE / 16; ++k)                                                            \
            MULTIPLY_VALUES(weights + 4 * k, DESCRIPTOR(at + k * 2048, BOX_BYTES));                                      \
        COMMIT;                                                                                                          \
    }
// A block of keys or values that no query of the warpgroup sees.
#define PASS                                                                                                             \
    {                                                                                                                    \
        WAIT_FULL;                                                                                                       \
        RELEASE(slot);                                                                                                   \
        NEXT_SLOT                                                                                                        \
    }
// Results of block j, where `nothing` is no number but zero.
#define SHARES(j) (nothing ? 0 : pair(sums[(j) * 4 + 2 * h] * share, sums[(j) * 4 + 2 * h + 1] * share))
#define MAKE_WEIGHTS                                                                                                     \
    _Pragma("unroll") for (int i = 0; i < TILE / 4; ++i) weights[i] = pair(products[2 * i], products[2 * i + 1]);

#if HIDES
#define FIND_ALL_SEEN                                                                                                    \
    {                                                                                                                    \
        const idx s = min(group_s, (idx)(S_SIZE - 1)), t = min(first_t + TILE, (idx)T_SIZE) - 1;                         \
        SEE(0)                                                                                                           \
        all_seen = SEEN != 0;                                                                                            \
    }
#else
#define FIND_ALL_SEEN
#endif
#ifdef FACTOR
#define FIND_SCORES                                                                                                      \
    if (scales && all_seen && (T_SIZE % TILE == 0 || first_t + TILE <= T_SIZE)) {                                        \
        factor = common_factor;                                                                                          \
    } else {                                                                                                             \
        SCORES(SCORE, SCORED)                                                                                            \
    }
#elif HIDES
#define FIND_SCORES                                                                                                      \
    if (all_seen) {                                                                                                      \
        SCORES(SCORE_SEEN, SCORED_SEEN)                                                                                  \
    } else {                                                                                                             \
        SCORES(SCORE, SCORED)                                                                                            \
    }
#else
#define FIND_SCORES SCORES(SCORE, SCORED)
#endif
// Products become weights that are scaled by the maximum so far; sums are behind by `shrink` where `rescales`.
#define SOFTMAX                                                                                                          \
    bool all_seen = true, rescales;                                                                                      \
    float factor = 1;                                                                                                    \
    {                                                                                                                    \
        FIND_ALL_SEEN                                                                                                    \
        FIND_SCORES                                                                                                      \
        float highs[2];                                                                                                  \
        _Pragma("unroll") for (int h = 0; h < 2; ++h) {                                                                  \
            highs[h] = -INFINITY;                                                                                        \
            _Pragma("unroll") for (int i = 0; i < TILE / 8; ++i)                                                         \
                highs[h] = fmax(highs[h], fmax(products[i * 4 + 2 * h], products[i * 4 + 2 * h + 1]));                   \
            highs[h] *= factor;                                                                                          \
            highs[h] = fmax(highs[h], other(highs[h], 1));                                                               \
            highs[h] = fmax(highs[h], other(highs[h], 2));                                                               \
        }                                                                                                                \
        rescales = holds_in_warp(highs[0] > top[0] + SLACK || highs[1] > top[1] + SLACK);                                \
        if (rescales) {                                                                                                  \
            _Pragma("unroll") for (int h = 0; h < 2; ++h) {                                                              \
                const float high = fmax(top[h], highs[h]);                                                               \
                shrink[h] = high == -INFINITY ? 1 : power_of_two((top[h] - high) * LOG2_E);                              \
                top[h] = high;                                                                                           \
                total[h] *= shrink[h];                                                                                   \
            }                                                                                                            \
        }                                                                                                                \
        factor *= LOG2_E;                                                                                                \
        _Pragma("unroll") for (int h = 0; h < 2; ++h) {                                                                  \
            const float minus = top[h] == -INFINITY ? 0 : -top[h] * LOG2_E;                                              \
            float sum = 0;                                                                                               \
            _Pragma("unroll") for (int i = 0; i < TILE / 8; ++i) {                                                       \
                _Pragma("unroll") for (int c = i * 4 + 2 * h; c < i * 4 + 2 * h + 2; ++c) {                              \
                    products[c] = power_of_two(fma(products[c], factor, minus));                                         \
                    sum += products[c];                                                                                  \
                }                                                                                                        \
            }                                                                                                            \
            total[h] += sum;                                                                                             \
        }                                                                                                                \
    }
