// Resampling; a row is one result element, or LANES of them along the channels.
__kernel void resampling(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        const int n = rows;
        const neighbours d = neighbours_of(od, FROM_D, TO_D, OVER_D);
        const neighbours h = neighbours_of(oh, FROM_H, TO_H, OVER_H);
        const neighbours w = neighbours_of(ow, FROM_W, TO_W, OVER_W);
#if NEAREST
        V v;
        {
            const idx sd = d.low, sh = h.low, sw = w.low;
            v = LD_SRC0(OFF_SRC0, n);
        }
#else
        V v = (V)(0);
        // The farther neighbour of a place on an element takes no part.
        for (int far_d = 0; far_d <= (d.part != 0); ++far_d) {
            for (int far_h = 0; far_h <= (h.part != 0); ++far_h) {
                for (int far_w = 0; far_w <= (w.part != 0); ++far_w) {
                    const idx sd = far_d ? d.high : d.low, sh = far_h ? h.high : h.low, sw = far_w ? w.high : w.low;
                    const R part = (far_d ? d.part : 1 - d.part) * (far_h ? h.part : 1 - h.part) * (far_w ? w.part : 1 - w.part);
                    v += (V)(part) * LD_SRC0(OFF_SRC0, n);
                }
            }
        }
#endif
        POST_OPS(v, n)
        ST_DST(OFF_DST, n, v);
    END_ROW
}
