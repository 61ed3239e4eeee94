// x86's matrix units: tiles of 16 rows of 64 bytes. Up to 32 rows of the source, from A_STEP bytes apart, by two parts of weights. Compilers
// know nothing of the tile registers, so nobody else uses them; RUN_STEPS tiles of terms follow each other, in runs that are taps of a window
// further apart in the source.
#define LOAD_TILE(t, p, step)                                                                                            \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(p), "r"((ulong)(step)) : "memory");
#define STORE_TILE(t, p, step)                                                                                           \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"((ulong)(step)) : "memory");
#define CLEAR_TILE(t) __asm__ volatile("tilezero %%tmm" #t ::: "memory");
#define JOIN_TILES(c, a, b) __asm__ volatile(TILE_PRODUCT " %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory");
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
#define UNIT_MEMORY
#define START_UNIT                                                                                                       \
    uint configuration[16];                                                                                              \
    int first_rows = 0, other_rows = 0;
#define END_UNIT __asm__ volatile("tilerelease" ::: "memory");
// Tiles 0 and 1 are sums of the first rows, which are in tile 4, 2 and 3 of the other ones, in tile 5. Weights are in 6 and 7.
#define CONFIGURE(first, other)                                                                                          \
    if (first_rows != (first) || other_rows != (other)) {                                                                \
        first_rows = (first), other_rows = (other);                                                                          \
        configuration[0] = 1;                                                                                            \
        for (int i = 1; i < 16; ++i) configuration[i] = 0;                                                               \
        for (int i = 4; i < 8; ++i) configuration[i] = 0x00400040;                                                       \
        configuration[12] = (uint)first_rows * 0x0101 | (uint)other_rows * 0x01010000;                                   \
        configuration[13] = (uint)first_rows | (uint)other_rows << 8 | 0x10100000;                                       \
        __asm__ volatile("ldtilecfg (%0)" ::"r"(&configuration[0]) : "memory");                                          \
    }
#define MULTIPLY(a, rows, b, last, sums)                                                                                 \
    MULTIPLY_TILES(a, min(rows, 16), (a) + 16 * (idx)A_STEP, max(rows - 16, 0), b, last, sums)
#define MULTIPLY_TILES(a0, rows0, a1, rows1, b, last, sums)                                                              \
    {                                                                                                                    \
        CONFIGURE(rows0, rows1 > 0 ? rows1 : rows0)                                                                      \
        if (rows1 > 0) multiply_both(a0, a1, A_STEP, b, last, sums AND_SHAPE);                                                     \
        else multiply_first(a0, A_STEP, b, last, sums AND_SHAPE);                                                                  \
    }
#define EACH_RUN(DO)                                                                                            \
    for (int d = 0; d < RUNS_D; ++d)                                                                                     \
        for (int h = 0; h < RUNS_H; ++h)                                                                                 \
            for (int w = 0; w < RUNS_W; ++w) {                                                                           \
                const idx run = d * (idx)RUN_STEP_D + h * (idx)RUN_STEP_H + w * (idx)RUN_STEP_W;                         \
                for (int k = 0; k < RUN_STEPS; ++k, b0 += PART_BYTES, b1 += PART_BYTES) {                                            \
                    const idx at = run + k * 64;                                                                         \
                    DO                                                                                                   \
                }                                                                                                        \
            }
static inline void multiply_both(const __global uchar *a0, const __global uchar *a1, const idx step,
                                 const __global uchar *b0, const int last, __local SUM *sums WITH_SHAPE) {
    const __global uchar *b1 = b0 + min(last, 1) * (idx)B_STEP;
    CLEAR_TILE(0)
    CLEAR_TILE(1)
    CLEAR_TILE(2)
    CLEAR_TILE(3)
    EACH_RUN(LOAD_TILE(4, a0 + at, step) LOAD_TILE(6, b0, 64) JOIN_TILES(0, 4, 6) LOAD_TILE(7, b1, 64) JOIN_TILES(1, 4, 7)
                 LOAD_TILE(5, a1 + at, step) JOIN_TILES(2, 5, 6) JOIN_TILES(3, 5, 7))
    STORE_TILE(0, sums, PANEL * 4)
    STORE_TILE(1, sums + 16, PANEL * 4)
    STORE_TILE(2, sums + 16 * PANEL, PANEL * 4)
    STORE_TILE(3, sums + 16 * PANEL + 16, PANEL * 4)
}
static inline void multiply_first(const __global uchar *a0, const idx step, const __global uchar *b0, const int last,
                                  __local SUM *sums WITH_SHAPE) {
    const __global uchar *b1 = b0 + min(last, 1) * (idx)B_STEP;
    CLEAR_TILE(0)
    CLEAR_TILE(1)
    EACH_RUN(LOAD_TILE(4, a0 + at, step) LOAD_TILE(6, b0, 64) JOIN_TILES(0, 4, 6) LOAD_TILE(7, b1, 64) JOIN_TILES(1, 4, 7))
    STORE_TILE(0, sums, PANEL * 4)
    STORE_TILE(1, sums + 16, PANEL * 4)
}
// Sums of the weights, as products with ones.
#define SUM_COLUMNS(b, last, to)                                                                                         \
    {                                                                                                                    \
        uint ones[16];                                                                                                   \
        for (int i = 0; i < 16; ++i) ones[i] = 0x01010101;                                                               \
        CONFIGURE(1, 1)                                                                                                  \
        const __global uchar *b0 = b, *b1 = b + min(last, 1) * (idx)B_STEP;                                              \
        CLEAR_TILE(0)                                                                                                    \
        CLEAR_TILE(1)                                                                                                    \
        LOAD_TILE(4, &ones[0], 64)                                                                                       \
        for (int k = 0; k < K_STEPS; ++k, b0 += PART_BYTES, b1 += PART_BYTES) {                                                      \
            LOAD_TILE(6, b0, 64)                                                                                         \
            JOIN_TILES(0, 4, 6)                                                                                          \
            LOAD_TILE(7, b1, 64)                                                                                         \
            JOIN_TILES(1, 4, 7)                                                                                          \
        }                                                                                                                \
        STORE_TILE(0, to, 64)                                                                                            \
        STORE_TILE(1, to + 16, 64)                                                                                       \
    }
