// One work-item per result element (or a run of them), one sum in ACC: correct for every layout and type.
__kernel void matmul_reference(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        const int n_lanes = 1;
        ACC sum = 0;
        for (idx k = 0; k < K_SIZE; ++k) sum += (ACC)NAT1_SRC0(OFF_SRC0) * (ACC)NAT1_WEIGHTS(OFF_WEIGHTS);
        V v = (V)sum;
        ADD_BIAS(v, n_lanes)
        POST_OPS(v, n_lanes)
        ST_DST(OFF_DST, n_lanes, v);
    END_ROW
}
