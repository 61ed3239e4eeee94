// How slices of both operands come into local memory for simt.cl on NVIDIA's devices, where COPIES is not zero: by copies that go past the
// registers, one or four elements each, into a ring of STAGES places. Elements come to where vectors of their rows are read, wherever they
// lie in memory, so that rows that are no whole vectors take no more instructions than others.
//   A_ALONG_K, A_WHOLE, and of B   as for simt.cl: lanes lie along K, and elements come one by one, or whole vectors along the rows do
//   A_ROW, A_TERM, and of B        how many elements it is from a row to the next, and from a term to the next
#if COPIES && !ANYDNN_UNALIGNED
// A term's rows begin four places behind where whole banks would have them, so that eight neighbours of a row do not meet in one.
#define PITCH(ROWS) ((ROWS) + 4)
#define PLACES STAGES

#define COPY_1(to, from, bytes)                                                                                          \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes))
#define COPY_4(to, from, bytes)                                                                                          \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes))
#define COPIES_COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define COPIES_WAIT(left) asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory")

// What an item copies: the first row and term, and how far those of its other copies are from them. Lanes along K take eight terms of four
// rows, 32 bytes of each; others take neighbouring rows.
#define WIDTH(WHOLE) ((WHOLE) ? 4 : 1)
#define LANES_OF_ROWS(ROWS, WHOLE) ((ROWS) / WIDTH(WHOLE))
#define PASSES(ROWS, ALONG_K, WHOLE)                                                                                     \
    ((ALONG_K) ? (ROWS) / (GROUP / 8) : LANES_OF_ROWS(ROWS, WHOLE) > GROUP ? LANES_OF_ROWS(ROWS, WHOLE) / GROUP : 1)
#define COPIES_OF(ROWS, WHOLE) ((ROWS) * K_TILE / (WIDTH(WHOLE) * GROUP))
#define OWN_ROW(ROWS, ALONG_K, WHOLE) ((ALONG_K) ? item / 8 : item % LANES_OF_ROWS(ROWS, WHOLE) * WIDTH(WHOLE))
#define OWN_TERM(ROWS, ALONG_K, WHOLE) ((ALONG_K) ? item % 8 : item / LANES_OF_ROWS(ROWS, WHOLE))
#define NEXT_ROW(ROWS, ALONG_K, WHOLE, i)                                                                                \
    ((i) % PASSES(ROWS, ALONG_K, WHOLE) * ((ALONG_K) ? GROUP / 8 : GROUP * WIDTH(WHOLE)))
#define NEXT_TERM(ROWS, ALONG_K, WHOLE, i)                                                                               \
    ((i) / PASSES(ROWS, ALONG_K, WHOLE) *                                                                                \
     ((ALONG_K) ? 8 : LANES_OF_ROWS(ROWS, WHOLE) > GROUP ? 1 : GROUP / LANES_OF_ROWS(ROWS, WHOLE)))

// The text of an address names every loop.
#define AIM(aim, ROWS, ALONG_K, WHOLE, first, DECLARE, pointer, OFFSET)                                                  \
    const int aim##_row = OWN_ROW(ROWS, ALONG_K, WHOLE), aim##_term = OWN_TERM(ROWS, ALONG_K, WHOLE);                    \
    ulong aim##_from;                                                                                                    \
    {                                                                                                                    \
        const idx at_row = (first) + aim##_row, at_k = (idx)begin * K_TILE + aim##_term;                                 \
        DECLARE(at_row)                                                                                                  \
        DECLARE_K(at_k)                                                                                                  \
        aim##_from = (ulong)(pointer) + (ulong)(OFFSET) * 4;                                                             \
    }                                                                                                                    \
    const uint aim##_to = (uint)(aim##_term * PITCH(ROWS) + aim##_row) * 4;
// What does not exist is filled with zeros, and its address is not used.
#define COPY(aim, at, ROWS, ALONG_K, WHOLE, first, SIZE, ROW, TERM, share, shares)                                       \
    _Pragma("unroll") for (int i = 0; i < COPIES_OF(ROWS, WHOLE); ++i) {                                                 \
        if (i % (shares) != (share)) continue;                                                                           \
        const int row = NEXT_ROW(ROWS, ALONG_K, WHOLE, i), term = NEXT_TERM(ROWS, ALONG_K, WHOLE, i);                    \
        const bool exists = ((SIZE) % (ROWS) == 0 || (first) + aim##_row + row < (SIZE)) &&                              \
                            (K_SIZE % K_TILE == 0 || first_k + aim##_term + term < K_SIZE);                              \
        const ulong from = aim##_from + ((ulong)row * (ulong)(ROW) + (ulong)term * (ulong)(TERM)) * 4;                   \
        const uint to = (at) + aim##_to + (uint)(term * PITCH(ROWS) + row) * 4;                                          \
        if (WHOLE) COPY_4(to, from, exists ? 16 : 0);                                                                    \
        else COPY_1(to, from, exists ? 4 : 0);                                                                           \
    }
#define AIM_STEPS                                                                                                        \
    AIM(a, TILE_M, A_ALONG_K, A_BY_VECTORS, first_m, DECLARE_M, src0, OFF_SRC0)                                          \
    AIM(b, TILE_N, B_ALONG_K, B_BY_VECTORS, first_n, DECLARE_COLUMN, weights, OFF_WEIGHTS)
// One of the shares of a slice, as slices come one after the other, and what follows the last one.
#define COPY_SHARE(step, slot, share, shares)                                                                            \
    {                                                                                                                    \
        const idx first_k = (idx)(step) * K_TILE;                                                                        \
        const uint at = start + (uint)(slot) * (STAGE_FLOATS * 4);                                                       \
        COPY(a, at, TILE_M, A_ALONG_K, A_BY_VECTORS, first_m, M_SIZE, A_ROW, A_TERM, share, shares)                      \
        COPY(b, at + PITCH(TILE_M) * K_TILE * 4, TILE_N, B_ALONG_K, B_BY_VECTORS, first_n, N_SIZE, B_ROW, B_TERM, share, \
             shares)                                                                                                     \
    }
#define ADVANCE                                                                                                          \
    {                                                                                                                    \
        a_from += (ulong)(A_TERM) * K_TILE * 4;                                                                          \
        b_from += (ulong)(B_TERM) * K_TILE * 4;                                                                          \
    }
#define A_BY_VECTORS (A_WHOLE && !A_ALONG_K)
#define B_BY_VECTORS (B_WHOLE && !B_ALONG_K)
#else
#undef COPIES
#define COPIES 0
#define PITCH(ROWS) (ROWS)
#define PLACES 2
#endif
#define STAGE_FLOATS ((PITCH(TILE_M) + PITCH(TILE_N)) * K_TILE)
