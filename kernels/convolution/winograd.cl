// For CPUs: convolutions of windows of 3 x 3, of steps of one, by Winograd's transforms. A tile is 2 x 2 results, which see 4 x 4 positions of
// the source. With the matrices below, its results are A' ((G w G') (B' d B)) A, where the inner product is of elements: 16 products in
// place of 36. G w G' is prepared (`winograd_weights.cl`). Tiles follow one another in all images, up to TILES of them are a block. A
// work-item takes ITEM_BLOCKS of the BLOCKS, GROUP at a time: it transforms their source to its part of working memory, ITEM_ROOM elements,
// multiplies that by ITEM_PANELS panels of PANEL output channels, one of the 16 places after the other, and transforms what comes of it.
// Channels lie innermost in both images; what is transformed lies as [block][place][vector of channels][tile][channel], so that a register
// tile reads it at constant distances.
//   B' = 1  0 -1  0    G = 1    0    0    A' = 1 1  1  0
//        0  1  1  0        1/2  1/2  1/2       0 1 -1 -1
//        0 -1  1  0        1/2 -1/2  1/2
//        0  1  0 -1        0    0    1
//   TILES, FEW_TILES  the tiles of a block, and those of a small one
//   PLACES, VECTORS   the products of a tile, and the vectors of a panel
//   AT_ONCE           the vectors of a panel that registers hold the sums of
#define PANEL (16 * VECTORS)
// Elements of weights that are fetched ahead.
#define AHEAD 1024
#define LANES_OF(j) clamp(columns - 16 * (j), 0, 16)
#define TILE_START(block) ((block) * BLOCK_TILES + min(block, (idx)BLOCKS_MORE))

// Multiplies m tiles by `whole` vectors of the panel from this one on, at all places.
#define MULTIPLY(m, whole, vector)                                                                                       \
    {                                                                                                                    \
        const __global float *b = panel_weights + 16 * (vector);                                                         \
        NOT_UNROLLED for (int place = 0; place < PLACES; ++place) {                                                      \
            const __global float *a = from + place * place_room;                                                         \
            V sum[m][whole];                                                                                             \
            EACH(i, m) EACH(j, whole) sum[i][j] = (V)(0);                                                                \
            NOT_UNROLLED for (int c = 0; c < channels; c += 16, a += TILES * 16 - 16) {                                  \
                const __global float *end = a + min(16, channels - c);                                                   \
                NOT_UNROLLED for (; a < end; ++a) {                                                                      \
                    V w[whole];                                                                                          \
                    EACH(j, whole) FETCH_NEAR(b + AHEAD + 16 * j);                                                       \
                    EACH(j, whole) w[j] = unpack_f32_16(load_32_16((const __global uchar *)b, 16 * j, 16));              \
                    EACH(i, m) {                                                                                         \
                        const float x = a[i * 16];                                                                       \
                        EACH(j, whole) sum[i][j] += x * w[j];                                                            \
                    }                                                                                                    \
                    b += PANEL;                                                                                          \
                }                                                                                                        \
            }                                                                                                            \
            __local float *to = products + place * TILES * PANEL + 16 * (vector);                                        \
            EACH(i, m) EACH(j, whole) *(__local V *)(to + i * PANEL + j * 16) = sum[i][j];                               \
        }                                                                                                                \
    }
#if AT_ONCE == VECTORS
#define MULTIPLY_PANEL(m)                                                                                                \
    if (used > 1) MULTIPLY(m, VECTORS, 0)                                                                                \
    else MULTIPLY(m, 1, 0)
#else
#define MULTIPLY_PANEL(m) NOT_UNROLLED for (int v = 0; v < used; ++v) MULTIPLY(m, 1, v)
#endif

// A vector in one access, which vstore16 is not everywhere.
#define HOLD(v, p) store_32_16((__global uchar *)(p), 0, 16, pack_f32_16(v))

// The transform of a vector of channels of a tile whose 4 x 4 positions are X(i, j).
#define TRANSFORM(X)                                                                                                     \
    V d[4][4], e[4][4];                                                                                                  \
    EACH(i, 4) EACH(j, 4) d[i][j] = X(i, j);                                                                             \
    EACH(j, 4) {                                                                                                         \
        e[0][j] = d[0][j] - d[2][j];                                                                                     \
        e[1][j] = d[1][j] + d[2][j];                                                                                     \
        e[2][j] = d[2][j] - d[1][j];                                                                                     \
        e[3][j] = d[1][j] - d[3][j];                                                                                     \
    }                                                                                                                    \
    EACH(i, 4) {                                                                                                         \
        __global float *to = held + i * 4 * place_room + c * TILES + t * 16;                                             \
        HOLD(e[i][0] - e[i][2], to);                                                                                     \
        HOLD(e[i][1] + e[i][2], to + place_room);                                                                        \
        HOLD(e[i][2] - e[i][1], to + 2 * place_room);                                                                    \
        HOLD(e[i][1] - e[i][3], to + 3 * place_room);                                                                    \
    }
#define AT(i, j) unpack_f32_16(load_32_16(src0, from + (i) * row_step + (j) * place_step, n))
#define IF_INSIDE(i, j)                                                                                                  \
    (ih + (i) >= 0 && ih + (i) < SRC_H && iw + (j) >= 0 && iw + (j) < SRC_W ? AT(i, j) : (V)(0))
#define PRODUCT(i, j) (*(const __local V *)(products + (((i) * 4 + (j)) * TILES + t + at) * PANEL + 16 * v))

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void convolution_winograd(PARAMS) {
    __local float products[PLACES * TILES * PANEL] __attribute__((aligned(64)));
    __local float sums[2 * TILES * PANEL] __attribute__((aligned(64)));
    ENTER
    DECLARE_FACTORS
    const idx number = (idx)get_global_id(0), of_blocks = BY_PARTS(number), part = number - of_blocks * PARTS;
    const int channels = (int)CHANNELS, place_room = (channels + 15) / 16 * (TILES * 16);
    const idx od = 0, kd = 0, kh = 0, kw = 0, row_step = SRC_ROW_STEP, place_step = SRC_PLACE_STEP, dst_step = DST_STEP;
    const idx end_block = min((of_blocks + 1) * ITEM_BLOCKS, (idx)BLOCKS), end_panel = min((part + 1) * ITEM_PANELS, (idx)PANELS);
    __global float *const transformed_item = (__global float *)transformed + number * ITEM_ROOM;
    for (idx group = of_blocks * ITEM_BLOCKS; group < end_block; group += GROUP) {
        const int blocks = (int)min((idx)GROUP, end_block - group);
        for (int block = 0; block < blocks; ++block) {
            DECLARE_PANEL((idx)0)
            const idx lane = 0, first = TILE_START(group + block);
            const int count = (int)(TILE_START(group + block + 1) - first);
            __global float *held = transformed_item + block * PLACES * place_room;
            for (int t = 0; t < count; ++t) {
                const idx of_lines = BY_TILES_W(first + t), image = BY_TILES_H(of_lines);
                const idx oh = 2 * (of_lines - image * TILES_H), ow = 2 * (first + t - of_lines * TILES_W);
                const idx ih = oh - PAD_H, iw = ow - PAD_W;
                const bool is_inside = ih >= 0 && iw >= 0 && ih + 4 <= SRC_H && iw + 4 <= SRC_W;
                for (idx c = 0; c < channels; c += 16) {
                    const idx from = OFF_SRC0;
                    const int n = (int)min((idx)16, channels - c);
                    if (is_inside && n == 16) {
                        const int n = 16;
                        TRANSFORM(AT)
                    } else {
                        TRANSFORM(IF_INSIDE)
                    }
                }
            }
        }
        for (idx at_panel = part * ITEM_PANELS; at_panel < end_panel; ++at_panel) {
            DECLARE_PANEL(at_panel)
            const idx c = 0;
            const int columns = (int)min((idx)PANEL, OUTPUTS - panel * PANEL), used = (columns + 15) / 16;
            V before[VECTORS];
            {
                DECLARE_LINE((idx)0)
                const idx ow = 0;
                EACH(v, VECTORS) {
                    const idx lane = 16 * v;
                    before[v] = (V)(0);
                    if (HAS_BIAS) before[v] = LD_BIAS(OFF_BIAS, LANES_OF(v));
                }
            }
            for (int block = 0; block < blocks; ++block) {
                const idx first = TILE_START(group + block);
                const int count = (int)(TILE_START(group + block + 1) - first);
                const __global float *panel_weights = (const __global float *)weights + panel * (PLACES * PANEL) * channels;
                const __global float *from = transformed_item + block * PLACES * place_room;
                if (count > FEW_TILES) {
                    MULTIPLY_PANEL(TILES)
                } else {
                    MULTIPLY_PANEL(FEW_TILES)
                }
                // Tiles of a line at a time, whose results are two lines.
                for (int t = 0, run = 0; t < count; t += run) {
                    const idx of_lines = BY_TILES_W(first + t), across = first + t - of_lines * TILES_W;
                    const idx of_images = BY_TILES_H(of_lines), start = 2 * across;
                    run = (int)min((idx)(count - t), TILES_W - across);
                    const int positions = (int)min((idx)(2 * run), DST_W - start);
                    for (int r = 0; r < 2; ++r) {
                        const idx down = 2 * (of_lines - of_images * TILES_H) + r;
                        if (down >= DST_H) break;
                        for (int at = 0; at < run; ++at) {
                            NOT_UNROLLED for (int v = 0; v < used; ++v) {
                                V y[4];
                                EACH(j, 4) {
                                    const V middle = r ? PRODUCT(1, j) - PRODUCT(2, j) : PRODUCT(1, j) + PRODUCT(2, j);
                                    y[j] = r ? middle - PRODUCT(3, j) : PRODUCT(0, j) + middle;
                                }
                                __local float *to = sums + 2 * at * PANEL + 16 * v;
                                *(__local V *)to = y[0] + y[1] + y[2] + before[v];
                                *(__local V *)(to + PANEL) = y[1] - y[2] - y[3] + before[v];
                            }
                        }
                        DECLARE_LINE(of_images * DST_H + down)
                        const idx lane = 0, ow = start;
                        APPLY_STEPS(positions)
                        const idx dst_line = OFF_DST - start * dst_step;
                        STORE_POSITIONS(start, positions)
                    }
                }
            }
        }
    }
}
