// One input and one output channel per group: lanes run along the groups.
__kernel void convolution_depthwise(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        const int n_lanes = rows;
        const idx c = 0, og = 0;
        V v = (V)(0);
        for (idx kd = 0; kd < KERNEL_D; ++kd) {
            if (!INSIDE_DEPTH) continue;
            for (idx kh = 0; kh < KERNEL_H; ++kh) {
                if (!INSIDE_HEIGHT) continue;
                for (idx kw = 0; kw < KERNEL_W; ++kw) {
                    if (!INSIDE_WIDTH) continue;
                    v += DEQ_SRC0(LD_SRC0(OFF_SRC0, n_lanes), n_lanes) * DEQ_WEIGHTS(LD_WEIGHTS(OFF_WEIGHTS, n_lanes), n_lanes);
                }
            }
        }
        v = OUT_SRC0(OUT_WEIGHTS(v, n_lanes), n_lanes);
        ADD_BIAS(v, n_lanes)
        POST_OPS(v, n_lanes)
        ST_DST(OFF_DST, n_lanes, v);
    END_ROW
}
