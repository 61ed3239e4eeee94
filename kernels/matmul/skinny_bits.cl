// Products of up to 32 rows of 16 bits with weights of BITS (4 or 8) each, which lie along K and are read once, on NVIDIA's matrix units.
// Integers from zero on are multiplied as floats that have them in their lowest bits; what stands for zero is taken off the sums, as sum
// a (w - z) = sum a w - z sum a, and sums over terms with the same scale are multiplied by it. A warp multiplies COLUMNS columns by all
// rows, and the WARPS of a work-group share K. Which of an instruction's places along K are whose does not matter as long as both operands
// agree.
//   TYPE, IS_BF16                "f16" or "bf16", the type of rows, and whether it is the latter
//   SIGNED                       whether weights have a sign
//   HAS_ZERO                     whether weights have zero points, which are of their own type
//   RAW_SCALE, RAW_ZERO          a scale as it lies in memory, and what holds a zero point
//   SCALE_OF(raw), ZERO_OF(raw)  what these mean
//   PIECES                       quarters of a run of terms that have the same ones: 1, 2 or 4
#define WARPS 8
#define GROUP (32 * WARPS)
#define ROW_TILES ((M_SIZE + 7) / 8)
// An instruction has two sides of eight columns, and several share what is loaded and added up of the rows.
#define COLUMN_TILES (ROW_TILES <= 2 ? 2 : 1)
#define SIDES (2 * COLUMN_TILES)
#define COLUMNS (8 * SIDES)
#define PITCH (COLUMNS + 1)
// Terms of a word of weights, of the four words that a work-item loads at once, and of those of the four work-items of a column.
#define WORD_TERMS (32 / BITS)
#define QUARTER (4 * WORD_TERMS)
#define RUN (4 * QUARTER)
// Runs whose weights are on their way.
#define AHEAD 1

#define MULTIPLY(d, a0, a1, a2, a3, b0, b1)                                                                              \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 "                                                   \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                                \
        : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])                                                         \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))

static inline uint bytes_of(const uint x, const uint y, const uint selector) {
    uint z;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(z) : "r"(x), "r"(y), "r"(selector));
    return z;
}
static inline uint of_neighbour(const uint x, const int distance) {
    uint y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(y) : "r"(x), "r"(distance));
    return y;
}
static inline float of_lane(const float x, const int lane) {
    float y;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(y) : "f"(x), "r"(lane));
    return y;
}
static inline uint load_word(const __global uchar *p) {
    return p[0] | (uint)p[1] << 8 | (uint)p[2] << 16 | (uint)p[3] << 24;
}
static inline uint4 load_words(const __global uchar *p) {
#if ANYDNN_UNALIGNED
    return (uint4)(load_word(p), load_word(p + 4), load_word(p + 8), load_word(p + 12));
#else
    return *(const __global uint4 *)p;
#endif
}
// Weights are read once: whole lines come into the second-level cache, of which the next run takes the rest. One row by four bits, whose
// loads are the fewest, is faster through the first-level cache.
#if BITS == 4 && ROW_TILES == 1
#define LOAD_ONCE "ld.global.nc.L2::128B.v4.u32"
#else
#define LOAD_ONCE "ld.global.nc.L1::no_allocate.L2::256B.v4.u32"
#endif
static inline uint4 load_weights(const __global uchar *p) {
#if ANYDNN_UNALIGNED
    return load_words(p);
#else
    uint4 v;
    asm(LOAD_ONCE " {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
#endif
}

// The highest bit of weights with a sign is turned over: they count from their least number on.
#define HIGH_BIT (SIGNED << (BITS - 1))
// Halves have integers of up to ten bits as their least numbers, in units of 2^-24; bf16 of seven behind 128.
#if IS_BF16
#define BASE 0x4300u
#define BASE_VALUE 128
#define UNIT 1.0f
#define ONES 0x3f803f80u
#else
#define BASE 0u
#define BASE_VALUE 0
#define UNIT 0x1p-24f
#define ONES 0x3c003c00u
#endif
#define NEEDS_SUMS (IS_BF16 || SIGNED || HAS_ZERO)

// Pairs of floats from a word of weights, and of a row's elements for the same terms. There may be two planes of them: halves have every
// other four bits where these count 16 times as much, which takes no shift but registers, and bytes as bf16 their high halves.
#if BITS == 4
// Terms 0 and 4, 1 and 5, 2 and 6, 3 and 7.
#define PAIRS 4
#if IS_BF16 || ROW_TILES > 2
#define PLANES 1
#define PLANE_PAIRS 4
#define ROW_PAIR(p, j) (j)
#define UNPACK(pairs, word)                                                                                              \
    EACH(j, 4) pairs[0][j] = (((word) >> (4 * j)) & 0x000f000fu) ^ ((BASE + HIGH_BIT) * 0x10001u);
#else
#define PLANES 2
#define PLANE_PAIRS 2
#define PLANE_FACTOR 0.0625f
#define ROW_PAIR(p, j) ((p) + 2 * (j))
#define UNPACK(pairs, word)                                                                                              \
    EACH(j, 2) {                                                                                                         \
        pairs[0][j] = (((word) >> (8 * j)) & 0x000f000fu) ^ (HIGH_BIT * 0x10001u);                                       \
        pairs[1][j] = (((word) >> (8 * j)) & 0x00f000f0u) ^ (HIGH_BIT * 0x100010u);                                      \
    }
#endif
#define ROW_WORDS uint4
#define LOAD_ROW(p) load_words(p)
#define ARRANGE(pairs, x)                                                                                                \
    pairs[0] = bytes_of(x.x, x.z, 0x5410), pairs[1] = bytes_of(x.x, x.z, 0x7632);                                        \
    pairs[2] = bytes_of(x.y, x.w, 0x5410), pairs[3] = bytes_of(x.y, x.w, 0x7632);
#else
#define PAIRS 2
#define PLANE_PAIRS 2
#define ROW_PAIR(p, j) (j)
#define ROW_WORDS uint2
#if ANYDNN_UNALIGNED
#define LOAD_ROW(p) (uint2)(load_word(p), load_word((p) + 4))
#else
#define LOAD_ROW(p) *(const __global uint2 *)(p)
#endif
#if IS_BF16
// Terms 0 and 2, 1 and 3.
#define PLANES 2
#define PLANE_FACTOR 16.0f
#define UNPACK(pairs, word)                                                                                              \
    EACH(j, 4) pairs[j % 2][j / 2] = ((((word) ^ HIGH_BIT * 0x1010101u) >> (4 * j)) & 0x000f000fu) ^ (BASE * 0x10001u);
#define ARRANGE(pairs, x) pairs[0] = bytes_of(x.x, x.y, 0x5410), pairs[1] = bytes_of(x.x, x.y, 0x7632);
#else
#define PLANES 1
#define UNPACK(pairs, word)                                                                                              \
    EACH(j, 2) pairs[0][j] = bytes_of((word) ^ HIGH_BIT * 0x1010101u, 0, j == 0 ? 0x4140 : 0x4342);
#define ARRANGE(pairs, x) pairs[0] = x.x, pairs[1] = x.y;
#endif
#endif
// What stands for zero, of all planes.
#define ZERO_VALUE (HIGH_BIT + (PLANES == 2 ? 17 : 1) * BASE_VALUE)

// Of four work-items that have four words each: each comes to have the words of its own number.
#define SWAP_WORDS(low, high, distance)                                                                                  \
    {                                                                                                                    \
        const bool upper = (inner & (distance)) != 0;                                                                    \
        const uint got = of_neighbour(upper ? low : high, distance);                                                     \
        low = upper ? got : low;                                                                                         \
        high = upper ? high : got;                                                                                       \
    }
#if PIECES == 4
#define TRANSPOSE(w)
#define TERM_OF(run_k, quarter) ((run_k) + inner * QUARTER + (quarter) * WORD_TERMS)
#else
#define TRANSPOSE(w)                                                                                                     \
    SWAP_WORDS(w[0], w[1], 1)                                                                                            \
    SWAP_WORDS(w[2], w[3], 1)                                                                                            \
    SWAP_WORDS(w[0], w[2], 2)                                                                                            \
    SWAP_WORDS(w[1], w[3], 2)
#define TERM_OF(run_k, quarter) ((run_k) + (quarter) * QUARTER + inner * WORD_TERMS)
#endif

// The words of a run at the columns of a work-item. Of the scales and zero points it has those of the quarter of its number, or where a run
// has the same ones of one of the columns, as they lie in memory: nothing waits for them until they are used. Past the end those of the
// last quarter.
#if PIECES == 4
#define HELD 1
#define HELD_COLUMN(h) held_col
#define OF_SIDE(x, side, piece) of_lane(x[0], lane - inner + (side))
#else
#define HELD SIDES
#define HELD_COLUMN(h) cols[h]
#define OF_SIDE(x, side, piece) of_lane(x[side], lane - inner + (piece))
#endif
#define EXISTS(k) (K_SIZE % RUN == 0 || (k) < K_SIZE)
#define TERM_OF_ITEM(first)                                                                                              \
    (K_SIZE % RUN == 0 ? (first) + inner * QUARTER : min((first) + inner * QUARTER, (idx)(K_SIZE - QUARTER)))
#define LOAD_RUN(slot, first)                                                                                            \
    if ((first) < K_SIZE) {                                                                                              \
        const idx k = TERM_OF_ITEM(first);                                                                               \
        EACH(side, SIDES) words[slot][side] = load_weights(columns[side] + (size_t)k * BITS / 8);                        \
        EACH(h, HELD) {                                                                                                  \
            const idx col = HELD_COLUMN(h);                                                                              \
            scales[slot][h] = RAW_SCALE;                                                                                 \
            zeros[slot][h] = RAW_ZERO;                                                                                   \
        }                                                                                                                \
    }
__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void matmul_skinny(PARAMS) {
    ENTER
    __local float waiting[WARPS][ROW_TILES * 8 * PITCH];
    const int item = (int)get_local_id(0), warp = item / 32, lane = item % 32, outer = lane / 4, inner = lane % 4;
    DECLARE_BATCH((idx)get_group_id(1))
    const idx first_col = (idx)get_group_id(0) * COLUMNS;
    idx cols[SIDES];
    const __global uchar *columns[SIDES];
    EACH(side, SIDES) {
        const idx col = min(first_col + side * 8 + outer, (idx)(N_SIZE - 1)), k = 0;
        cols[side] = col;
        columns[side] = weights + (size_t)(OFF_WEIGHTS) * BITS / 8;
    }
    const __global uchar *rows[ROW_TILES];
    EACH(t, ROW_TILES) {
        const idx m = min(t * 8 + outer, M_SIZE - 1), k = 0;
        rows[t] = src0 + (size_t)(OFF_SRC0) * 2;
    }
    float sums[COLUMN_TILES][ROW_TILES][4];
    EACH(c, COLUMN_TILES) EACH(t, ROW_TILES) EACH(j, 4) sums[c][t][j] = 0.0f;

    uint4 words[AHEAD][SIDES];
    const idx held_col = min(first_col + inner % SIDES * 8 + outer, (idx)(N_SIZE - 1));
    uint scales[AHEAD][HELD], zeros[AHEAD][HELD];
    EACH(i, AHEAD) {
        EACH(side, SIDES) words[i][side] = (uint4)(0);
        EACH(h, HELD) scales[i][h] = zeros[i][h] = 0;
    }
    EACH(i, AHEAD) LOAD_RUN(i, (idx)(warp + i * WARPS) * RUN)
    for (idx first_k = (idx)warp * RUN; first_k < K_SIZE; first_k += AHEAD * WARPS * RUN) {
        EACH(i, AHEAD) {
            const idx run_k = first_k + i * (WARPS * RUN);
            // All work-items of a warp go the same way.
            if (run_k < K_SIZE) {
                uint own[SIDES][4];
                float own_scale[HELD], own_zero[HELD];
                EACH(side, SIDES) {
                    own[side][0] = words[i][side].x, own[side][1] = words[i][side].y;
                    own[side][2] = words[i][side].z, own[side][3] = words[i][side].w;
                    TRANSPOSE(own[side])
                }
                EACH(h, HELD) {
                    const idx k = TERM_OF_ITEM(run_k), col = HELD_COLUMN(h);
                    own_scale[h] = SCALE_OF(scales[i][h]);
                    own_zero[h] = (float)(ZERO_VALUE + ZERO_OF(zeros[i][h]));
                }
#pragma unroll
                for (int piece = 0; piece < 4; piece += PIECES) {
                    float part[PLANES][COLUMN_TILES][ROW_TILES][4], total[ROW_TILES][4];
                    EACH(t, ROW_TILES) EACH(j, 4) {
                        EACH(p, PLANES) EACH(c, COLUMN_TILES) part[p][c][t][j] = 0.0f;
                        total[t][j] = 0.0f;
                    }
#pragma unroll
                    for (int quarter = piece; quarter < piece + PIECES; ++quarter) {
                        const idx k = TERM_OF(run_k, quarter);
                        uint pairs[SIDES][PLANES][PLANE_PAIRS];
                        EACH(side, SIDES) UNPACK(pairs[side], own[side][quarter])
                        EACH(t, ROW_TILES) {
                            ROW_WORDS x = (ROW_WORDS)(0);
                            if (t * 8 + outer < M_SIZE && EXISTS(k)) x = LOAD_ROW(rows[t] + (size_t)k * 2);
                            uint row[PAIRS];
                            ARRANGE(row, x)
#pragma unroll
                            for (int j = 0; j < PLANE_PAIRS; j += 2)
                                EACH(p, PLANES) EACH(c, COLUMN_TILES)
                                    MULTIPLY(part[p][c][t], pairs[2 * c][p][j], pairs[2 * c + 1][p][j], pairs[2 * c][p][j + 1],
                                             pairs[2 * c + 1][p][j + 1], row[ROW_PAIR(p, j)], row[ROW_PAIR(p, j + 1)]);
#pragma unroll
                            for (int j = 0; j < PAIRS; j += 2)
                                if (NEEDS_SUMS) MULTIPLY(total[t], ONES, ONES, ONES, ONES, row[j], row[j + 1]);
                        }
                    }
                    float scale[SIDES], zero[SIDES];
                    EACH(side, SIDES) {
                        scale[side] = OF_SIDE(own_scale, side, piece);
                        zero[side] = OF_SIDE(own_zero, side, piece);
                    }
                    EACH(c, COLUMN_TILES) EACH(t, ROW_TILES) EACH(j, 4) {
                        const int side = 2 * c + j / 2;
                        float x = part[0][c][t][j];
#if PLANES == 2
                        x = fma(PLANE_FACTOR, part[1][c][t][j], x);
#endif
                        sums[c][t][j] = fma(scale[side], fma(-zero[side], total[t][j], x / UNIT), sums[c][t][j]);
                    }
                }
                LOAD_RUN(i, run_k + AHEAD * WARPS * RUN)
            }
        }
    }

    EACH(c, COLUMN_TILES) EACH(t, ROW_TILES) EACH(j, 4)
        waiting[warp][(t * 8 + inner * 2 + j % 2) * PITCH + (2 * c + j / 2) * 8 + outer] = sums[c][t][j];
    JOIN_WARPS
}
