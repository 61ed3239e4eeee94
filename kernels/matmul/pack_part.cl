// A part of 16 columns of weights as units multiply it: words of PER terms of each column, and zeros in place of what is missing to whole steps.
// `panel` and `part` say which one.
#define PART_QUADS (K_STEPS * STEP_QUADS)
#if ALONG_K
#if ELEMENT == 1
#define STORE_WORDS(v, to) vstore4(as_uint4(v), 0, to)
#else
#define STORE_WORDS(v, to) vstore8(as_uint8(v), 0, to)
#endif
#define PACK_PART(columns, to)                                                                                           \
    for (idx k = 0; k < PART_QUADS * PER; k += 16) {                                                                     \
        const int n = (int)clamp(K_SIZE - k, (idx)0, (idx)16);                                                           \
        for (int column = 0; column < 16; ++column) {                                                                    \
            const idx lane = column;                                                                                     \
            BITS16 v = (BITS16)(0);                                                                                      \
            if (n > 0 && column < columns) v = RAW_WEIGHTS(OFF_WEIGHTS, n);                                              \
            uint words[16 / PER];                                                                                        \
            STORE_WORDS(v, words);                                                                                       \
            const int quads = (int)min((idx)(16 / PER), PART_QUADS - k / PER);                                           \
            for (int i = 0; i < quads; ++i) to[(k / PER + i) * 16 + column] = words[i];                                  \
        }                                                                                                                \
    }
#else
#define PACK_PART(columns, to)                                                                                           \
    for (idx quad = 0; quad < PART_QUADS; ++quad) {                                                                      \
        const idx lane = 0;                                                                                              \
        uint16 all = (uint16)(0);                                                                                        \
        for (int i = 0; i < PER; ++i) {                                                                                  \
            const idx k = quad * PER + i;                                                                                \
            if (k < K_SIZE && columns > 0)                                                                               \
                all |= convert_uint16(RAW_WEIGHTS(OFF_WEIGHTS, columns)) << (uint16)(i * 8 * ELEMENT);                   \
        }                                                                                                                \
        vstore16(all, quad, to);                                                                                         \
    }
#endif
