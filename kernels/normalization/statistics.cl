// Normalisation of each row by its own statistics: layer, root-mean-square (RMS) and group normalisation. Two passes over the row:
// the variance as the mean of squared differences loses nothing when the mean is large.
DEFINE_FOLD(fold_sum, PLUS)

__kernel void normalization(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        V row_mean = (V)(0);
#if !RMS
        EACH_ELEMENT
            row_mean += MASK(LD_SRC0(OFF_SRC0, n), n, 0);
        END_ELEMENT
        row_mean = FOLD(fold_sum, row_mean) / (R)COUNT;
#endif
        V row_variance = (V)(0);
        EACH_ELEMENT
            const V d = LD_SRC0(OFF_SRC0, n) - row_mean;
            row_variance += MASK(d * d, n, 0);
        END_ELEMENT
        row_variance = FOLD(fold_sum, row_variance) / (R)COUNT;
        const V factor = (V)(1) / sqrt(row_variance + (R)EPSILON);
        EACH_ELEMENT
            V v = (LD_SRC0(OFF_SRC0, n) - row_mean) * factor;
            SCALE_AND_SHIFT(v, n)
            POST_OPS(v, n)
            ST_DST(OFF_DST, n, v);
        END_ELEMENT
        if (first_item) {
            STORE_STATISTICS
        }
    END_ROW
}
