// Maximum or average of windows; a row is one result element, or LANES of them along the channels.
__kernel void pooling(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        const int n = rows;
        V v = (V)(START);
        idx count = 0;
        for (idx kd = 0; kd < KERNEL_D; ++kd) {
            for (idx kh = 0; kh < KERNEL_H; ++kh) {
                for (idx kw = 0; kw < KERNEL_W; ++kw) {
                    if (INSIDE_DEPTH && INSIDE_HEIGHT && INSIDE_WIDTH) {
                        const V x = LD_SRC0(OFF_SRC0, n);
                        v = JOIN(v, x);
                        ++count;
                    } else if (COUNT_PADDING && IN_DEPTH < SRC_D + PAD_END_D && IN_HEIGHT < SRC_H + PAD_END_H &&
                               IN_WIDTH < SRC_W + PAD_END_W) {
                        ++count;
                    }
                }
            }
        }
#if AVERAGE
        v /= (V)((R)count);
#endif
        POST_OPS(v, n)
        ST_DST(OFF_DST, n, v);
    END_ROW
}
