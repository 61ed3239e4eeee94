// Products of a few rows of floats with weights of BITS (4 or 8) each, which lie along K and are read once. A weight becomes a float exactly:
// its bits are put into the fraction of a float that counts from 2^23 on, where they lie in their word as far as a fraction reaches, and
// what stands for zero is subtracted. There it counts 2^(BITS * place) times as much, which a row's elements make up for. INNER
// neighbours have a stretch of SIDES columns, DEPTH such stretches are taken at a time, and the ROWS of a work-group have their sums in
// registers.
//   SIGNED                       whether weights have a sign
//   RAW_SCALE, RAW_ZERO          a scale as it lies in memory, and what holds a zero point
//   SCALE_OF(raw), ZERO_OF(raw)  what these mean
//   SCALES                       scales and zero points of a stretch of a work-item: 1, 2 or 4
//   ROW_WORDS                    where defined, rows are of f32 and lie at multiples of 16 bytes
#define INNER 4
#define OUTER 8
#define DEPTH (GROUP / (INNER * OUTER))
#define COLUMNS (OUTER * SIDES)
// Terms of a word, of the four words that a work-item loads at once, and of all neighbours.
#define WORD_TERMS (32 / BITS)
#define STRETCH (4 * WORD_TERMS)
#define RUN (INNER * STRETCH)
#define WORDS_OF_SCALE (4 / SCALES)
#define WAITING_ROWS (ROWS < 4 ? ROWS : 4)

// Places in a fraction; terms behind them are shifted to the same ones. Many rows would take longer to make up for places than their
// weights take to be shifted.
#define PLACES (ROWS > 3 ? 1 : BITS == 4 ? 5 : 2)
#define PLACE(e) ((e) % PLACES)
#define SHIFTED(word, e) ((word) >> ((e) / PLACES * PLACES * BITS))
#define HIGH_BIT (SIGNED << (BITS - 1))
#define FLOAT_BITS(word, e)                                                                                              \
    ((SHIFTED(word, e) & ((1u << BITS) - 1) << (PLACE(e) * BITS)) ^ place_bits[PLACE(e)])
#if BITS == 4
#define FACTORS * (V)(1, 0x1p-4f, 0x1p-8f, 0x1p-12f, 0x1p-16f, 1, 0x1p-4f, 0x1p-8f)
#define DOT(sum, x, w)                                                                                                   \
    sum += (x).s0 * w[0]; sum += (x).s1 * w[1]; sum += (x).s2 * w[2]; sum += (x).s3 * w[3];                              \
    sum += (x).s4 * w[4]; sum += (x).s5 * w[5]; sum += (x).s6 * w[6]; sum += (x).s7 * w[7];
#else
#define FACTORS * (V)(1, 0x1p-8f, 1, 0x1p-8f)
#define DOT(sum, x, w) sum += (x).s0 * w[0]; sum += (x).s1 * w[1]; sum += (x).s2 * w[2]; sum += (x).s3 * w[3];
#endif
#if ROWS > 3
#undef FACTORS
#define FACTORS
#endif

static inline uint4 load_words(const __global uchar *p) {
#if ANYDNN_UNALIGNED
    return as_uint4(vload16(0, p));
#else
    return *(const __global uint4 *)p;
#endif
}

#if defined(ROW_WORDS) && !ANYDNN_UNALIGNED
#if BITS == 4
#define LOAD_ROW(o) (V)(row_words(src0, o), row_words(src0, (o) + 4))
#else
#define LOAD_ROW(o) row_words(src0, o)
#endif
static inline float4 row_words(const __global uchar *p, const idx o) { return *(const __global float4 *)(p + (size_t)o * 4); }
#else
#define LOAD_ROW(o) LD_SRC0(o, WORD_TERMS)
#endif

// What a work-item has of a run: its words, and their scales and zero points as they lie in memory, for which nothing waits before they are
// used.
#define LOAD_RUN(first)                                                                                                  \
    {                                                                                                                    \
        const idx first_k = (first) + inner * STRETCH;                                                                   \
        if (first_k < K_SIZE) {                                                                                          \
            EACH(side, SIDES) {                                                                                          \
                const idx col = cols[side];                                                                              \
                words[side] = load_words(columns[side] + (size_t)first_k * BITS / 8);                                    \
                EACH(s, SCALES) {                                                                                        \
                    const idx k = first_k + s * (STRETCH / SCALES);                                                      \
                    scales[side][s] = RAW_SCALE;                                                                         \
                    zeros[side][s] = RAW_ZERO;                                                                           \
                }                                                                                                        \
            }                                                                                                            \
        }                                                                                                                \
    }

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void matmul_skinny(PARAMS) {
    ENTER
    // The sums that work-items have of some rows.
    __local R waiting[DEPTH * INNER][WAITING_ROWS * COLUMNS];
    const int item = (int)get_local_id(0), depth = item / (INNER * OUTER), outer = item / INNER % OUTER, inner = item % INNER;
    DECLARE_BATCH((idx)get_group_id(1))
    const idx first_col = (idx)get_group_id(0) * COLUMNS, first_row = (idx)get_group_id(2) * ROWS;
    idx cols[SIDES], rows[ROWS];
    const __global uchar *columns[SIDES];
    EACH(side, SIDES) {
        const idx col = min(first_col + side * OUTER + outer, (idx)(N_SIZE - 1)), k = 0;
        cols[side] = col;
        columns[side] = weights + (size_t)(OFF_WEIGHTS) * BITS / 8;
    }
    // Rows past the end are the last one again, and nobody stores them.
    EACH(row, ROWS) rows[row] = min(first_row + row, (idx)(M_SIZE - 1));
    // The bits of 2^23, with those that turn signs over. That no compiler knows them, as the offset is always zero, leaves one operation of three
    // numbers for each weight, which takes one known number at most.
    uint place_bits[PLACES];
    EACH(p, PLACES) place_bits[p] = (0x4b000000u | (uint)HIGH_BIT << (p * BITS)) + (uint)get_global_offset(0);
    R sums[SIDES][ROWS];
    uint4 words[SIDES];
    uint scales[SIDES][SCALES], zeros[SIDES][SCALES];
    EACH(side, SIDES) {
        words[side] = (uint4)(0);
        EACH(s, SCALES) scales[side][s] = zeros[side][s] = 0;
        EACH(row, ROWS) sums[side][row] = 0;
    }
    LOAD_RUN((idx)depth * RUN)
    for (idx run = (idx)depth * RUN; run < K_SIZE; run += DEPTH * RUN) {
        const idx first_k = run + inner * STRETCH;
        uint own[SIDES][4], own_scale[SIDES][SCALES], own_zero[SIDES][SCALES];
        EACH(side, SIDES) {
            own[side][0] = words[side].x, own[side][1] = words[side].y;
            own[side][2] = words[side].z, own[side][3] = words[side].w;
            EACH(s, SCALES) own_scale[side][s] = scales[side][s], own_zero[side][s] = zeros[side][s];
        }
        LOAD_RUN(run + DEPTH * RUN)
        if (first_k < K_SIZE) {
            EACH(s, SCALES) {
                R part[SIDES][ROWS], base[SIDES][PLACES];
                EACH(side, SIDES) {
                    const idx col = cols[side], k = first_k + s * (STRETCH / SCALES);
                    const R zero = (R)(HIGH_BIT + ZERO_OF(own_zero[side][s]));
                    EACH(p, PLACES) base[side][p] = 0x1p23f + zero * (R)(1 << (p * BITS));
                    EACH(row, ROWS) part[side][row] = 0;
                }
                EACH(i, WORDS_OF_SCALE) {
                    const int at = s * WORDS_OF_SCALE + i;
                    const idx k = first_k + at * WORD_TERMS;
                    R w[SIDES][WORD_TERMS];
                    EACH(side, SIDES)
                    EACH(e, WORD_TERMS) w[side][e] = as_float(FLOAT_BITS(own[side][at], e)) - base[side][PLACE(e)];
                    EACH(row, ROWS) {
                        const idx m = rows[row];
                        const V x = LOAD_ROW(OFF_SRC0) FACTORS;
                        EACH(side, SIDES) { DOT(part[side][row], x, w[side]) }
                    }
                }
                EACH(side, SIDES) {
                    const R scale = SCALE_OF(own_scale[side][s]);
                    EACH(row, ROWS) sums[side][row] += scale * part[side][row];
                }
            }
        }
    }
    for (int first = 0; first < ROWS; first += WAITING_ROWS) {
        barrier(CLK_LOCAL_MEM_FENCE);
        EACH(side, SIDES)
        EACH(row, ROWS) {
            if (row >= first && row < first + WAITING_ROWS)
                waiting[depth * INNER + inner][(row - first) * COLUMNS + side * OUTER + outer] = sums[side][row];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int x = item; x < WAITING_ROWS * COLUMNS; x += GROUP) {
            const idx own_row = first + x / COLUMNS, m = first_row + own_row, col = first_col + x % COLUMNS;
            if (own_row < ROWS && m < M_SIZE && col < N_SIZE) {
                R total = 0;
                EACH(i, DEPTH * INNER) total += waiting[i][x];
                FINISH(total)
            }
        }
    }
}
