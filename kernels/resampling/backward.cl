// The gradient of a resampling; a row is one element of the source, or LANES of them along the channels. It collects from the results
// that took part of it.
__kernel void resampling_backward(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        const int n = rows;
        V v = (V)(0);
        const idx end_d = last_taker(sd, FROM_D, TO_D), end_h = last_taker(sh, FROM_H, TO_H), end_w = last_taker(sw, FROM_W, TO_W);
        for (idx od = first_taker(sd, FROM_D, TO_D); od <= end_d; ++od) {
            const R part_d = part_of(od, sd, FROM_D, TO_D, OVER_D);
            if (part_d == 0) continue;
            for (idx oh = first_taker(sh, FROM_H, TO_H); oh <= end_h; ++oh) {
                const R part_h = part_d * part_of(oh, sh, FROM_H, TO_H, OVER_H);
                if (part_h == 0) continue;
                for (idx ow = first_taker(sw, FROM_W, TO_W); ow <= end_w; ++ow) {
                    const R part = part_h * part_of(ow, sw, FROM_W, TO_W, OVER_W);
                    if (part == 0) continue;
                    v += (V)(part) * LD_SRC0(OFF_SRC0, n);
                }
            }
        }
        POST_OPS(v, n)
        ST_DST(OFF_DST, n, v);
    END_ROW
}
