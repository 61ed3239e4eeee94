// Attention by the tensor cores of NVIDIA's Hopper, for keys and values of 16 bits with their elements side by side. A work-group stays on
// its multiprocessor and takes blocks of queries one after the other. CONSUMERS warpgroups hold 64 queries each, with their sums, in
// registers (wgmma_scores.cl); another one copies blocks of TILE keys and values into SLOTS places of local memory in turn
// (wgmma_copies.cl). Nothing else holds the warpgroups together: a place is copied to when all of them have read it, and one computes its
// softmax while another multiplies, and while its own values of the block before are multiplied. A running maximum rescales what was summed
// before. SCORE, SEE and their like are those of reference.cl, FACTOR, HIDDEN_SCORE and TYPE those of mma.cl;
//   MULTIPLY_KEYS(scale, a, b), SCORES_WAIT(left)   `products` (times `scale`) += a step of queries, b keys; until so many groups are left
//   MULTIPLY_VALUES(a, b), SUMS_WAIT                `sums` += a weights, b values
//   PRODUCER_REGISTERS, CONSUMER_REGISTERS          registers of a work-item, as text
//   SRC1_ROW, SRC2_ROW                              elements from a key to the next, and from a value
//   WHOLE                                           whether eight results side by side may be stored at once
//   BATCHES, SECTION                                how many batches there are, and how many of them the second-level cache holds
#define SM90A "//@sm_90a "
#define QUERIES (64 * CONSUMERS)
#define GROUP (128 * (CONSUMERS + 1))
#define D_STEPS (D_SIZE / 16)
// Rows of 128 bytes hold 64 elements; blocks of such rows follow one another.
#define BOX_BYTES (TILE * 128)
#define BOXES(SIZE) (((SIZE) + 63) / 64)
#define SLOT_BYTES (BOX_BYTES * (BOXES(D_SIZE) > BOXES(E_SIZE) ? BOXES(D_SIZE) : BOXES(E_SIZE)))
#define S_BLOCKS ((S_SIZE + QUERIES - 1) / QUERIES)
#define LOG2_E 1.44269504088896341f
// How far a score may exceed the maximum that sums are scaled by: weights stay below e^5.5, well inside of 16 bits.
#define SLACK 5.5f
// A score this far below the maximum has a weight of zero in f32.
#define NOTHING 110.0f

// Barriers of a place: it is full for a warpgroup, and empty of all of them.
#define FULL(slot, warpgroup) (1 + (slot) * CONSUMERS + (warpgroup))
#define EMPTY(slot) (1 + SLOTS * CONSUMERS + (slot))
#define SYNC(barrier, items) asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(items) : "memory")
#define ARRIVE(barrier, items) asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(items) : "memory")
#define WAIT_FULL SYNC(FULL(slot, warpgroup), 256)
#define RELEASE(slot) ARRIVE(EMPTY(slot), GROUP)
#define NEXT_SLOT slot = slot == SLOTS - 1 ? 0 : slot + 1;
#define COMMIT asm volatile(SM90A "wgmma.commit_group.sync.aligned;" ::: "memory")
#define FENCE asm volatile(SM90A "wgmma.fence.sync.aligned;" ::: "memory")

// Descriptors of blocks in local memory: address, the step to the next 64 columns, that to the next eight rows, the swizzle.
#define DESCRIPTOR(at, far) \
    ((ulong)(((at) & 0x3ffff) >> 4) | (ulong)((far) >> 4) << 16 | (ulong)(1024 >> 4) << 32 | (ulong)1 << 62)

// Each of four neighbouring lanes has four words, the first of each is the first lane's from then on, and so on.
static inline uint partner(const uint x, const int mask) {
    uint y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(y) : "r"(x), "r"(mask));
    return y;
}
#define EXCHANGE(low, high, distance)                                                                                    \
    {                                                                                                                    \
        const bool upper = (lane & (distance)) != 0;                                                                     \
        const uint got = partner(upper ? low : high, distance);                                                          \
        low = upper ? got : low;                                                                                         \
        high = upper ? high : got;                                                                                       \
    }
#define TRANSPOSE(a, b, c, d)                                                                                            \
    {                                                                                                                    \
        EXCHANGE(a, b, 1)                                                                                                \
        EXCHANGE(c, d, 1)                                                                                                \
        EXCHANGE(a, c, 2)                                                                                                \
        EXCHANGE(b, d, 2)                                                                                                \
    }

// Blocks of queries, by sections of batches whose keys and values the second-level cache holds: late ones, which may see more keys, come
// first, and the groups take turns forth and back.
#define EACH_BLOCK_OF_QUERIES                                                                                            \
    for (int first_block = 0, groups = (int)get_num_groups(0), group = (int)get_group_id(0);                             \
         first_block < S_BLOCKS * BATCHES; first_block += groups, group = groups - 1 - group)
#define DECLARE_BLOCK                                                                                                    \
    const int block = first_block + group;                                                                               \
    if (block >= S_BLOCKS * BATCHES) continue;                                                                       \
    const int in_section = block % (SECTION * S_BLOCKS), first_batch = block / (SECTION * S_BLOCKS) * SECTION;           \
    const int section = min(SECTION, BATCHES - first_batch);                                                             \
    DECLARE_BATCH((idx)(first_batch + in_section % section))                                                             \
    const idx first_s = (idx)(S_BLOCKS - 1 - in_section / section) * QUERIES;                                            \
    idx end_t = T_SIZE;
// The first block of keys from which on none is seen by queries before `behind_s`.
#if HIDES
#define FIND_END(end, behind_s)                                                                                          \
    for (idx t = 0; t < T_SIZE; t += TILE) {                                                                             \
        const idx s = min((idx)(behind_s), (idx)S_SIZE) - 1;                                                             \
        SEE(0)                                                                                                           \
        if (SEEN == 0) {                                                                                                 \
            end = t;                                                                                                     \
            break;                                                                                                       \
        }                                                                                                                \
    }
#else
#define FIND_END(end, behind_s)
#endif

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void attention_wgmma(PARAMS) {
#ifdef ANYDNN_UNREAD
    // The driver's assembler need not read what another one assembles (program/ptx.rs).
    asm volatile("/*@unread");
#endif
    ENTER
    __local uchar memory[SLOTS * SLOT_BYTES] __attribute__((aligned(1024)));
    asm volatile("//@resident 1;");
    const int n = 1;
    const int item = (int)get_local_id(0), lane = item % 32, warpgroup = item / 128;
    int slot = 0;
    if (warpgroup == CONSUMERS) {
        asm volatile(SM90A "setmaxnreg.dec.sync.aligned.u32 " PRODUCER_REGISTERS ";");
        const int thread = item % 128;
        int turns = 0;
        EACH_BLOCK_OF_QUERIES {
            DECLARE_BLOCK
            FIND_END(end_t, first_s + QUERIES)
            for (idx next_t = 0; next_t < end_t + TILE; next_t += TILE) {
                if (next_t < end_t) {
                    const idx first_t = next_t;
                    PRODUCE(FETCH_KEYS)
                }
                if (next_t > 0) {
                    const idx first_t = next_t - TILE;
                    PRODUCE(FETCH_VALUES)
                }
            }
        }
        if (turns > 0) PUBLISH(0, slot == 0 ? SLOTS - 1 : slot - 1);
        for (int left = min(turns, SLOTS); left > 0; --left) {
            slot = slot == 0 ? SLOTS - 1 : slot - 1;
            SYNC(EMPTY(slot), GROUP);
        }
    } else {
        asm volatile(SM90A "setmaxnreg.inc.sync.aligned.u32 " CONSUMER_REGISTERS ";");
        EACH_BLOCK_OF_QUERIES {
            DECLARE_BLOCK
            FIND_END(end_t, first_s + QUERIES)
            const idx group_s = first_s + warpgroup * 64, warp_s = group_s + item % 128 / 32 * 16;
            const idx low_s = min(warp_s + lane / 4, (idx)(S_SIZE - 1)), high_s = min(warp_s + lane / 4 + 8, (idx)(S_SIZE - 1));
            uint query[D_STEPS][4];
#if !ANYDNN_UNALIGNED
#pragma unroll
            for (int k = 0; k < D_STEPS; k += 2)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const idx s = i == 0 ? low_s : high_s, d = k * 16 + lane % 4 * 8;
                    uint4 x = *(const __global uint4 *)(src0 + (size_t)(OFF_SRC0) * 2);
                    TRANSPOSE(x.x, x.y, x.z, x.w)
                    query[k][i] = x.x;
                    query[k][i + 2] = x.y;
                    query[k + 1][i] = x.z;
                    query[k + 1][i + 2] = x.w;
                }
#else
#pragma unroll
            for (int k = 0; k < D_STEPS; ++k)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const idx s = i % 2 == 0 ? low_s : high_s, d = k * 16 + i / 2 * 8 + lane % 4 * 2;
                    query[k][i] = get_16(src0, OFF_SRC0) | (uint)get_16(src0, OFF_SRC0 + 1) << 16;
                }
#endif
            float sums[E_SIZE / 2];
#pragma unroll
            for (int j = 0; j < E_SIZE / 2; ++j) sums[j] = 0;
            idx own_end = T_SIZE;
            FIND_END(own_end, group_s + 64)
            float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0}, shrink[2] = {1, 1};
#ifdef FACTOR
            // Only a positive number keeps the order of the scores.
            const float common_factor = FACTOR;
            const bool scales = common_factor > 0 && common_factor < INFINITY;
#endif
            float products[TILE / 2];
            uint weights[TILE / 4];
            // Scores of a block are computed while the values of the one before are multiplied, and become weights meanwhile.
            if (own_end > 0) {
                const idx first_t = 0;
                WAIT_FULL;
                MULTIPLY_ALL_KEYS
                SCORES_WAIT("0");
                RELEASE(slot);
                NEXT_SLOT
                SOFTMAX
                MAKE_WEIGHTS
            }
            for (idx first_t = TILE; first_t < own_end; first_t += TILE) {
                WAIT_FULL;
                const int keys = slot;
                MULTIPLY_ALL_KEYS
                NEXT_SLOT
                WAIT_FULL;
                const int values = slot;
                MULTIPLY_ALL_VALUES
                NEXT_SLOT
                SCORES_WAIT("1");
                RELEASE(keys);
                SOFTMAX
                SUMS_WAIT;
                RELEASE(values);
                if (rescales) {
#pragma unroll
                    for (int j = 0; j < E_SIZE / 2; ++j) sums[j] *= shrink[j / 2 % 2];
                }
                MAKE_WEIGHTS
            }
            int left = (int)((end_t - own_end + TILE - 1) / TILE) * 2;
            if (own_end > 0) {
                if (left > 0) PASS
                WAIT_FULL;
                MULTIPLY_ALL_VALUES
                SUMS_WAIT;
                RELEASE(slot);
                NEXT_SLOT
                left -= left > 0;
            }
            for (; left > 0; --left) PASS
#ifdef HIDDEN_SCORE
            // Hidden keys count where their score is not far below those that are seen, which is rare: they have one weight.
            const float hidden_score = HIDDEN_SCORE;
            if (own_end < T_SIZE && holds_in_warp(!(top[0] - hidden_score > NOTHING) || !(top[1] - hidden_score > NOTHING))) {
                float weight[2];
                for (int h = 0; h < 2; ++h) {
                    const float high = fmax(top[h], hidden_score);
                    shrink[h] = high == -INFINITY ? 1 : power_of_two((top[h] - high) * LOG2_E);
                    weight[h] = high == -INFINITY ? 0 : power_of_two((hidden_score - high) * LOG2_E);
                    top[h] = high;
                    total[h] = total[h] * shrink[h] + (lane % 4 == 0 ? weight[h] * (float)(T_SIZE - own_end) : 0.0f);
                }
#pragma unroll
                for (int j = 0; j < E_SIZE / 4; ++j) {
                    const idx e = j / 2 * 8 + lane % 4 * 2 + j % 2;
                    const int low = j / 2 * 4 + j % 2;
                    float sum = 0;
                    NOT_UNROLLED for (idx t = own_end; t < T_SIZE; ++t) sum += LD1_SRC2(OFF_SRC2);
                    sums[low] = sums[low] * shrink[0] + weight[0] * sum;
                    sums[low + 2] = sums[low + 2] * shrink[1] + weight[1] * sum;
                }
            }
#endif
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                float whole_sum = total[h] + other(total[h], 1);
                whole_sum += other(whole_sum, 2);
                const bool nothing = NOTHING_IS_ZERO && top[h] == -INFINITY;
                const idx s = warp_s + lane / 4 + 8 * h;
#if WHOLE && !ANYDNN_UNALIGNED
                const float share = nothing ? 0 : 1 / whole_sum;
#pragma unroll
                for (int j = 0; j < E_SIZE / 32; ++j) {
                    uint4 x = (uint4)(SHARES(j * 4), SHARES(j * 4 + 1), SHARES(j * 4 + 2), SHARES(j * 4 + 3));
                    TRANSPOSE(x.x, x.y, x.z, x.w)
                    const idx e = j * 32 + lane % 4 * 8;
                    if (s < S_SIZE) *(__global uint4 *)(dst + (size_t)(OFF_DST) * 2) = x;
                }
#else
#pragma unroll
                for (int j = 0; j < E_SIZE / 4; ++j) {
                    const idx e = j / 2 * 8 + lane % 4 * 2 + j % 2;
                    if (s >= S_SIZE) continue;
                    V v = nothing ? 0 : sums[j / 2 * 4 + 2 * h + j % 2] / whole_sum;
                    POST_OPS(v, n)
                    ST_DST(OFF_DST, n, v);
                }
#endif
                if (s < S_SIZE && lane % 4 == 0) STORE_STATISTICS(top[h] + log(whole_sum), n)
            }
        }
    }
}
