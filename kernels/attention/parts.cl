// What attention with split keys has in common, by split.cl or split_mma.cl: the result of a query from its sums, and what joins the sums of
// several parts of the keys: the work-group that ends last, where JOINED says so, or else a kernel of its own.
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
// Joins the parts of a query whose first record is `record`, for VALUES of its elements from `e` on: `x` is their sum.
#define JOIN_PARTS(VALUES)                                                                                               \
    float top = -INFINITY, total = 0;                                                                                    \
    VALUES x = (VALUES)(0);                                                                                              \
    NOT_UNROLLED for (int first = 0; first < PARTS; first += TOGETHER) {                                                 \
        float tops[TOGETHER], totals[TOGETHER], high = top;                                                              \
        VALUES sums[TOGETHER];                                                                                           \
        EACH(i, TOGETHER) {                                                                                              \
            const idx one = record + min(first + i, (int)PARTS - 1) * QUERIES;                                           \
            tops[i] = its[one * 2];                                                                                      \
            totals[i] = its[one * 2 + 1];                                                                                \
            sums[i] = *(const __global VALUES *)((const __global float *)partial + one * E_SIZE + e);                    \
        }                                                                                                                \
        EACH(i, TOGETHER) high = LARGER(tops[i], high);                                                                  \
        const float base = high == -INFINITY ? 0 : high, shrink = exp(top - base);                                       \
        total *= shrink;                                                                                                 \
        x *= shrink;                                                                                                     \
        top = high;                                                                                                      \
        EACH(i, TOGETHER) {                                                                                              \
            if (first + i >= PARTS) continue;                                                                            \
            const float factor = exp(tops[i] - base);                                                                    \
            total += totals[i] * factor;                                                                                 \
            x += sums[i] * factor;                                                                                       \
        }                                                                                                                \
    }

#if JOINED
// Whether this work-group is the last one of its queries. They count themselves in a word that begins as anything: its upper bits are the number
// of the execution once one of them has found another number there.
#define COUNT_BITS 16
static inline bool is_last(__global ulong *arrived, const uint parts, const ulong execution, __local int *answer) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        const ulong own = execution << COUNT_BITS;
        // What all work-items stored comes before.
        asm volatile("fence.acq_rel.gpu;" : : : "memory");
        ulong before;
        uint count = 0;
        while (count == 0) {
            asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], 1;" : "=l"(before) : "l"(arrived) : "memory");
            if ((before ^ own) >> COUNT_BITS == 0) count = (uint)(before - own) + 1;
            // Who counts first starts anew; what others add until then is lost, and they add again.
            while (count == 0 && (before ^ own) >> COUNT_BITS != 0) {
                const ulong seen = before + 1;
                ulong found;
                asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;"
                             : "=l"(found)
                             : "l"(arrived), "l"(seen), "l"(own | 1)
                             : "memory");
                if (found == seen) count = 1;
                before = (found ^ own) >> COUNT_BITS == 0 ? found : found - 1;
            }
        }
        asm volatile("fence.acq_rel.gpu;" : : : "memory");
        *answer = count == parts;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return *answer != 0;
}
// Work-items take four neighbours of a query each. The words lie behind the records.
#define JOIN_IF_LAST                                                                                                     \
    {                                                                                                                    \
        const idx block = (idx)get_group_id(1) * BLOCKS + (idx)get_group_id(2);                                          \
        const __global float *its = (const __global float *)partial + (size_t)RECORDS * E_SIZE;                          \
        __global ulong *arrived = (__global ulong *)(its + (size_t)RECORDS * 2) + block;                                 \
        if (!is_last(arrived, (uint)PARTS, execution, &answer))                                                          \
            return;                                                                                                      \
        for (int unit = item; unit < QUERIES * (int)E_SIZE / 4; unit += GROUP) {                                         \
            const int q = unit / ((int)E_SIZE / 4);                                                                      \
            const idx e4 = unit % ((int)E_SIZE / 4) * 4, record = block * PARTS * QUERIES + q;                           \
            if (first_q + q >= ALL_QUERIES) continue;                                                                    \
            const idx e = e4;                                                                                            \
            JOIN_PARTS(float4)                                                                                           \
            const float four[4] = {x.x, x.y, x.z, x.w};                                                                  \
            EACH(i, 4) {                                                                                                 \
                const idx e = e4 + i;                                                                                    \
                FINISH(q, four[i], top, total)                                                                           \
            }                                                                                                            \
        }                                                                                                                \
    }
#define DECLARE_ANSWER __local int answer;
#else
#define JOIN_IF_LAST
#define DECLARE_ANSWER
__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void attention_join(PARAMS) {
    ENTER
    const int n = 1;
    const idx first_q = (idx)get_group_id(0);
    DECLARE_KEYS((idx)get_group_id(1))
    const idx record = ((idx)get_group_id(1) * BLOCKS + first_q / QUERIES) * PARTS * QUERIES + first_q % QUERIES;
    const __global float *its = (const __global float *)partial + (size_t)RECORDS * E_SIZE;
    for (idx e = (idx)get_local_id(0); e < E_SIZE; e += GROUP) {
        JOIN_PARTS(float)
        FINISH(0, x, top, total)
    }
}
#endif
#else
#define JOIN_IF_LAST
#define DECLARE_ANSWER
#endif
