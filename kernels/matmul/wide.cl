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
#define W0 "24"
#define W1 "25"
#define W2 "26"
#define W3 "27"
#define EACH_REGISTER(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29)
#define SAVE(n) "vmovdqu64 %%zmm" #n ", " #n "*64(%[frame])\n\t"
#define RESTORE(n) "vmovdqu64 " #n "*64(%[frame]), %%zmm" #n "\n\t"
// Behind the registers, numbers of eight bytes: where sums start from, where they go, and bytes to broadcast.
#define SAVED 240
#define FRAME (SAVED + 3)
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
#define COPY_START(i, j) "vmovdqa64 %%zmm" W##j ", %%zmm" Z##i##j "\n\t"
#define COPY_ROW(i) EACH_V(COPY_START, i)
#if START_FROM_COLUMN_SUMS
#define START_ROWS                                                                                                       \
    "vpxord %%zmm28, %%zmm28, %%zmm28\n\tvpbroadcastd " AT_BYTES ", %%zmm29\n\tmov " AT_START ", %[p]\n\t"                 \
    EACH_V(LOAD_START, 0) EACH_M(COPY_ROW)
#else
#define START_ROWS EACH_M(CLEAR_ROW)
#endif
#define ROW_STEP0
#define ROW_STEP1 ",%[s1]"
#define ROW_STEP2 ",%[s2]"
#define ROW_STEP3 ",%[s3]"
#define ROW_STEP4 ",%[s4]"
#define ROW_STEP5 ",%[s5]"
#define ADD_PART(i, j) PRODUCT(W##j, "28") Z##i##j "\n\t"
#define ADD_ROW(i) "vpbroadcastd (%[p]" ROW_STEP##i "), %%zmm28\n\t" DISPLACE EACH_V(ADD_PART, i)
// A run in place may end within four bytes of terms: those up to its end are read, and shifted until the first ones are gone.
#if REST_BYTES
#define WHOLE_STEPS (RUN_STEPS - 1)
#define REST_ROW(i)                                                                                                      \
    "vpbroadcastd -4+" TEXT(REST_BYTES) "(%[p]" ROW_STEP##i "), %%zmm28\n\t"                                             \
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
#define UNIT_MEMORY
#define START_UNIT
#define END_UNIT
#define MULTIPLY(a, rows, b, last, sums) multiply(a, rows, b, last, sums, COLUMN_SUMS AND_SHAPE);
#define MULTIPLY_TILES(a0, rows0, a1, rows1, b, last, sums) MULTIPLY(a0, rows0, b, last, sums)
// Rows that are missing are the last one again, and so are parts.
static inline void multiply(const __global uchar *a, const int rows, const __global uchar *b, const int last,
                            __local SUM *sums, const __local SUM *columns WITH_SHAPE) {
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
    frame[SAVED] = (ulong)columns;
    frame[SAVED + 1] = (ulong)sums;
    frame[SAVED + 2] = 0x80808080;
    const ulong *run = &runs[0];
    ulong p, q;
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
                     "mov " AT_SUMS ", %[p]\n\t" EACH_M(STORE_ROW) EACH_REGISTER(RESTORE)
                     : [run] "+r"(run), [p] "=&r"(p), [b] "=&r"(q)
                     : [frame] "r"(&frame[0]), [s1] "r"((ulong)min(1, rows - 1) * A_STEP),
                       [s2] "r"((ulong)min(2, rows - 1) * A_STEP), [s3] "r"((ulong)min(3, rows - 1) * A_STEP),
                       [s4] "r"((ulong)min(4, rows - 1) * A_STEP), [s5] "r"((ulong)min(5, rows - 1) * A_STEP),
                       [t1] "r"((ulong)min(1, last) * B_STEP), [t2] "r"((ulong)min(2, last) * B_STEP),
                       [t3] "r"((ulong)min(3, last) * B_STEP)
                     : "memory", "cc");
}
#if !SUM_IS_FLOAT
// Sums of the weights, as products with ones.
#define SUM_COLUMNS(b, last, to) sum_columns(b, last, to AND_SHAPE);
#define ADD_ONES(i, j) PRODUCT(W##j, "28") Z0##j "\n\t"
static inline void sum_columns(const __global uchar *b, const int last, __local int *to WITH_SHAPE) {
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
