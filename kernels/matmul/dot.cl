// When the operands run along K in memory and there are few rows: a dot product by vectors or by a work-group for each element. With
// GATED a second matrix SRC1 makes the product's gate.
DEFINE_FOLD(fold_sum, PLUS)
// Products that the vector before had do not count; those past the row's end are zero.
#if ROW_MODE == ROWS_BY_ITEM && OVERLAPPING
#define ONCE(x) MASK(x, n, 0)
#else
#define ONCE(x) (x)
#endif

__kernel void matmul_dot(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        START_FOLD(sum, 0)
#if GATED
        START_FOLD(gate, 0)
#endif
        EACH_ELEMENT
            const V a = DEQ_SRC0(LD_SRC0(OFF_SRC0, n), n);
            JOIN_FOLD(sum, PLUS, ONCE(a * DEQ_WEIGHTS(LD_WEIGHTS(OFF_WEIGHTS, n), n)))
#if GATED
            JOIN_FOLD(gate, PLUS, ONCE(a * DEQ_SRC1(LD_SRC1(OFF_SRC1, n), n)))
#endif
        END_ELEMENT
        V v = FOLD(fold_sum, sum);
#if GATED
        const V folded = FOLD(fold_sum, gate);
        v = JOIN(v, ACTIVATION(folded));
#endif
        if (first_item) {
            ADD_BIAS(v, 1)
            POST_OPS(v, 1)
            ST_DST(OFF_DST, 1, v);
        }
    END_ROW
}
