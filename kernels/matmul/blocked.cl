// For CPUs: a work-item computes a block of rows of one or more panels of PANEL columns, K_BLOCK terms at a time, so that what it reads
// again stays in cache, by the register tiles `tile_more` (the first TILES_MORE of them, of a row more) and `tile_least`. Operands that a
// tile cannot read as they lie are copied, as numbers of f32, a block at a time. With GATED a second matrix SRC1 makes the product's gate.
// Of weights in whole panels the tiles of a block fetch the next block, AHEAD lines for each four terms of a tile, so that memory is read
// while there is something to compute. With MISSING the last PANEL is made of fewer parts than the others. With LAST_VECTORS its tiles,
// `tile_more_of_last` and `tile_least_of_last`, have so many vectors. With LISTED the
// post-operations, of a bias too, come with the launch (`common/epilogue.cl`).
#define IN_PLACE 0
#define ALONG_K 1
#define ALONG_M 2
#define ALONG_N 3
#define ONE_BY_ONE 4
#if GATED
#define IF_GATED(text) text
#else
#define IF_GATED(text)
#endif
#if HAS_AHEAD
#define NEXT , b + (K_BLOCK * PANEL + (tile - first_tile) * (K_BLOCK * AHEAD * 4))
#else
#define NEXT
#endif
#if MISSING
#define AND_LAST_PART , last_part
#else
#define AND_LAST_PART
#endif
// Rows that a tile stores, and those that it computes: the last one starts earlier than it stores where fewer are left than it has.
#define TILE_OWN(tile) ((tile) * TILE_LEAST + min(tile, (idx)TILES_MORE))
#define TILE_START(tile) min(TILE_OWN(tile), (idx)(M_SIZE - TILE_LEAST))
// How many of a vector's lanes are columns.
#define LANES_OF(j) (WHOLE_PANELS ? 16 : clamp(columns - 16 * (j), 0, 16))

#if PACK_WEIGHTS == IN_PLACE
#define PACK(X)
#define WEIGHTS_OF(X, pointer) ((const __global float *)pointer + OFF_##X)
#elif PACK_WEIGHTS == ALONG_N
#define PACK(X)                                                                                                          \
    for (idx k = first_k; k < first_k + terms; ++k) {                                                                    \
        EACH(j, PANEL / 16) PACK_VECTOR(X, j)                                                                            \
    }
#define PACK_VECTOR(X, j)                                                                                                \
    {                                                                                                                    \
        const idx part = 16 * j / PART, lane = 16 * j % PART;                                                            \
        const int n = LANES_OF(j);                                                                                       \
        V v = (V)(0);                                                                                                    \
        if (n > 0) v = DEQ_##X(LD_##X(OFF_##X, n), n);                                                                   \
        *(__local V *)(b_block + (k - first_k) * PANEL + 16 * j) = v;                                                    \
    }
#define WEIGHTS_OF(X, pointer) b_block
#else
#define PACK(X)                                                                                                          \
    for (idx k = first_k; k < first_k + terms; k += 16) {                                                                \
        const int depth = (int)min((idx)16, first_k + terms - k);                                                        \
        for (int j = 0; j < PANEL / 16; ++j) {                                                                           \
            const int n = LANES_OF(j);                                                                                   \
            V line[16];                                                                                                  \
            for (int i = 0; i < 16; ++i) {                                                                               \
                const idx part = (16 * j + i) / PART, lane = (16 * j + i) % PART;                                        \
                line[i] = (V)(0);                                                                                        \
                if (i < n) line[i] = RUN_##X(OFF_##X, depth);                                                            \
            }                                                                                                            \
            put_transposed(line, b_block + (k - first_k) * PANEL + 16 * j, PANEL);                                       \
        }                                                                                                                \
    }
#define WEIGHTS_OF(X, pointer) b_block
#endif

#if PACK_SRC0 == IN_PLACE
#define SOURCE_OF(m) ((const __global float *)src0 + OFF_SRC0)
#elif PACK_SRC0 == ALONG_M
#define SOURCE_OF(m) (a_block + (m - item_m))
#else
#define SOURCE_OF(m) (a_block + (m - item_m) * A_STEP_M)
#endif

// Adds the products of a block of terms by the weights X to `sums`, and does with the sums of each tile, `to`, what `then` says.
#define MULTIPLY_BLOCK(X, pointer, sums, then)                                                                           \
    {                                                                                                                    \
        const idx m = 0;                                                                                                 \
        PACK(X)                                                                                                          \
        const idx k = first_k, part = 0, lane = 0;                                                                       \
        const B_SPACE float *b = WEIGHTS_OF(X, pointer);                                                                 \
        for (idx tile = first_tile; tile < end_tile; ++tile) {                                                           \
            const idx own_m = TILE_OWN(tile), m = TILE_START(tile);                                                      \
            const A_SPACE float *a = SOURCE_OF(m);                                                                       \
            __local float *to = sums + SUMS_OF(own_m);                                                                   \
            if (tile < TILES_MORE) MULTIPLY_TILE(tile_more)                                                              \
            else MULTIPLY_TILE(tile_least)                                                                               \
            then                                                                                                         \
        }                                                                                                                \
    }
#define MULTIPLY_BY(name) name(a, b, terms, first_k == 0, to NEXT AND_LAST_PART AND_SHAPE);
#if LAST_VECTORS
#define MULTIPLY_TILE(name)                                                                                              \
    {                                                                                                                    \
        if (panel == PANELS - 1) MULTIPLY_BY(name##_of_last)                                                             \
        else MULTIPLY_BY(name)                                                                                           \
    }
#else
#define MULTIPLY_TILE(name) MULTIPLY_BY(name)
#endif
// Sums that are finished at once take the same place, tile by tile.
#define SUMS_OF(own_m) (ONE_BLOCK && !GATED ? 0 : (own_m - TILE_OWN(item_first)) * PANEL)
// Stores a tile's own rows where their sums are whole.
#define FINISH_TILE                                                                                                      \
    if (first_k + K_BLOCK >= K_SIZE) {                                                                                   \
        const idx start_m = own_m, end_m = min(TILE_OWN(tile + 1), (idx)M_SIZE);                                         \
        const idx skipped = (own_m - m) * PANEL;                                                                         \
        APPLY_LIST                                                                                                       \
        const __local float *from = to + skipped;                                                                        \
        IF_GATED(const __local float *gates_from = gates + SUMS_OF(own_m) + skipped;)                                    \
        for (idx m = start_m; m < end_m; ++m, from += PANEL) {                                                           \
            EACH(j, PANEL / 16) FINISH(j)                                                                                \
            IF_GATED(gates_from += PANEL;)                                                                               \
        }                                                                                                                \
    }
#define FINISH(j)                                                                                                        \
    if (LANES_OF(j) > 0) {                                                                                               \
        const idx part = 16 * j / PART, lane = 16 * j % PART, k = 0;                                                     \
        const int n_lanes = LANES_OF(j);                                                                                 \
        V v = OUT_SRC0(OUT_WEIGHTS(*(const __local V *)(from + 16 * j), n_lanes), n_lanes);                              \
        IF_GATED(v = JOIN(v, ACTIVATION(OUT_SRC0(OUT_SRC1(*(const __local V *)(gates_from + 16 * j), n_lanes), n_lanes)));)\
        ADD_BIAS(v, n_lanes)                                                                                             \
        POST_OPS(v, n_lanes)                                                                                             \
        v = FINAL(v);                                                                                                    \
        ST_DST(OFF_DST, n_lanes, v);                                                                                     \
    }
#if LISTED
#define VECTORS (PANEL / 16)
#define APPLY_LIST                                                                                                       \
    {                                                                                                                    \
        const idx m = start_m, part = 0, lane = 0, k = 0;                                                                \
        __local float *const sums = to + skipped;                                                                        \
        APPLY_STEPS(end_m - start_m)                                                                                     \
    }
#else
#define APPLY_LIST
#define DECLARE_FACTORS
#define FINAL(v) (v)
#endif

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void matmul_blocked(PARAMS) {
    __local float sums[SUMS] __attribute__((aligned(64)));
    IF_GATED(__local float gates[SUMS] __attribute__((aligned(64)));)
#if PACK_SRC0 != IN_PLACE
    __local float a_block[A_BLOCK] __attribute__((aligned(64)));
#endif
#if PACK_WEIGHTS != IN_PLACE
    __local float b_block[B_BLOCK] __attribute__((aligned(64)));
#endif
    ENTER
    const idx item_first = (idx)get_global_id(1) * ITEM_TILES;
    const idx item_last = min(item_first + ITEM_TILES, (idx)TILES);
    const idx item_m = TILE_START(item_first), item_end = min(TILE_OWN(item_last), (idx)M_SIZE);
    DECLARE_BATCH((idx)get_global_id(2))
    DECLARE_FACTORS
    const idx first_panel = (idx)get_global_id(0) * ITEM_PANELS;
    const idx panels = min((idx)ITEM_PANELS, PANELS - first_panel);
    // Where all panels stay near, they pass for one tile after the other: the result is written line by line.
    for (idx step = 0, steps = TILES_OUTSIDE ? panels * (item_last - item_first) : panels; step < steps; ++step) {
        const idx tile_step = TILES_OUTSIDE ? step / panels : 0, panel = first_panel + step - tile_step * panels;
        const idx first_tile = item_first + tile_step, end_tile = TILES_OUTSIDE ? first_tile + 1 : item_last;
        const int columns = (int)min((idx)PANEL, N_SIZE - panel * PANEL);
#if MISSING
        const int last_part = (columns - 1) / PART;
#endif
        for (idx first_k = 0; first_k < K_SIZE; first_k += K_BLOCK) {
            const int terms = (int)min((idx)K_BLOCK, K_SIZE - first_k);
#if PACK_SRC0 != IN_PLACE
            if (!ONE_BLOCK || step == 0) {
#if PACK_SRC0 == ALONG_K
                for (idx m = item_m; m < item_end; ++m)
                    for (idx k = first_k; k < first_k + terms; k += 16) {
                        const int n = (int)min((idx)16, first_k + terms - k);
                        const idx part = 0, lane = 0;
                        *(__local V *)(SOURCE_OF(m) + (k - first_k)) = DEQ_SRC0(RUN_SRC0(OFF_SRC0, n), n);
                    }
#elif PACK_SRC0 == ALONG_M
                for (idx k = first_k; k < first_k + terms; ++k)
                    for (idx m = item_m; m < item_end; m += 16) {
                        const int n = (int)min((idx)16, item_end - m);
                        const idx part = 0, lane = 0;
                        *(__local V *)(SOURCE_OF(m) + (k - first_k) * A_STEP_K) = DEQ_SRC0(RUN_SRC0(OFF_SRC0, n), n);
                    }
#else
                for (idx m = item_m; m < item_end; ++m)
                    for (idx k = first_k; k < first_k + terms; ++k) {
                        const idx part = 0, lane = 0;
                        SOURCE_OF(m)[k - first_k] = DEQ1_SRC0(LD1_SRC0(OFF_SRC0));
                    }
#endif
            }
#endif
            IF_GATED(MULTIPLY_BLOCK(SRC1, src1, gates, ))
            MULTIPLY_BLOCK(WEIGHTS, weights, sums, FINISH_TILE)
        }
    }
}
