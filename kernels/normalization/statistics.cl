// Normalisation of each row by its own statistics: layer, root-mean-square (RMS) and group normalisation. Two passes over the row:
// the variance as the mean of squared differences loses nothing when the mean is large.
#if KEEPS_PRODUCTS
// A product that becomes a part of the next sum has other bits; which ones do depends on the numbers that a compiler knows.
#pragma OPENCL FP_CONTRACT OFF
#endif
DEFINE_FOLD(fold_sum, PLUS)

#if SOURCE_KEPT
#define ELEMENT(n) kept[slot]
#else
#define ELEMENT(n) LD_SRC0(OFF_SRC0, n)
#endif

__kernel void normalization(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        START_FOLD(sums, 0)
        EACH_ELEMENT
            const V x = LD_SRC0(OFF_SRC0, n);
#if SOURCE_KEPT
            kept[slot] = x;
#endif
#if RMS
            JOIN_FOLD(sums, PLUS, MASK(x * x, n, 0))
#else
            JOIN_FOLD(sums, PLUS, MASK(x, n, 0))
#endif
        END_ELEMENT
#if RMS
        const V row_mean = (V)(0);
        const V row_variance = (V)(MEAN_OF(ONE(FOLD(fold_sum, sums))));
#else
        const V row_mean = (V)(MEAN_OF(ONE(FOLD(fold_sum, sums))));
        START_FOLD(squares, 0)
        START_NEXT
        EACH_ELEMENT
            FETCH_NEXT
            const V d = ELEMENT(n) - row_mean;
            JOIN_FOLD(squares, PLUS, MASK(d * d, n, 0))
        END_ELEMENT
        const V row_variance = (V)(MEAN_OF(ONE(FOLD(fold_sum, squares))));
#endif
        const V factor = (V)((R)1 / sqrt(ONE(row_variance) + (R)EPSILON));
#if RMS
        START_NEXT
#define FETCH_LAST FETCH_NEXT
#else
#define FETCH_LAST
#endif
        EACH_ELEMENT
            FETCH_LAST
            V v = (ELEMENT(n) - row_mean) * factor;
            SCALE_AND_SHIFT(v, n)
            POST_OPS(v, n)
            ST_DST(OFF_DST, n, v);
        END_ELEMENT
        if (first_item) {
            STORE_STATISTICS
        }
    END_ROW
}
