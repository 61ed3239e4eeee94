// Elements in other places, as bits. A work-item takes CHUNK elements of ROWS_PER_ITEM rows along ALONG. The generator defines
//   PLACE_ROW       declares the source's index along every other axis, and clears `inside` where one is outside
//   PLACE(a)        the place along the last axis for index a, perhaps outside;  BORDER(at, n) the source's index for a place
//   FROM, EXTENT    the name of the source's index along the last axis, and its extent
//   LOW, HIGH       from where to where PLACE(a) is inside
//   GET, PUT, FILLER  an element of the source, its store, and what is beyond the ends where OUTSIDE is 1

static inline idx border_fill(const idx at, const idx n) { return at; }
static inline idx border_edge(const idx at, const idx n) { return clamp(at, (idx)0, n - 1); }
static inline idx border_wrap(const idx at, const idx n) {
    const idx rest = at % n;
    return rest < 0 ? rest + n : rest;
}
static inline idx border_reflect(const idx at, const idx n) {
    if (n == 1) return 0;
    const idx period = 2 * (n - 1), rest = border_wrap(at, period);
    return min(rest, period - rest);
}
static inline int is_inside(const idx at, const idx n) { return at >= 0 && at < n; }

#if OUTSIDE
#define BEYOND                                                                                                           \
    const idx FROM = PLACE(ALONG);                                                                                       \
    PUT(OFF_DST, is_inside(FROM, EXTENT) ? GET(OFF_SRC0) : filler);
#else
#define BEYOND                                                                                                           \
    const idx FROM = BORDER(PLACE(ALONG), EXTENT);                                                                       \
    PUT(OFF_DST, GET(OFF_SRC0));
#endif

__kernel void remap(PARAMS) {
    ENTER
    const idx item = (idx)get_global_id(0);
    if (item >= ITEMS) return;
    const idx first = item % CHUNKS * CHUNK;
    const idx last = min(first + CHUNK, (idx)RUN);
    const idx first_row = item / CHUNKS * ROWS_PER_ITEM;
    const idx last_row = min(first_row + ROWS_PER_ITEM, (idx)ROWS);
    const BITS filler = FILLER;
    for (idx row = first_row; row < last_row; ++row) {
        DECLARE_ROW(row)
        int inside = 1;
        PLACE_ROW
        if (!inside) {
            for (idx ALONG = first; ALONG < last; ++ALONG) PUT(OFF_DST, filler);
            continue;
        }
        const idx low = clamp((idx)LOW, first, last), high = clamp((idx)HIGH, low, last);
        for (idx ALONG = first; ALONG < low; ++ALONG) {
            BEYOND
        }
        for (idx ALONG = low; ALONG < high; ++ALONG) {
            const idx FROM = PLACE(ALONG);
            PUT(OFF_DST, GET(OFF_SRC0));
        }
        for (idx ALONG = high; ALONG < last; ++ALONG) {
            BEYOND
        }
    }
}
