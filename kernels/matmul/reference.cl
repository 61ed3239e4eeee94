// One work-item per result element (or a run of them), one sum in ACC: correct for every layout and type. With GATED a second matrix
// SRC1 makes the product's gate.
__kernel void matmul_reference(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        const int n_lanes = 1;
        ACC sum = 0;
        for (idx k = 0; k < K_SIZE; ++k) sum += READ_SRC0 * READ_WEIGHTS;
        V v = (V)sum;
#if GATED
        ACC gate = 0;
        for (idx k = 0; k < K_SIZE; ++k) gate += READ_SRC0 * READ_SRC1;
        v = JOIN(v, ACTIVATION((V)gate));
#endif
        ADD_BIAS(v, n_lanes)
        POST_OPS(v, n_lanes)
        ST_DST(OFF_DST, n_lanes, v);
    END_ROW
}
