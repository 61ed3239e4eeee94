// Attention of up to eight queries as split.cl, of elements of 16 bits, by the matrix units of a warp. Each of four warps takes 16 keys at a
// time, with a maximum, a total and sums of its own, which are joined at the end. A product of queries and keys gives the weights as the
// product with the values takes them. Which element of a row stands where in an instruction is of no account as long as both factors
// agree, so that keys and values come by 16 bytes. The macros are those of split.cl, TYPE is that of mma.cl;
//   D_ROOM, E_ROOM   room for the elements of a query and of a value in registers, multiples of 64
#define WARPS (GROUP / 32)
#define MOST_QUERIES 8
#define D_CHUNKS (D_ROOM / 32)
#define E_CHUNKS (E_ROOM / 64)
#define LOG2_E 1.44269504088896341f

static inline uint4 load_chunk(const __global uchar *from, const idx offset) {
#if ANYDNN_UNALIGNED
    uint bits[4];
    for (int i = 0; i < 4; ++i)
        bits[i] = get_16(from, offset + 2 * i) | (uint)get_16(from, offset + 2 * i + 1) << 16;
    return (uint4)(bits[0], bits[1], bits[2], bits[3]);
#else
    // Whole lines come into the second-level cache: the other half of one is the next load's.
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(from + (size_t)offset * 2));
    return v;
#endif
}
// The low or the high halves of two words.
static inline uint halves(const uint first, const uint second, const uint which) {
    uint bits;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bits) : "r"(first), "r"(second), "r"(which));
    return bits;
}
#define LOW_HALVES 0x5410
#define HIGH_HALVES 0x7632
// Eight rows and columns of sums; the other eight rows of the instruction are zero.
#define MULTIPLY(sums, a, b, c, d)                                                                                       \
    {                                                                                                                    \
        float none, nothing;                                                                                             \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %5}, "    \
                     "{%7, %8}, {%0, %1, %9, %9};"                                                                       \
                     : "+f"((sums)[0]), "+f"((sums)[1]), "=f"(none), "=f"(nothing)                                       \
                     : "r"(a), "r"(0), "r"(b), "r"(c), "r"(d), "f"(0.0f));                                               \
    }
#define MULTIPLY_VALUE(j, first, second, third, fourth, which)                                                           \
    MULTIPLY(sums[h][j], weights[0], weights[1], halves(first, second, which), halves(third, fourth, which))

// The keys and the values of a step.
#define LOAD_KEYS(first)                                                                                                 \
    _Pragma("unroll") for (int b = 0; b < 2; ++b)                                                                        \
        _Pragma("unroll") for (int i = 0; i < D_CHUNKS; ++i) {                                                           \
            const idx t = (first) + b * 8 + row, d = i * 32 + member * 8;                                                \
            keys[b][i] = t < end_t && d < D_SIZE ? load_chunk(src1, OFF_SRC1) : (uint4)(0);                              \
        }
#define LOAD_VALUES(first)                                                                                               \
    _Pragma("unroll") for (int h = 0; h < E_CHUNKS; ++h)                                                                 \
        _Pragma("unroll") for (int r = 0; r < 4; ++r) {                                                                  \
            const idx t = (first) + member * 2 + r / 2 * 8 + r % 2, e = h * 64 + row * 8;                                \
            values[h][r] = t < end_t && e < E_SIZE ? load_chunk(src2, OFF_SRC2) : (uint4)(0);                            \
        }

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void attention_split(PARAMS) {
    ENTER
    DECLARE_ANSWER
    __local float joined[WARPS][QUERIES][E_ROOM];
    __local float tops[WARPS][MOST_QUERIES], totals[WARPS][MOST_QUERIES], top[MOST_QUERIES], total[MOST_QUERIES];
    const int n = 1;
    const int item = (int)get_local_id(0), warp = item / 32, row = item % 32 / 4, member = item % 4;
    const idx part = (idx)get_group_id(0), first_q = (idx)get_group_id(2) * QUERIES;
    DECLARE_KEYS((idx)get_group_id(1))
    const idx record = (((idx)get_group_id(1) * BLOCKS + (idx)get_group_id(2)) * PARTS + part) * QUERIES;
    const idx own_q = min(first_q + row, (idx)(ALL_QUERIES - 1));
    uint4 query[D_CHUNKS];
#pragma unroll
    for (int i = 0; i < D_CHUNKS; ++i) {
        DECLARE_QUERY(own_q)
        const idx d = i * 32 + member * 8;
        query[i] = row < QUERIES && d < D_SIZE ? load_chunk(src0, OFF_SRC0) : (uint4)(0);
    }
    float sums[E_CHUNKS][8][2];
#pragma unroll
    for (int h = 0; h < E_CHUNKS; ++h)
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[h][j][0] = sums[h][j][1] = 0;
    float own_top = -INFINITY, own_total = 0;
    const idx end_t = min((part + 1) * PART_KEYS, (idx)T_SIZE);
    uint4 keys[2][D_CHUNKS], values[E_CHUNKS][4];
    LOAD_KEYS(part * PART_KEYS + warp * 16)
    LOAD_VALUES(part * PART_KEYS + warp * 16)
    for (idx first_t = part * PART_KEYS + warp * 16; first_t < end_t; first_t += WARPS * 16) {
        float scores[2][2];
#pragma unroll
        for (int b = 0; b < 2; ++b) {
            scores[b][0] = scores[b][1] = 0;
#pragma unroll
            for (int i = 0; i < D_CHUNKS; ++i) {
                MULTIPLY(scores[b], query[i].x, query[i].y, keys[b][i].x, keys[b][i].y)
                MULTIPLY(scores[b], query[i].z, query[i].w, keys[b][i].z, keys[b][i].w)
            }
        }
        // Those of the next step are on their way as soon as registers are free.
        LOAD_KEYS(first_t + WARPS * 16)
        float high = -INFINITY;
#pragma unroll
        for (int b = 0; b < 2; ++b)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                DECLARE_QUERY(own_q)
                const idx key = first_t + b * 8 + member * 2 + i, t = min(key, (idx)(T_SIZE - 1));
                SCORE(scores[b][i])
                scores[b][i] = key < end_t ? SCORED : -INFINITY;
                high = fmax(high, scores[b][i]);
            }
        high = fmax(high, other(high, 1));
        high = fmax(high, other(high, 2));
        high = fmax(high, own_top);
        const float base = high == -INFINITY ? 0 : high, shrink = power_of_two((own_top - base) * LOG2_E);
        own_top = high;
        own_total *= shrink;
#pragma unroll
        for (int b = 0; b < 2; ++b)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                scores[b][i] = power_of_two((scores[b][i] - base) * LOG2_E);
                own_total += scores[b][i];
            }
        const uint weights[2] = {pair(scores[0][0], scores[0][1]), pair(scores[1][0], scores[1][1])};
#pragma unroll
        for (int h = 0; h < E_CHUNKS; ++h) {
#pragma unroll
            for (int j = 0; j < 8; ++j) sums[h][j][0] *= shrink, sums[h][j][1] *= shrink;
            const uint4 *v = values[h];
            MULTIPLY_VALUE(0, v[0].x, v[1].x, v[2].x, v[3].x, LOW_HALVES)
            MULTIPLY_VALUE(1, v[0].x, v[1].x, v[2].x, v[3].x, HIGH_HALVES)
            MULTIPLY_VALUE(2, v[0].y, v[1].y, v[2].y, v[3].y, LOW_HALVES)
            MULTIPLY_VALUE(3, v[0].y, v[1].y, v[2].y, v[3].y, HIGH_HALVES)
            MULTIPLY_VALUE(4, v[0].z, v[1].z, v[2].z, v[3].z, LOW_HALVES)
            MULTIPLY_VALUE(5, v[0].z, v[1].z, v[2].z, v[3].z, HIGH_HALVES)
            MULTIPLY_VALUE(6, v[0].w, v[1].w, v[2].w, v[3].w, LOW_HALVES)
            MULTIPLY_VALUE(7, v[0].w, v[1].w, v[2].w, v[3].w, HIGH_HALVES)
        }
        LOAD_VALUES(first_t + WARPS * 16)
    }
    own_total += other(own_total, 1);
    own_total += other(own_total, 2);
    if (member == 0) {
        tops[warp][row] = own_top;
        totals[warp][row] = own_total;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float high = -INFINITY, sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) high = fmax(high, tops[w][row]);
    const float base = high == -INFINITY ? 0 : high, share = power_of_two((own_top - base) * LOG2_E);
#pragma unroll
    for (int w = 0; w < WARPS; ++w) sum += totals[w][row] * power_of_two((tops[w][row] - base) * LOG2_E);
    if (warp == 0 && member == 0) {
        top[row] = high;
        total[row] = sum;
    }
    if (row < QUERIES) {
#pragma unroll
        for (int h = 0; h < E_CHUNKS; ++h)
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                joined[warp][row][h * 64 + member * 16 + j] = sums[h][j][0] * share;
                joined[warp][row][h * 64 + member * 16 + 8 + j] = sums[h][j][1] * share;
            }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int q = 0; q < QUERIES && first_q + q < ALL_QUERIES; ++q)
        for (idx e = item; e < E_SIZE; e += GROUP) {
            float x = 0;
#pragma unroll
            for (int w = 0; w < WARPS; ++w) x += joined[w][q][e];
            STORE_SUM(q, x)
        }
    STORE_RECORD
    JOIN_IF_LAST
}
