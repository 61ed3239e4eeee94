// Joins the sums of SPLITS parts of K, which lie TOTAL elements apart.
__kernel void matmul_join(PARAMS) {
    ENTER
    const idx item = (idx)get_global_id(0);
    if (item >= TOTAL) return;
    DECLARE_ROW(item)
    V v = (V)(0);
    for (idx i = 0; i < SPLITS; ++i) v += LD_PARTIAL(OFF_PARTIAL + i * TOTAL, 1);
    ADD_BIAS(v, 1)
    POST_OPS(v, 1)
    ST_DST(OFF_DST, 1, v);
}
