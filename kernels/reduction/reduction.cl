// Folds each row into one element: TAKE(x) of every element, joined by JOIN from START on, and FINISH(x) of the total. Where elements may
// count TWICE, vectors that have some again need no mask.
#if KEEPS_PRODUCTS
// A square that becomes a part of the next sum has other bits; which ones do depends on the numbers that a compiler knows.
#pragma OPENCL FP_CONTRACT OFF
#endif
DEFINE_FOLD(fold_all, JOIN)
#if TWICE && OVERLAPPING
#define COUNTED(x, n) (x)
#else
#define COUNTED(x, n) MASK(x, n, START)
#endif

__kernel void reduction(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        START_FOLD(totals, START)
        EACH_ELEMENT
            const V x = COUNTED(TAKE(LD_SRC0(OFF_SRC0, n)), n);
            JOIN_FOLD(totals, JOIN, x)
        END_ELEMENT
        const V total = FOLD(fold_all, totals);
        if (first_item) {
            const int n = rows;
            V v = FINISH(total);
            POST_OPS(v, n)
            ST_DST(OFF_DST, n, v);
        }
    END_ROW
}
