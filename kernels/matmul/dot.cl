// When both operands run along K in memory and there are few rows: a dot product by vectors or by a work-group for each element.
DEFINE_FOLD(fold_sum, PLUS)

__kernel void matmul_dot(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        V sum = (V)(0);
        EACH_ELEMENT
            sum += LD_SRC0(OFF_SRC0, n) * LD_WEIGHTS(OFF_WEIGHTS, n);
        END_ELEMENT
        V v = FOLD(fold_sum, sum);
        if (first_item) {
            ADD_BIAS(v, 1)
            POST_OPS(v, 1)
            ST_DST(OFF_DST, 1, v);
        }
    END_ROW
}
