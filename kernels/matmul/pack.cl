// Copies of operands of ELEMENT bytes for the units of packed.cl: ROW_BYTES of each row of the source, as bytes or with AS_WORDS as pairs of
// words of the even and of the odd of each four terms, and parts of 16 columns of weights. What is missing to whole tiles is zero.
#if ELEMENT == 1
#define BITS uchar
#else
#define BITS ushort
#endif
#define BITS16 PASTE(BITS, 16)
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
#if AS_WORDS
            const short8 x = as_short8(v);
#if SRC0_SIGNED
            const uint4 even = as_uint4((x << (short8)(8)) >> (short8)(8)), odd = as_uint4(x >> (short8)(8));
#else
            const uint4 even = as_uint4(x) & (uint4)(0x00ff00ff), odd = (as_uint4(x) >> (uint4)(8)) & (uint4)(0x00ff00ff);
#endif
            vstore8((uint8)(even.x, odd.x, even.y, odd.y, even.z, odd.z, even.w, odd.w), 0, (__global uint *)(to + k * 2));
#else
            vstore16(v, 0, (__global BITS *)(to + k * ELEMENT));
#endif
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
#define PER (4 / ELEMENT)
#if ALONG_K
    for (idx k = 0; k < K_TILES * 16 * PER; k += 16) {
        const int n = (int)clamp(K_SIZE - k, (idx)0, (idx)16);
        for (int column = 0; column < 16; ++column) {
            const idx lane = column;
            BITS16 v = (BITS16)(0);
            if (n > 0 && column < columns) v = RAW_WEIGHTS(OFF_WEIGHTS, n);
            uint words[16 / PER];
            vstore16(v, 0, (__private BITS *)words);
            for (int i = 0; i < 16 / PER; ++i) to[(k / PER + i) * 16 + column] = words[i];
        }
    }
#else
    for (idx quad = 0; quad < K_TILES * 16; ++quad) {
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
