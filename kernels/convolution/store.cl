// Stores finished sums: `count` positions of VECTORS vectors each in local memory, as `sums`, side by side along `ow` from `start` on.
//   PLAIN        results lie as the sums do, in f32, and the list has all post-operations
//   LANES_OF(j)  the lanes of vector j that are results
// `dst_line` is the element of the line's first position, `dst_step` how far the next one is; `columns` results are of a position.
#define STORE_POSITIONS(start, count)                                                                                    \
    if (PLAIN) {                                                                                                         \
        const int rest = columns % 16;                                                                                   \
        __global float *out = (__global float *)dst + dst_line + (start) * dst_step;                                     \
        const __local float *from = sums;                                                                                \
        NOT_UNROLLED for (int i = 0; i < (count); ++i) {                                                                 \
            NOT_UNROLLED for (int j = 0; j < columns / 16; ++j)                                                          \
                store_32_16((__global uchar *)out, 16 * j, 16, pack_f32_16(FINAL(*(const __local V *)(from + 16 * j)))); \
            if (rest) {                                                                                                  \
                const V v = FINAL(*(const __local V *)(from + (columns - rest)));                                        \
                store_32_16((__global uchar *)out, columns - rest, rest, pack_f32_16(v));                                \
            }                                                                                                            \
            out += dst_step;                                                                                             \
            from += VECTORS * 16;                                                                                        \
        }                                                                                                                \
    } else {                                                                                                             \
        NOT_UNROLLED for (idx ow = (start); ow < (start) + (count); ++ow) {                                              \
            NOT_UNROLLED for (int j = 0; j < VECTORS; ++j) {                                                             \
                const idx lane = 16 * j;                                                                                 \
                const int n_lanes = LANES_OF(j);                                                                         \
                V v = *(const __local V *)(sums + ((ow - (start)) * VECTORS + j) * 16);                                  \
                POST_OPS(v, n_lanes)                                                                                     \
                v = FINAL(v);                                                                                            \
                if (n_lanes > 0) ST_DST(OFF_DST, n_lanes, v);                                                            \
            }                                                                                                            \
        }                                                                                                                \
    }
