// Weights of BITS (4 or 8) each, which lie along K, as a matrix [K, N] of floats of 16 bits: less their zero points, and times their scales
// where these do not wait for the sums. A work-group turns a tile of 128 terms by 64 columns in local memory; a work-item has four runs of
// eight terms, for each of which scale and zero point are the same.
//   DECLARE_BATCH(t)     loop variables from a linear index
//   BLOCK, SAME          terms of a block, which has one scale and one zero point; whether the four runs are in one block
//   SIGNED, SCALED       whether weights have a sign, and whether scales count here
//   ZERO_POINT           the zero point of a run
//   PACK(v), STORE(o, x)   bits of eight floats, and their store
#define GROUP 256
#define TILE_K 128
#define TILE_N 64
#define HIGH_BIT (SIGNED << (BITS - 1))
#if BITS == 4
#define WORDS uint
#define BYTES_OF_RUN 4
#define BYTEWISE(p) as_uint(vload4(0, p))
#define BITS_OF(word, j) (((word) >> (4 * (j)) & 15u) ^ (uint)HIGH_BIT)
#else
#define WORDS uint2
#define BYTES_OF_RUN 8
#define BYTEWISE(p) as_uint2(vload8(0, p))
#define BITS_OF(word, j) (((((j) < 4 ? (word).x : (word).y) >> (8 * ((j) & 3))) & 255u) ^ (uint)HIGH_BIT)
#endif
#if ANYDNN_UNALIGNED
#define LOAD_WORDS(p) BYTEWISE(p)
#else
#define LOAD_WORDS(p) *(const __global WORDS *)(p)
#endif
// Integers in the lowest bits of a float whose last digit counts ones.
#define VALUE_OF(word, j) (as_float(0x4b000000u | BITS_OF(word, j)) - less)
// Where eight columns of a term lie: those of neighbouring quarters of the terms in other memory banks.
#define PLACE(term, eight) ((term) * TILE_N + (((eight) ^ (((term) >> 5) << 1)) << 3))

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void matmul_expand(PARAMS) {
    __local ushort tile[TILE_K * TILE_N] __attribute__((aligned(16)));
    ENTER
    const int item = (int)get_local_id(0), in_n = item / 4, quarter = item % 4;
    const idx first_n = (idx)(get_group_id(0) % TILES_N) * TILE_N, first_k = (idx)(get_group_id(0) / TILES_N) * TILE_K;
    DECLARE_BATCH((idx)get_group_id(1))
    {
        const idx col = min(first_n + in_n, (idx)(N_SIZE - 1));
        WORDS words[4];
        EACH(run, 4) {
            const idx term = min(first_k + quarter * 32 + run * 8, (idx)(K_SIZE - 8)), block = term / BLOCK, k = term - block * BLOCK;
            words[run] = LOAD_WORDS(src0 + (size_t)(OFF_SRC0) * BITS / 8);
        }
        float less = 0.0f, times = 1.0f;
        EACH(run, 4) {
            const int in_k = quarter * 32 + run * 8;
            const idx term = min(first_k + in_k, (idx)(K_SIZE - 8)), block = term / BLOCK, k = term - block * BLOCK;
            if (run == 0 || !SAME) {
                less = 8388608.0f + (float)(HIGH_BIT + ZERO_POINT);
#if SCALED
                times = LD1_SCALE(OFF_SCALE);
#endif
            }
            const V v = (V)(VALUE_OF(words[run], 0), VALUE_OF(words[run], 1), VALUE_OF(words[run], 2), VALUE_OF(words[run], 3),
                            VALUE_OF(words[run], 4), VALUE_OF(words[run], 5), VALUE_OF(words[run], 6), VALUE_OF(words[run], 7));
            const ushort8 bits = PACK(v * times);
            const ushort eight[8] = {bits.s0, bits.s1, bits.s2, bits.s3, bits.s4, bits.s5, bits.s6, bits.s7};
            EACH(j, 8) tile[PLACE(in_k + j, in_n / 8) + in_n % 8] = eight[j];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH(i, TILE_K * TILE_N / 8 / GROUP) {
        const int chunk = item + i * GROUP, in_k = chunk / (TILE_N / 8), eight = chunk % (TILE_N / 8);
        const idx term = first_k + in_k, col = first_n + eight * 8;
        if (term < K_SIZE && col < N_SIZE) {
            const idx block = term / BLOCK, k = term - block * BLOCK;
            STORE(OFF_DST, *(const __local ushort8 *)(tile + PLACE(in_k, eight)));
        }
    }
}
