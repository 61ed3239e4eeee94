// A register tile of a convolution: adds what up to TILE_M positions side by side see to `sums`, or, where `first` is not null, to the one
// position that lies there, in each of them. The terms of a sum are `planes` times `rows` runs of `terms` terms, each of these three steps
// by its own distances in both operands; the weights NEAR elements on are fetched into the first-level cache. Included once for each number
// of positions, under the name TILE. The first TILE_WHOLE vectors of a position have sixteen lanes, one more has eight where TILE_HALF is
// 1; the next position is VECTORS vectors on. The first `skipped` positions and those from `positions` on are computed and thrown away.
// OF_ALL, what begins with `first` is final: tiles store it to `out`, with what lies at `addend` if that is not null. Sums are arrays over
// loops that are unrolled, not repeated text: drivers keep what they read of a program as long as it lives.
#if ANYDNN_UNALIGNED
#define ELEMENT(p, i) as_float(vload4(0, (const __global uchar *)((p) + (i))))
#define QUARTER(p, i) as_float4(vload16(i, (const __global uchar *)(p)))
#define VECTOR(p) (V)(QUARTER(p, 0), QUARTER(p, 1), QUARTER(p, 2), QUARTER(p, 3))
#define HALF(p) (float8)(QUARTER(p, 0), QUARTER(p, 1))
#else
#define ELEMENT(p, i) (p)[i]
#define VECTOR(p) vload16(0, p)
#define HALF(p) vload8(0, p)
#endif
// In one access, which vstore16 is not everywhere.
#define STORE(v, p) store_32_16((__global uchar *)(p), 0, 16, pack_f32_16(v))
// Those that are thrown away begin as one that is not, and have a place behind all others.
#define BEGIN(i, j) (*(const __local V *)(begin + clamp(i, skipped, positions - 1) * step + j * 16))
#define SUM(i, j) (*(__local V *)(sums + ((i >= skipped && i < positions ? i : waste) * VECTORS + j) * 16))

// PoCL 3.1 crashes as it compiles a function of this kind that is not inlined.
static inline __attribute__((always_inline)) void TILE(const __global float *restrict a, const __global float *restrict b,
                                                       const int planes, const int rows, const int terms, const int skipped,
                                                       const int positions, __local float *sums, const int waste,
                                                       const __local float *first, __global float *out,
                                                       const __global float *addend, const float4 factors WITH_SHAPE) {
    const int step = first ? 0 : VECTORS * 16;
    const __local float *begin = first ? first : sums;
    // Drivers may read a structure again and again.
    const idx a_step_m = A_STEP_M, a_step_k = A_STEP_K, a_step_row = A_STEP_ROW, a_step_plane = A_STEP_PLANE;
    const idx b_step_k = B_STEP_K, b_step_row = B_STEP_ROW, b_step_plane = B_STEP_PLANE, near = NEAR;
#if TILE_WHOLE
    V sum[TILE_M][TILE_WHOLE];
    EACH(i, TILE_M) EACH(j, TILE_WHOLE) sum[i][j] = BEGIN(i, j);
#endif
#if TILE_HALF
    float8 half_sum[TILE_M];
    EACH(i, TILE_M) half_sum[i] = BEGIN(i, TILE_WHOLE).lo;
#endif
    for (int plane = 0; plane < planes; ++plane) {
        const __global float *a_row = a, *b_row = b;
        for (int row = 0; row < rows; ++row) {
            const __global float *a_term = a_row, *b_term = b_row;
            for (int k = 0; k < terms; ++k) {
                EACH(j, TILE_WHOLE + TILE_HALF) FETCH_NEAR(b_term + near + 16 * j);
#if TILE_WHOLE
                V weights[TILE_WHOLE];
                EACH(j, TILE_WHOLE) weights[j] = VECTOR(b_term + 16 * j);
#endif
#if TILE_HALF
                const float8 half_weights = HALF(b_term + 16 * TILE_WHOLE);
#endif
                EACH(i, TILE_M) {
                    const float x = ELEMENT(a_term, i * a_step_m);
#if TILE_WHOLE
                    EACH(j, TILE_WHOLE) sum[i][j] += x * weights[j];
#endif
#if TILE_HALF
                    half_sum[i] += x * half_weights;
#endif
                }
                a_term += a_step_k;
                b_term += b_step_k;
            }
            a_row += a_step_row;
            b_row += b_step_row;
        }
        a += a_step_plane;
        b += b_step_plane;
    }
#if FINAL_IN_TILES && OF_ALL
    if (first) {
        if (addend) {
#if TILE_WHOLE
            EACH(i, TILE_M) { EACH(j, TILE_WHOLE) sum[i][j] += vload16(j, addend + i * ADDEND_STEP); }
#endif
#if TILE_HALF
            EACH(i, TILE_M) half_sum[i] += vload8(0, addend + i * ADDEND_STEP + TILE_WHOLE * 16);
#endif
        }
#if TILE_WHOLE
        if (HAS_FIRST) {
            EACH(i, TILE_M) { EACH(j, TILE_WHOLE) STORE(LAST(FIRST(sum[i][j])), out + i * DST_STEP + 16 * j); }
        } else {
            EACH(i, TILE_M) { EACH(j, TILE_WHOLE) STORE(LAST(sum[i][j]), out + i * DST_STEP + 16 * j); }
        }
#endif
#if TILE_HALF
        if (HAS_FIRST) {
            EACH(i, TILE_M) {
                vstore8((LAST(FIRST((V)(half_sum[i], half_sum[i])))).lo, 0, out + i * DST_STEP + TILE_WHOLE * 16);
            }
        } else {
            EACH(i, TILE_M) {
                vstore8((LAST((V)(half_sum[i], half_sum[i]))).lo, 0, out + i * DST_STEP + TILE_WHOLE * 16);
            }
        }
#endif
        return;
    }
#endif
#if TILE_WHOLE
    EACH(i, TILE_M) EACH(j, TILE_WHOLE) SUM(i, j) = sum[i][j];
#endif
#if TILE_HALF
    EACH(i, TILE_M) SUM(i, TILE_WHOLE).lo = half_sum[i];
#endif
}

#undef ELEMENT
#undef QUARTER
#undef VECTOR
#undef HALF
#undef STORE
#undef BEGIN
#undef SUM
