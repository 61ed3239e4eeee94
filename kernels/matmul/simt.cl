// A work-group of GROUP work-items computes a TILE_M x TILE_N tile of a product in f32, each item ITEM_M x ITEM_N of it as blocks of 4 x 4.
// Slices of K_TILE terms lie in two places in local memory; the next one is on its way in registers while one is multiplied. Serves
// matmul and convolution, as `tiled.cl`, of which it is the variant for large products:
//   A_ALONG_K, B_ALONG_K   whether chunks of four elements lie along K, or else along the rows (those of the result for A, columns for B)
//   A_WHOLE, B_WHOLE       whether such a chunk is a vector of f32 in memory
//   LANES_N                how many of 32 neighbouring items lie along N
//   COPIES, STAGES         whether slices come by copies, into so many places (simt_copies.cl)
//   LONE_RESULTS           whether results are of f32, and their rows no whole vectors: then neighbours store neighbours
//   PARTS, SPLIT           shares of the sum, and whether there are several, which another kernel adds up then
// One program serves every shape of a tile: sizes and steps may come with the launch.
#if ANYDNN_UNALIGNED
#undef A_WHOLE
#undef B_WHOLE
#define A_WHOLE 0
#define B_WHOLE 0
#endif

#define LANES_M (32 / LANES_N)
#define WARPS_N (TILE_N / (LANES_N * ITEM_N))
#define CHUNKS (K_TILE / 4)
#define TILES_M ((M_SIZE + TILE_M - 1) / TILE_M)
#define TILES_N ((N_SIZE + TILE_N - 1) / TILE_N)
#define STEPS ((K_SIZE + K_TILE - 1) / K_TILE)
#define PART_STEPS ((STEPS + PARTS - 1) / PARTS)
#define RASTER 8

// Where rows are swapped so that the stores of a chunk along K do not meet in a memory bank.
#define FLIP(along_k, chunk) (!COPIES && (along_k) ? (CHUNKS == 2 ? ((chunk) & 1) << 4 : ((chunk) & 3) << 3) : 0)

#define EXISTS_K (K_SIZE % K_TILE == 0 || at_k < K_SIZE)
#define EXISTS_M (M_SIZE % TILE_M == 0 || at_row < M_SIZE)
#define EXISTS_N (N_SIZE % TILE_N == 0 || at_row < N_SIZE)
#define LOAD(held, ROWS, first, ALONG_K, WHOLE, EXISTS, DECLARE, INSIDE, pointer, OFFSET, READ)                          \
    _Pragma("unroll") for (int i = 0; i < (ROWS) * CHUNKS / GROUP; ++i) {                                                \
        const int id = item + i * GROUP;                                                                                 \
        const idx row = (first) + ((ALONG_K) ? id / CHUNKS : id % ((ROWS) / 4) * 4);                                     \
        const idx term = first_k + ((ALONG_K) ? id % CHUNKS * 4 : id / ((ROWS) / 4));                                    \
        float x[4];                                                                                                      \
        if (WHOLE) {                                                                                                     \
            const idx at_row = row, at_k = term;                                                                         \
            DECLARE(at_row)                                                                                              \
            DECLARE_K(at_k)                                                                                              \
            float4 whole = (float4)(0.0f);                                                                               \
            if (EXISTS && EXISTS_K && (INSIDE)) whole = *(const __global float4 *)(pointer + (size_t)(OFFSET) * 4);      \
            x[0] = whole.s0, x[1] = whole.s1, x[2] = whole.s2, x[3] = whole.s3;                                          \
        } else {                                                                                                         \
            _Pragma("unroll") for (int e = 0; e < 4; ++e) {                                                              \
                const idx at_row = row + ((ALONG_K) ? 0 : e), at_k = term + ((ALONG_K) ? e : 0);                         \
                DECLARE(at_row)                                                                                          \
                DECLARE_K(at_k)                                                                                          \
                x[e] = 0.0f;                                                                                             \
                if (EXISTS && EXISTS_K && (INSIDE)) x[e] = READ;                                                         \
            }                                                                                                            \
        }                                                                                                                \
        held[i] = (float4)(x[0], x[1], x[2], x[3]);                                                                      \
    }
#define STORE(held, tile, ROWS, ALONG_K)                                                                                 \
    _Pragma("unroll") for (int i = 0; i < (ROWS) * CHUNKS / GROUP; ++i) {                                                \
        const int id = item + i * GROUP;                                                                                 \
        if (ALONG_K) {                                                                                                   \
            __local float *to = (tile) + id % CHUNKS * 4 * (ROWS) + ((id / CHUNKS) ^ FLIP(1, id % CHUNKS));              \
            to[0] = held[i].s0, to[ROWS] = held[i].s1, to[2 * (ROWS)] = held[i].s2, to[3 * (ROWS)] = held[i].s3;         \
        } else {                                                                                                         \
            *(__local float4 *)((tile) + id / ((ROWS) / 4) * (ROWS) + id % ((ROWS) / 4) * 4) = held[i];                  \
        }                                                                                                                \
    }
// The text of an address names every loop.
#define DECLARE_COLUMN(t) DECLARE_M((idx)0) DECLARE_N(t)
#define LOAD_STEP(step)                                                                                                  \
    {                                                                                                                    \
        const idx first_k = (idx)(step) * K_TILE;                                                                        \
        LOAD(held_a, TILE_M, first_m, A_ALONG_K, A_WHOLE, EXISTS_M, DECLARE_M, SRC_INSIDE, src0, OFF_SRC0, READ_SRC0)    \
        LOAD(held_b, TILE_N, first_n, B_ALONG_K, B_WHOLE, EXISTS_N, DECLARE_COLUMN, true, weights, OFF_WEIGHTS, READ_WEIGHTS) \
    }
#define STORE_STEP(slot)                                                                                                 \
    STORE(held_a, tiles[slot], TILE_M, A_ALONG_K)                                                                        \
    STORE(held_b, tiles[slot] + TILE_M * K_TILE, TILE_N, B_ALONG_K)
// The parts of a term's row and column that an item multiplies. What of a swap falls on lanes is the same for all parts, and what falls on
// parts is known to the compiler, so that addresses are one number and constants.
#define PLACED(first, i, LANES, ITEM, flip)                                                                              \
    ((LANES) * (ITEM) >= 32                                                                                              \
         ? ((first) ^ ((flip) & ((LANES) * 4 - 1))) + (((i) * (LANES) * 4) ^ ((flip) & ~((LANES) * 4 - 1)))              \
         : (((first) + (i) * (LANES) * 4) ^ (flip)))
#define FRAGMENTS(a, b, term)                                                                                            \
    _Pragma("unroll") for (int i = 0; i < ITEM_M / 4; ++i) a[i] = *(const __local float4 *)(                             \
        a_tile + (term) * PITCH(TILE_M) + PLACED(in_m, i, LANES_M, ITEM_M, FLIP(A_ALONG_K, (term) / 4)));                \
    _Pragma("unroll") for (int j = 0; j < ITEM_N / 4; ++j) b[j] = *(const __local float4 *)(                             \
        b_tile + (term) * PITCH(TILE_N) + PLACED(in_n, j, LANES_N, ITEM_N, FLIP(B_ALONG_K, (term) / 4)));
// Terms of a slice one after the other in code: all of them, or so few that a program for every shape compiles in half the time.
#ifdef KNOWN_SHAPE
#define UNROLLED_TERMS _Pragma("unroll")
#else
#define UNROLLED_TERMS _Pragma("unroll 4")
#endif
// By blocks of 4 x 4, which needs the fewest reads of registers.
#define MULTIPLY_ROW(row, x, b) sums[row][j] = fma((float4)(x), b[j], sums[row][j]);
#define MULTIPLY(a, b)                                                                                                   \
    _Pragma("unroll") for (int i = 0; i < ITEM_M / 4; ++i) {                                                             \
        _Pragma("unroll") for (int j = 0; j < ITEM_N / 4; ++j) {                                                         \
            MULTIPLY_ROW(i * 4, a[i].s0, b)                                                                              \
            MULTIPLY_ROW(i * 4 + 1, a[i].s1, b)                                                                          \
            MULTIPLY_ROW(i * 4 + 2, a[i].s2, b)                                                                          \
            MULTIPLY_ROW(i * 4 + 3, a[i].s3, b)                                                                          \
        }                                                                                                                \
    }

#define NOTHING_WITH(term)
// Copies of the slices to come are shared among the terms, whose vectors then do not wait behind all of them.
#define COPY_WITH(term)                                                                                                  \
    if (step + STAGES - 1 < end) COPY_SHARE(step + STAGES - 1, free, (term) / 2, K_TILE / 2)
// A slice. By pairs of terms: which registers a term is in must not depend on whether the compiler unrolls the loop.
#define MULTIPLY_STEP(slot, WITH)                                                                                        \
    {                                                                                                                    \
        const __local float *a_tile = base + (slot) * STAGE_FLOATS, *b_tile = a_tile + PITCH(TILE_M) * K_TILE;           \
        float4 even_a[ITEM_M / 4], even_b[ITEM_N / 4], odd_a[ITEM_M / 4], odd_b[ITEM_N / 4];                             \
        FRAGMENTS(even_a, even_b, 0)                                                                                     \
        UNROLLED_TERMS for (int term = 0; term < K_TILE; term += 2) {                                                    \
            FRAGMENTS(odd_a, odd_b, term + 1)                                                                            \
            WITH(term)                                                                                                   \
            MULTIPLY(even_a, even_b)                                                                                     \
            if (term + 2 < K_TILE) {                                                                                     \
                FRAGMENTS(even_a, even_b, term + 2)                                                                      \
            }                                                                                                            \
            MULTIPLY(odd_a, odd_b)                                                                                       \
        }                                                                                                                \
    }

// A row of an item's part of the result, vector by vector: `v` are its sums, of which `n` exist.
#define FINISH_ROW(row, its_sums, AND_STORE)                                                                             \
    const idx at_m = first_m + in_m + (row) / 4 * (LANES_M * 4) + (row) % 4;                                             \
    _Pragma("unroll") for (int j = 0; j < ITEM_N / 4; ++j) {                                                             \
        const idx at_n = first_n + in_n + j * (LANES_N * 4);                                                             \
        if (at_m < M_SIZE && at_n < N_SIZE) {                                                                            \
            DECLARE_M(at_m)                                                                                              \
            DECLARE_N(at_n)                                                                                              \
            DECLARE_K((idx)0)                                                                                            \
            const int n = N_SIZE % 4 == 0 ? 4 : (int)min((idx)4, N_SIZE - at_n);                                         \
            V v = its_sums[j];                                                                                           \
            FINISH_SUMS                                                                                                  \
            AND_STORE                                                                                                    \
        }                                                                                                                \
    }
#if SPLIT
#define FINISH_SUMS
#define RESULT partial
#define RESULT_AT (idx)get_group_id(2) * PARTIAL_SIZE + OFF_PARTIAL
#define STORE_VECTOR ST_PARTIAL(RESULT_AT, n, v);
#else
#define FINISH_SUMS                                                                                                      \
    ADD_BIAS(v, n)                                                                                                       \
    POST_OPS(v, n)                                                                                                       \
    v = FINAL(v);
#define RESULT dst
#define RESULT_AT OFF_DST
#define STORE_VECTOR ST_DST(RESULT_AT, n, v);
#endif
#if LONE_RESULTS
// Of 32 items by way of local memory: vectors that begin anywhere would be stored element by element, each into a sector of its own.
#define STORED_COLUMNS (LANES_N * ITEM_N)
#define STORED_PITCH (STORED_COLUMNS % 32 == 0 ? STORED_COLUMNS + 16 : STORED_COLUMNS)
#define STORE_ROW(row, its_sums)                                                                                         \
    {                                                                                                                    \
        __local float *stored = (__local float *)tiles + warp * (LANES_M * STORED_PITCH);                                \
        {                                                                                                                \
            FINISH_ROW(row, its_sums,                                                                                    \
                       *(__local float4 *)(stored + lane / LANES_N * STORED_PITCH + lane % LANES_N * 4 +                 \
                                           j * (LANES_N * 4)) = v;)                                                      \
        }                                                                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
        _Pragma("unroll") for (int e = lane; e < LANES_M * STORED_COLUMNS; e += 32) {                                    \
            const idx at_m = warp_m + e / STORED_COLUMNS * 4 + (row) / 4 * (LANES_M * 4) + (row) % 4;                    \
            const idx at_n = warp_n + e % STORED_COLUMNS;                                                                \
            if (at_m < M_SIZE && at_n < N_SIZE) {                                                                        \
                DECLARE_M(at_m)                                                                                          \
                DECLARE_N(at_n)                                                                                          \
                DECLARE_K((idx)0)                                                                                        \
                put_32(RESULT, RESULT_AT, as_uint(stored[e / STORED_COLUMNS * STORED_PITCH + e % STORED_COLUMNS]));      \
            }                                                                                                            \
        }                                                                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
    }
#else
#define STORE_ROW(row, its_sums) {FINISH_ROW(row, its_sums, STORE_VECTOR)}
#endif

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void matmul_simt(PARAMS) {
    __local float tiles[PLACES][STAGE_FLOATS] __attribute__((aligned(16)));
    ENTER
    const int item = (int)get_local_id(0), lane = item % 32, warp = item / 32;
    DECLARE_BATCH((idx)get_group_id(1))
    const int begin = (int)get_group_id(2) * PART_STEPS, end = min(begin + PART_STEPS, (int)STEPS);
    const int t = (int)get_group_id(0);
    const int top = t / (RASTER * TILES_N) * RASTER, height = min((int)TILES_M - top, RASTER);
    const int in_band = t - top * TILES_N;
    const idx first_m = (idx)(top + in_band % height) * TILE_M, first_n = (idx)(in_band / height) * TILE_N;
    const int in_m = warp / WARPS_N * (LANES_M * ITEM_M) + lane / LANES_N * 4;
    const int in_n = warp % WARPS_N * (LANES_N * ITEM_N) + lane % LANES_N * 4;
#if LONE_RESULTS
    const idx warp_m = first_m + warp / WARPS_N * (LANES_M * ITEM_M), warp_n = first_n + warp % WARPS_N * (LANES_N * ITEM_N);
#endif

    const __local float *base = tiles[0];
#if defined(KNOWN_SHAPE) && defined(__NV_CL_C_VERSION)
    // Else each slice begins with working out where local memory lies.
    asm volatile("" : "+l"(base));
#endif
    float4 sums[ITEM_M][ITEM_N / 4];
#pragma unroll
    for (int i = 0; i < ITEM_M; ++i)
#pragma unroll
        for (int j = 0; j < ITEM_N / 4; ++j) sums[i][j] = (float4)(0.0f);
#if COPIES
    const uint start = (uint)(ulong)tiles[0];
    AIM_STEPS
    for (int step = begin; step < begin + STAGES - 1; ++step) {
        if (step < end) COPY_SHARE(step, step - begin, 0, 1)
        ADVANCE
        COPIES_COMMIT;
    }
    int slot = 0, free = STAGES - 1;
    for (int step = begin; step < end; ++step) {
        COPIES_WAIT(STAGES - 2);
        barrier(CLK_LOCAL_MEM_FENCE);
        // Into the place of the slice before, which all items have multiplied.
#if defined(KNOWN_SHAPE) && SHARED_COPIES
        MULTIPLY_STEP(slot, COPY_WITH)
#else
        if (step + STAGES - 1 < end) COPY_SHARE(step + STAGES - 1, free, 0, 1)
        MULTIPLY_STEP(slot, NOTHING_WITH)
#endif
        ADVANCE
        COPIES_COMMIT;
        free = slot;
        slot = slot + 1 == STAGES ? 0 : slot + 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    float4 held_a[TILE_M * CHUNKS / GROUP], held_b[TILE_N * CHUNKS / GROUP];
#ifdef KNOWN_SHAPE
    if (begin < end) {
        LOAD_STEP(begin)
        STORE_STEP(0)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = begin; step < end; ++step) {
        const int slot = (step - begin) & 1;
        if (step + 1 < end) LOAD_STEP(step + 1)
#else
    // The loads once, by a step more that multiplies nothing.
    for (int step = begin - 1; step < end; ++step) {
        const int slot = (step - begin) & 1;
        if (step + 1 < end) LOAD_STEP(step + 1)
        if (step >= begin)
#endif
        MULTIPLY_STEP(slot, NOTHING_WITH)
        if (step + 1 < end) {
            STORE_STEP(slot ^ 1)
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#endif

#if defined(KNOWN_SHAPE) && (SPLIT || FINAL_IN_TILES)
#pragma unroll
    for (int i = 0; i < ITEM_M; ++i) STORE_ROW(i, sums[i])
#else
    // The code for a row once: compilers took two thirds of their time for its copies. The next row comes to the first one's registers.
    NOT_UNROLLED for (int i = 0; i < ITEM_M; ++i) {
        STORE_ROW(i, sums[0])
#pragma unroll
        for (int row = 0; row + 1 < ITEM_M; ++row)
#pragma unroll
            for (int j = 0; j < ITEM_N / 4; ++j) sums[row][j] = sums[row + 1][j];
    }
#endif
}
