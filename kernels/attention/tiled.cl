// A work-group of 256 work-items computes attention for TILE queries against blocks of TILE keys. Products go through slices of
// TILE_K in local memory, each work-item an ITEM x ITEM part in registers; the weights of a block lie in local memory between the two
// products. Four work-items share a row of the softmax. SCORE, WEIGHT and SEE are those of reference.cl.
//   E_ITEMS, B_WIDTH    columns of a work-item and of a slice of the values, of which E_SIZE exist
//   FAST_D0, FAST_D1    whether queries (keys) have their elements closer together along D than along S (T)
#define TILE 64
#define TILE_K 16
#define ITEM 4
#define SIDE 16
#define GROUP 256
#define PARTS 4

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void attention_tiled(PARAMS) {
    ENTER
    __local R a_tile[TILE_K][TILE + 1];
    // A slice of the keys, then one of the values.
    __local R b_tile[TILE_K * (B_WIDTH + 1)];
    __local R weights[TILE][TILE + 1];
    __local R top[TILE], total[TILE], shrink[TILE];
    __local R parts[TILE][PARTS];
    const int n = 1;
    const int item = (int)get_local_id(0);
    const int item_t = item % SIDE, item_s = item / SIDE;
    const idx first_s = (idx)get_group_id(0) * TILE;
    DECLARE_BATCH((idx)get_group_id(1))
    R sums[ITEM][E_ITEMS];
#pragma unroll
    for (int i = 0; i < ITEM; ++i)
#pragma unroll
        for (int j = 0; j < E_ITEMS; ++j) sums[i][j] = 0;
    if (item < TILE) {
        top[item] = -INFINITY;
        total[item] = 0;
        shrink[item] = 1;
    }
    for (int pass = TWO_PASSES ? 0 : 1; pass < 2; ++pass) {
        for (idx first_t = 0; first_t < T_SIZE; first_t += TILE) {
#if HIDES
            {
                const idx s = min(first_s + TILE, (idx)S_SIZE) - 1, t = first_t;
                SEE(0)
                if (SEEN == 0) break;
            }
#endif
            R products[ITEM][ITEM];
#pragma unroll
            for (int i = 0; i < ITEM; ++i)
#pragma unroll
                for (int j = 0; j < ITEM; ++j) products[i][j] = 0;
            for (idx first_d = 0; first_d < D_SIZE; first_d += TILE_K) {
                barrier(CLK_LOCAL_MEM_FENCE);
                for (int x = item; x < TILE * TILE_K; x += GROUP) {
                    const int in_s = FAST_D0 ? x / TILE_K : x % TILE, in_d = FAST_D0 ? x % TILE_K : x / TILE;
                    const idx s = first_s + in_s, d = first_d + in_d;
                    a_tile[in_d][in_s] = s < S_SIZE && d < D_SIZE ? DEQ1_SRC0(LD1_SRC0(OFF_SRC0)) : 0;
                }
                for (int x = item; x < TILE * TILE_K; x += GROUP) {
                    const int in_t = FAST_D1 ? x / TILE_K : x % TILE, in_d = FAST_D1 ? x % TILE_K : x / TILE;
                    const idx t = first_t + in_t, d = first_d + in_d;
                    b_tile[in_d * (TILE + 1) + in_t] = t < T_SIZE && d < D_SIZE ? DEQ1_SRC1(LD1_SRC1(OFF_SRC1)) : 0;
                }
                barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
                for (int k = 0; k < TILE_K; ++k) {
                    R a[ITEM], b[ITEM];
#pragma unroll
                    for (int i = 0; i < ITEM; ++i) a[i] = a_tile[k][item_s + i * SIDE];
#pragma unroll
                    for (int j = 0; j < ITEM; ++j) b[j] = b_tile[k * (TILE + 1) + item_t + j * SIDE];
#pragma unroll
                    for (int i = 0; i < ITEM; ++i)
#pragma unroll
                        for (int j = 0; j < ITEM; ++j) products[i][j] += a[i] * b[j];
                }
            }
#pragma unroll
            for (int i = 0; i < ITEM; ++i)
#pragma unroll
                for (int j = 0; j < ITEM; ++j) weights[item_s + i * SIDE][item_t + j * SIDE] = products[i][j];
            // The code for a score once, as compilers take long for each of its copies.
            NOT_UNROLLED for (int x = 0; x < ITEM * ITEM; ++x) {
                __local R *its = &weights[item_s + x / ITEM * SIDE][item_t + x % ITEM * SIDE];
                const idx s = first_s + item_s + x / ITEM * SIDE, t = first_t + item_t + x % ITEM * SIDE;
                R score = -INFINITY;
                if (s < S_SIZE && t < T_SIZE) {
                    const R product = *its;
                    SCORE(product)
                    score = SCORED;
                }
                *its = score;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            const int row = item / PARTS, part = item % PARTS;
            const R old_top = top[row];
            R high = -INFINITY;
            for (int c = part; c < TILE; c += PARTS) high = LARGER(weights[row][c], high);
            parts[row][part] = high;
            barrier(CLK_LOCAL_MEM_FENCE);
            high = old_top;
            for (int p = 0; p < PARTS; ++p) high = LARGER(parts[row][p], high);
            const R base = high == -INFINITY ? 0 : high;
            if (!TWO_PASSES || pass == 0) {
                R sum = 0;
                for (int c = part; c < TILE; c += PARTS) {
                    const R weight = exp(weights[row][c] - base);
                    weights[row][c] = weight;
                    sum += weight;
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                parts[row][part] = sum;
                barrier(CLK_LOCAL_MEM_FENCE);
                if (part == 0) {
                    const R factor = exp(old_top - base);
                    shrink[row] = factor;
                    total[row] = total[row] * factor + parts[row][0] + parts[row][1] + parts[row][2] + parts[row][3];
                    top[row] = high;
                }
            } else {
                if (part == 0) shrink[row] = 1;
                const idx s = first_s + row;
                const R whole = INF_AS_ZERO && high == -INFINITY ? 1 : total[row];
                for (int c = part; c < TILE; c += PARTS) {
                    const idx t = first_t + c;
                    R weight = 0;
                    if (s < S_SIZE && t < T_SIZE) {
                        const R share = exp(weights[row][c] - base) / whole;
                        WEIGHT(share)
                        weight = WEIGHTED;
                    }
                    weights[row][c] = weight;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (pass == 0) continue;
#pragma unroll
            for (int i = 0; i < ITEM; ++i)
#pragma unroll
                for (int j = 0; j < E_ITEMS; ++j) sums[i][j] *= shrink[item_s + i * SIDE];
            for (int first = 0; first < TILE && first_t + first < T_SIZE; first += TILE_K) {
                barrier(CLK_LOCAL_MEM_FENCE);
                for (int x = item; x < TILE_K * B_WIDTH; x += GROUP) {
                    const idx e = x % B_WIDTH, t = first_t + first + x / B_WIDTH;
                    b_tile[x / B_WIDTH * (B_WIDTH + 1) + e] = e < E_SIZE && t < T_SIZE ? DEQ1_SRC2(LD1_SRC2(OFF_SRC2)) : 0;
                }
                barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
                for (int k = 0; k < TILE_K; ++k) {
                    R a[ITEM];
#pragma unroll
                    for (int i = 0; i < ITEM; ++i) a[i] = weights[item_s + i * SIDE][first + k];
#pragma unroll
                    for (int j = 0; j < E_ITEMS; ++j) {
                        const R b = b_tile[k * (B_WIDTH + 1) + item_t + j * SIDE];
#pragma unroll
                        for (int i = 0; i < ITEM; ++i) sums[i][j] += a[i] * b;
                    }
                }
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    // Row by row, and column by column: the next ones come to the registers of the first ones.
    NOT_UNROLLED for (int i = 0; i < ITEM; ++i) {
        const int row = item_s + i * SIDE;
        const idx s = first_s + row;
        const bool nothing = NOTHING_IS_ZERO && top[row] == -INFINITY;
        NOT_UNROLLED for (int j = 0; j < E_ITEMS; ++j) {
            const idx e = item_t + j * SIDE;
            if (s < S_SIZE && e < E_SIZE) {
                V v = TWO_PASSES ? sums[0][0] : nothing ? 0 : sums[0][0] / total[row];
                POST_OPS(v, n)
                ST_DST(OFF_DST, n, v);
            }
#pragma unroll
            for (int c = 0; c + 1 < E_ITEMS; ++c) sums[0][c] = sums[0][c + 1];
        }
        if (s < S_SIZE && item_t == 0) STORE_STATISTICS(top[row] + log(total[row]), n)
#pragma unroll
        for (int r = 0; r + 1 < ITEM; ++r)
#pragma unroll
            for (int c = 0; c < E_ITEMS; ++c) sums[r][c] = sums[r + 1][c];
    }
}
