// A work-group computes a TILE_M x TILE_N tile of the product of two matrices given element by element, each work-item a
// ITEM_M x ITEM_N part of it in registers, with TILE_K deep slices of both operands in local memory. Serves matmul and, with the
// generated im2col indices, convolution; with GATED a second matrix SRC1 makes the product's gate:
//   DECLARE_M(t), DECLARE_N(t), DECLARE_K(t), DECLARE_BATCH(t)   loop variables from a linear index
//   SRC_INSIDE                                                   whether the source element exists (else it is zero)
//   READ_SRC0, READ_WEIGHTS                                      an element
//   FAST_M / FAST_N                                              whether neighbours along M (N) are closer in memory than along K
#define ITEMS_M (TILE_M / ITEM_M)
#define ITEMS_N (TILE_N / ITEM_N)
#define GROUP (ITEMS_M * ITEMS_N)
#if GATED
#define IF_GATED(text) text
#else
#define IF_GATED(text)
#endif

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void matmul_tiled(PARAMS) {
    ENTER
    // One column of padding keeps work-items that store along K out of one another's memory banks.
    __local ACC a_tile[TILE_K][TILE_M + 1];
    __local ACC b_tile[TILE_K][TILE_N + 1];
    IF_GATED(__local ACC g_tile[TILE_K][TILE_N + 1];)
    const int item = (int)get_local_id(0);
    const int item_n = item % ITEMS_N;
    const int item_m = item / ITEMS_N;
    const idx first_n = (idx)(get_group_id(0) % TILES_N) * TILE_N;
    const idx first_m = (idx)(get_group_id(0) / TILES_N) * TILE_M;
    DECLARE_BATCH((idx)get_group_id(1))

    ACC sums[ITEM_M][ITEM_N];
    IF_GATED(ACC gates[ITEM_M][ITEM_N];)
#pragma unroll
    for (int i = 0; i < ITEM_M; ++i)
#pragma unroll
        for (int j = 0; j < ITEM_N; ++j) {
            sums[i][j] = 0;
            IF_GATED(gates[i][j] = 0;)
        }

    for (idx first_k = 0; first_k < K_SIZE; first_k += TILE_K) {
        for (int e = item; e < TILE_M * TILE_K; e += GROUP) {
            const int in_m = FAST_M ? e % TILE_M : e / TILE_K;
            const int in_k = FAST_M ? e / TILE_M : e % TILE_K;
            const idx at_m = first_m + in_m, at_k = first_k + in_k;
            ACC x = 0;
            if (at_m < M_SIZE && at_k < K_SIZE) {
                DECLARE_M(at_m)
                DECLARE_K(at_k)
                if (SRC_INSIDE) x = READ_SRC0;
            }
            a_tile[in_k][in_m] = x;
        }
        for (int e = item; e < TILE_N * TILE_K; e += GROUP) {
            const int in_n = FAST_N ? e % TILE_N : e / TILE_K;
            const int in_k = FAST_N ? e / TILE_N : e % TILE_K;
            const idx at_n = first_n + in_n, at_k = first_k + in_k;
            ACC x = 0;
            IF_GATED(ACC gate = 0;)
            if (at_n < N_SIZE && at_k < K_SIZE) {
                DECLARE_N(at_n)
                DECLARE_K(at_k)
                x = READ_WEIGHTS;
                IF_GATED(gate = READ_SRC1;)
            }
            b_tile[in_k][in_n] = x;
            IF_GATED(g_tile[in_k][in_n] = gate;)
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int k_step = 0; k_step < TILE_K; ++k_step) {
            ACC a[ITEM_M], b[ITEM_N];
            IF_GATED(ACC g[ITEM_N];)
#pragma unroll
            for (int i = 0; i < ITEM_M; ++i) a[i] = a_tile[k_step][item_m + i * ITEMS_M];
#pragma unroll
            for (int j = 0; j < ITEM_N; ++j) {
                b[j] = b_tile[k_step][item_n + j * ITEMS_N];
                IF_GATED(g[j] = g_tile[k_step][item_n + j * ITEMS_N];)
            }
#pragma unroll
            for (int i = 0; i < ITEM_M; ++i)
#pragma unroll
                for (int j = 0; j < ITEM_N; ++j) {
                    sums[i][j] += a[i] * b[j];
                    IF_GATED(gates[i][j] += a[i] * g[j];)
                }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

#pragma unroll
    for (int i = 0; i < ITEM_M; ++i) {
#pragma unroll
        for (int j = 0; j < ITEM_N; ++j) {
            const idx at_m = first_m + item_m + i * ITEMS_M;
            const idx at_n = first_n + item_n + j * ITEMS_N;
            if (at_m < M_SIZE && at_n < N_SIZE) {
                DECLARE_M(at_m)
                DECLARE_N(at_n)
                V v = (V)sums[i][j];
                IF_GATED(v = JOIN(v, ACTIVATION((V)gates[i][j]));)
                ADD_BIAS(v, 1)
                POST_OPS(v, 1)
                ST_DST(OFF_DST, 1, v);
            }
        }
    }
}
