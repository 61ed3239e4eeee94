// The gradient of a normalisation by the squares around. Loops `s*` run over the elements whose windows reach this one, `t*` over each of
// those windows.
__kernel void local_response_backward(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        const int n = rows;
        V sum = (V)(0), others = (V)(0);
        AROUND_C(sc, c, BEFORE_C, AFTER_C) AROUND_D(sd, od, BEFORE_D, AFTER_D) AROUND_H(sh, oh, BEFORE_H, AFTER_H)
        AROUND_W(sw, ow, BEFORE_W, AFTER_W) {
            const V x = LD_SRC(OFF_SRC, n);
            sum += x * x;
        }
        AROUND_C(sc, c, AFTER_C, BEFORE_C) AROUND_D(sd, od, AFTER_D, BEFORE_D) AROUND_H(sh, oh, AFTER_H, BEFORE_H)
        AROUND_W(sw, ow, AFTER_W, BEFORE_W) {
            V inner = (V)(0);
            AROUND_C(tc, sc, BEFORE_C, AFTER_C) AROUND_D(td, sd, BEFORE_D, AFTER_D) AROUND_H(th, sh, BEFORE_H, AFTER_H)
            AROUND_W(tw, sw, BEFORE_W, AFTER_W) {
                const V x = LD_TAP(OFF_TAP, n);
                inner += x * x;
            }
            const V base = BASE(inner);
            others += LD_DIFF(OFF_DIFF, n) * LD_SRC(OFF_SRC, n) * (POWER(base) / base);
        }
        V v = LD_SRC0(OFF_SRC0, n) * POWER(BASE(sum)) - (V)(2 * (R)ALPHA * (R)BETA) * LD_SRC1(OFF_SRC1, n) * others;
        POST_OPS(v, n)
        ST_DST(OFF_DST, n, v);
    END_ROW
}
