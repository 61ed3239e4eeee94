// As skinny.cl, for rows and weights of 16 bits on NVIDIA's matrix units: a warp multiplies 16 rows by 64 columns, and the WARPS of a
// work-group share K. Operands go from memory into the registers of an instruction as they lie: which of its places along K (and which
// columns) are whose does not matter as long as both operands agree.
//   RAW_WEIGHTS(o, n), RAW_SRC0(o)   eight elements as bits (n of them)
//   TYPE                             "f16" or "bf16"
#define WARPS 8
#define GROUP (32 * WARPS)
#define ROWS 16
#define COLUMNS 64
#define PITCH (COLUMNS + 8)

#define MULTIPLY(d, a0, a1, a2, a3, b0, b1)                                                                              \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 "                                                   \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                                \
        : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])                                                         \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void matmul_skinny(PARAMS) {
    ENTER
    __local float partial[WARPS][ROWS * PITCH];
    const int item = (int)get_local_id(0), warp = item / 32, outer = item % 32 / 4, inner = item % 4;
    DECLARE_BATCH((idx)get_group_id(1))
    const int split = (int)get_group_id(2);
    const idx first_k = (idx)split * K_SLICE, last_k = min(first_k + K_SLICE, (idx)K_SIZE);
    const idx first_col = (idx)get_group_id(0) * COLUMNS;
    float sums[COLUMNS / 8][4];
#pragma unroll
    for (int i = 0; i < COLUMNS / 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = 0;

#if ALONG_K
#pragma unroll 2
    for (idx k = first_k + warp * 32 + inner * 8; k - inner * 8 < last_k; k += WARPS * 32) {
        const bool inside = K_SIZE % (WARPS * 32) == 0 || k < last_k;
        uint4 b[COLUMNS / 8], low = (uint4)(0), high = (uint4)(0);
#pragma unroll
        for (int i = 0; i < COLUMNS / 8; ++i) {
            const idx col = min(first_col + i * 8 + outer, (idx)(N_SIZE - 1));
            b[i] = (uint4)(0);
            if (inside) b[i] = as_uint4(RAW_WEIGHTS(OFF_WEIGHTS, 8));
        }
        if (inside && outer < M_SIZE) {
            const idx m = outer;
            low = as_uint4(RAW_SRC0(OFF_SRC0));
        }
        if (inside && outer + 8 < M_SIZE) {
            const idx m = outer + 8;
            high = as_uint4(RAW_SRC0(OFF_SRC0));
        }
#pragma unroll
        for (int i = 0; i < COLUMNS / 8; ++i) {
            MULTIPLY(sums[i], low.x, high.x, low.y, high.y, b[i].x, b[i].y);
            MULTIPLY(sums[i], low.z, high.z, low.w, high.w, b[i].z, b[i].w);
        }
    }
#define COLUMN_OF(i, j) ((i) * 8 + inner * 2 + (j) % 2)
#else
    const idx col = min(first_col + outer * 8, (idx)(N_SIZE - 1));
    const int n = clamp((int)(N_SIZE - first_col) - outer * 8, 0, 8);
#pragma unroll 2
    for (idx own = first_k + warp * 32 + inner * 8; own - inner * 8 < last_k; own += WARPS * 32) {
        const bool inside = K_SIZE % (WARPS * 32) == 0 || own < last_k;
        uint4 b[8], low = (uint4)(0), high = (uint4)(0);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const idx k = own + i;
            b[i] = (uint4)(0);
            if (inside) b[i] = as_uint4(RAW_WEIGHTS(OFF_WEIGHTS, n));
        }
        const idx k = own;
        if (inside && outer < M_SIZE) {
            const idx m = outer;
            low = as_uint4(RAW_SRC0(OFF_SRC0));
        }
        if (inside && outer + 8 < M_SIZE) {
            const idx m = outer + 8;
            high = as_uint4(RAW_SRC0(OFF_SRC0));
        }
        // Pairs of neighbours along K.
#define EVEN(a, b) (((a) & 0xffffu) | ((b) << 16))
#define ODD(a, b) (((a) >> 16) | ((b) & 0xffff0000u))
#define TWO_COLUMNS(i, w)                                                                                                \
    MULTIPLY(sums[i], low.x, high.x, low.y, high.y, EVEN(b[0].w, b[1].w), EVEN(b[2].w, b[3].w));                         \
    MULTIPLY(sums[i], low.z, high.z, low.w, high.w, EVEN(b[4].w, b[5].w), EVEN(b[6].w, b[7].w));                         \
    MULTIPLY(sums[i + 1], low.x, high.x, low.y, high.y, ODD(b[0].w, b[1].w), ODD(b[2].w, b[3].w));                       \
    MULTIPLY(sums[i + 1], low.z, high.z, low.w, high.w, ODD(b[4].w, b[5].w), ODD(b[6].w, b[7].w));
        TWO_COLUMNS(0, x)
        TWO_COLUMNS(2, y)
        TWO_COLUMNS(4, z)
        TWO_COLUMNS(6, w)
    }
#define COLUMN_OF(i, j) ((inner * 2 + (j) % 2) * 8 + (i))
#endif

#pragma unroll
    for (int i = 0; i < COLUMNS / 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) partial[warp][(outer + j / 2 * 8) * PITCH + COLUMN_OF(i, j)] = sums[i][j];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int x = item; x < M_SIZE * COLUMNS; x += GROUP) {
        const idx m = x / COLUMNS, col = first_col + x % COLUMNS;
        if (col < N_SIZE) {
            R x_sum = 0;
            for (int i = 0; i < WARPS; ++i) x_sum += partial[i][m * PITCH + x % COLUMNS];
            FINISH(x_sum)
        }
    }
}
