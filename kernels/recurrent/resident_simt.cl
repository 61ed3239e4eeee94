// The product of a step of resident.cl by ordinary arithmetic on NVIDIA's devices, for every type. The warps of a work-group share the
// terms, and a work-item multiplies a column: a unit of a gate. Sequences are taken in chunks, of which it finishes a unit each.
//   TERMS_K      terms of a warp, a multiple of four and 128 at most
//   CHUNKS       chunks of sequences
#define WARPS 8
#define GROUP (32 * WARPS)
#define UNITS (GATES_COUNT == 1 ? 32 : 8)
#define CHUNK (GROUP / UNITS)
#define ROWS (CHUNK * CHUNKS)
#define ALL_TERMS (WARPS * TERMS_K)
#define PITCH ALL_TERMS
#define OWN CHUNKS
#define OWN_ROW(u) ((u) * CHUNK + item / UNITS)
#define OWN_UNIT(u) (item % UNITS)
#define FINISHES 1
// Sequences at a time.
#define AT_ONCE 2

#define SYNCHRONIZE_WARP asm volatile("bar.warp.sync 0xffffffff;" : : : "memory")

#define DECLARE_PRODUCT                                                                                                  \
    __local float waiting[WARPS][CHUNK][32];                                                                             \
    __local float4 staged[WARPS][AT_ONCE][TERMS_K / 4];                                                                  \
    const int lane = item % 32, warp = item / 32;                                                                        \
    const int rows_there = (int)min((idx)ROWS, BATCH - first_n);                                                         \
    float weights[TERMS_K];
#define LOAD_WEIGHTS                                                                                                     \
    EACH(i, TERMS_K) {                                                                                                   \
        const idx gate = lane / UNITS, unit = first_unit + lane % UNITS, k = warp * TERMS_K + i;                         \
        weights[i] = 0;                                                                                                  \
        if (k < HIDDEN && unit < HIDDEN && gate < GATES_COUNT) weights[i] = LD1_STATE_WEIGHTS(OFF_STATE_WEIGHTS);        \
    }
#define SHARE(TO, values)                                                                                                \
    EACH(u, OWN) {                                                                                                       \
        if (OWN_ROW(u) < rows_there) (TO)[(size_t)OWN_ROW(u) * PITCH + first_unit + OWN_UNIT(u)] = as_uint(values[u]);   \
    }
#define LOAD_ROWS(FROM, row)                                                                                             \
    if (lane < TERMS_K / 4) {                                                                                            \
        EACH(r, AT_ONCE) {                                                                                               \
            next[r] = shared_vector((FROM) + (size_t)min((row) + r, rows_there - 1) * PITCH + warp * TERMS_K + lane * 4); \
        }                                                                                                                \
    }
// Each chunk ends before sums of the next one take its place.
#define PRODUCT(FROM, FIRST, COUNT)                                                                                      \
    EACH(chunk, CHUNKS) {                                                                                                \
        const int first_row = chunk * CHUNK, rows_here = min(rows_there - first_row, CHUNK);                             \
        uint4 next[AT_ONCE];                                                                                             \
        LOAD_ROWS(FROM, first_row)                                                                                       \
        for (int row = 0; row < rows_here; row += AT_ONCE) {                                                             \
            if (lane < TERMS_K / 4) {                                                                                    \
                EACH(r, AT_ONCE) staged[warp][r][lane] = as_float4(next[r]);                                             \
            }                                                                                                            \
            SYNCHRONIZE_WARP;                                                                                            \
            LOAD_ROWS(FROM, first_row + row + AT_ONCE)                                                                   \
            float sums[AT_ONCE];                                                                                         \
            EACH(r, AT_ONCE) sums[r] = 0;                                                                                \
            EACH(i, TERMS_K / 4) {                                                                                       \
                EACH(r, AT_ONCE) {                                                                                       \
                    const float4 x = staged[warp][r][i];                                                                 \
                    sums[r] = fma(x.x, weights[4 * i], sums[r]);                                                         \
                    sums[r] = fma(x.y, weights[4 * i + 1], sums[r]);                                                     \
                    sums[r] = fma(x.z, weights[4 * i + 2], sums[r]);                                                     \
                    sums[r] = fma(x.w, weights[4 * i + 3], sums[r]);                                                     \
                }                                                                                                        \
            }                                                                                                            \
            EACH(r, AT_ONCE) waiting[warp][row + r][lane] = sums[r];                                                     \
            SYNCHRONIZE_WARP;                                                                                            \
        }                                                                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
        EACH(g, COUNT) {                                                                                                 \
            float sum = 0;                                                                                               \
            EACH(part, WARPS) sum += waiting[part][item / UNITS][((FIRST) + g) * UNITS + OWN_UNIT(0)];                   \
            product[(FIRST) + g][chunk] = sum;                                                                           \
        }                                                                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
    }
