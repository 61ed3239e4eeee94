// The end of skinny_mma.cl and skinny_bits.cl: each warp's sums wait in local memory, rows PITCH apart, and are added up to FINISH(x_sum).
#define JOIN_WARPS                                                                                                       \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                        \
    for (int x = item; x < M_SIZE * COLUMNS; x += GROUP) {                                                               \
        const idx m = x / COLUMNS, col = first_col + x % COLUMNS;                                                        \
        if (col < N_SIZE) {                                                                                              \
            R x_sum = 0;                                                                                                 \
            for (int i = 0; i < WARPS; ++i) x_sum += waiting[i][m * PITCH + x % COLUMNS];                                \
            FINISH(x_sum)                                                                                                \
        }                                                                                                                \
    }
