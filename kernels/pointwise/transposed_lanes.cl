// As pointwise.cl on a processor, where the results lie along ALONG and what they are made of along ACROSS: SIDE vectors are read along the one
// and turned in registers. Offsets of what is read take ALONG and ACROSS in each other's places, so that its vectors lie along ALONG. With as many
// vectors as lanes each lane becomes a vector along ALONG; fewer are all of a short ALONG, and their lanes lie one behind the other in the result.
// A work-item takes ROWS_PER_ITEM rows of all other loops, of each a piece of CHUNK.
#define HELD_IN(X) tile[at]
#define READ(n) const V read = FETCH_SRC0(OFF_SRC0, n);
// The lower and the upper halves of two vectors, lane by lane. Where halves of all vectors meet so as often as SIDE has bits, they are turned.
#define WEAVE(i)                                                                                                         \
    woven[2 * (i)].even = tile[i].lo;                                                                                    \
    woven[2 * (i)].odd = tile[(i) + SIDE / 2].lo;                                                                        \
    woven[2 * (i) + 1].even = tile[i].hi;                                                                                \
    woven[2 * (i) + 1].odd = tile[(i) + SIDE / 2].hi;
#define ROUND                                                                                                            \
    {                                                                                                                    \
        V woven[SIDE];                                                                                                   \
        _Pragma("unroll") for (int i = 0; i < SIDE / 2; ++i) {                                                           \
            WEAVE(i)                                                                                                     \
        }                                                                                                                \
        _Pragma("unroll") for (int i = 0; i < SIDE; ++i) {                                                               \
            tile[i] = woven[i];                                                                                          \
        }                                                                                                                \
    }
#if SIDE == 3
#define TURN                                                                                                             \
    {                                                                                                                    \
        const V a = tile[0], b = tile[1], c = tile[2];                                                                   \
        tile[0] = (V)(a.s0, b.s0, c.s0, a.s1, b.s1, c.s1, a.s2, b.s2, c.s2, a.s3, b.s3, c.s3, a.s4, b.s4, c.s4, a.s5);     \
        tile[1] = (V)(b.s5, c.s5, a.s6, b.s6, c.s6, a.s7, b.s7, c.s7, a.s8, b.s8, c.s8, a.s9, b.s9, c.s9, a.sa, b.sa);     \
        tile[2] = (V)(c.sa, a.sb, b.sb, c.sb, a.sc, b.sc, c.sc, a.sd, b.sd, c.sd, a.se, b.se, c.se, a.sf, b.sf, c.sf);     \
    }
#elif SIDE == 16
#define TURN ROUND ROUND ROUND ROUND
#elif SIDE == 8
#define TURN ROUND ROUND ROUND
#elif SIDE == 4
#define TURN ROUND ROUND
#else
#define TURN ROUND
#endif
// So many lanes of the results' vectors are there, and where they begin, of `columns` and `lines`.
#if SIDE == LANES
#define STORED(columns, lines) (at < (columns) ? (lines) : 0)
#define BEGIN const idx ACROSS = first_across + at, ALONG = first;
#else
#define STORED(columns, lines) min((columns) * SIDE - at * LANES, LANES)
#define BEGIN const idx ACROSS = first_across, ALONG = first + at * LANES;
#endif
#define TILE(columns, lines)                                                                                             \
    {                                                                                                                    \
        V tile[SIDE];                                                                                                    \
        _Pragma("unroll") for (int at = 0; at < SIDE; ++at) {                                                            \
            const idx ALONG = first_across, ACROSS = first + min(at, (lines) - 1);                                       \
            READ(columns)                                                                                                \
            tile[at] = read;                                                                                             \
        }                                                                                                                \
        TURN                                                                                                             \
        _Pragma("unroll") for (int at = 0; at < SIDE; ++at) {                                                            \
            const int n = STORED(columns, lines);                                                                        \
            if (n > 0) {                                                                                                 \
                BEGIN                                                                                                    \
                COMPUTE(n)                                                                                               \
                ST_DST(OFF_DST, n, v);                                                                                   \
            }                                                                                                            \
        }                                                                                                                \
    }

__kernel void transposed_lanes(PARAMS) {
    ENTER
    const idx item = (idx)get_global_id(0), group = BY_PIECES(item), piece = item - group * PIECES;
    const idx end = min((group + 1) * ROWS_PER_ITEM, (idx)ROWS);
    const idx chunk = BY_STRIPS(piece), from = chunk * CHUNK;
    for (idx row = group * ROWS_PER_ITEM; row < end; ++row) {
        DECLARE_ROW(row)
#if SIDE == LANES
        const idx first_across = (piece - chunk * STRIPS) * LANES, to = min(from + CHUNK, (idx)RUN);
        const int columns = (int)min((idx)LANES, RUN_ACROSS - first_across);
        for (idx first = from; first < to; first += LANES) {
            const int lines = (int)min((idx)LANES, to - first);
#else
        const idx first = 0, to = min(from + CHUNK, (idx)RUN_ACROSS);
        const int lines = SIDE;
        for (idx first_across = from; first_across < to; first_across += LANES) {
            const int columns = (int)min((idx)LANES, to - first_across);
#endif
            if (columns == LANES && lines == SIDE) {
                TILE(LANES, SIDE)
            } else {
                TILE(columns, lines)
            }
        }
    }
}
