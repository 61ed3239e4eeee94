// Copies a product's operands for packed.cl: rows of ROW_TERMS terms, and parts of 16 columns of weights. What is missing to whole steps is
// zero.
#ifdef PACK_SOURCE
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void matmul_pack_source(PARAMS) {
    ENTER
    DECLARE_BATCH((idx)get_global_id(1))
    const idx first = (idx)get_global_id(0) * PACK_ROWS;
    for (idx m = first; m < min(first + PACK_ROWS, (idx)M_SIZE); ++m) {
        __global uchar *to;
        {
            const idx k = 0;
            to = dst + OFF_DST;
        }
        for (idx k = 0; k < ROW_TERMS; k += 16) {
            const int n = (int)clamp(K_SIZE - k, (idx)0, (idx)16);
            BITS16 v = (BITS16)(0);
            if (n > 0) v = RAW_SRC0(OFF_SRC0, n);
            store_terms(to, k, v);
        }
    }
}
#else
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void matmul_pack_weights(PARAMS) {
    ENTER
    DECLARE_PARTS((idx)get_global_id(0))
    DECLARE_BATCH((idx)get_global_id(1))
    const idx lane = 0;
    const int columns = (int)clamp(N_SIZE - COLUMN, (idx)0, (idx)16);
    __global uint *to;
    {
        const idx k = 0;
        to = (__global uint *)(dst + OFF_DST);
    }
#if ALONG_K
#if ELEMENT == 1
#define STORE_WORDS(v, to) vstore4(as_uint4(v), 0, to)
#else
#define STORE_WORDS(v, to) vstore8(as_uint8(v), 0, to)
#endif
    for (idx k = 0; k < K_STEPS * STEP_QUADS * PER; k += 16) {
        const int n = (int)clamp(K_SIZE - k, (idx)0, (idx)16);
        for (int column = 0; column < 16; ++column) {
            const idx lane = column;
            BITS16 v = (BITS16)(0);
            if (n > 0 && column < columns) v = RAW_WEIGHTS(OFF_WEIGHTS, n);
            uint words[16 / PER];
            STORE_WORDS(v, words);
            const int quads = (int)min((idx)(16 / PER), K_STEPS * STEP_QUADS - k / PER);
            for (int i = 0; i < quads; ++i) to[(k / PER + i) * 16 + column] = words[i];
        }
    }
#else
    for (idx quad = 0; quad < K_STEPS * STEP_QUADS; ++quad) {
        uint16 all = (uint16)(0);
        for (int i = 0; i < PER; ++i) {
            const idx k = quad * PER + i;
            if (k < K_SIZE && columns > 0) all |= convert_uint16(RAW_WEIGHTS(OFF_WEIGHTS, columns)) << (uint16)(i * 8 * ELEMENT);
        }
        vstore16(all, quad, to);
    }
#endif
}
#endif
