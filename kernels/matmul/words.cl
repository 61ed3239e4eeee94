// Products of 16-bit words in pairs, which x86 adds in one instruction, two for each four bytes. The source lies as words: for each four
// terms a pair of the even and one of the odd ones, TILE_M rows A_STEP bytes apart; weights become words as they are read.
typedef short short32_ __attribute__((ext_vector_type(32)));
typedef int int32_ __attribute__((ext_vector_type(32)));
#if HAS_INSTRUCTION
static inline int16 add_pairs(int16 sum, const int16 a, const int16 b) {
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}
#elif __clang_major__ >= 16
static inline int16 add_pairs(const int16 sum, const int16 a, const int16 b) {
    const int32_ products = __builtin_convertvector(__builtin_astype(a, short32_), int32_) *
                            __builtin_convertvector(__builtin_astype(b, short32_), int32_);
    return sum + (products.even + products.odd);
}
#else
static inline int16 add_pairs(const int16 sum, const int16 a, const int16 b) {
    const int16 even = convert_int16(convert_short16(a)) * convert_int16(convert_short16(b));
    return sum + even + (a >> 16) * (b >> 16);
}
#endif
#if WEIGHTS_SIGNED
#define EVEN_WORDS(x) __builtin_astype((__builtin_astype(x, short32_) << (short)8) >> (short)8, int16)
#define ODD_WORDS(x) __builtin_astype(__builtin_astype(x, short32_) >> (short)8, int16)
#else
#define EVEN_WORDS(x) ((x) & (int16)(0x00ff00ff))
#define ODD_WORDS(x) (((x) >> 8) & (int16)(0x00ff00ff))
#endif
#define START_FROM_COLUMN_SUMS 0
#define UNIT_MEMORY
#define START_UNIT
#define END_UNIT
#define MULTIPLY(a, rows, b, last, sums) multiply((const __global int *)(a), b, last, sums AND_SHAPE);
#define TILE_POINTER const __global uchar *
#define KEEPS_SUMS 0
#define TILE_AT(p) (p)
#define MULTIPLY_TILES(at, rows, b, last, sums) MULTIPLY(at[0], rows[0], b, last, sums)
#define EACH_RUN                                                                                                         \
    for (int d = 0; d < RUNS_D; ++d)                                                                                     \
        for (int h = 0; h < RUNS_H; ++h)                                                                                 \
            for (int w = 0; w < RUNS_W; ++w, b += RUN_STEPS * PART_BYTES)
#define RUN_START (d * (idx)RUN_STEP_D + h * (idx)RUN_STEP_H + w * (idx)RUN_STEP_W)
#define START(i) EACH_V(START_SUM, i)
#define START_SUM(i, j) int16 sum##i##_##j = (int16)(0);
#define PART(i, j) const __global uchar *part##j = b + min(j, last) * (idx)B_STEP;
#define LOAD(i, j) const int16 b##j = vload16(0, (const __global int *)(part##j + k * 64));
#define EVEN(i, j) const int16 w##j = EVEN_WORDS(b##j);
#define ODD(i, j) const int16 w##j = ODD_WORDS(b##j);
#define EVEN_ROW(i)                                                                                                      \
    {                                                                                                                    \
        const int16 x = (int16)(p[i * (A_STEP / 4) + 2 * k]);                                                            \
        EACH_V(ADD, i)                                                                                                   \
    }
#define ODD_ROW(i)                                                                                                       \
    {                                                                                                                    \
        const int16 x = (int16)(p[i * (A_STEP / 4) + 2 * k + 1]);                                                        \
        EACH_V(ADD, i)                                                                                                   \
    }
#define ADD(i, j) sum##i##_##j = add_pairs(sum##i##_##j, x, w##j);
#define KEEP(i) EACH_V(KEEP_SUM, i)
#define KEEP_SUM(i, j) *(__local int16 *)(sums + i * PANEL + 16 * j) = sum##i##_##j;
static inline __attribute__((always_inline)) void multiply(const __global int *a, const __global uchar *b, const int last,
                                                           __local int *sums WITH_SHAPE) {
    EACH_M(START)
    EACH_RUN {
        const __global int *p = a + RUN_START / 4;
        EACH_V(PART, 0)
        for (int k = 0; k < RUN_STEPS; ++k) {
            EACH_V(LOAD, 0)
            {
                EACH_V(EVEN, 0)
                EACH_M(EVEN_ROW)
            }
            {
                EACH_V(ODD, 0)
                EACH_M(ODD_ROW)
            }
        }
    }
    EACH_M(KEEP)
}
#if HAS_ZERO_SRC0
#define SUM_COLUMNS(b, last, to) sum_columns(b, last, to AND_SHAPE);
static inline void sum_columns(const __global uchar *b, const int last, __local int *to WITH_SHAPE) {
    for (int j = 0; j < PANEL / 16; ++j) {
        const __global uchar *p = b + min(j, last) * (idx)B_STEP;
        int16 sum = (int16)(0);
        for (int k = 0; k < K_STEPS; ++k) {
            const int16 x = vload16(0, (const __global int *)(p + k * 64));
            sum = add_pairs(add_pairs(sum, (int16)(0x00010001), EVEN_WORDS(x)), (int16)(0x00010001), ODD_WORDS(x));
        }
        *(__local int16 *)(to + 16 * j) = sum;
    }
}
#endif
#define HAS_OWN_ROW_SUMS
#if HAS_ZERO_WEIGHTS
static inline int sum_row(const __global uchar *a WITH_SHAPE) {
    int sum = 0;
    for (int d = 0; d < RUNS_D; ++d)
        for (int h = 0; h < RUNS_H; ++h)
            for (int w = 0; w < RUNS_W; ++w) {
                const __global short *p = (const __global short *)(a + RUN_START);
                for (int k = 0; k < RUN_STEPS * 4; ++k) sum += p[k];
            }
    return sum;
}
#endif
