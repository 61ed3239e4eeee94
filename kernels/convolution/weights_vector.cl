// For CPUs: a work-item computes TILE_M neighbours along the loop TILED of the weights, as vectors whose lanes run along channels of
// one operand (then of the weights too), or with ALONG_WIDTH along the width of the result's gradient (then they are added up at the
// end). VECTOR(n) loads the vector that all neighbours share, OFF_OTHER and OTHER(o, n) what it is multiplied by, OTHER_STEP elements
// apart. The generator writes the repetition EACH_M(X) = X(0) X(1) .. Neighbours past the last compute what it does and are not stored.
#define START(i)                                                                                                         \
    V sum##i = (V)(0);                                                                                                   \
    const idx step##i = min((idx)i, TILED_SIZE - 1 - first) * OTHER_STEP;
#define MULTIPLY(i) sum##i += x * OTHER(at + step##i, n);
#define FINISH(i)                                                                                                        \
    if (first + i < TILED_SIZE) {                                                                                        \
        const idx TILED = first + i;                                                                                     \
        V v = TOTAL(sum##i);                                                                                             \
        POST_OPS(v, rows)                                                                                                \
        ST_DST(OFF_DST, rows, v);                                                                                        \
    }

#if ALONG_WIDTH
static inline V total(const V x) {
    const float8 a = x.lo + x.hi;
    const float4 b = a.lo + a.hi;
    const float2 c = b.lo + b.hi;
    return (V)(c.x + c.y);
}
#define TOTAL(x) total(x)
#else
#define TOTAL(x) (x)
#endif

__kernel void convolution_weights_vector(PARAMS) {
    ENTER
    if ((idx)get_global_id(0) >= ITEMS) return;
    DECLARE_ROW((idx)get_global_id(0))
    const idx first = tile * TILE_M;
    EACH_M(START)
#if ALONG_WIDTH
    // The places at which the tap is inside the source.
    const idx before = PAD_W - kw * DILATION_W;
    const idx begin = before > 0 ? (before + STRIDE_W - 1) / STRIDE_W : 0;
    const idx past = SRC_W + before;
    const idx end = past > 0 ? min((past + STRIDE_W - 1) / STRIDE_W, (idx)DST_W) : 0;
#endif
    for (idx image = 0; image < IMAGES; ++image) {
        for (idx od = 0; od < DST_D; ++od) {
            if (!INSIDE_DEPTH) continue;
            for (idx oh = 0; oh < DST_H; ++oh) {
                if (!INSIDE_HEIGHT) continue;
#if ALONG_WIDTH
                for (idx ow = begin; ow < end; ow += LANES) {
                    const int n = (int)min((idx)LANES, end - ow);
#else
                for (idx ow = 0; ow < DST_W; ++ow) {
                    if (!INSIDE_WIDTH) continue;
                    const int n = rows;
#endif
                    const idx TILED = first;
                    const V x = VECTOR(n);
                    const idx at = OFF_OTHER;
                    EACH_M(MULTIPLY)
                }
            }
        }
    }
    EACH_M(FINISH)
}
