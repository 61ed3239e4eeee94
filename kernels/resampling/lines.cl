// For CPUs: a work-item resamples ITEM_LINES lines (fixed image, c, od, oh) of the result, or CHUNK positions of each where CHUNKS are more than
// one. What the positions' neighbours are is found once for all of them. A line's sources are brought together first, vector by vector, to
// one row in local memory, which ROOM elements and what a last vector has behind them fit into; the line is gathered from that.
#define VECTOR_OF(array, i) (*(__local V *)((array) + (i)))

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void resampling_lines(PARAMS) {
    __local R row[ROOM + 16] __attribute__((aligned(128)));
    __local R line_of[ROOM + 16] __attribute__((aligned(128)));
    __local R part[ROOM];
    __local int low[ROOM];
    ENTER
    const idx number = (idx)get_global_id(0), of_lines = number / CHUNKS;
    const idx from_w = (number - of_lines * CHUNKS) * CHUNK;
    const int positions = (int)min((idx)CHUNK, TO_W - from_w);
    const idx base = neighbours_of(from_w, FROM_W, TO_W, OVER_W).low;
    const int sources = (int)(neighbours_of(from_w + positions - 1, FROM_W, TO_W, OVER_W).high - base + 1);
    NOT_UNROLLED for (int i = 0; i < positions; ++i) {
        const neighbours w = neighbours_of(from_w + i, FROM_W, TO_W, OVER_W);
        low[i] = (int)(w.low - base);
        part[i] = w.high > w.low ? w.part : 0;
    }
    const idx first = of_lines * ITEM_LINES, end = min(first + ITEM_LINES, (idx)LINES);
    for (idx line = first; line < end; ++line) {
        DECLARE_LINE(line)
        const neighbours d = neighbours_of(od, FROM_D, TO_D, OVER_D);
        const neighbours h = neighbours_of(oh, FROM_H, TO_H, OVER_H);
        NOT_UNROLLED for (int i = 0; i < sources; i += 16) {
            const idx ow = base + i;
            const int n = min(16, sources - i);
#if NEAREST
            const idx sd = d.low, sh = h.low;
            V v = LD_SRC0(OFF_SRC0, n);
#else
            V v = (V)(0);
            // The farther neighbour of a place on an element takes no part.
            NOT_UNROLLED for (int far_d = 0; far_d <= (d.part != 0); ++far_d) {
                NOT_UNROLLED for (int far_h = 0; far_h <= (h.part != 0); ++far_h) {
                    const idx sd = far_d ? d.high : d.low, sh = far_h ? h.high : h.low;
                    v += (V)((far_d ? d.part : 1 - d.part) * (far_h ? h.part : 1 - h.part)) * LD_SRC0(OFF_SRC0, n);
                }
            }
#endif
            VECTOR_OF(row, i) = v;
        }
        NOT_UNROLLED for (int i = 0; i < positions; ++i) {
            const __local R *at = row + low[i];
#if NEAREST
            line_of[i] = at[0];
#else
            line_of[i] = part[i] == 0 ? at[0] : (1 - part[i]) * at[0] + part[i] * at[1];
#endif
        }
        NOT_UNROLLED for (int i = 0; i < positions; i += 16) {
            const idx ow = from_w + i;
            const int n = min(16, positions - i);
            V v = VECTOR_OF(line_of, i);
            POST_OPS(v, n)
            ST_DST(OFF_DST, n, v);
        }
    }
}
