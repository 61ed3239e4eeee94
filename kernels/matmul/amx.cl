// x86's matrix units: tiles of 16 rows of 64 bytes. Up to ROW_TILES tiles of the source's rows, A_STEP bytes apart, by the parts of a panel of
// weights. Compilers know nothing of the tile registers, so nobody else uses them. RUN_STEPS tiles of terms follow each other, in runs that are
// taps of a window further apart in the source; what a run has beyond whole tiles, RUN_REST bytes, is copied to where zeros follow it.
#define LOAD_TILE(t, p, step)                                                                                            \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" t ::"r"(p), "r"((ulong)(step)) : "memory");
#define STORE_TILE(t, p, step)                                                                                           \
    __asm__ volatile("tilestored %%tmm" t ", (%0,%1,1)" ::"r"(p), "r"((ulong)(step)) : "memory");
#define CLEAR_TILE(t) __asm__ volatile("tilezero %%tmm" t ::: "memory");
#define JOIN_TILES(c, a, b) __asm__ volatile(TILE_PRODUCT " %%tmm" b ", %%tmm" a ", %%tmm" c ::: "memory");
#if SUM_IS_FLOAT
#define TILE_PRODUCT "tdpbf16ps"
#elif SRC0_SIGNED && WEIGHTS_SIGNED
#define TILE_PRODUCT "tdpbssd"
#elif SRC0_SIGNED
#define TILE_PRODUCT "tdpbsud"
#elif WEIGHTS_SIGNED
#define TILE_PRODUCT "tdpbusd"
#else
#define TILE_PRODUCT "tdpbuud"
#endif
#define START_FROM_COLUMN_SUMS 0
// Eight tiles are sums, of each row tile by each part, and what they are made of. Of few rows parts are many, and of few columns row tiles,
// as a unit waits for a sum before it adds to it again.
#if PANEL == 16
#define ROW_TILES 3
#define EACH_ROW_TILE(X) X(0) X(1) X(2)
#define SUM_ROWS(r0, r1, r2) ((r0) | (r1) << 8 | (r2) << 16 | (r0) << 24)
#define FACTOR_ROWS(r0, r1, r2) ((r0) | (r1) << 8 | (r2) << 16 | 16 << 24)
#define TILE_00 "0"
#define TILE_10 "1"
#define TILE_20 "2"
#define TILE_W0 "7"
#elif PANEL == 32
#define ROW_TILES 2
#define EACH_ROW_TILE(X) X(0) X(1)
#define SUM_ROWS(r0, r1, r2) ((r0) * 0x0101 | (r1) * 0x01010000)
#define FACTOR_ROWS(r0, r1, r2) ((r0) | (r1) << 8 | 0x10100000)
#define TILE_00 "0"
#define TILE_01 "1"
#define TILE_10 "2"
#define TILE_11 "3"
#define TILE_W0 "6"
#define TILE_W1 "7"
#else
#define ROW_TILES 1
#define EACH_ROW_TILE(X) X(0)
#define SUM_ROWS(r0, r1, r2) ((r0) * 0x01010101)
#define FACTOR_ROWS(r0, r1, r2) ((r0) | 0x10101000)
#define TILE_00 "0"
#define TILE_01 "1"
#define TILE_02 "2"
#define TILE_03 "3"
#define TILE_W0 "5"
#define TILE_W1 "6"
#define TILE_W2 "7"
#define TILE_W3 "5"
#endif
#define TILE_S0 "4"
#define TILE_S1 "5"
#define TILE_S2 "6"
// Where rows are, in whatever memory.
#define TILE_POINTER ulong
#define KEEPS_SUMS 1
#define TILE_AT(p) ((ulong)(p))
#define REST_STEP 64
#define REST_TILE (16 * REST_STEP)
#define UNIT_MEMORY __local uchar rests[ROW_TILES * REST_TILE] __attribute__((aligned(64)));
#define START_UNIT                                                                                                       \
    uint configuration[16];                                                                                              \
    int configured = 0;
#define END_UNIT __asm__ volatile("tilerelease" ::: "memory");
// Sizes of all tiles; of rows that are none any, as a tile has at least one.
#define CONFIGURE(r0, r1, r2)                                                                                            \
    if (configured != ((r0) | (r1) << 8 | (r2) << 16)) {                                                                 \
        configured = (r0) | (r1) << 8 | (r2) << 16;                                                                      \
        const int first = r0, second = (r1) > 0 ? (r1) : (r0), third = (r2) > 0 ? (r2) : (r0);                           \
        configuration[0] = 1;                                                                                            \
        for (int i = 1; i < 16; ++i) configuration[i] = 0;                                                               \
        for (int i = 4; i < 8; ++i) configuration[i] = 0x00400040;                                                       \
        configuration[12] = (uint)(SUM_ROWS(first, second, third));                                                      \
        configuration[13] = (uint)(FACTOR_ROWS(first, second, third));                                                   \
        __asm__ volatile("ldtilecfg (%0)" ::"r"(&configuration[0]) : "memory");                                          \
    }
#define MULTIPLY(a, rows, b, last, sums)                                                                                 \
    {                                                                                                                    \
        const ulong tile_at[3] = {(ulong)(a), (ulong)((a) + 16 * (idx)A_STEP), (ulong)((a) + 32 * (idx)A_STEP)};         \
        const int tile_rows[3] = {min(rows, 16), clamp(rows - 16, 0, 16), clamp(rows - 32, 0, 16)};                      \
        MULTIPLY_TILES(tile_at, tile_rows, b, last, sums)                                                                \
    }
#define ROWS_OF(rows, i) (i < ROW_TILES ? rows[i < ROW_TILES ? i : 0] : 0)
#define MULTIPLY_TILES(at, rows, b, last, sums)                                                                          \
    {                                                                                                                    \
        CONFIGURE(rows[0], ROWS_OF(rows, 1), ROWS_OF(rows, 2))                                                           \
        multiply(at, rows, b, last, sums, REST_OF_RUN, rests, SOURCE_END(at[0]) AND_SHAPE);                              \
    }
// Zeros may be missing where what lies behind a run is finite.
#if HOLDS_LINES
#define REST_OF_RUN rest_of_run
#define SOURCE_END(at) (const __global uchar *)((at) + (1 << 30))
#else
#define SOURCE_END(at) (src0 + SRC_BYTES)
#define REST_OF_RUN RUN_REST
#endif
// A run's last bytes of the rows of a tile, 64 at a time but where the operand ends.
static inline void copy_rests(const __global uchar *from, const int rows, const uint16 mask, __local uchar *to,
                              const __global uchar *end WITH_SHAPE) {
    for (int i = 0; i < rows; ++i, from += A_STEP, to += REST_STEP) {
        if (end - from >= 64) {
#if SUM_IS_FLOAT
            const __global ushort *p = (const __global ushort *)from;
            const uint8 low = as_uint8(vload16(0, p)), high = as_uint8(vload16(1, p));
            *(__local uint8 *)to = low & mask.lo;
            *(__local uint8 *)(to + 32) = high & mask.hi;
#else
            for (int j = 0; j < 4; ++j)
                *(__local uint4 *)(to + 16 * j) = as_uint4(vload16(j, from)) & ((const __private uint4 *)&mask)[j];
#endif
        } else {
            for (int j = 0; j < 64; ++j) to[j] = j < RUN_REST ? from[j] : (uchar)0;
        }
    }
}
// Whether the operand goes on behind the last run of every row as far as whole tiles do. Integers there are multiplied by zeros then, in place of
// zeros by zeros; a float might be none that gives zero.
static inline bool is_followed(const ulong *a, const int *rows, const __global uchar *end WITH_SHAPE) {
    if (SUM_IS_FLOAT) return false;
    const long last_run = (RUNS_D - 1) * (long)RUN_STEP_D + (RUNS_H - 1) * (long)RUN_STEP_H + (RUNS_W - 1) * (long)RUN_STEP_W;
    bool is_followed = true;
    for (int i = 0; i < ROW_TILES; ++i) {
        const ulong last_row = a[i] + (ulong)((rows[i] - 1) * (long)A_STEP + last_run);
        is_followed = is_followed && (rows[i] <= 0 || last_row + RUN_STEPS * 64 <= (ulong)end);
    }
    return is_followed;
}
#define COUNTS(i) (i == 0 || rows[i] > 0)
#define CLEAR(i, j) CLEAR_TILE(TILE_##i##j)
#define CLEAR_ROWS(i) EACH_V(CLEAR, i)
#define LOAD_ROWS(i) if (COUNTS(i)) LOAD_TILE(TILE_S##i, p##i, step)
#define JOIN(i, j) if (COUNTS(i)) JOIN_TILES(TILE_##i##j, TILE_S##i, TILE_W##j)
#define JOIN_PART(i, j)                                                                                                  \
    if (j == 0 || last >= j) {                                                                                           \
        LOAD_TILE(TILE_W##j, b##j, 64)                                                                                   \
        JOIN_ROWS(j)                                                                                                     \
    }
#if ROW_TILES == 3
#define JOIN_ROWS(j) JOIN(0, j) JOIN(1, j) JOIN(2, j)
#elif ROW_TILES == 2
#define JOIN_ROWS(j) JOIN(0, j) JOIN(1, j)
#else
#define JOIN_ROWS(j) JOIN(0, j)
#endif
#define NEXT_PART(i, j) b##j += PART_BYTES;
#define START_PART(i, j) WEIGHTS_POINTER b##j = b + min(j, last) * (idx)B_STEP;
#define STEP_OF_RUN                                                                                                      \
    EACH_ROW_TILE(LOAD_ROWS)                                                                                             \
    EACH_V(JOIN_PART, 0)                                                                                                 \
    EACH_V(NEXT_PART, 0)
#define START_ROWS(i) ulong p##i = a[i] + (ulong)run;
#define NEXT_ROWS(i) p##i += 64;
#define COPY_RESTS(i) if (COUNTS(i)) copy_rests((const __global uchar *)(a[i] + (ulong)(run + whole * 64)), rows[i], mask, rests + i * REST_TILE, end AND_SHAPE);
#define REST_ROWS(i) const __local uchar *p##i = rests + i * REST_TILE;
#define KEEP(i, j) STORE_TILE(TILE_##i##j, sums + 16 * (i * PANEL + j), PANEL * 4)
#define KEEP_ROWS(i) if (COUNTS(i)) { EACH_V(KEEP, i) }
static inline void multiply(const ulong *a, const int *rows, WEIGHTS_POINTER b, const int last,
                            __local SUM *sums, const int given_rest, __local uchar *rests, const __global uchar *end WITH_SHAPE) {
    const int rest = given_rest > 0 && !is_followed(a, rows, end AND_SHAPE) ? given_rest : 0, whole = RUN_STEPS - (rest > 0);
    uint16 mask;
    for (int i = 0; i < 64; ++i) ((__private uchar *)&mask)[i] = i < rest ? 255 : 0;
    EACH_V(START_PART, 0)
    EACH_ROW_TILE(CLEAR_ROWS)
    for (int d = 0; d < RUNS_D; ++d)
        for (int h = 0; h < RUNS_H; ++h)
            for (int w = 0; w < RUNS_W; ++w) {
                const idx run = d * (idx)RUN_STEP_D + h * (idx)RUN_STEP_H + w * (idx)RUN_STEP_W;
                if (rest > 0) { EACH_ROW_TILE(COPY_RESTS) }
                {
                    const idx step = A_STEP;
                    EACH_ROW_TILE(START_ROWS)
                    for (int k = 0; k < whole; ++k) {
                        STEP_OF_RUN
                        EACH_ROW_TILE(NEXT_ROWS)
                    }
                }
                if (rest > 0) {
                    const idx step = REST_STEP;
                    EACH_ROW_TILE(REST_ROWS)
                    STEP_OF_RUN
                }
            }
    EACH_ROW_TILE(KEEP_ROWS)
}
// Sums of the weights, as products with ones.
#define SUM_PART(i, j)                                                                                                   \
    if (j == 0 || last_of_parts >= j) {                                                                                  \
        WEIGHTS_POINTER p = parts + j * (idx)B_STEP;                                                                     \
        CLEAR_TILE(TILE_0##j)                                                                                            \
        for (int k = 0; k < K_STEPS; ++k, p += PART_BYTES) {                                                             \
            LOAD_TILE(TILE_W##j, p, 64)                                                                                  \
            JOIN_TILES(TILE_0##j, TILE_S0, TILE_W##j)                                                                    \
        }                                                                                                                \
        STORE_TILE(TILE_0##j, to_sums + 16 * j, 64)                                                                      \
    }
#define SUM_COLUMNS(b, last, to)                                                                                         \
    {                                                                                                                    \
        uint ones[16];                                                                                                   \
        for (int i = 0; i < 16; ++i) ones[i] = 0x01010101;                                                               \
        CONFIGURE(1, 1, 1)                                                                                               \
        WEIGHTS_POINTER parts = b;                                                                                       \
        const int last_of_parts = last;                                                                                  \
        __local SUM *to_sums = to;                                                                                       \
        LOAD_TILE(TILE_S0, &ones[0], 64)                                                                                 \
        EACH_V(SUM_PART, 0)                                                                                              \
    }
