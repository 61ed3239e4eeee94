// Result elements from the operands' elements at the same index. COMPUTE(n) declares the first result's value V v and what
// STORE_OTHERS(n) stores in the other results; the innermost loop ALONG is cut into CHUNKS chunks of CHUNK elements, and a work-item
// takes one chunk of ROWS_PER_ITEM rows. Where all vectors are whole nothing comes between the loads, which are then under way together.
// With BY_LINES the rows along the loop ACROSS are LINE_ROWS each, and what goes before them is divided once for all of these; where a shape is
// known that costs nothing.
#if REFINES_ROOTS
// A root and a quotient of a vector take longer than its elements' way to memory; an estimate and a step of Newton's method do not. The estimates
// of zero and infinity are exact. No product on the way is a subnormal number, which may count as zero.
static inline V inverse_root(const V x) {
    const V y = native_rsqrt(x), nearer = y * ((V)(1.5f) - x * y * ((V)(0.5f) * y));
    return nearer == nearer ? nearer : y;
}
#undef INVERSE_ROOT
#define INVERSE_ROOT(x) inverse_root(x)
#endif
#define WORK(n)                                                                                                          \
    COMPUTE(n)                                                                                                           \
    POST_OPS(v, n)                                                                                                       \
    ST_DST(OFF_DST, n, v);                                                                                               \
    STORE_OTHERS(n)
#if HAS_WHOLE
#define EACH_VECTOR                                                                                                      \
    for (idx ALONG = first; ALONG < last; ALONG += LANES) {                                                              \
        const int n = (int)min((idx)LANES, last - ALONG);                                                                \
        if (n == LANES && ARE_WHOLE) {                                                                                   \
            WORK(LANES)                                                                                                  \
            continue;                                                                                                    \
        }                                                                                                                \
        WORK(n)                                                                                                          \
    }
#else
#define EACH_VECTOR                                                                                                      \
    for (idx ALONG = first; ALONG < last; ALONG += LANES) {                                                              \
        const int n = (int)min((idx)LANES, last - ALONG);                                                                \
        WORK(n)                                                                                                          \
    }
#endif

__kernel void pointwise(PARAMS) {
    ENTER
    const idx item = (idx)get_global_id(0);
    if (item >= ITEMS) return;
    const idx group = ROW_GROUP_OF(item);
    const idx first = (item - group * CHUNKS) * CHUNK;
    const idx last = min(first + CHUNK, (idx)RUN);
    const idx first_row = group * ROWS_PER_ITEM;
    const idx last_row = min(first_row + ROWS_PER_ITEM, (idx)ROWS);
#if BY_LINES && !defined(KNOWN_SHAPE)
    for (idx row = first_row; row < last_row;) {
        const idx line = LINE_OF(row), first_across = row - line * LINE_ROWS;
        const idx end_across = min((idx)LINE_ROWS, first_across + last_row - row);
        row += end_across - first_across;
        DECLARE_LINE(line)
        for (idx ACROSS = first_across; ACROSS < end_across; ++ACROSS) {
            EACH_VECTOR
        }
    }
#else
    for (idx row = first_row; row < last_row; ++row) {
        DECLARE_ROW(row)
        EACH_VECTOR
    }
#endif
}
