// The product of a step of resident.cl for weights of 16 bits on NVIDIA's matrix units. The warps of a work-group share the terms (WARPS_K)
// and the sequences (WARPS_M), and a work-item finishes two units of a sequence. States are shared in 16 bits.
//   BLOCKS_K     blocks of 32 terms that a warp multiplies
//   TILES_M      blocks of 16 sequences of a warp
//   AHEAD        blocks of terms whose states are on their way from memory
//   TYPE         "f16" or "bf16"
#define GROUP (32 * WARPS_M * WARPS_K)
#define ROWS (16 * TILES_M * WARPS_M)
#define UNITS 8
// Blocks of eight sequences of a warp, each of which another warp finishes; warps beyond them only multiply.
#define SLOTS (2 * TILES_M)
#define ALL_TERMS (32 * BLOCKS_K * WARPS_K)
// Words of a sequence's states.
#define PITCH (ALL_TERMS / 2)
#define OWN 2
#define OWN_ROW(u) (first_row + of_k * 8 + outer)
#define OWN_UNIT(u) (inner * 2 + (u))
#define FINISHES (of_k < SLOTS)

#define MULTIPLY(d, a0, a1, a2, a3, b0, b1)                                                                              \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 "                                                   \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                                \
        : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])                                                         \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))

static inline uint pair(const float low, const float high) {
    uint bits;
    asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

#define DECLARE_PRODUCT                                                                                                  \
    __local float waiting[WARPS_M][SLOTS][WARPS_K][GATES_COUNT * 2][32];                                                 \
    const int lane = item % 32, outer = lane / 4, inner = lane % 4;                                                      \
    const int of_k = item / 32 % WARPS_K, of_m = item / 32 / WARPS_K, first_row = of_m * TILES_M * 16;                   \
    uint weights[BLOCKS_K][GATES_COUNT][4];
// Two neighbours of a work-item's eight terms in each register, as they lie in a vector of states.
#define LOAD_WEIGHTS                                                                                                     \
    EACH(block, BLOCKS_K) EACH(g, GATES_COUNT) EACH(w, 4) {                                                              \
        const idx gate = g, unit = first_unit + outer, from = (block * WARPS_K + of_k) * 32 + inner * 8 + w * 2;         \
        float two[2] = {0, 0};                                                                                           \
        EACH(i, 2) {                                                                                                     \
            const idx k = from + i;                                                                                      \
            if (k < HIDDEN && unit < HIDDEN) two[i] = LD1_STATE_WEIGHTS(OFF_STATE_WEIGHTS);                              \
        }                                                                                                                \
        weights[block][g][w] = pair(two[0], two[1]);                                                                     \
    }
#define SHARE(TO, values)                                                                                                \
    if (FINISHES) (TO)[(size_t)OWN_ROW(0) * PITCH + (first_unit / 2 + inner)] = pair(values[0], values[1]);
// The block of terms of the rows of a warp.
#define LOAD_ROWS(FROM, block)                                                                                           \
    EACH(tile, TILES_M) {                                                                                                \
        const __global uint *const row =                                                                                 \
            (FROM) + (size_t)(first_row + tile * 16 + outer) * PITCH + (((block) * WARPS_K + of_k) * 16 + inner * 4);    \
        rows[(block) % AHEAD][tile][0] = shared_vector(row);                                                             \
        rows[(block) % AHEAD][tile][1] = shared_vector(row + 8 * PITCH);                                                 \
    }
#define PRODUCT(FROM, FIRST, COUNT)                                                                                      \
    {                                                                                                                    \
        float sums[TILES_M][COUNT][4];                                                                                   \
        uint4 rows[AHEAD][TILES_M][2];                                                                                   \
        EACH(tile, TILES_M) EACH(g, COUNT) EACH(c, 4) sums[tile][g][c] = 0;                                              \
        EACH(block, AHEAD) { LOAD_ROWS(FROM, block) }                                                                    \
        EACH(block, BLOCKS_K) {                                                                                          \
            EACH(tile, TILES_M) {                                                                                        \
                const uint4 low = rows[block % AHEAD][tile][0], high = rows[block % AHEAD][tile][1];                     \
                EACH(g, COUNT) {                                                                                         \
                    const uint *const by = weights[block][(FIRST) + g];                                                  \
                    MULTIPLY(sums[tile][g], low.x, high.x, low.y, high.y, by[0], by[1]);                                 \
                    MULTIPLY(sums[tile][g], low.z, high.z, low.w, high.w, by[2], by[3]);                                 \
                }                                                                                                        \
            }                                                                                                            \
            if (block + AHEAD < BLOCKS_K) { LOAD_ROWS(FROM, block + AHEAD) }                                             \
        }                                                                                                                \
        EACH(slot, SLOTS) EACH(g, COUNT) EACH(u, 2) {                                                                    \
            waiting[of_m][slot][of_k][((FIRST) + g) * 2 + u][lane] = sums[slot / 2][g][slot % 2 * 2 + u];                \
        }                                                                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
        if (FINISHES) {                                                                                                  \
            EACH(g, COUNT) EACH(u, 2) {                                                                                  \
                float sum = 0;                                                                                           \
                EACH(part, WARPS_K) sum += waiting[of_m][of_k][part][((FIRST) + g) * 2 + u][lane];                       \
                product[(FIRST) + g][u] = sum;                                                                           \
            }                                                                                                            \
        }                                                                                                                \
    }
