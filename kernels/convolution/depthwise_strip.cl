// One input and one output channel per group, for devices that want many work-items: each computes a strip of TILE positions along the
// width for a vector of groups, and reads a column of the source once for all taps that see it.
//   TAPS, STEP, SPREAD                 taps along the width, the stride and the dilation there
//   VECTORS, STRIPS                    vectors of groups, and strips of a line; PER_VECTORS(x) and PER_STRIPS(x) divide by them
//   W_STEP                             elements from a column of the source to the next
//   DECLARE_LINE(t)                    the loops in front of the width
#define COLUMNS ((TILE - 1) * STEP + (TAPS - 1) * SPREAD + 1)
#define STORE_POSITION(i, its_sums)                                                                                      \
    {                                                                                                                    \
        const idx ow = first + (i);                                                                                      \
        if (ow < DST_W) {                                                                                                \
            V v = OUT_SRC0(OUT_WEIGHTS(its_sums, n), n);                                                                 \
            ADD_BIAS(v, n)                                                                                               \
            POST_OPS(v, n)                                                                                               \
            ST_DST(OFF_DST, n, v);                                                                                       \
        }                                                                                                                \
    }
#ifdef KNOWN_SHAPE
#define STORE_STRIP                                                                                                      \
    _Pragma("unroll") for (int i = 0; i < TILE; ++i) STORE_POSITION(i, sums[i])
#else
// The code once, as compilers take longest for it: the next position comes to the first one's registers.
#define STORE_STRIP                                                                                                      \
    NOT_UNROLLED for (int i = 0; i < TILE; ++i) {                                                                        \
        STORE_POSITION(i, sums[0])                                                                                       \
        _Pragma("unroll") for (int k = 0; k + 1 < TILE; ++k) sums[k] = sums[k + 1];                                      \
    }
#endif
#define COMPUTE_STRIP                                                                                                    \
    {                                                                                                                    \
        V sums[TILE];                                                                                                    \
        _Pragma("unroll") for (int i = 0; i < TILE; ++i) sums[i] = (V)(0);                                               \
        for (idx kd = 0; kd < KERNEL_D; ++kd) {                                                                          \
            if (!INSIDE_DEPTH) continue;                                                                                 \
            for (idx kh = 0; kh < KERNEL_H; ++kh) {                                                                      \
                if (!INSIDE_HEIGHT) continue;                                                                            \
                V factors[TAPS];                                                                                         \
                _Pragma("unroll") for (int k = 0; k < TAPS; ++k) {                                                       \
                    const idx ow = 0, kw = k;                                                                            \
                    factors[k] = DEQ_WEIGHTS(LD_WEIGHTS(OFF_WEIGHTS, n), n);                                             \
                }                                                                                                        \
                const idx ow = first, kw = 0, left = IN_WIDTH;                                                           \
                _Pragma("unroll") for (int x = 0; x < COLUMNS; ++x) {                                                    \
                    V v = (V)(0);                                                                                        \
                    if (left + x >= 0 && left + x < SRC_W) v = DEQ_SRC0(LD_SRC0(OFF_SRC0 + x * W_STEP, n), n);           \
                    _Pragma("unroll") for (int i = 0; i < TILE; ++i)                                                     \
                        _Pragma("unroll") for (int k = 0; k < TAPS; ++k)                                                 \
                            if (i * STEP + k * SPREAD == x) sums[i] += v * factors[k];                                   \
                }                                                                                                        \
            }                                                                                                            \
        }                                                                                                                \
        const idx kd = 0, kh = 0, kw = 0;                                                                                \
        STORE_STRIP                                                                                                      \
    }

__kernel void convolution_depthwise_strip(PARAMS) {
    ENTER
    const idx item = (idx)get_global_id(0);
    if (item >= ITEMS) return;
    const idx rest = PER_VECTORS(item), g = (item - rest * VECTORS) * LANES;
    const idx line = PER_STRIPS(rest), first = (rest - line * STRIPS) * TILE;
    DECLARE_LINE(line)
#ifdef WHOLE_VECTORS
    const int n = LANES;
    COMPUTE_STRIP
#else
    const int some = (int)min((idx)LANES, GROUPS - g);
    if (some == LANES && ARE_WHOLE) {
        const int n = LANES;
        COMPUTE_STRIP
    } else {
        const int n = some;
        COMPUTE_STRIP
    }
#endif
}
