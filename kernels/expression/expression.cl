// An expression with folds, row by row. BODY is generated: passes over the row's elements, each of which joins the folds whose
// operands are known by then, values that do not vary along the row between them, and the stores.
DEFINE_FOLD(fold_sum, PLUS)
DEFINE_FOLD(fold_product, TIMES)
DEFINE_FOLD(fold_max, LARGER)
DEFINE_FOLD(fold_min, SMALLER)

__kernel void expression(PARAMS) {
    ENTER_ROWS
    EACH_ROW
        const int n = rows;
        BODY
    END_ROW
}
