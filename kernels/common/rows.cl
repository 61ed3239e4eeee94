// Iteration over rows (the dimensions that stay) and their elements (the dimensions that are folded), in one of three modes:
//   ROWS_BY_ITEM    a work-item takes ROWS_PER_ITEM rows, lanes run along the elements (CPUs: everything in registers and cache)
//   ROWS_BY_LANE    the same, lanes run along the rows, which then lie side by side in memory: no horizontal reductions
//   ROWS_BY_GROUP   a work-group of GROUP work-items takes a row and reduces through local memory (GPUs)
// The generator defines ROW_MODE, ROWS (in units of LANES rows by lane), DECLARE_ROW(t) (which also
// says how many `rows` the lanes hold), and for the elements: ELEMENTS and
// DECLARE_ELEMENT(t), or by item ELEMENT_RUNS runs of RUN elements with DECLARE_RUN(u) and the run's loop variable ALONG.

#define ROWS_BY_ITEM 1
#define ROWS_BY_LANE 2
#define ROWS_BY_GROUP 3

#if ROW_MODE == ROWS_BY_GROUP

// Local memory belongs to the outermost scope of a kernel.
#define ENTER_ROWS                                                                                                       \
    __local R scratch[GROUP];                                                                                            \
    ENTER
#define EACH_ROW                                                                                                         \
    {                                                                                                                    \
        const idx row = (idx)get_group_id(0);                                                                            \
        const bool first_item = get_local_id(0) == 0;                                                                    \
        DECLARE_ROW(row)
#define END_ROW }
#define EACH_ELEMENT                                                                                                     \
    for (idx t = (idx)get_local_id(0); t < ELEMENTS; t += GROUP) {                                                       \
        const int n = 1;                                                                                                 \
        DECLARE_ELEMENT(t)
#define END_ELEMENT }
#define DEFINE_FOLD(NAME, OPERATION)                                                                                     \
    static inline R NAME(const R x, __local R *scratch) {                                                                \
        const int l = (int)get_local_id(0);                                                                              \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
        scratch[l] = x;                                                                                                  \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
        for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {                                                 \
            if (l < half_size) scratch[l] = OPERATION(scratch[l], scratch[l + half_size]);                               \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                                \
        }                                                                                                                \
        return scratch[0];                                                                                               \
    }
#define FOLD(NAME, x) NAME(x, scratch)
#define MASK(x, n, fill) (x)

#else

#define ENTER_ROWS ENTER
#define EACH_ROW                                                                                                         \
    for (idx row = (idx)get_global_id(0) * ROWS_PER_ITEM, end = min(row + ROWS_PER_ITEM, (idx)ROWS); row < end; ++row) { \
        const bool first_item = true;                                                                                    \
        DECLARE_ROW(row)
#define END_ROW }

#if ROW_MODE == ROWS_BY_LANE

#define EACH_ELEMENT                                                                                                     \
    for (idx t = 0; t < ELEMENTS; ++t) {                                                                                 \
        const int n = rows;                                                                                              \
        DECLARE_ELEMENT(t)
#define END_ELEMENT }
#define DEFINE_FOLD(NAME, OPERATION)
#define FOLD(NAME, x) (x)
#define MASK(x, n, fill) (x)

#else

#define EACH_ELEMENT                                                                                                     \
    for (idx u = 0; u < ELEMENT_RUNS; ++u) {                                                                             \
        DECLARE_RUN(u)                                                                                                   \
        for (idx ALONG = 0; ALONG < RUN; ALONG += LANES) {                                                               \
            const int n = (int)min((idx)LANES, RUN - ALONG);
#define END_ELEMENT                                                                                                      \
        }                                                                                                                \
    }
#define FOLD(NAME, x) NAME(x)
#if LANES == 1
#define DEFINE_FOLD(NAME, OPERATION) static inline R NAME(const R x) { return x; }
#define MASK(x, n, fill) (x)
#else
#define DEFINE_FOLD(NAME, OPERATION)                                                                                     \
    static inline V NAME(const V x) {                                                                                    \
        const float8 a = OPERATION(x.lo, x.hi);                                                                          \
        const float4 b = OPERATION(a.lo, a.hi);                                                                          \
        const float2 c = OPERATION(b.lo, b.hi);                                                                          \
        return (V)(OPERATION(c.x, c.y));                                                                                 \
    }
#define LANE_NUMBERS (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
// Lanes past the row's end must not count.
#define MASK(x, n, fill) (RUN % LANES == 0 || (n) == LANES ? (x) : (LANE_NUMBERS < (int16)(n) ? (x) : (V)(fill)))
#endif

#endif
#endif
