// Attention on NVIDIA's matrix units, for keys and values of 16 bits with their elements side by side. A warp holds 16 queries and their
// sums in registers; blocks of TILE keys and values come through local memory, the keys of the next block while the values of this one
// are multiplied. A running maximum rescales what was summed before. SCORE, SEE and their like are those of reference.cl;
//   SCORE_SEEN(x), SCORED_SEEN   with HIDES: the score of a key that is known to be seen
//   FACTOR                       where defined, scores are products times this number, but for keys that are hidden
//   HIDDEN_SCORE                 where defined, the score of keys that are hidden; else their weights are zero
//   TYPE                         "f16" or "bf16"
//   PAIRS                        whether two results side by side may be stored at once
#define TILE 64
#define GROUP (32 * WARPS)
#define QUERIES (16 * WARPS)
#define D_STEPS ((D_SIZE + 15) / 16)
#define E_STEPS ((E_SIZE + 15) / 16)
// Bytes from row to row: an odd number of 16, so that eight rows lie in different banks.
#define D_PITCH (D_STEPS * 32 + 16)
#define E_PITCH (E_STEPS * 32 + 16)
#define KEY_BYTES (TILE * D_PITCH)
#define BLOCK_BYTES (KEY_BYTES + TILE * E_PITCH)
#define QUERY_BYTES (QUERIES * D_PITCH)
#define LOG2_E 1.44269504088896341f
// How far a score may exceed the maximum that sums are scaled by: weights stay below e^5.5, well inside of 16 bits.
#define SLACK 5.5f
// A score this far below the maximum has a weight of zero in f32.
#define NOTHING 110.0f

#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT asm volatile("cp.async.wait_group 0;" ::: "memory")
#define LOAD_MATRICES(KIND, r, at)                                                                                       \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" KIND ".shared.b16 {%0, %1, %2, %3}, [%4];"                              \
                 : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3])                                                \
                 : "r"(at))
#define MULTIPLY(d, a, b0, b1)                                                                                           \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 "                                          \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                       \
                 : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])                                                \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"(b0), "r"(b1))

// Rows from `first` on of an operand with the loop variables ROW and COLUMN.
#define FETCH(SOURCE, NAME, ROW, ROWS, COLUMN, COLUMNS, COUNT, first, to, PITCH)                                         \
    _Pragma("unroll")                                                                                                    \
    for (int x = item; x < (COUNT) * ((PITCH) / 16 - 1); x += GROUP) {                                                   \
        const int in_row = x / ((PITCH) / 16 - 1), chunk = x % ((PITCH) / 16 - 1);                                       \
        const idx ROW = (first) + in_row, COLUMN = 8 * chunk;                                                            \
        const bool there = ROW < (ROWS) && COLUMN < (COLUMNS);                                                           \
        fetch(SOURCE, OFF_##NAME, there, whole, (to) + in_row * (PITCH) + chunk * 16);                                   \
    }
#define FETCH_KEYS(first) FETCH(src1, SRC1, t, T_SIZE, d, D_SIZE, TILE, first, keys, D_PITCH) COMMIT
#define FETCH_VALUES(first) FETCH(src2, SRC2, t, T_SIZE, e, E_SIZE, TILE, first, values, E_PITCH) COMMIT

// Scores from products; those of keys past the end are minus infinity.
#define SCORES(COMPUTE, RESULT)                                                                                          \
    _Pragma("unroll")                                                                                                    \
    for (int i = 0; i < TILE / 8; ++i) {                                                                                 \
        _Pragma("unroll")                                                                                                \
        for (int c = 0; c < 4; ++c) {                                                                                    \
            const idx key = first_t + i * 8 + lane % 4 * 2 + c % 2;                                                      \
            const idx s = c < 2 ? low_s : high_s, t = T_SIZE % TILE == 0 ? key : min(key, (idx)(T_SIZE - 1));            \
            COMPUTE(products[i][c])                                                                                      \
            products[i][c] = T_SIZE % TILE == 0 || key < T_SIZE ? RESULT : -INFINITY;                                    \
        }                                                                                                                \
    }

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void attention_mma(PARAMS) {
    ENTER
    __local uchar memory[BLOCK_BYTES > QUERY_BYTES ? BLOCK_BYTES : QUERY_BYTES] __attribute__((aligned(16)));
    const int n = 1;
    const int item = (int)get_local_id(0), lane = item % 32, warp = item / 32;
    const bool whole = (((ulong)src0 | (ulong)src1 | (ulong)src2) & 15) == 0;
    const uint keys = (uint)(ulong)memory, values = keys + KEY_BYTES;
    DECLARE_BATCH((idx)get_group_id(1))
    // Late queries, which may see more keys, come first.
    const idx first_s = (idx)(get_num_groups(0) - 1 - get_group_id(0)) * QUERIES;
    const idx warp_s = first_s + warp * 16;
    const idx low_s = min(warp_s + lane / 4, (idx)(S_SIZE - 1)), high_s = min(warp_s + lane / 4 + 8, (idx)(S_SIZE - 1));

    uint query[D_STEPS][4];
    FETCH(src0, SRC0, s, S_SIZE, d, D_SIZE, QUERIES, first_s, keys, D_PITCH)
    COMMIT;
    WAIT;
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int k = 0; k < D_STEPS; ++k)
        LOAD_MATRICES("", query[k], keys + (warp * 16 + lane % 16) * D_PITCH + lane / 16 * 16 + k * 32);
    barrier(CLK_LOCAL_MEM_FENCE);

    float sums[2 * E_STEPS][4];
#pragma unroll
    for (int j = 0; j < 2 * E_STEPS; ++j)
#pragma unroll
        for (int c = 0; c < 4; ++c) sums[j][c] = 0;
    float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
    idx end_t = T_SIZE;
#ifdef FACTOR
    // Only a positive number keeps the order of the scores.
    const float common_factor = FACTOR;
    const bool scales = common_factor > 0 && common_factor < INFINITY;
#endif
#ifdef HIDDEN_SCORE
    const float hidden_score = HIDDEN_SCORE;
#endif
#if HIDES
    for (idx t = 0; t < T_SIZE; t += TILE) {
        const idx s = min(first_s + QUERIES, (idx)S_SIZE) - 1;
        SEE(0)
        if (SEEN == 0) {
            end_t = t;
            break;
        }
    }
#endif
    const uint key_lane = keys + (lane % 8 + lane / 16 * 8) * D_PITCH + lane / 8 % 2 * 16;
    const uint value_lane = values + lane % 16 * E_PITCH + lane / 16 * 16;
    if (end_t > 0) {
        FETCH_KEYS(0);
    }
    for (idx first_t = 0;; first_t += TILE) {
        if (first_t >= end_t) {
#ifdef HIDDEN_SCORE
            // Hidden keys count where their score is not far below those that are seen.
            if (end_t >= T_SIZE) break;
            barrier(CLK_LOCAL_MEM_FENCE);
            volatile __local uint *count = (volatile __local uint *)memory;
            if (item == 0) *count = 0;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (!(top[0] - hidden_score > NOTHING) || !(top[1] - hidden_score > NOTHING)) *count = 1;
            barrier(CLK_LOCAL_MEM_FENCE);
            const bool all_count = *count != 0;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (!all_count) break;
            end_t = T_SIZE;
            FETCH_KEYS(first_t);
#else
            break;
#endif
        }
        WAIT;
        barrier(CLK_LOCAL_MEM_FENCE);
        FETCH_VALUES(first_t);
        bool some_seen = true, all_seen = true;
#if HIDES
        {
            const idx s = min(warp_s + 15, (idx)(S_SIZE - 1)), t = first_t;
            SEE(0)
            some_seen = SEEN != 0;
        }
#ifdef HIDDEN_SCORE
        if (!some_seen) some_seen = holds_in_warp(!(top[0] - hidden_score > NOTHING) || !(top[1] - hidden_score > NOTHING));
#endif
        {
            const idx s = min(warp_s, (idx)(S_SIZE - 1)), t = min(first_t + TILE, (idx)T_SIZE) - 1;
            SEE(0)
            all_seen = SEEN != 0;
        }
#endif
        float products[TILE / 8][4];
        if (some_seen) {
#pragma unroll
            for (int i = 0; i < TILE / 8; ++i)
#pragma unroll
                for (int c = 0; c < 4; ++c) products[i][c] = 0;
#pragma unroll
            for (int k = 0; k < D_STEPS; ++k) {
#pragma unroll
                for (int i = 0; i < TILE / 16; ++i) {
                    uint b[4];
                    LOAD_MATRICES("", b, key_lane + i * 16 * D_PITCH + k * 32);
                    MULTIPLY(products[2 * i], query[k], b[0], b[1]);
                    MULTIPLY(products[2 * i + 1], query[k], b[2], b[3]);
                }
            }
        }
        WAIT;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (first_t + TILE < end_t) {
            FETCH_KEYS(first_t + TILE);
        }
        if (!some_seen) continue;
        float factor = 1;
#ifdef FACTOR
        if (scales && all_seen && first_t + TILE <= T_SIZE) {
            factor = common_factor;
        } else
#elif HIDES
        if (all_seen) {
            SCORES(SCORE_SEEN, SCORED_SEEN)
        } else
#endif
        {
            SCORES(SCORE, SCORED)
        }
        float highs[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            highs[h] = -INFINITY;
#pragma unroll
            for (int i = 0; i < TILE / 8; ++i)
                highs[h] = fmax(highs[h], fmax(products[i][2 * h], products[i][2 * h + 1]));
            highs[h] *= factor;
            highs[h] = fmax(highs[h], other(highs[h], 1));
            highs[h] = fmax(highs[h], other(highs[h], 2));
        }
        if (holds_in_warp(highs[0] > top[0] + SLACK || highs[1] > top[1] + SLACK)) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const float high = fmax(top[h], highs[h]);
                const float shrink = high == -INFINITY ? 1 : power_of_two((top[h] - high) * LOG2_E);
                top[h] = high;
                total[h] *= shrink;
#pragma unroll
                for (int j = 0; j < 2 * E_STEPS; ++j) {
                    sums[j][2 * h] *= shrink;
                    sums[j][2 * h + 1] *= shrink;
                }
            }
        }
        factor *= LOG2_E;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float minus = top[h] == -INFINITY ? 0 : -top[h] * LOG2_E;
            float sum = 0;
#pragma unroll
            for (int i = 0; i < TILE / 8; ++i) {
#pragma unroll
                for (int c = 2 * h; c < 2 * h + 2; ++c) {
                    products[i][c] = power_of_two(fma(products[i][c], factor, minus));
                    sum += products[i][c];
                }
            }
            total[h] += sum;
        }
#pragma unroll
        for (int k = 0; k < TILE / 16; ++k) {
            uint weights[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                weights[i] = pair(products[2 * k + i / 2][i % 2 * 2], products[2 * k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
            for (int j = 0; j < E_STEPS; ++j) {
                uint b[4];
                LOAD_MATRICES(".trans", b, value_lane + k * 16 * E_PITCH + j * 32);
                MULTIPLY(sums[2 * j], weights, b[0], b[1]);
                MULTIPLY(sums[2 * j + 1], weights, b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float whole_sum = total[h] + other(total[h], 1);
        whole_sum += other(whole_sum, 2);
        const bool nothing = NOTHING_IS_ZERO && top[h] == -INFINITY;
        const idx s = warp_s + lane / 4 + 8 * h;
        if (s >= S_SIZE) continue;
#pragma unroll
        for (int j = 0; j < 2 * E_STEPS; ++j) {
            const idx first_e = j * 8 + lane % 4 * 2;
            const float low = nothing ? 0 : sums[j][2 * h] / whole_sum, high = nothing ? 0 : sums[j][2 * h + 1] / whole_sum;
            if (first_e >= E_SIZE) continue;
#if PAIRS && !ANYDNN_UNALIGNED
            if (((ulong)dst & 3) == 0) {
                const idx e = first_e;
                put_32(dst, OFF_DST / 2, pair(low, high));
                continue;
            }
#endif
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                const idx e = first_e + c;
                V v = c == 0 ? low : high;
                POST_OPS(v, n)
                ST_DST(OFF_DST, n, v);
            }
        }
        if (lane % 4 == 0) STORE_STATISTICS(top[h] + log(whole_sum), n)
    }
}
