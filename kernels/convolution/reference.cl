// One work-item per result element (or a run of them), one sum in ACC: correct for every layout and type.
__kernel void convolution_reference(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        ACC sum = 0;
        for (idx kd = 0; kd < KERNEL_D; ++kd) {
            if (!INSIDE_DEPTH) continue;
            for (idx kh = 0; kh < KERNEL_H; ++kh) {
                if (!INSIDE_HEIGHT) continue;
                for (idx kw = 0; kw < KERNEL_W; ++kw) {
                    if (!INSIDE_WIDTH) continue;
                    for (idx c = 0; c < CHANNELS; ++c)
                        sum += READ_SRC0 * READ_WEIGHTS;
                }
            }
        }
        V v = (V)sum;
        ADD_BIAS(v, 1)
        POST_OPS(v, 1)
        ST_DST(OFF_DST, 1, v);
    END_ROW
}
