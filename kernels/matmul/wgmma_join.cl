// Adds up the shares of the last tiles of wgmma.cl and finishes them: a work-group has a block of 32 columns of a tile, and its work-items
// those sums that they have there.
__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void matmul_wgmma_join(PARAMS) {
    ENTER
    const int item = (int)get_local_id(0), lane = item % 32, warp = item / 32;
    const int last = (int)get_group_id(0), of_block = (int)get_group_id(1);
    PLACE_TILE(WHOLE_TILES + last)
    const idx block_n = first_n + of_block * 32;
#ifdef BIAS_BY_COLUMN
    V bias_of[1];
    {
        DECLARE_BATCH(batch)
        LOAD_BIAS(first_m, block_n, 1)
    }
#endif
    SUM4 fours[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) fours[i] = (SUM4)(0);
#pragma unroll 4
    for (int part = 0; part < LAST_PARTS; ++part) {
#pragma unroll
        for (int i = 0; i < 4; ++i) fours[i] += AS_SUM4(GET_SUMS(PART_SUMS(part * LAST_TILES + last, of_block * 4 + i)));
    }
    SUM sums[16];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        sums[4 * i] = fours[i].x, sums[4 * i + 1] = fours[i].y, sums[4 * i + 2] = fours[i].z, sums[4 * i + 3] = fours[i].w;
    STORE_BLOCKS(batch, first_m, block_n, 1)
}
