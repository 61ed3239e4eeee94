// The gradient of a convolution for its weights: a row is one weight, its elements the places of the result. Correct for every layout
// and type.
DEFINE_FOLD(fold_sum, PLUS)

__kernel void convolution_weights(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        R total = 0;
        EACH_ELEMENT
            if (INSIDE_DEPTH && INSIDE_HEIGHT && INSIDE_WIDTH) total += LD1_SRC0(OFF_SRC0) * LD1_SRC1(OFF_SRC1);
        END_ELEMENT
        total = FOLD(fold_sum, total);
        if (first_item) {
            V v = total;
            POST_OPS(v, 1)
            ST_DST(OFF_DST, 1, v);
        }
    END_ROW
}
