// Elements into another layout, as bits, by a table that comes with the launch: one program serves every shape. It is for layouts that
// change once, where a program of their own would take longer to make than it saves. A work-item takes `chunk` elements of the padded
// result, in its own order. The generator defines
//   LOOPS        the most loops of a table
//   BITS         the type of an element's bits;  GET, PUT  an element of the source, its store

typedef struct {
    // From the outermost loop to the innermost: how many steps, and what one is worth in the source, in the result, and in the indices
    // of the padded dimensions.
    ulong extent[LOOPS], from[LOOPS], to[LOOPS], index[2][LOOPS];
    // Where the first element is, and the extents of the dimensions that are padded, or 1 where nothing is.
    ulong from_first, to_first, inside[2];
    ulong loops, total, chunk;
} Table;

__kernel void relayout(PARAMS, const Table t) {
    ENTER
    const ulong first = (ulong)get_global_id(0) * t.chunk;
    if (first >= t.total) return;
    const uint end = (uint)min(first + t.chunk, t.total);
    const int last = (int)t.loops - 1;
    const uint run = (uint)t.extent[last];
    const idx from_step = (idx)t.from[last], to_step = (idx)t.to[last];
    const uint step0 = (uint)t.index[0][last], step1 = (uint)t.index[1][last];
    const uint inside0 = (uint)t.inside[0], inside1 = (uint)t.inside[1];
    for (uint at = (uint)first; at < end;) {
        uint rest = at / run;
        uint step = at - rest * run;
        idx from = (idx)t.from_first, to = (idx)t.to_first;
        uint index0 = 0, index1 = 0;
        for (int l = last - 1; l >= 0; --l) {
            const uint outer = rest / (uint)t.extent[l], i = rest - outer * (uint)t.extent[l];
            from += (idx)i * (idx)t.from[l];
            to += (idx)i * (idx)t.to[l];
            index0 += i * (uint)t.index[0][l];
            index1 += i * (uint)t.index[1][l];
            rest = outer;
        }
        const uint stop = min(run, step + (end - at));
        at += stop - step;
        for (; step < stop; ++step) {
            const int has = (index0 + step * step0 < inside0) & (index1 + step * step1 < inside1);
            BITS x = 0;
            if (has) x = GET(from + (idx)step * from_step);
            PUT(to + (idx)step * to_step, x);
        }
    }
}
