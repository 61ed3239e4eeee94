// Normalisation by the squares around each element: SRC0 is the element, SRC what lies around it.
KEEP_PRODUCTS
__kernel void local_response(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        const int n = rows;
        V sum = (V)(0);
        AROUND_C(sc, c, BEFORE_C, AFTER_C) AROUND_D(sd, od, BEFORE_D, AFTER_D) AROUND_H(sh, oh, BEFORE_H, AFTER_H)
        AROUND_W(sw, ow, BEFORE_W, AFTER_W) {
            const V x = LD_SRC(OFF_SRC, n);
            sum += x * x;
        }
        V v = LD_SRC0(OFF_SRC0, n) * POWER(BASE(sum));
        POST_OPS(v, n)
        ST_DST(OFF_DST, n, v);
    END_ROW
}
