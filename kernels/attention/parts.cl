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
// Parts whose numbers are on their way at the same time: what a joint takes is their latency.
#define TOGETHER 8
__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void attention_join(PARAMS) {
    ENTER
    const int n = 1;
    const idx first_q = (idx)get_group_id(0);
    DECLARE_KEYS((idx)get_group_id(1))
    const idx record = ((idx)get_group_id(1) * BLOCKS + first_q / QUERIES) * PARTS * QUERIES + first_q % QUERIES;
    const __global float *its = (const __global float *)partial + (size_t)RECORDS * E_SIZE;
    for (idx e = (idx)get_local_id(0); e < E_SIZE; e += GROUP) {
        float top = -INFINITY, total = 0, x = 0;
        NOT_UNROLLED for (int first = 0; first < PARTS; first += TOGETHER) {
            float tops[TOGETHER], totals[TOGETHER], sums[TOGETHER], high = top;
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) {
                const idx one = record + min(first + i, (int)PARTS - 1) * QUERIES;
                tops[i] = its[one * 2];
                totals[i] = its[one * 2 + 1];
                sums[i] = ((const __global float *)partial)[one * E_SIZE + e];
            }
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) high = LARGER(tops[i], high);
            const float base = high == -INFINITY ? 0 : high, shrink = exp(top - base);
            total *= shrink;
            x *= shrink;
            top = high;
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) {
                if (first + i >= PARTS) continue;
                const float factor = exp(tops[i] - base);
                total += totals[i] * factor;
                x += sums[i] * factor;
            }
        }
        FINISH(0, x, top, total)
    }
}
#endif
