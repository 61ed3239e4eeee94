// Products of four bytes of terms, which x86 adds to 32 bits in one instruction: bf16 in pairs (AVX-512 BF16), or bytes in fours (AVX-512 VNNI),
// one factor unsigned, the other one signed. Where both are of one kind the source's bytes are displaced by 128, which sums of columns take
// back. Compilers for OpenCL C know no names of vector registers, so that the assembly names general ones as operands, and puts back the
// vectors that it uses.
#if !SUM_IS_FLOAT && SRC0_SIGNED == WEIGHTS_SIGNED
#define START_FROM_COLUMN_SUMS 1
#define DISPLACE "vpxord %%zmm29, %%zmm28, %%zmm28\n\t"
#define COLUMN_SUMS column_sums
#else
#define START_FROM_COLUMN_SUMS 0
#define DISPLACE
// None, and not `sums` again: Intel's compiler without optimisation loses what is passed twice.
#define COLUMN_SUMS 0
#endif
// What sums are is what is stored, as floats or rounded to bf16, without a detour through memory.
#define IS_FINAL SUMS_ARE_RESULTS
// The operand of an instruction that is signed stands first.
#if SUM_IS_FLOAT
#define PRODUCT(weights, source) "vdpbf16ps %%zmm" weights ", %%zmm" source ", %%zmm"
#elif WEIGHTS_SIGNED
#define PRODUCT(weights, source) "vpdpbusd %%zmm" weights ", %%zmm" source ", %%zmm"
#else
#define PRODUCT(weights, source) "vpdpbusd %%zmm" source ", %%zmm" weights ", %%zmm"
#endif
// The register of a sum, by its row and part; those of weights; the others are terms of a row, and what displaces them.
#define Z00 "0"
#define Z01 "1"
#define Z02 "2"
#define Z03 "3"
#define Z10 "4"
#define Z11 "5"
#define Z12 "6"
#define Z13 "7"
#define Z20 "8"
#define Z21 "9"
#define Z22 "10"
#define Z23 "11"
#define Z30 "12"
#define Z31 "13"
#define Z32 "14"
#define Z33 "15"
#define Z40 "16"
#define Z41 "17"
#define Z42 "18"
#define Z43 "19"
#define Z50 "20"
#define Z51 "21"
#define Z52 "22"
#define Z53 "23"
// Of a single part twice as many rows, or the processor waits for sums; a row's step is in the frame from the seventh on.
#define Z60 "1"
#define Z70 "5"
#define Z80 "9"
#define Z90 "13"
#define Z100 "17"
#define Z110 "21"
#define W0 "24"
#define W1 "25"
#define W2 "26"
#define W3 "27"
// The registers that a program uses.
#define EACH_REGISTER(X) EACH_M(X##_SUMS) EACH_V(X##_WEIGHTS, 0) X("28") EACH_LAST(X)
#if START_FROM_COLUMN_SUMS
#define EACH_LAST(X) X("29")
#else
#define EACH_LAST(X)
#endif
#define SAVE(n) "vmovdqu64 %%zmm" n ", " n "*64(%[frame])\n\t"
#define SAVE_SUM(i, j) SAVE(Z##i##j)
#define SAVE_SUMS(i) EACH_V(SAVE_SUM, i)
#define SAVE_WEIGHTS(i, j) SAVE(W##j)
#define RESTORE(n) "vmovdqu64 " n "*64(%[frame]), %%zmm" n "\n\t"
#define RESTORE_SUM(i, j) RESTORE(Z##i##j)
#define RESTORE_SUMS(i) EACH_V(RESTORE_SUM, i)
#define RESTORE_WEIGHTS(i, j) RESTORE(W##j)
// Behind the registers, numbers of eight bytes: where sums start from, where they go, and bytes to broadcast.
#define SAVED 240
#define FIRST_STEP (SAVED + 3)
// Of results the rows, whether all columns are there, those of each part, and the mask registers.
#define FIRST_ROW (FIRST_STEP + 6)
#define ALL_COLUMNS (FIRST_ROW + 12)
#define FIRST_MASK (ALL_COLUMNS + 1)
#define KEPT_MASKS (FIRST_MASK + 4)
#define FRAME (KEPT_MASKS + 4)
#define AT_ROW(i) "30*64+72+8*" #i "(%[frame])"
#define AT_ALL "30*64+168(%[frame])"
#define AT_MASK(j) "30*64+176+8*" #j "(%[frame])"
#define AT_KEPT(j) "30*64+208+8*" #j "(%[frame])"
#define MASK0 "1"
#define MASK1 "2"
#define MASK2 "3"
#define MASK3 "4"
#define AT_START "30*64(%[frame])"
#define AT_SUMS "30*64+8(%[frame])"
#define AT_BYTES "30*64+16(%[frame])"
#define LOAD_PART(i, j) "vmovdqu64 (%[b]" STEP##j "), %%zmm" W##j "\n\t"
#define STEP0
#define STEP1 ",%[t1]"
#define STEP2 ",%[t2]"
#define STEP3 ",%[t3]"
#define CLEAR(i, j) "vpxord %%zmm" Z##i##j ", %%zmm" Z##i##j ", %%zmm" Z##i##j "\n\t"
#define CLEAR_ROW(i) EACH_V(CLEAR, i)
#if WEIGHTS_SIGNED
#define SHIFTED(j) "vpslld $7, %%zmm" W##j ", %%zmm" W##j "\n\tvpsubd %%zmm" W##j ", %%zmm28, %%zmm" W##j "\n\t"
#else
#define SHIFTED(j) "vpslld $7, %%zmm" W##j ", %%zmm" W##j "\n\t"
#endif
#define LOAD_START(i, j) "vmovdqu64 " #j "*64(%[p]), %%zmm" W##j "\n\t" SHIFTED(j)
#define LOAD_FIRST(i, j) "vmovdqu64 " #j "*64(%[p]), %%zmm" W##j "\n\t"
#define COPY_START(i, j) "vmovdqa64 %%zmm" W##j ", %%zmm" Z##i##j "\n\t"
#define COPY_ROW(i) EACH_V(COPY_START, i)
#if START_FROM_COLUMN_SUMS
#define START_ROWS                                                                                                       \
    "vpxord %%zmm28, %%zmm28, %%zmm28\n\tvpbroadcastd " AT_BYTES ", %%zmm29\n\tmov " AT_START ", %[p]\n\t"                 \
    EACH_V(LOAD_START, 0) EACH_M(COPY_ROW)
#elif IS_FINAL && HAS_FIRST_SUMS
#define START_ROWS "mov " AT_START ", %[p]\n\t" EACH_V(LOAD_FIRST, 0) EACH_M(COPY_ROW)
#else
#define START_ROWS EACH_M(CLEAR_ROW)
#endif
#define ROW_STEP0
#define ROW_STEP1 ",%[s1]"
#define ROW_STEP2 ",%[s2]"
#define ROW_STEP3 ",%[s3]"
#define ROW_STEP4 ",%[s4]"
#define ROW_STEP5 ",%[s5]"
#define ROW_STEP6 ",%[row]"
#define ROW_STEP7 ",%[row]"
#define ROW_STEP8 ",%[row]"
#define ROW_STEP9 ",%[row]"
#define ROW_STEP10 ",%[row]"
#define ROW_STEP11 ",%[row]"
#define LOAD_STEP0
#define LOAD_STEP1
#define LOAD_STEP2
#define LOAD_STEP3
#define LOAD_STEP4
#define LOAD_STEP5
#define LOAD_STEP6 "mov 30*64+24(%[frame]), %[row]\n\t"
#define LOAD_STEP7 "mov 30*64+32(%[frame]), %[row]\n\t"
#define LOAD_STEP8 "mov 30*64+40(%[frame]), %[row]\n\t"
#define LOAD_STEP9 "mov 30*64+48(%[frame]), %[row]\n\t"
#define LOAD_STEP10 "mov 30*64+56(%[frame]), %[row]\n\t"
#define LOAD_STEP11 "mov 30*64+64(%[frame]), %[row]\n\t"
#define ADD_PART(i, j) PRODUCT(W##j, "28") Z##i##j "\n\t"
#define ADD_ROW(i) LOAD_STEP##i "vpbroadcastd (%[p]" ROW_STEP##i "), %%zmm28\n\t" DISPLACE EACH_V(ADD_PART, i)
// A run in place may end within four bytes of terms: those up to its end are read, and shifted until the first ones are gone.
#if REST_BYTES
#define WHOLE_STEPS (RUN_STEPS - 1)
#define REST_ROW(i)                                                                                                      \
    LOAD_STEP##i "vpbroadcastd -4+" TEXT(REST_BYTES) "(%[p]" ROW_STEP##i "), %%zmm28\n\t"                                             \
    "vpsrld $32-8*" TEXT(REST_BYTES) ", %%zmm28, %%zmm28\n\t" DISPLACE EACH_V(ADD_PART, i)
#define REST_OF_RUN EACH_V(LOAD_PART, 0) EACH_M(REST_ROW)
#else
#define WHOLE_STEPS RUN_STEPS
#define REST_OF_RUN
#endif
#define TEXT(x) AS_TEXT(x)
#define AS_TEXT(x) #x
#define STORE_PART(i, j) "vmovdqu64 %%zmm" Z##i##j ", (%[p])\n\tadd $64, %[p]\n\t"
#define STORE_ROW(i) EACH_V(STORE_PART, i)
#if IS_FINAL
#if RESULT_BYTES == 2
#define AS_RESULT(z) "vcvtneps2bf16 %%zmm" z ", %%ymm" z "\n\t"
#define RESULT(z) "vmovdqu16 %%ymm" z ", "
#else
#define AS_RESULT(z)
#define RESULT(z) "vmovdqu32 %%zmm" z ", "
#endif
#define RESULT_AT(j) #j "*16*" TEXT(RESULT_BYTES) "(%[p])"
#define ROUND_PART(i, j) AS_RESULT(Z##i##j)
#define PUT_PART(i, j) RESULT(Z##i##j) RESULT_AT(j) "\n\t"
#define PUT_SOME(i, j) RESULT(Z##i##j) RESULT_AT(j) "%{%%k" MASK##j "%}\n\t"
#define ROUND_ROW(i) EACH_V(ROUND_PART, i)
#define PUT_ROW(i) "mov " AT_ROW(i) ", %[p]\n\t" EACH_V(PUT_PART, i)
#define PUT_SOME_OF(i) "mov " AT_ROW(i) ", %[p]\n\t" EACH_V(PUT_SOME, i)
#define KEEP_MASK(i, j) "kmovq %%k" MASK##j ", " AT_KEPT(j) "\n\tkmovq " AT_MASK(j) ", %%k" MASK##j "\n\t"
#define RESTORE_MASK(i, j) "kmovq " AT_KEPT(j) ", %%k" MASK##j "\n\t"
#define STORE_SUMS                                                                                                       \
    EACH_M(ROUND_ROW) "mov " AT_ALL ", %[p]\n\ttest %[p], %[p]\n\tjz 4f\n\t" EACH_M(PUT_ROW) "jmp 5f\n\t4:\n\t"           \
    EACH_V(KEEP_MASK, 0) EACH_M(PUT_SOME_OF) EACH_V(RESTORE_MASK, 0) "5:\n\t"
#define SUMS_TO __global uchar *out, const int columns, const idx out_step, const __local float *first
#else
#define STORE_SUMS "mov " AT_SUMS ", %[p]\n\t" EACH_M(STORE_ROW)
#define SUMS_TO __local SUM *sums, const __local SUM *first
#endif
#define UNIT_MEMORY
#define START_UNIT
#define END_UNIT
#define MULTIPLY(a, rows, b, last, sums) multiply(a, rows, b, last, sums, COLUMN_SUMS AND_SHAPE);
#define MULTIPLY_TO(a, rows, b, last, out, columns, step, first) multiply(a, rows, b, last, out, columns, step, first AND_SHAPE);
#define TILE_POINTER const __global uchar *
#define KEEPS_SUMS 0
#define TILE_AT(p) (p)
#define MULTIPLY_TILES(at, rows, b, last, sums) MULTIPLY(at[0], rows[0], b, last, sums)
#if PANEL == 16
#define STEP_OF_ROW ulong row_step;
#define AND_STEP , [row] "=&r"(row_step)
#define PART_STEPS
#else
#define STEP_OF_ROW
#define AND_STEP
#define PART_STEPS                                                                                                       \
    , [t1] "r"((ulong)min(1, last) * B_STEP), [t2] "r"((ulong)min(2, last) * B_STEP), [t3] "r"((ulong)min(3, last) * B_STEP)
#endif
// Rows that are missing are the last one again, and so are parts.
static inline void multiply(const __global uchar *a, const int rows, WEIGHTS_POINTER b, const int last,
                            SUMS_TO WITH_SHAPE) {
    // Of each run where its terms begin and end, and its weights; zero behind them.
    ulong runs[RUN_ROOM * 3 + 1];
    int r = 0;
    for (int d = 0; d < RUNS_D; ++d)
        for (int h = 0; h < RUNS_H; ++h)
            for (int w = 0; w < RUNS_W; ++w, ++r) {
                const ulong start = (ulong)(a + (d * (idx)RUN_STEP_D + h * (idx)RUN_STEP_H + w * (idx)RUN_STEP_W));
                runs[r * 3] = start;
                runs[r * 3 + 1] = start + WHOLE_STEPS * 4;
                runs[r * 3 + 2] = (ulong)(b + r * (idx)(RUN_STEPS * PART_BYTES));
            }
    runs[r * 3] = 0;
    ulong frame[FRAME];
    frame[SAVED] = (ulong)first;
    frame[SAVED + 2] = 0x80808080;
#if IS_FINAL
    NOT_UNROLLED for (int i = 0; i < TILE_ROWS; ++i) frame[FIRST_ROW + i] = (ulong)(out + min(i, rows - 1) * out_step);
    frame[ALL_COLUMNS] = columns == PANEL;
    for (int j = 0; j < PANEL / 16; ++j) frame[FIRST_MASK + j] = ((ulong)1 << clamp(columns - 16 * j, 0, 16)) - 1;
#else
    frame[SAVED + 1] = (ulong)sums;
#endif
#if PANEL == 16
    for (int i = 0; i < 6; ++i) frame[FIRST_STEP + i] = (ulong)min(6 + i, rows - 1) * A_STEP;
#endif
    const ulong *run = &runs[0];
    ulong p, q;
    STEP_OF_ROW
    __asm__ volatile(EACH_REGISTER(SAVE) START_ROWS
                     "1:\n\t"
                     "mov (%[run]), %[p]\n\t"
                     "mov 16(%[run]), %[b]\n\t"
                     "test %[p], %[p]\n\t"
                     "jz 3f\n\t"
                     "2:\n\t" EACH_V(LOAD_PART, 0) EACH_M(ADD_ROW)
                     "add $64, %[b]\n\t"
                     "add $4, %[p]\n\t"
                     "cmp 8(%[run]), %[p]\n\t"
                     "jb 2b\n\t" REST_OF_RUN
                     "add $24, %[run]\n\t"
                     "jmp 1b\n\t"
                     "3:\n\t"
                     STORE_SUMS EACH_REGISTER(RESTORE)
                     : [run] "+r"(run), [p] "=&r"(p), [b] "=&r"(q) AND_STEP
                     : [frame] "r"(&frame[0]), [s1] "r"((ulong)min(1, rows - 1) * A_STEP),
                       [s2] "r"((ulong)min(2, rows - 1) * A_STEP), [s3] "r"((ulong)min(3, rows - 1) * A_STEP),
                       [s4] "r"((ulong)min(4, rows - 1) * A_STEP), [s5] "r"((ulong)min(5, rows - 1) * A_STEP) PART_STEPS
                     : "memory", "cc");
}
#if !SUM_IS_FLOAT
// Sums of the weights, as products with ones.
#define SUM_COLUMNS(b, last, to) sum_columns(b, last, to AND_SHAPE);
#define ADD_ONES(i, j) PRODUCT(W##j, "28") Z0##j "\n\t"
static inline void sum_columns(WEIGHTS_POINTER b, const int last, __local int *to WITH_SHAPE) {
    ulong frame[FRAME];
    frame[SAVED + 1] = (ulong)to;
    frame[SAVED + 2] = 0x01010101;
    ulong from = (ulong)b, p;
    __asm__ volatile(EACH_REGISTER(SAVE) CLEAR_ROW(0) "vpbroadcastd " AT_BYTES ", %%zmm28\n\t"
                     "2:\n\t" EACH_V(LOAD_PART, 0) EACH_V(ADD_ONES, 0)
                     "add $64, %[b]\n\t"
                     "cmp %[end], %[b]\n\t"
                     "jb 2b\n\t"
                     "mov " AT_SUMS ", %[p]\n\t" STORE_ROW(0) EACH_REGISTER(RESTORE)
                     : [b] "+r"(from), [p] "=&r"(p)
                     : [frame] "r"(&frame[0]), [end] "r"((ulong)b + K_STEPS * PART_BYTES), [t1] "r"((ulong)min(1, last) * B_STEP),
                       [t2] "r"((ulong)min(2, last) * B_STEP), [t3] "r"((ulong)min(3, last) * B_STEP)
                     : "memory", "cc");
}
#endif
