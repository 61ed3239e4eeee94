// How slices of both operands come into local memory for wgmma.cl, which says what the macros are: by copies of 16 bytes, or element by
// element through registers.
//   A_TABLE                 where defined, elements of a window of two dimensions come by a table of its terms: how far each is from the
//                           first one of its row, and its tap; rows know their taps as bits
//   A_PAIRS, PAIR_TERMS, PAIR_LEAD, PAIR_UNIT, PAIR_WIDTH
//                           where defined, terms that are neighbours along the width come by pairs of four bytes: how many pairs and terms a
//                           line of them has, whether the first pair begins a term before, how many terms are between taps and how many
//                           elements between the edges, an even number

#define BY_TERMS 0
#define BY_ROWS 1
#define BY_ELEMENT 2
#if ANYDNN_UNALIGNED
#undef A_FETCH
#undef B_FETCH
#undef A_WORDS
#undef B_WORDS
#define A_FETCH BY_ELEMENT
#define B_FETCH BY_ELEMENT
#endif

// Copies bytes of 16 and fills the rest with zeros.
#define COPY(to, from, bytes)                                                                                            \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory")
#define COPIES_COMMIT asm volatile("cp.async.commit_group;" ::: "memory")

// The text of an address may name every loop.
#define DECLARE_COLUMN(t) DECLARE_M((idx)0) DECLARE_N(t)
#define EXISTS_M (M_SIZE % TILE_M == 0 || at_row < M_SIZE)
#define EXISTS_N (N_SIZE % TILE_N == 0 || at_row < N_SIZE)
// Lines of pairs have terms that do not exist, before the first and behind the last one.
#ifdef A_PAIRS
#define TERMS (K_SIZE / PAIR_TERMS * A_PAIRS * 2)
#define TERM_OF(place) ((place) / (A_PAIRS * 2) * PAIR_TERMS + (place) % (A_PAIRS * 2) - PAIR_LEAD)
#define EXISTS_K (at_place < TERMS && (uint)(at_place % (A_PAIRS * 2) - PAIR_LEAD) < PAIR_TERMS)
#else
#define TERMS K_SIZE
#define TERM_OF(place) (place)
#define EXISTS_K (K_SIZE % K_TILE == 0 || at_k < K_SIZE)
#endif
// How many of some elements exist, given that the first one does.
#define COUNT(of, at, size) ((size) % (of) == 0 ? (of) : (int)min((idx)(of), (size) - (at)))

// Where the chunks of a step come from is worked out a step before they are copied, while the tensor cores are busy: by a constant from
// those of the step before where A_STRIDE and B_STRIDE (bytes from a term to the next) say that all terms are as far apart: then the loops
// of a term need not be taken apart either.
#ifdef A_STRIDE
#define a_EVEN true
#define a_APART (A_STRIDE)
#else
#define a_EVEN false
#define a_APART 0
#endif
#ifdef B_STRIDE
#define b_EVEN true
#define b_APART (B_STRIDE)
#else
#define b_EVEN false
#define b_APART 0
#endif
#define AIM_BY_TERMS(aim, ROWS, first, EXISTS, DECLARE, INSIDE, pointer, OFFSET)                                         \
    _Pragma("unroll") for (int i = 0; i < (ROWS) * CHUNKS / GROUP; ++i) {                                                \
        const idx at_row = (first) + item / CHUNKS + i * (GROUP / CHUNKS), at_k = first_k + item % CHUNKS * RUN;         \
        DECLARE(at_row)                                                                                                  \
        DECLARE_K(aim##_EVEN ? (idx)0 : at_k)                                                                            \
        const bool exists = EXISTS && EXISTS_K && (INSIDE);                                                              \
        aim##_from[i] = (ulong)(pointer + (exists ? (size_t)(OFFSET) * BYTES + (size_t)at_k * aim##_APART : 0));         \
        aim##_bytes[i] = exists ? COUNT(RUN, at_k, K_SIZE) * BYTES : 0;                                                  \
        asm volatile("" : "+l"(aim##_from[i]));                                                                          \
    }
// Of a window: where rows are and which taps exist for them is worked out once a tile, a slice adds what all rows have in common.
#define PLACE_ROWS                                                                                                       \
    _Pragma("unroll") for (int i = 0; i < TILE_M * CHUNKS / GROUP; ++i) {                                                \
        const idx at_row = first_m + item / CHUNKS + i * (GROUP / CHUNKS);                                               \
        DECLARE_M(at_row)                                                                                                \
        {                                                                                                                \
            DECLARE_K(item % CHUNKS * RUN)                                                                               \
            a_rows[i] = (ulong)(src0 + (size_t)(OFF_SRC0) * BYTES);                                                      \
        }                                                                                                                \
        a_taps[i] = 0;                                                                                                   \
        _Pragma("unroll") for (int tap = 0; tap < A_TAPS; ++tap) {                                                       \
            DECLARE_K(tap * A_CHANNELS)                                                                                  \
            if (EXISTS_M && (SRC_INSIDE)) a_taps[i] |= 1u << tap;                                                        \
        }                                                                                                                \
    }
#define AIM_BY_TAPS                                                                                                      \
    {                                                                                                                    \
        DECLARE_K(first_k)                                                                                               \
        const ulong along = (size_t)(OFF_TAP) * BYTES;                                                                   \
        const uint tap = (uint)first_k / A_CHANNELS;                                                                     \
        _Pragma("unroll") for (int i = 0; i < TILE_M * CHUNKS / GROUP; ++i) {                                            \
            const bool exists = (a_taps[i] >> tap & 1) != 0;                                                             \
            a_from[i] = exists ? a_rows[i] + along : (ulong)src0;                                                        \
            a_bytes[i] = exists ? 16 : 0;                                                                                \
            asm volatile("" : "+l"(a_from[i]));                                                                          \
        }                                                                                                                \
    }
#define COPY_BY_TERMS(aim, tile, ROWS)                                                                                   \
    _Pragma("unroll") for (int i = 0; i < (ROWS) * CHUNKS / GROUP; ++i) {                                                \
        const int row = item / CHUNKS + i * (GROUP / CHUNKS), chunk = item % CHUNKS;                                     \
        COPY((tile) + PLACE_BY_TERMS(row, chunk), aim##_from[i], aim##_bytes[i]);                                        \
    }
// The steps of a work-item are a constant distance apart: whole terms, or where rows do not divide a group the terms of 64 rows after
// those of 64 others.
#define DIVIDES_GROUP(ROWS) (GROUP % ((ROWS) / 8) == 0)
#define BLOCK_STEPS (K_TILE * 8 / GROUP)
#define ROWS_TERM(ROWS, i)                                                                                               \
    (DIVIDES_GROUP(ROWS) ? item / ((ROWS) / 8) + (i) * (GROUP / ((ROWS) / 8)) : item / 8 + (i) % BLOCK_STEPS * (GROUP / 8))
#define ROWS_CHUNK(ROWS, i) (DIVIDES_GROUP(ROWS) ? item % ((ROWS) / 8) : (i) / BLOCK_STEPS * 8 + item % 8)
#define AIM_BY_ROWS(aim, ROWS, first, EXISTS, DECLARE, INSIDE, pointer, OFFSET, SIZE)                                    \
    _Pragma("unroll") for (int i = 0; i < (ROWS) * CHUNKS / GROUP; ++i) {                                                \
        const int term = ROWS_TERM(ROWS, i), chunk = ROWS_CHUNK(ROWS, i);                                                \
        const idx at_row = (first) + chunk * 8, at_place = first_k + term, at_k = TERM_OF(at_place);                     \
        DECLARE(at_row)                                                                                                  \
        DECLARE_K(aim##_EVEN ? (idx)0 : at_k)                                                                            \
        const bool exists = EXISTS && EXISTS_K && (INSIDE);                                                              \
        aim##_from[i] = (ulong)(pointer + (exists ? (size_t)(OFFSET) * 2 + (size_t)at_k * aim##_APART : 0));             \
        aim##_bytes[i] = exists ? COUNT(8, at_row, SIZE) * 2 : 0;                                                        \
        asm volatile("" : "+l"(aim##_from[i]));                                                                          \
    }
#define COPY_BY_ROWS(aim, tile, ROWS)                                                                                    \
    _Pragma("unroll") for (int i = 0; i < (ROWS) * CHUNKS / GROUP; ++i) {                                                \
        const int term = ROWS_TERM(ROWS, i), chunk = ROWS_CHUNK(ROWS, i);                                                \
        COPY((tile) + PLACE_BY_ROWS(chunk, term), aim##_from[i], aim##_bytes[i]);                                        \
    }
#if BYTES == 1
#define ELEMENT uchar
#define GET get_8
#define JOIN(x)                                                                                                          \
    as_uint4((uchar16)(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15]))
#elif BYTES == 2
#define ELEMENT ushort
#define GET get_16
#define JOIN(x) as_uint4((ushort8)(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]))
#else
#define ELEMENT uint
#define GET get_32
#define JOIN(x) (uint4)(x[0], x[1], x[2], x[3])
#endif
// Elements wait in registers for a step, as their loads take that long.
#define CHUNK_ROW(ROWS, FIRST) ((FIRST) ? id % (ROWS) : id / CHUNKS)
#define CHUNK_TERM(ROWS, FIRST) ((FIRST) ? id / (ROWS) : id % CHUNKS)
#define LOAD_ELEMENTS(held, ROWS, ROWS_FIRST, first, EXISTS, DECLARE, INSIDE, pointer, OFFSET)                           \
    _Pragma("unroll") for (int i = 0; i < (ROWS) * CHUNKS / GROUP; ++i) {                                                \
        const int id = item + i * GROUP;                                                                                 \
        const idx at_row = (first) + CHUNK_ROW(ROWS, ROWS_FIRST);                                                        \
        DECLARE(at_row)                                                                                                  \
        ELEMENT x[RUN];                                                                                                  \
        _Pragma("unroll") for (int e = 0; e < RUN; ++e) {                                                                \
            const idx at_place = first_k + CHUNK_TERM(ROWS, ROWS_FIRST) * RUN + e, at_k = TERM_OF(at_place);             \
            DECLARE_K(at_k)                                                                                              \
            x[e] = 0;                                                                                                    \
            if (EXISTS && EXISTS_K && (INSIDE)) x[e] = GET(pointer, OFFSET);                                             \
        }                                                                                                                \
        held[i] = JOIN(x);                                                                                               \
    }
#define STORE_ELEMENTS(held, tile, ROWS, ROWS_FIRST)                                                                     \
    _Pragma("unroll") for (int i = 0; i < (ROWS) * CHUNKS / GROUP; ++i) {                                                \
        const int id = item + i * GROUP;                                                                                 \
        const int row = CHUNK_ROW(ROWS, ROWS_FIRST), chunk = CHUNK_TERM(ROWS, ROWS_FIRST);                               \
        *(__local uint4 *)((tile) + PLACE_BY_TERMS(row, chunk)) = held[i];                                               \
    }

// Words: chunks of an operand whose lines, rows along the terms or terms along the rows, lie LINE bytes apart, which is no multiple of
// 16. Neighbours in a warp take neighbours in memory, four bytes each: by copies, or through registers where lines are ODD multiples of two
// bytes, which shifts every other one against the words.
#define WORDS_OF_LINE(ROWS, BY) ((BY) == BY_TERMS ? K_BYTES / 4 : (ROWS) / 2)
#define LINES(ROWS, BY) ((BY) == BY_TERMS ? (ROWS) : K_TILE)
#define LINE_STEP(ROWS, BY) (GROUP / WORDS_OF_LINE(ROWS, BY))
#define LINE_STEPS(ROWS, BY) (LINES(ROWS, BY) / LINE_STEP(ROWS, BY))
#define OWN_LINE(ROWS, BY) (item / WORDS_OF_LINE(ROWS, BY))
#define OWN_WORD(ROWS, BY) (item % WORDS_OF_LINE(ROWS, BY))
// Where lines do not divide a group, its last work-items have none.
#define HAS_WORD(ROWS, BY)                                                                                               \
    (GROUP % WORDS_OF_LINE(ROWS, BY) == 0 || item < LINE_STEP(ROWS, BY) * WORDS_OF_LINE(ROWS, BY))
#define PLACE_WORD(ROWS, BY, line)                                                                                       \
    (((BY) == BY_TERMS ? PLACE_BY_TERMS(line, OWN_WORD(ROWS, BY) / 4) : PLACE_BY_ROWS(OWN_WORD(ROWS, BY) / 4, line)) +   \
     OWN_WORD(ROWS, BY) % 4 * 4)
// The first word of a work-item, and for each step the bytes that exist there.
#define AIM_WORDS(aim, ROWS, BY, first, SIZE, DECLARE, pointer, OFFSET)                                                  \
    const idx at_row = (first) + ((BY) == BY_TERMS ? OWN_LINE(ROWS, BY) : OWN_WORD(ROWS, BY) * 2);                       \
    const idx at_k = first_k + ((BY) == BY_TERMS ? OWN_WORD(ROWS, BY) * 2 : OWN_LINE(ROWS, BY));                         \
    DECLARE(at_row)                                                                                                      \
    DECLARE_K(at_k)                                                                                                      \
    const ulong from = (ulong)pointer + (ulong)(OFFSET) * BYTES;                                                         \
    const int bytes = clamp((int)((BY) == BY_TERMS ? K_SIZE - at_k : (SIZE) - at_row) * BYTES, 0, 4);                    \
    const int lines = (int)((BY) == BY_TERMS ? (SIZE) - at_row : K_SIZE - at_k);
#define COPY_WORDS(aim, tile, ROWS, BY, first, SIZE, DECLARE, pointer, OFFSET, LINE)                                     \
    {                                                                                                                    \
        AIM_WORDS(aim, ROWS, BY, first, SIZE, DECLARE, pointer, OFFSET)                                                  \
        _Pragma("unroll") for (int i = 0; i < LINE_STEPS(ROWS, BY); ++i) {                                               \
            const int line = i * LINE_STEP(ROWS, BY), there = line < lines ? bytes : 0;                                  \
            if (HAS_WORD(ROWS, BY))                                                                                      \
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"                                              \
                             :                                                                                           \
                             : "r"((tile) + PLACE_WORD(ROWS, BY, OWN_LINE(ROWS, BY) + line)),                            \
                               "l"(there > 0 ? from + (ulong)line * (LINE) : (ulong)pointer),                            \
                               "r"(there)                                                                                \
                             : "memory");                                                                                \
        }                                                                                                                \
    }
#define HOLD_WORDS(aim, ROWS, BY)                                                                                        \
    uint aim##_low[LINE_STEPS(ROWS, BY)], aim##_high[LINE_STEPS(ROWS, BY)];                                              \
    int aim##_shift, aim##_there;
#define LOAD_WORDS(aim, ROWS, BY, first, SIZE, DECLARE, pointer, OFFSET, LINE)                                           \
    {                                                                                                                    \
        AIM_WORDS(aim, ROWS, BY, first, SIZE, DECLARE, pointer, OFFSET)                                                  \
        /* Lines of one work-item are an even number of lines apart. */                                                  \
        aim##_shift = (from & 2) != 0 ? 16 : 0;                                                                          \
        aim##_there = bytes;                                                                                             \
        _Pragma("unroll") for (int i = 0; i < LINE_STEPS(ROWS, BY); ++i) {                                               \
            const int line = i * LINE_STEP(ROWS, BY), there = line < lines ? bytes : 0;                                  \
            const __global uint *words = (const __global uint *)((from & ~(ulong)3) + (ulong)line * (LINE));             \
            aim##_low[i] = there > 0 ? words[0] : 0;                                                                     \
            aim##_high[i] = there > 2 && aim##_shift != 0 ? words[1] : 0;                                                \
        }                                                                                                                \
    }
#define STORE_WORDS(aim, tile, ROWS, BY)                                                                                 \
    _Pragma("unroll") for (int i = 0; i < LINE_STEPS(ROWS, BY); ++i) {                                                   \
        uint both;                                                                                                       \
        asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(both) : "r"(aim##_low[i]), "r"(aim##_high[i]), "r"(aim##_shift));    \
        if (HAS_WORD(ROWS, BY))                                                                                          \
            *(__local uint *)((tile) + PLACE_WORD(ROWS, BY, OWN_LINE(ROWS, BY) + i * LINE_STEP(ROWS, BY))) =             \
                aim##_there == 2 ? both & 0xffff : both;                                                                 \
    }

// Where a term is: bytes from the first one, and its tap, the vertical number in the low byte. One past the end has a tap of no row. Of a
// pair also which of its bits count.
#define NO_TAP 31
#define TABLE_SIZE (STEPS * K_TILE)
#ifdef A_PAIRS
#define FILL_TABLE                                                                                                       \
    {                                                                                                                    \
        DECLARE_M(0)                                                                                                     \
        idx first;                                                                                                       \
        {                                                                                                                \
            DECLARE_K(0)                                                                                                 \
            first = OFF_SRC0;                                                                                            \
        }                                                                                                                \
        for (int pair = item; pair < TABLE_SIZE / 2; pair += GROUP) {                                                    \
            const int of_line = pair % A_PAIRS, begin = of_line * 2 - PAIR_LEAD;                                         \
            DECLARE_K(min((idx)(pair / A_PAIRS * PAIR_TERMS), (idx)(K_SIZE - 1)))                                        \
            const uint bits = (begin < 0 ? 0 : 0xffff) | (begin + 1 < PAIR_TERMS ? 0xffff0000 : 0);                      \
            ((__local int4 *)table)[pair] = (int4)((int)((OFF_SRC0) - first + begin) * BYTES,                            \
                                                   pair * 2 < TERMS ? (int)(kh | of_line << 8) : NO_TAP, (int)bits, 0);  \
        }                                                                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
    }
#define PLACE_ALONG_WIDTH(i)                                                                                             \
    _Pragma("unroll") for (int pair = 0; pair < A_PAIRS; ++pair)                                                         \
        if (INSIDE((ow * STRIDE_W - PAD_W) * PAIR_UNIT - PAIR_LEAD + pair * 2, PAIR_WIDTH)) a_wide[i] |= 1u << pair;
#else
#define FILL_TABLE                                                                                                       \
    {                                                                                                                    \
        DECLARE_M(0)                                                                                                     \
        idx first;                                                                                                       \
        {                                                                                                                \
            DECLARE_K(0)                                                                                                 \
            first = OFF_SRC0;                                                                                            \
        }                                                                                                                \
        for (int at_k = item; at_k < TABLE_SIZE; at_k += GROUP) {                                                        \
            DECLARE_K(min((idx)at_k, (idx)(K_SIZE - 1)))                                                                 \
            table[at_k] = (int2)((int)((OFF_SRC0) - first) * BYTES, at_k < K_SIZE ? (int)(kh | kw << 8) : NO_TAP);       \
        }                                                                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
    }
#define PLACE_ALONG_WIDTH(i)                                                                                             \
    _Pragma("unroll") for (int tap = 0; tap < KERNEL_W; ++tap)                                                           \
        if (INSIDE(ow * STRIDE_W - PAD_W + tap * DILATION_W, SRC_W)) a_wide[i] |= 1u << tap;
#endif
#define PLACE_WINDOWS                                                                                                    \
    _Pragma("unroll") for (int i = 0; i < TILE_M * CHUNKS / GROUP; ++i) {                                                \
        const idx at_row = first_m + item / CHUNKS + i * (GROUP / CHUNKS);                                               \
        DECLARE_M(at_row)                                                                                                \
        DECLARE_K(0)                                                                                                     \
        a_rows[i] = src0 + (long)(OFF_SRC0) * BYTES;                                                                     \
        a_high[i] = a_wide[i] = 0;                                                                                       \
        _Pragma("unroll") for (int tap = 0; tap < KERNEL_H; ++tap)                                                       \
            if (EXISTS_M && INSIDE(oh * STRIDE_H - PAD_H + tap * DILATION_H, SRC_H)) a_high[i] |= 1u << tap;             \
        PLACE_ALONG_WIDTH(i)                                                                                             \
    }
#define IN_WINDOW(i, tap) (a_high[i] >> ((tap) & 31) & a_wide[i] >> ((tap) >> 8) & 1)
#ifdef A_PAIRS
#if ANYDNN_UNALIGNED
#define GET_PAIR(p) (get_16(p, 0) | (uint)get_16(p, 1) << 16)
#else
#define GET_PAIR(p) get_32(p, 0)
#endif
#define LOAD_BY_TABLE                                                                                                    \
    {                                                                                                                    \
        const __local int4 *pairs = (const __local int4 *)(table + first_k + item % CHUNKS * RUN);                       \
        uint x[TILE_M * CHUNKS / GROUP][RUN / 2];                                                                        \
        _Pragma("unroll") for (int e = 0; e < RUN / 2; ++e) {                                                            \
            const int4 pair = pairs[e];                                                                                  \
            _Pragma("unroll") for (int i = 0; i < TILE_M * CHUNKS / GROUP; ++i)                                          \
                x[i][e] = IN_WINDOW(i, pair.y) ? GET_PAIR(a_rows[i] + (long)(pair.x)) & (uint)pair.z : 0;                \
        }                                                                                                                \
        _Pragma("unroll") for (int i = 0; i < TILE_M * CHUNKS / GROUP; ++i)                                              \
            held_a[i] = (uint4)(x[i][0], x[i][1], x[i][2], x[i][3]);                                                     \
    }
#else
#define GET_OF_TABLE(i, from, tap)                                                                                       \
    (IN_WINDOW(i, tap) ? GET(a_rows[i] + (long)(from), 0) : (ELEMENT)0)
#define LOAD_BY_TABLE                                                                                                    \
    {                                                                                                                    \
        const __local int4 *pairs = (const __local int4 *)(table + first_k + item % CHUNKS * RUN);                       \
        ELEMENT x[TILE_M * CHUNKS / GROUP][RUN];                                                                         \
        _Pragma("unroll") for (int e = 0; e < RUN; e += 2) {                                                             \
            const int4 two = pairs[e / 2];                                                                               \
            _Pragma("unroll") for (int i = 0; i < TILE_M * CHUNKS / GROUP; ++i) {                                        \
                x[i][e] = GET_OF_TABLE(i, two.x, two.y);                                                                 \
                x[i][e + 1] = GET_OF_TABLE(i, two.z, two.w);                                                             \
            }                                                                                                            \
        }                                                                                                                \
        _Pragma("unroll") for (int i = 0; i < TILE_M * CHUNKS / GROUP; ++i) held_a[i] = JOIN(x[i]);                      \
    }
#endif

#if defined(A_WORDS) && !A_ODD
#define AIM_A
#define COPY_A(at) COPY_WORDS(a, at, TILE_M, A_FETCH, first_m, M_SIZE, DECLARE_M, src0, OFF_SRC0, A_LINE)
#elif defined(A_WORDS)
#define AIM_A
#define COPY_A(at)
#elif A_FETCH == BY_TERMS && defined(A_TAPS)
#define AIM_A AIM_BY_TAPS
#define COPY_A(at) COPY_BY_TERMS(a, at, TILE_M)
#elif A_FETCH == BY_TERMS
#define AIM_A AIM_BY_TERMS(a, TILE_M, first_m, EXISTS_M, DECLARE_M, SRC_INSIDE, src0, OFF_SRC0)
#define COPY_A(at) COPY_BY_TERMS(a, at, TILE_M)
#elif A_FETCH == BY_ROWS
#define AIM_A AIM_BY_ROWS(a, TILE_M, first_m, EXISTS_M, DECLARE_M, SRC_INSIDE, src0, OFF_SRC0, M_SIZE)
#define COPY_A(at) COPY_BY_ROWS(a, at, TILE_M)
#else
#define AIM_A
#define COPY_A(at)
#endif
#if defined(B_WORDS) && !B_ODD
#define AIM_B
#define COPY_B(at) COPY_WORDS(b, at, TILE_N, B_FETCH, first_n, N_SIZE, DECLARE_COLUMN, weights, OFF_WEIGHTS, B_LINE)
#elif defined(B_WORDS)
#define AIM_B
#define COPY_B(at)
#elif B_FETCH == BY_TERMS
#define AIM_B AIM_BY_TERMS(b, TILE_N, first_n, EXISTS_N, DECLARE_COLUMN, true, weights, OFF_WEIGHTS)
#define COPY_B(at) COPY_BY_TERMS(b, at, TILE_N)
#elif B_FETCH == BY_ROWS
#define AIM_B AIM_BY_ROWS(b, TILE_N, first_n, EXISTS_N, DECLARE_COLUMN, true, weights, OFF_WEIGHTS, N_SIZE)
#define COPY_B(at) COPY_BY_ROWS(b, at, TILE_N)
#else
#define AIM_B
#define COPY_B(at)
#endif
#if defined(A_WORDS) && A_ODD
#define HOLD_A HOLD_WORDS(a, TILE_M, A_FETCH)
#define LOAD_A LOAD_WORDS(a, TILE_M, A_FETCH, first_m, M_SIZE, DECLARE_M, src0, OFF_SRC0, A_LINE)
#define STORE_A(slot) STORE_WORDS(a, tiles + (slot) * STAGE_BYTES, TILE_M, A_FETCH)
#elif defined(A_TABLE) && A_FETCH == BY_ELEMENT
#define HOLD_A                                                                                                           \
    uint4 held_a[TILE_M * CHUNKS / GROUP];                                                                               \
    const __global uchar *a_rows[TILE_M * CHUNKS / GROUP];                                                               \
    uint a_high[TILE_M * CHUNKS / GROUP], a_wide[TILE_M * CHUNKS / GROUP];                                               \
    PLACE_WINDOWS
#define LOAD_A LOAD_BY_TABLE
#define STORE_A(slot) STORE_ELEMENTS(held_a, tiles + (slot) * STAGE_BYTES, TILE_M, false)
#elif A_FETCH == BY_ELEMENT
#define HOLD_A uint4 held_a[TILE_M * CHUNKS / GROUP];
#define LOAD_A LOAD_ELEMENTS(held_a, TILE_M, A_ROWS_FIRST, first_m, EXISTS_M, DECLARE_M, SRC_INSIDE, src0, OFF_SRC0)
#define STORE_A(slot) STORE_ELEMENTS(held_a, tiles + (slot) * STAGE_BYTES, TILE_M, A_ROWS_FIRST)
#else
#define HOLD_A
#define LOAD_A
#define STORE_A(slot)
#endif
#if defined(B_WORDS) && B_ODD
#define HOLD_B HOLD_WORDS(b, TILE_N, B_FETCH)
#define LOAD_B LOAD_WORDS(b, TILE_N, B_FETCH, first_n, N_SIZE, DECLARE_COLUMN, weights, OFF_WEIGHTS, B_LINE)
#define STORE_B(slot) STORE_WORDS(b, tiles + (slot) * STAGE_BYTES + A_BYTES, TILE_N, B_FETCH)
#elif B_FETCH == BY_ELEMENT
#define HOLD_B uint4 held_b[TILE_N * CHUNKS / GROUP];
#define LOAD_B LOAD_ELEMENTS(held_b, TILE_N, B_ROWS_FIRST, first_n, EXISTS_N, DECLARE_COLUMN, true, weights, OFF_WEIGHTS)
#define STORE_B(slot) STORE_ELEMENTS(held_b, tiles + (slot) * STAGE_BYTES + A_BYTES, TILE_N, B_ROWS_FIRST)
#else
#define HOLD_B
#define LOAD_B
#define STORE_B(slot)
#endif
#define AIM_STEP(step)                                                                                                   \
    {                                                                                                                    \
        const idx first_k = (step) * K_TILE;                                                                             \
        AIM_A                                                                                                            \
        AIM_B                                                                                                            \
    }
#define ADVANCE(aim, ROWS, stride)                                                                                       \
    _Pragma("unroll") for (int i = 0; i < (ROWS) * CHUNKS / GROUP; ++i) aim##_from[i] += (ulong)(stride) * K_TILE;
// The last slice may have fewer terms.
#define IS_WHOLE(first_k) (K_SIZE % K_TILE == 0 || (first_k) + K_TILE <= K_SIZE)
#if defined(A_WORDS)
#define TURN_A
#elif defined(A_STRIDE) && A_FETCH != BY_ELEMENT
#define TURN_A                                                                                                           \
    if (IS_WHOLE(first_k)) {                                                                                             \
        ADVANCE(a, TILE_M, A_STRIDE)                                                                                     \
    } else {                                                                                                             \
        AIM_A                                                                                                            \
    }
#elif A_FETCH == BY_TERMS && defined(A_TAPS)
// Within a tap, channels follow one another.
#define TURN_A                                                                                                           \
    if (first_k % A_CHANNELS != 0) {                                                                                     \
        ADVANCE(a, TILE_M, BYTES)                                                                                        \
    } else {                                                                                                             \
        AIM_A                                                                                                            \
    }
#else
#define TURN_A AIM_A
#endif
#if defined(B_WORDS)
#define TURN_B
#elif defined(B_STRIDE) && B_FETCH != BY_ELEMENT
#define TURN_B                                                                                                           \
    if (IS_WHOLE(first_k)) {                                                                                             \
        ADVANCE(b, TILE_N, B_STRIDE)                                                                                     \
    } else {                                                                                                             \
        AIM_B                                                                                                            \
    }
#else
#define TURN_B AIM_B
#endif
#define TURN(step)                                                                                                       \
    {                                                                                                                    \
        const idx first_k = (step) * K_TILE;                                                                             \
        TURN_A                                                                                                           \
        TURN_B                                                                                                           \
    }
#define COPY_STEP(step, at)                                                                                              \
    {                                                                                                                    \
        const idx first_k = (step) * K_TILE;                                                                             \
        COPY_A(at)                                                                                                       \
        COPY_B((at) + A_BYTES)                                                                                           \
    }
#define LOAD_STEP(step)                                                                                                  \
    {                                                                                                                    \
        const idx first_k = (step) * K_TILE;                                                                             \
        LOAD_A                                                                                                           \
        LOAD_B                                                                                                           \
    }
#define STORE_STEP(step)                                                                                                 \
    {                                                                                                                    \
        const int slot = ((step) - begin) % STAGES;                                                                      \
        STORE_A(slot)                                                                                                    \
        STORE_B(slot)                                                                                                    \
    }
