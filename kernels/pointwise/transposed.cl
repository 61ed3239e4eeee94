// As pointwise.cl, where the results lie along ALONG and what they are made of along ACROSS: a work-group reads a tile, by READ(n), which
// declares V read, the one way into local memory and takes it from there the other way.
#define TILE 64
#define GROUP 256
#define LINES (GROUP / TILE)
#define HELD_IN(X) tile[at][in_line]

#define READ_TILE                                                                                                        \
    _Pragma("unroll") for (int i = 0; i < TILE; i += LINES) {                                                            \
        const idx ACROSS = first_across + in_line, ALONG = first + line + i;                                             \
        if (full || (ACROSS < RUN_ACROSS && ALONG < RUN)) {                                                              \
            READ(n)                                                                                                      \
            tile[in_line][line + i] = read;                                                                              \
        }                                                                                                                \
    }

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void transposed(PARAMS) {
    ENTER
    // One column of padding keeps both ways clear of one another's memory banks.
    __local R tile[TILE][TILE + 1];
    const int n = 1;
    const int in_line = (int)get_local_id(0) % TILE, line = (int)get_local_id(0) / TILE;
    const idx first = (idx)get_group_id(0) % TILES * TILE, first_across = (idx)get_group_id(0) / TILES * TILE;
    DECLARE_ROW((idx)get_group_id(1))
    if (first + TILE <= RUN && first_across + TILE <= RUN_ACROSS) {
        const bool full = true;
        READ_TILE
    } else {
        const bool full = false;
        READ_TILE
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int i = 0; i < TILE; i += LINES) {
        const int at = line + i;
        const idx ACROSS = first_across + at, ALONG = first + in_line;
        if (ACROSS < RUN_ACROSS && ALONG < RUN) {
            COMPUTE(n)
            POST_OPS(v, n)
            ST_DST(OFF_DST, n, v);
            STORE_OTHERS(n)
        }
    }
}
