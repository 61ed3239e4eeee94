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

// The rows of a work-item at k.
#define LOAD_ROWS                                                                                                        \
    if (inside && outer < M_SIZE) {                                                                                      \
        const idx m = outer;                                                                                             \
        low = as_uint4(RAW_SRC0(OFF_SRC0));                                                                              \
    }                                                                                                                    \
    if (inside && outer + 8 < M_SIZE) {                                                                                  \
        const idx m = outer + 8;                                                                                         \
        high = as_uint4(RAW_SRC0(OFF_SRC0));                                                                             \
    }

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void matmul_skinny(PARAMS) {
    ENTER
    __local float waiting[WARPS][ROWS * PITCH];
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

#define SUM_UP(INSIDE)                                                                                                   \
    _Pragma("unroll 2") for (idx k = first_k + warp * 32 + inner * 8; k - inner * 8 < last_k; k += WARPS * 32) {         \
        const bool inside = INSIDE;                                                                                      \
        uint4 b[COLUMNS / 8], low = (uint4)(0), high = (uint4)(0);                                                       \
        _Pragma("unroll") for (int i = 0; i < COLUMNS / 8; ++i) {                                                        \
            const idx col = min(first_col + i * 8 + outer, (idx)(N_SIZE - 1));                                           \
            b[i] = (uint4)(0);                                                                                           \
            if (inside) b[i] = as_uint4(RAW_WEIGHTS(OFF_WEIGHTS, 8));                                                    \
        }                                                                                                                \
        LOAD_ROWS                                                                                                        \
        _Pragma("unroll") for (int i = 0; i < COLUMNS / 8; ++i) {                                                        \
            MULTIPLY(sums[i], low.x, high.x, low.y, high.y, b[i].x, b[i].y);                                             \
            MULTIPLY(sums[i], low.z, high.z, low.w, high.w, b[i].z, b[i].w);                                             \
        }                                                                                                                \
    }
    const int n = 8;
#define COLUMN_OF(i, j) ((i) * 8 + inner * 2 + (j) % 2)
#else

// Pairs of neighbours along K.
#define EVEN(a, b) (((a) & 0xffffu) | ((b) << 16))
#define ODD(a, b) (((a) >> 16) | ((b) & 0xffff0000u))
#define TWO_COLUMNS(i, WORD)                                                                                             \
    MULTIPLY(sums[i], low.x, high.x, low.y, high.y, EVEN(b[0].WORD, b[1].WORD), EVEN(b[2].WORD, b[3].WORD));             \
    MULTIPLY(sums[i], low.z, high.z, low.w, high.w, EVEN(b[4].WORD, b[5].WORD), EVEN(b[6].WORD, b[7].WORD));             \
    MULTIPLY(sums[i + 1], low.x, high.x, low.y, high.y, ODD(b[0].WORD, b[1].WORD), ODD(b[2].WORD, b[3].WORD));           \
    MULTIPLY(sums[i + 1], low.z, high.z, low.w, high.w, ODD(b[4].WORD, b[5].WORD), ODD(b[6].WORD, b[7].WORD));
#define SUM_UP(INSIDE)                                                                                                   \
    _Pragma("unroll 2") for (idx own_k = first_k + warp * 32 + inner * 8; own_k - inner * 8 < last_k;                    \
                             own_k += WARPS * 32) {                                                                      \
        uint4 b[8], low = (uint4)(0), high = (uint4)(0);                                                                 \
        _Pragma("unroll") for (int i = 0; i < 8; ++i) {                                                                  \
            const idx k = own_k + i;                                                                                     \
            const bool inside = INSIDE;                                                                                  \
            b[i] = (uint4)(0);                                                                                           \
            if (inside) b[i] = as_uint4(RAW_WEIGHTS(OFF_WEIGHTS, n));                                                    \
        }                                                                                                                \
        const idx k = own_k;                                                                                             \
        const bool inside = INSIDE;                                                                                      \
        LOAD_ROWS                                                                                                        \
        TWO_COLUMNS(0, x)                                                                                                \
        TWO_COLUMNS(2, y)                                                                                                \
        TWO_COLUMNS(4, z)                                                                                                \
        TWO_COLUMNS(6, w)                                                                                                \
    }
    const idx col = min(first_col + outer * 8, (idx)(N_SIZE - 1));
    const int n = clamp((int)(N_SIZE - first_col) - outer * 8, 0, 8);
#define COLUMN_OF(i, j) ((inner * 2 + (j) % 2) * 8 + (i))
#endif

    // Nothing comes between loads of whole vectors. All work-items go the same way, as instructions of warps want.
    if (K_SIZE % (WARPS * 32) == 0 && N_SIZE - first_col >= COLUMNS && ARE_WHOLE && IS_WHOLE(src0, 16)) {
        const int n = 8;
        SUM_UP(true)
    } else {
        SUM_UP(k < last_k)
    }
#pragma unroll
    for (int i = 0; i < COLUMNS / 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) waiting[warp][(outer + j / 2 * 8) * PITCH + COLUMN_OF(i, j)] = sums[i][j];
    JOIN_WARPS
}
