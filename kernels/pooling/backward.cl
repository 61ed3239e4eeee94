// The gradient of a maximum or an average; a row is one element of the source, or LANES of them along the channels. It collects from
// the windows that it lies in. SRC0 is the gradient at a window's place, SRC1 the element itself, TAP any element under a window.

// The first and the last window, along one dimension, that may reach an element.
static inline idx first_window(const idx i, const idx stride, const idx pad, const idx reach) {
    const idx last_start = i + pad - reach;
    return last_start > 0 ? (last_start + stride - 1) / stride : 0;
}
static inline idx last_window(const idx i, const idx stride, const idx pad, const idx windows) {
    return min((i + pad) / stride, windows - 1);
}

// The taps of a window, along one dimension, that an average counts.
static inline idx counted(
    const idx o, const idx stride, const idx dilation, const idx kernel_size, const idx pad, const idx size, const idx pad_end) {
    const idx start = o * stride, padded = size + pad + (COUNT_PADDING ? pad_end : 0);
    const idx from = COUNT_PADDING || start >= pad ? 0 : (pad - start + dilation - 1) / dilation;
    return min(kernel_size, (padded - start + dilation - 1) / dilation) - from;
}
#define COUNTED(o, X) counted(o, STRIDE_##X, DILATION_##X, KERNEL_##X, PAD_##X, SRC_##X, PAD_END_##X)

#define EACH_WINDOW(o, i, X)                                                                                             \
    for (idx o = first_window(i, STRIDE_##X, PAD_##X, (KERNEL_##X - 1) * DILATION_##X),                                  \
             end_##o = last_window(i, STRIDE_##X, PAD_##X, DST_##X);                                                     \
         o <= end_##o; ++o)
// The tap of a window on an element, times the dilation.
#define REACH(o, i, X) (i + PAD_##X - o * STRIDE_##X)

__kernel void pooling_backward(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        const int n = rows;
        V v = (V)(0);
#if IS_MAX
        const V own = LD_SRC1(OFF_SRC1, n);
#endif
        EACH_WINDOW(od, id, D) {
            if (REACH(od, id, D) % DILATION_D != 0) continue;
            EACH_WINDOW(oh, ih, H) {
                if (REACH(oh, ih, H) % DILATION_H != 0) continue;
                EACH_WINDOW(ow, iw, W) {
                    if (REACH(ow, iw, W) % DILATION_W != 0) continue;
                    const V gradient = LD_SRC0(OFF_SRC0, n);
#if IS_MAX
                    // The first largest element is larger than those before it, and as large as those behind it.
                    const idx place = (REACH(od, id, D) / DILATION_D * KERNEL_H + REACH(oh, ih, H) / DILATION_H) * KERNEL_W +
                                      REACH(ow, iw, W) / DILATION_W;
                    V wins = (V)(1);
                    for (idx kd = 0; kd < KERNEL_D; ++kd) {
                        if (!INSIDE_DEPTH) continue;
                        for (idx kh = 0; kh < KERNEL_H; ++kh) {
                            if (!INSIDE_HEIGHT) continue;
                            for (idx kw = 0; kw < KERNEL_W; ++kw) {
                                if (!INSIDE_WIDTH) continue;
                                const idx at = (kd * KERNEL_H + kh) * KERNEL_W + kw;
                                const V other = LD_TAP(OFF_TAP, n);
                                if (at < place) wins = own > other ? wins : (V)(0);
                                else if (at > place) wins = own >= other ? wins : (V)(0);
                            }
                        }
                    }
                    v += wins != (V)(0) ? gradient : (V)(0);
#else
                    v += gradient / (V)((R)(COUNTED(od, D) * COUNTED(oh, H) * COUNTED(ow, W)));
#endif
                }
            }
        }
        POST_OPS(v, n)
        ST_DST(OFF_DST, n, v);
    END_ROW
}
