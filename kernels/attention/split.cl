// Attention of few queries for devices that want many work-items: the queries that see the same keys, also those of several heads, go
// together, and the keys are split among work-groups, which another kernel joins. Some work-items multiply a key with the QUERIES queries
// in local memory, then each the weights with the values of some keys, a vector of 8 elements at a time, which lie side by side.
// SCORE is that of reference.cl.
//   BYTES, IS_HALF                 bytes of an element of queries, keys and values, and whether those of two are f16
//   D_ROOM                         room for a query in local memory
//   DECLARE_KEYS(t)                the loops over batches that keys and values depend on
//   DECLARE_QUERY(t), ALL_QUERIES  the loops over the queries of those
//   BLOCKS                         how often QUERIES there are such queries
//   PARTS, PART_KEYS, SPLIT        shares of the keys, the keys of each, and whether there are several
//   RECORDS                        queries of all parts: each has E_SIZE sums in PARTIAL, and behind all of them their maximum and total
#define KEYS GROUP
#define MEMBERS 16
// Work-items that read a key together: their vectors lie side by side.
#define SHARE 4
// The rows of several queries begin at other memory banks.
#define PITCH (KEYS + MEMBERS)
#define VECTORS (E_SIZE / 8)
#define DOT(a, b)                                                                                                        \
    ((a).s0 * (b).s0 + (a).s1 * (b).s1 + (a).s2 * (b).s2 + (a).s3 * (b).s3 + (a).s4 * (b).s4 + (a).s5 * (b).s5 +         \
     (a).s6 * (b).s6 + (a).s7 * (b).s7)

static inline float8 load_line(const __global uchar *from, const idx offset) {
#if BYTES == 4 && ANYDNN_UNALIGNED
    float8 x;
    for (int i = 0; i < 8; ++i) ((float *)&x)[i] = as_float(get_32(from, offset + i));
    return x;
#elif BYTES == 4
    const __global float4 *line = (const __global float4 *)(from + (size_t)offset * 4);
    return (float8)(line[0], line[1]);
#else
#if ANYDNN_UNALIGNED
    ushort8 bits;
    for (int i = 0; i < 8; ++i) ((ushort *)&bits)[i] = get_16(from, offset + i);
#else
    const ushort8 bits = as_ushort8(*(const __global uint4 *)(from + (size_t)offset * 2));
#endif
#if IS_HALF
    return vload_half8(0, (const __private half *)&bits);
#else
    return as_float8(convert_uint8(bits) << (uint8)(16));
#endif
#endif
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void attention_split(PARAMS) {
    ENTER
    DECLARE_ANSWER
    __local float queries[QUERIES][D_ROOM] __attribute__((aligned(32)));
    __local float weights[QUERIES][PITCH], parts[QUERIES][MEMBERS + 1];
    __local float shares[QUERIES][KEYS * SHARE] __attribute__((aligned(16)));
    __local float waiting[GROUP * 8] __attribute__((aligned(32)));
    __local float top[QUERIES], total[QUERIES], shrink[QUERIES];
    const int n = 1;
    const int item = (int)get_local_id(0);
    const idx part = (idx)get_group_id(0), first_q = (idx)get_group_id(2) * QUERIES;
    DECLARE_KEYS((idx)get_group_id(1))
    const idx record = (((idx)get_group_id(1) * BLOCKS + (idx)get_group_id(2)) * PARTS + part) * QUERIES;
    for (int x = item; x < QUERIES * (D_SIZE / 8); x += GROUP) {
        const int q = x / (D_SIZE / 8);
        const idx d = x % (D_SIZE / 8) * 8;
        DECLARE_QUERY(min(first_q + q, (idx)(ALL_QUERIES - 1)))
        vstore8(load_line(src0, OFF_SRC0), 0, &queries[q][d]);
    }
    if (item < QUERIES) {
        top[item] = -INFINITY;
        total[item] = 0;
    }
    float8 sums[QUERIES];
#pragma unroll
    for (int q = 0; q < QUERIES; ++q) sums[q] = (float8)(0);
    const int slot = item / VECTORS, slots = GROUP / VECTORS;
    const idx end_t = min((part + 1) * PART_KEYS, (idx)T_SIZE);
    for (idx first_t = part * PART_KEYS; first_t < end_t; first_t += KEYS) {
        const int keys = (int)min((idx)KEYS, end_t - first_t);
        barrier(CLK_LOCAL_MEM_FENCE);
        {
            const int sharer = item % SHARE;
            // Several keys on their way at once. Lines of each in a loop, as compilers take long for copies of its code.
            float products[SHARE][QUERIES];
            EACH(pass, SHARE) EACH(q, QUERIES) products[pass][q] = 0;
            NOT_UNROLLED for (idx d = sharer * 8; d < D_SIZE; d += SHARE * 8) {
                float8 lines[SHARE];
                EACH(pass, SHARE) {
                    const idx t = first_t + min(pass * (GROUP / SHARE) + item / SHARE, keys - 1);
                    lines[pass] = load_line(src1, OFF_SRC1);
                }
                EACH(q, QUERIES) {
                    const float8 query = vload8(0, &queries[q][d]);
                    EACH(pass, SHARE) products[pass][q] += DOT(query, lines[pass]);
                }
            }
            EACH(pass, SHARE) EACH(q, QUERIES) shares[q][pass * GROUP + item] = products[pass][q];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        {
            const idx t = first_t + min(item, keys - 1);
            float products[QUERIES];
#pragma unroll
            for (int q = 0; q < QUERIES; ++q) {
                const float4 its = vload4(item, shares[q]);
                products[q] = its.s0 + its.s1 + its.s2 + its.s3;
            }
#pragma unroll
            for (int q = 0; q < QUERIES; ++q) {
                DECLARE_QUERY(min(first_q + q, (idx)(ALL_QUERIES - 1)))
                SCORE(products[q])
                weights[q][item] = item < keys ? SCORED : -INFINITY;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const int row = item / MEMBERS, member = item % MEMBERS;
        if (row < QUERIES) {
            float high = -INFINITY;
            for (int i = member; i < KEYS; i += MEMBERS) high = LARGER(weights[row][i], high);
            parts[row][member] = high;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        float high = -INFINITY, factor = 1, sum = 0;
        if (row < QUERIES) {
            high = top[row];
            for (int i = 0; i < MEMBERS; ++i) high = LARGER(parts[row][i], high);
            const float base = high == -INFINITY ? 0 : high;
            factor = exp(top[row] - base);
            for (int i = member; i < KEYS; i += MEMBERS) {
                const float weight = exp(weights[row][i] - base);
                weights[row][i] = weight;
                sum += weight;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (row < QUERIES) parts[row][member] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (row < QUERIES && member == 0) {
            sum = total[row] * factor;
            for (int i = 0; i < MEMBERS; ++i) sum += parts[row][i];
            total[row] = sum;
            top[row] = high;
            shrink[row] = factor;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (slot < slots) {
            const idx e = item % VECTORS * 8;
#pragma unroll
            for (int q = 0; q < QUERIES; ++q) sums[q] *= shrink[q];
#pragma unroll 4
            for (int r = slot; r < keys; r += slots) {
                const idx t = first_t + r;
                const float8 value = load_line(src2, OFF_SRC2);
#pragma unroll
                for (int q = 0; q < QUERIES; ++q) sums[q] += weights[q][r] * value;
            }
        }
    }
#pragma unroll
    for (int q = 0; q < QUERIES; ++q) {
        barrier(CLK_LOCAL_MEM_FENCE);
        vstore8(sums[q], 0, &waiting[item * 8]);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (first_q + q < ALL_QUERIES) {
            for (idx e = item; e < E_SIZE; e += GROUP) {
                float x = 0;
                for (int i = 0; i < slots; ++i) x += waiting[i * E_SIZE + e];
                STORE_SUM(q, x)
            }
        }
    }
    STORE_RECORD
    JOIN_IF_LAST
}
