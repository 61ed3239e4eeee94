// A product by tiles of sub-groups, without local memory. A work-item has COLUMNS columns, one of every SUB_GROUP, of ROWS rows of the
// result. Of a slice of SUB_GROUP terms it loads one of each row, which the others find in its registers, and all of its columns.
// Serves matmul and convolution, as `simt.cl`. The unit's text in front of this one defines:
//   FACTOR, AS_FACTOR(x)   the type of terms, and a float as such
//   MULTIPLY(sums, a, b)   adds to the sums of ROWS rows the products of a slice of rows (a[ROWS], a term each) and a column (b[SUB_GROUP])
#define TILES_N ((N_SIZE + TILE_N - 1) / TILE_N)
#define STEPS ((K_SIZE + SUB_GROUP - 1) / SUB_GROUP)
#define PART_STEPS ((STEPS + PARTS - 1) / PARTS)
#define ALONG_N (TILE_N / (COLUMNS * SUB_GROUP))
#define EXISTS_K (K_SIZE % SUB_GROUP == 0 || at_k < K_SIZE)
#define EXISTS_M (M_SIZE % TILE_M == 0 || at_m < M_SIZE)
#define EXISTS_N (N_SIZE % TILE_N == 0 || at_n < N_SIZE)

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void matmul_sub_groups(PARAMS) {
    ENTER
    DECLARE_BATCH((idx)get_group_id(1))
    const int own = (int)get_sub_group_id(), item = (int)get_sub_group_local_id(), tile = (int)get_group_id(0);
    const idx first_m = (idx)(tile / TILES_N) * TILE_M + own / ALONG_N * ROWS;
    const idx first_n = (idx)(tile % TILES_N) * TILE_N + own % ALONG_N * (COLUMNS * SUB_GROUP) + item;
    const int begin = (int)get_group_id(2) * PART_STEPS, end = min(begin + PART_STEPS, (int)STEPS);
    float sums[COLUMNS][ROWS];
    EACH(j, COLUMNS)
        EACH(i, ROWS) sums[j][i] = 0.0f;
    for (int step = begin; step < end; ++step) {
        const idx first_k = (idx)step * SUB_GROUP;
        FACTOR a[ROWS];
        EACH(i, ROWS) {
            const idx at_m = first_m + i, at_k = first_k + item;
            DECLARE_M(at_m)
            DECLARE_K(at_k)
            float x = 0.0f;
            if (EXISTS_M && EXISTS_K && (SRC_INSIDE)) x = READ_SRC0;
            a[i] = AS_FACTOR(x);
        }
        EACH(j, COLUMNS) {
            const idx at_n = first_n + j * SUB_GROUP;
            DECLARE_N(at_n)
            FACTOR b[SUB_GROUP];
            EACH(term, SUB_GROUP) {
                const idx at_k = first_k + term;
                DECLARE_K(at_k)
                float x = 0.0f;
                if (EXISTS_N && EXISTS_K) x = READ_WEIGHTS;
                b[term] = AS_FACTOR(x);
            }
            MULTIPLY(sums[j], a, b)
        }
    }
    EACH(i, ROWS) {
        const idx at_m = first_m + i;
        EACH(j, COLUMNS) {
            const idx at_n = first_n + j * SUB_GROUP;
            if (at_m < M_SIZE && at_n < N_SIZE) {
                DECLARE_M(at_m)
                DECLARE_N(at_n)
                const int n = 1;
                V v = sums[j][i];
#if SPLIT
                ST_PARTIAL((idx)get_group_id(2) * PARTIAL_SIZE + OFF_PARTIAL, n, v);
#else
                ADD_BIAS(v, n)
                POST_OPS(v, n)
                ST_DST(OFF_DST, n, v);
#endif
            }
        }
    }
}
