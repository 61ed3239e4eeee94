// What attention with split keys has in common, by split.cl or split_mma.cl: the result of a query from its sums, and a kernel that joins the
// sums of several parts of the keys.
#define GROUP 128

#if SPLIT
#define STORE_SUM(q, x) ((__global float *)partial)[(record + (q)) * E_SIZE + e] = (x);
// The maximum and the total of a query's part of the keys.
#define STORE_RECORD                                                                                                     \
    if (item < QUERIES) {                                                                                                \
        __global float *its = (__global float *)partial + (size_t)RECORDS * E_SIZE + (record + item) * 2;                \
        its[0] = top[item];                                                                                              \
        its[1] = total[item];                                                                                            \
    }
#else
#define STORE_SUM(q, x) FINISH(q, x, top[q], total[q])
#define STORE_RECORD
#endif
// The element `e` of a query's result.
#define FINISH(q, x, its_top, its_total)                                                                                 \
    {                                                                                                                    \
        DECLARE_QUERY(first_q + (q))                                                                                     \
        V v = NOTHING_IS_ZERO && (its_top) == -INFINITY ? 0 : (x) / (its_total);                                         \
        POST_OPS(v, n)                                                                                                   \
        ST_DST(OFF_DST, n, v);                                                                                           \
        if (e == 0) STORE_STATISTICS((its_top) + log(its_total), n)                                                      \
    }

#if SPLIT
__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void attention_join(PARAMS) {
    ENTER
    const int n = 1;
    const idx first_q = (idx)get_group_id(0);
    DECLARE_KEYS((idx)get_group_id(1))
    const idx record = ((idx)get_group_id(1) * BLOCKS + first_q / QUERIES) * PARTS * QUERIES + first_q % QUERIES;
    const __global float *its = (const __global float *)partial + (size_t)RECORDS * E_SIZE;
    float top = -INFINITY, total = 0;
    for (int part = 0; part < PARTS; ++part) top = LARGER(its[(record + part * QUERIES) * 2], top);
    const float base = top == -INFINITY ? 0 : top;
    for (idx e = (idx)get_local_id(0); e < E_SIZE; e += GROUP) {
        float x = 0;
        total = 0;
#pragma unroll 4
        for (int part = 0; part < PARTS; ++part) {
            const idx one = record + part * QUERIES;
            const float factor = exp(its[one * 2] - base);
            total += its[one * 2 + 1] * factor;
            x += ((const __global float *)partial)[one * E_SIZE + e] * factor;
        }
        FINISH(0, x, top, total)
    }
}
#endif
