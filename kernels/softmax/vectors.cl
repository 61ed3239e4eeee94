// For CPUs: softmax or, when LOGARITHM, its logarithm of each row. KEEP says that the exponentials may wait in the result for their sum, KEPT that
// they may in local memory, and SOURCE_KEPT that the elements wait there before.
// The next row comes from memory while the exponentials of this one are computed.
// NaN makes the sum NaN; the largest element need not be.
DEFINE_FOLD(fold_max, PLAIN_LARGER)
DEFINE_FOLD(fold_sum, PLUS)
#if SOURCE_KEPT
#define ELEMENT(n) kept[slot]
#else
#define ELEMENT(n) LD_SRC0(OFF_SRC0, n)
#endif

__kernel void softmax(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        START_FOLD(highest, -INFINITY)
        EACH_ELEMENT
            const V x = LD_SRC0(OFF_SRC0, n);
#if SOURCE_KEPT
            kept[slot] = x;
#endif
            JOIN_FOLD(highest, PLAIN_LARGER, MASK(x, n, -INFINITY))
        END_ELEMENT
        const V largest = FOLD(fold_max, highest);
        START_FOLD(sums, 0)
        START_NEXT
        EACH_ELEMENT
            FETCH_NEXT
            const V e = EXP_NEGATIVE(ELEMENT(n) - largest);
#if KEPT && !LOGARITHM
            kept[slot] = e;
#elif KEEP
            KEEP_DST(OFF_DST, n, e);
#endif
            JOIN_FOLD(sums, PLUS, MASK(e, n, 0))
        END_ELEMENT
        const V sum = FOLD(fold_sum, sums);
#if LOGARITHM
        const V logarithm = (V)(log(ONE(sum)));
#else
        const V factor = (V)((R)1 / ONE(sum));
#endif
        EACH_ELEMENT
#if LOGARITHM
            V v = ELEMENT(n) - largest - logarithm;
#elif KEPT
            V v = kept[slot] * factor;
#elif KEEP
            V v = LD_DST(OFF_DST, n) * factor;
#else
            V v = EXP_NEGATIVE(ELEMENT(n) - largest) * factor;
#endif
#if INF_AS_ZERO
            v = largest == (V)(-INFINITY) ? (V)(0) : v;
#endif
            POST_OPS(v, n)
#if KEEP && !KEPT
            // The lines are in the cache already.
            KEEP_DST(OFF_DST, n, v);
#else
            ST_DST(OFF_DST, n, v);
#endif
        END_ELEMENT
    END_ROW
}
