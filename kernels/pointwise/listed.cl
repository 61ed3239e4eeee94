// Result elements of f32 on processors as pointwise.cl, from a list of steps that comes with the launch, so that all such work shares a
// program. The generator writes:
//   SOURCES                    the operands' pointers, the result's, at DST_PLACE, behind them
//   SOURCES_AT                 their elements at a row's start, by the variables that DECLARE_ROW declares
//   SOURCES_STEP               how far their next elements of a row are
//   STEP_LIST                  STEPS times kind, alpha, beta (the bits of floats) and operand, of which STEP_COUNT count
//   EACH_KIND(DO)              the cases of the kinds: DO of an expression of the value v and, from FIRST_JOIN on, the operand's element x
//   EACH_CHEAP(DO)             those of them that a step may have behind another one in the same loop
//   DST_STREAMS                whether the result had better pass the cache by
// A step is a loop over BLOCK vectors, so that choosing it costs little beside it. Whole vectors that lie side by side come right from where
// they are in the first step and for its operand, and go where they belong in the last one. Cheap steps go with the one behind and the one
// before, if their operands are such vectors or one number: what a step leaves in the block is stored and loaded again.
#define BLOCK 64
#define TO_RESULT(expression) result = expression; break;
#define LANES_OF(i) min(count - (i) * LANES, LANES)

// A step that may go with another one: whether it does, if `there`, and what it needs.
#define DECLARE_SIDE(name, number, there)                                                                                \
    const int name##_list = min(number, STEPS - 1) * 4;                                                                  \
    const int name##_kind = (int)steps[name##_list], name##_operand = (int)steps[name##_list + 3];                       \
    const float name##_alpha = as_float((int)steps[name##_list + 1]), name##_beta = as_float((int)steps[name##_list + 2]);\
    const __global uchar *const name##_source = sources[name##_operand];                                                 \
    const idx name##_step = source_steps[name##_operand];                                                                \
    const idx name##_at = sources_at[name##_operand] + start * name##_step;                                              \
    const bool name##_joins = name##_kind >= FIRST_JOIN;                                                                 \
    const int name = (there) && IS_CHEAP(name##_kind) && (!name##_joins || name##_step == 0 || (whole && name##_step == 1));\
    const bool name##_direct = name && name##_joins && name##_step != 0;                                                 \
    V name##_one = (V)(0);                                                                                               \
    if (name && name##_joins && !name##_direct) name##_one = take(name##_source, name##_at, 0, LANES);
#define DO_SIDE(name)                                                                                                    \
    if (name) {                                                                                                          \
        const V v = result;                                                                                              \
        const V x = name##_direct ? unpack_f32_16(load_32_16(name##_source, name##_at + i * LANES, LANES)) : name##_one; \
        const float alpha = name##_alpha, beta = name##_beta;                                                            \
        switch (name##_kind) {                                                                                           \
        EACH_CHEAP(TO_RESULT)                                                                                            \
        }                                                                                                                \
    }

static inline V take(const __global uchar *source, const idx at, const idx step, const int n) {
    if (step == 1) return unpack_f32_16(load_32_16(source, at, n));
    if (step == 0) return (V)(unpack_f32_1(get_32(source, at)));
    return unpack_f32_16(gather_32_16(source, at, step, n));
}

__kernel void pointwise(PARAMS) {
    ENTER
    const __global uchar *const sources[] = {SOURCES};
    const idx source_steps[] = {SOURCES_STEP}, steps[STEPS * 4] = STEP_LIST;
    const idx dst_step = source_steps[DST_PLACE];
    V block[BLOCK], others[BLOCK];
    const idx item = (idx)get_global_id(0);
    if (item >= ITEMS) return;
    const idx group = ROW_GROUP_OF(item);
    const idx first = (item - group * CHUNKS) * CHUNK;
    const idx last = min(first + CHUNK, (idx)RUN);
    const idx first_row = group * ROWS_PER_ITEM;
    const idx last_row = min(first_row + ROWS_PER_ITEM, (idx)ROWS);
    for (idx row = first_row; row < last_row; ++row) {
        DECLARE_ROW(row)
        const idx ALONG = 0;
        const idx sources_at[] = {SOURCES_AT};
        for (idx start = first; start < last;) {
            const int rest = (int)min((idx)(BLOCK * LANES), last - start);
            const int count = rest < LANES ? rest : rest / LANES * LANES;
            const int vectors = (count + LANES - 1) / LANES;
            const bool whole = count >= LANES;
            const bool comes = whole && source_steps[0] == 1 && STEP_COUNT > 0, goes = whole && dst_step == 1 && STEP_COUNT > 0;
            const idx from_at = sources_at[0] + start * source_steps[0], to_at = sources_at[DST_PLACE] + start * dst_step;
            if (!comes) {
                NOT_UNROLLED for (int i = 0; i < vectors; ++i)
                    block[i] = take(sources[0], from_at + i * LANES * source_steps[0], source_steps[0], LANES_OF(i));
            }
            for (int first_step = 0, main_step, next_step = 0; first_step < STEP_COUNT; first_step = next_step) {
                DECLARE_SIDE(before, first_step, first_step + 1 < STEP_COUNT)
                main_step = first_step + before;
                DECLARE_SIDE(behind, main_step + 1, main_step + 1 < STEP_COUNT)
                next_step = main_step + 1 + behind;
                const int kind = (int)steps[main_step * 4], operand = (int)steps[main_step * 4 + 3];
                const float alpha = as_float((int)steps[main_step * 4 + 1]), beta = as_float((int)steps[main_step * 4 + 2]);
                const __global uchar *const source = sources[operand];
                const __global uchar *const from = comes && first_step == 0 ? sources[0] : 0;
                __global uchar *const to = goes && next_step >= STEP_COUNT ? dst : 0;
                const idx step = source_steps[operand], at = sources_at[operand] + start * step;
                const bool direct = kind >= FIRST_JOIN && whole && step == 1;
                const int others_step = step != 0;
                if (kind >= FIRST_JOIN && !direct) {
                    NOT_UNROLLED for (int i = 0; i < (step ? vectors : 1); ++i)
                        others[i] = take(source, at + i * LANES * step, step, LANES_OF(i));
                }
                // Loops of their own for the kinds gain little and take half as long again to compile.
                NOT_UNROLLED for (int i = 0; i < vectors; ++i) {
                    V result = from ? unpack_f32_16(load_32_16(from, from_at + i * LANES, LANES)) : block[i];
                    DO_SIDE(before)
                    const V v = result;
                    V x = v;
                    if (direct) x = unpack_f32_16(load_32_16(source, at + i * LANES, LANES));
                    else if (kind >= FIRST_JOIN) x = others[i * others_step];
                    switch (kind) {
                    EACH_KIND(TO_RESULT)
                    }
                    DO_SIDE(behind)
                    if (to && DST_STREAMS) stream_32_16(to, to_at + i * LANES, LANES, pack_f32_16(result));
                    else if (to) store_32_16(to, to_at + i * LANES, LANES, pack_f32_16(result));
                    else block[i] = result;
                }
            }
            if (!goes) {
                NOT_UNROLLED for (int i = 0; i < vectors; ++i) {
                    if (dst_step == 1 && DST_STREAMS) stream_32_16(dst, to_at + i * LANES, LANES_OF(i), pack_f32_16(block[i]));
                    else if (dst_step == 1) store_32_16(dst, to_at + i * LANES, LANES_OF(i), pack_f32_16(block[i]));
                    else scatter_32_16(dst, to_at + i * LANES * dst_step, dst_step, LANES_OF(i), pack_f32_16(block[i]));
                }
            }
            start += count;
        }
    }
}
