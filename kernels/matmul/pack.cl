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
    const int columns = (int)clamp(N_SIZE - COLUMN, (idx)0, (idx)16);
    __global uint *to;
    {
        const idx k = 0, lane = 0;
        to = (__global uint *)(dst + OFF_DST);
    }
    PACK_PART(columns, to)
}
#endif
