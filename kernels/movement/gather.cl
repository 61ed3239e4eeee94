// Elements by indices, as bits. A work-item takes CHUNK elements of ROWS_PER_ITEM rows along ALONG. FIND declares the source's indices
// that are looked up, and clears `inside` where one is outside; with OF_ROW they are the same for a whole row.

// An index that may count from the end.
static inline long from_front(const long given, const long n) { return given < 0 ? given + n : given; }

__kernel void gather(PARAMS) {
    ENTER
    const idx item = (idx)get_global_id(0);
    if (item >= ITEMS) return;
    const idx first = item % CHUNKS * CHUNK;
    const idx last = min(first + CHUNK, (idx)RUN);
    const idx first_row = item / CHUNKS * ROWS_PER_ITEM;
    const idx last_row = min(first_row + ROWS_PER_ITEM, (idx)ROWS);
    for (idx row = first_row; row < last_row; ++row) {
        DECLARE_ROW(row)
#if OF_ROW
        int inside = 1;
        FIND
        if (inside) {
            for (idx ALONG = first; ALONG < last; ++ALONG) PUT(OFF_DST, GET(OFF_SRC0));
        } else {
            for (idx ALONG = first; ALONG < last; ++ALONG) PUT(OFF_DST, (BITS)0);
        }
#else
        for (idx ALONG = first; ALONG < last; ++ALONG) {
            int inside = 1;
            FIND
            PUT(OFF_DST, inside ? GET(OFF_SRC0) : (BITS)0);
        }
#endif
    }
}
