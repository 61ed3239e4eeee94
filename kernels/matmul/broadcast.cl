// For sub_groups.cl: multiply-adds of a work-item's own column by terms that it reads from the registers of the work-item that has them.
#define FACTOR float
#define AS_FACTOR(x) (x)
#define MULTIPLY(sums, a, b)                                                                                             \
    EACH(term, SUB_GROUP)                                                                                                \
        EACH(i, ROWS) (sums)[i] = fma(sub_group_broadcast((a)[i], (uint)term), (b)[term], (sums)[i]);
