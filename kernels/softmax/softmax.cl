// Softmax or, when LOGARITHM, its logarithm of each row. KEEP says that the exponentials may wait in the result for their sum; rows in
// registers hold them there. ONLINE rows are read once less: their maximum and sum are found together.
DEFINE_FOLD(fold_max, LARGER)
DEFINE_FOLD(fold_sum, PLUS)

__kernel void softmax(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        V largest = (V)(-INFINITY);
#if ONLINE
        // What was summed is rescaled when a larger element comes.
        V sum = (V)(0);
        EACH_ELEMENT
            const V x = LD_SRC0(OFF_SRC0, n), d = x - largest;
            const V e = x == (V)(-INFINITY) ? (V)(0) : exp(-fabs(d));
            sum = d > (V)(0) ? sum * e + (V)(1) : sum + e;
            largest = d > (V)(0) ? x : largest;
        END_ELEMENT
        sum = largest == (V)(INFINITY) ? (V)(NAN) : sum;
#else
        EACH_ELEMENT
            const V x = MASK(LD_SRC0(OFF_SRC0, n), n, -INFINITY);
            largest = LARGER(largest, x);
        END_ELEMENT
        largest = FOLD(fold_max, largest);
        V sum = (V)(0);
        EACH_ELEMENT
            const V e = exp(LD_SRC0(OFF_SRC0, n) - largest);
#if HELD && !LOGARITHM
            HELD_IN(SRC0) = e;
#elif KEEP
            ST_DST(OFF_DST, n, e);
#endif
            sum += MASK(e, n, 0);
        END_ELEMENT
        sum = FOLD(fold_sum, sum);
#endif
#if LOGARITHM
        const V logarithm = log(sum);
#else
        const V factor = (V)(1) / sum;
#endif
        EACH_ELEMENT
#if HELD && !LOGARITHM
            V v = HELD_IN(SRC0) * factor;
#elif KEEP
            V v = LD_DST(OFF_DST, n) * factor;
#elif LOGARITHM
            V v = LD_SRC0(OFF_SRC0, n) - largest - logarithm;
#else
            V v = exp(LD_SRC0(OFF_SRC0, n) - largest) * factor;
#endif
#if INF_AS_ZERO
            v = largest == (V)(-INFINITY) ? (V)(0) : v;
#endif
            POST_OPS(v, n)
            ST_DST(OFF_DST, n, v);
        END_ELEMENT
    END_ROW
}
