// Iteration over rows (the dimensions that stay) and their elements (the dimensions that are folded), in one of four modes:
//   ROWS_BY_ITEM    a work-item takes ROWS_PER_ITEM rows, lanes run along the elements (CPUs: everything in registers and cache)
//   ROWS_BY_LANE    the same, lanes run along the rows, which then lie side by side in memory: no horizontal reductions
//   ROWS_BY_GROUP   a work-group of GROUP work-items takes a row and reduces through local memory (GPUs)
//   ROWS_BY_PART    PARTS work-items take a row together and a work-group GROUP / PARTS rows; lanes run along the elements, of which each
//                   work-item has STEPS vectors, or HELD_STEPS at most, which stay in registers where they are needed again (GPUs). With
//                   SUB_GROUP the PARTS are whole sub-groups of that many work-items, which read each other's registers; with SHUFFLES
//                   the items of NVIDIA's warps do
// A fold by item joins into CHAINS variables, so that no joining waits for the one before. OVERLAPPING, the last vector of a run ends with
// it, and begins with elements that the one before had. A work-item of a CPU has room for a row in
// kept[slot] of local memory where KEPT is their number of vectors.
// The generator defines ROW_MODE, ROWS (in units of LANES rows by lane), DECLARE_ROW(t) (which also
// says how many `rows` the lanes hold), and for the elements: ELEMENTS and
// DECLARE_ELEMENT(t), or by item ELEMENT_RUNS runs of RUN elements with DECLARE_RUN(u) and the run's loop variable ALONG, or by part one
// run. By part HOLD_ROW(HOLD) says HOLD(X) for each operand that stays in registers.

#ifndef KEPT
#define KEPT 0
#endif

#define ROWS_BY_ITEM 1
#define ROWS_BY_LANE 2
#define ROWS_BY_GROUP 3
#define ROWS_BY_PART 4

// Numbers of a row, of which all lanes have the same one, or of as many rows as there are lanes.
#if LANES > 1 && ROW_MODE != ROWS_BY_LANE
#define ONE(v) (v).s0
#else
#define ONE(v) (v)
#endif

#if LANES == 2
#define LANE_NUMBERS (int2)(0, 1)
#elif LANES == 4
#define LANE_NUMBERS (int4)(0, 1, 2, 3)
#elif LANES == 8
#define LANE_NUMBERS (int8)(0, 1, 2, 3, 4, 5, 6, 7)
#elif LANES == 16
#define LANE_NUMBERS (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#endif

#if ROW_MODE == ROWS_BY_PART

#ifdef SUB_GROUP
// Which work-items are a sub-group is the driver's choice.
#define OWN_ITEM ((int)get_sub_group_id() * SUB_GROUP + (int)get_sub_group_local_id())
#define SCRATCH (GROUP / SUB_GROUP)
#else
#define OWN_ITEM ((int)get_local_id(0))
#define SCRATCH (2 * GROUP)
#endif
#define ENTER_ROWS                                                                                                       \
    __local R scratch[SCRATCH];                                                                                          \
    ENTER
#define EACH_ROW                                                                                                         \
    {                                                                                                                    \
        const int member = OWN_ITEM % PARTS;                                                                             \
        const idx own_row = (idx)get_group_id(0) * (GROUP / PARTS) + OWN_ITEM / PARTS;                                   \
        /* Work-items without a row take part in the barriers. */                                                        \
        const bool has_row = ROWS % (GROUP / PARTS) == 0 || own_row < ROWS;                                              \
        const idx row = has_row ? own_row : 0;                                                                           \
        const bool first_item = has_row && member == 0;                                                                  \
        DECLARE_ROW(row)                                                                                                 \
        HOLD_ROW(DECLARE_HELD)                                                                                           \
        /* Nothing but loads, so that all of them are under way at once. */                                              \
        if (ARE_WHOLE) {                                                                                                 \
            EACH_ELEMENT HOLD_ROW(HOLD) END_ELEMENT                                                                      \
        } else {                                                                                                         \
            EACH_ELEMENT HOLD_ROW(HOLD) END_ELEMENT                                                                      \
        }
#define END_ROW }
#ifndef HELD
#define HELD 0
#define HOLD_ROW(DO)
#endif
#define DECLARE_HELD(X) V held_##X[HELD_STEPS];
#define HELD_IN(X) held_##X[step]
#define HOLD(X) HELD_IN(X) = FETCH_##X(OFF_##X, n);
#if HELD
#define EACH_STEP _Pragma("unroll") for (int step = 0; step < HELD_STEPS; ++step)
#else
#define EACH_STEP _Pragma("unroll 4") for (int step = 0; step < STEPS; ++step)
#endif
#define EACH_ELEMENT                                                                                                     \
    EACH_STEP {                                                                                                          \
        const idx ALONG = ((idx)step * PARTS + member) * LANES;                                                          \
        const int n = !has_row ? 0 : WHOLE_VECTORS ? (ALONG < RUN ? LANES : 0) : (int)clamp(RUN - ALONG, (idx)0, (idx)LANES);
#define END_ELEMENT }
// Joins lanes up to the last two, as `two`.
#if LANES == 8
#define JOIN_TO_TWO(OPERATION, x)                                                                                        \
    const float4 four = OPERATION((x).lo, (x).hi);                                                                       \
    const float2 two = OPERATION(four.lo, four.hi);
#elif LANES == 4
#define JOIN_TO_TWO(OPERATION, x) const float2 two = OPERATION((x).lo, (x).hi);
#else
#define JOIN_TO_TWO(OPERATION, x) const float2 two = (x);
#endif
#ifdef SUB_GROUP
// A sub-group joins by exchanges between halves, or else one work-item's value after the other; several sub-groups join in local memory.
#ifdef EXCHANGE
#define JOIN_SUB_GROUP(OPERATION, x)                                                                                     \
    for (uint mask = SUB_GROUP / 2; mask > 0; mask /= 2) {                                                               \
        const R other = EXCHANGE(x, mask);                                                                               \
        x = OPERATION(x, other);                                                                                         \
    }
#else
#define JOIN_SUB_GROUP(OPERATION, x)                                                                                     \
    {                                                                                                                    \
        const R own = x;                                                                                                 \
        x = sub_group_broadcast(own, 0);                                                                                 \
        for (uint k = 1; k < SUB_GROUP; ++k) {                                                                           \
            const R other = sub_group_broadcast(own, k);                                                                 \
            x = OPERATION(x, other);                                                                                     \
        }                                                                                                                \
    }
#endif
#define DEFINE_FOLD(NAME, OPERATION)                                                                                     \
    static inline V NAME(const V x, __local R *scratch) {                                                                \
        JOIN_TO_TWO(OPERATION, x)                                                                                        \
        R joined = OPERATION(two.x, two.y);                                                                              \
        JOIN_SUB_GROUP(OPERATION, joined)                                                                                \
        if (PARTS == SUB_GROUP) return (V)(joined);                                                                      \
        const int own = (int)get_sub_group_id(), first = own - own % (PARTS / SUB_GROUP);                                \
        /* Others may still read what they folded before. */                                                             \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
        if (get_sub_group_local_id() == 0) scratch[own] = joined;                                                        \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
        joined = scratch[first];                                                                                         \
        for (int k = 1; k < PARTS / SUB_GROUP; ++k) joined = OPERATION(joined, scratch[first + k]);                      \
        return (V)(joined);                                                                                              \
    }
#elif SHUFFLES
// A row's work-items join in two stages, by warps and by all, through each other's registers.
static inline float of_partner(const float x, const int mask) {
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(y) : "f"(x), "r"(mask));
    return y;
}
#define DEFINE_FOLD(NAME, OPERATION)                                                                                     \
    static inline V NAME(const V x, __local R *scratch) {                                                                \
        JOIN_TO_TWO(OPERATION, x)                                                                                        \
        R joined = OPERATION(two.x, two.y);                                                                              \
        _Pragma("unroll") for (int mask = (PARTS < 32 ? PARTS : 32) / 2; mask > 0; mask /= 2) {                          \
            const R other = of_partner(joined, mask);                                                                    \
            joined = OPERATION(joined, other);                                                                           \
        }                                                                                                                \
        if (PARTS <= 32) return (V)(joined);                                                                             \
        const int l = (int)get_local_id(0), lane = l % 32, first = (l - l % PARTS) / 32;                                 \
        /* Others may still read what they folded before. */                                                             \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
        if (lane == 0) scratch[l / 32] = joined;                                                                         \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
        joined = scratch[first + lane % (PARTS > 32 ? PARTS / 32 : 1)];                                                  \
        _Pragma("unroll") for (int mask = PARTS / 64; mask > 0; mask /= 2) {                                             \
            const R other = of_partner(joined, mask);                                                                    \
            joined = OPERATION(joined, other);                                                                           \
        }                                                                                                                \
        return (V)(joined);                                                                                              \
    }
#else
// A row's work-items join in two stages, by SIDE of them and by all.
#define DEFINE_FOLD(NAME, OPERATION)                                                                                     \
    static inline V NAME(const V x, __local R *scratch) {                                                                \
        const int l = (int)get_local_id(0), own = l % PARTS, first = l - own;                                            \
        JOIN_TO_TWO(OPERATION, x)                                                                                        \
        R joined = OPERATION(two.x, two.y);                                                                              \
        if (PARTS == 1) return (V)(joined);                                                                              \
        scratch[l] = joined;                                                                                             \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
        if (own < SIDE) {                                                                                                \
            for (int k = SIDE; k < PARTS; k += SIDE) joined = OPERATION(joined, scratch[l + k]);                         \
            scratch[GROUP + l] = joined;                                                                                 \
        }                                                                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
        joined = scratch[GROUP + first];                                                                                 \
        for (int k = 1; k < SIDE; ++k) joined = OPERATION(joined, scratch[GROUP + first + k]);                           \
        return (V)(joined);                                                                                              \
    }
#endif
#define START_FOLD(name, x) V name = (V)(x);
#define JOIN_FOLD(name, OPERATION, x) name = OPERATION(name, x);
#define FOLD(NAME, x) NAME(x, scratch)
#define MASK(x, n, fill) ((n) == LANES ? (x) : WHOLE_VECTORS ? (V)(fill) : LANE_NUMBERS < (VEC(int))(n) ? (x) : (V)(fill))

#elif ROW_MODE == ROWS_BY_GROUP

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
#define START_FOLD(name, x) V name = (V)(x);
#define JOIN_FOLD(name, OPERATION, x) name = OPERATION(name, x);

#else

#if KEPT
#define ENTER_ROWS                                                                                                       \
    __local V kept[KEPT];                                                                                                \
    ENTER
#else
#define ENTER_ROWS ENTER
#endif
#define EACH_ROW                                                                                                         \
    for (idx row = (idx)get_global_id(0) * ROWS_PER_ITEM, end = min(row + ROWS_PER_ITEM, (idx)ROWS); row < end; ++row) { \
        const bool first_item = true;                                                                                    \
        DECLARE_ROW(row)
#define END_ROW }

#if ROW_MODE == ROWS_BY_LANE

#define EACH_ELEMENT                                                                                                     \
    for (idx t = 0; t < ELEMENTS; ++t) {                                                                                 \
        const int n = rows;                                                                                              \
        const int slot = (int)t;                                                                                         \
        DECLARE_ELEMENT(t)
#define END_ELEMENT }
#define DEFINE_FOLD(NAME, OPERATION)
#define FOLD(NAME, x) (x)
#define MASK(x, n, fill) (x)
#define START_FOLD(name, x) V name = (V)(x);
#define JOIN_FOLD(name, OPERATION, x) name = OPERATION(name, x);

#else

#if LANES == 1
#define EACH_ELEMENT                                                                                                     \
    for (idx u = 0; u < ELEMENT_RUNS; ++u) {                                                                             \
        DECLARE_RUN(u)                                                                                                   \
        for (idx ALONG = 0; ALONG < RUN; ++ALONG) {                                                                      \
            const int n = 1;
#define END_ELEMENT                                                                                                      \
        }                                                                                                                \
    }
#define START_FOLD(name, x) V name = (V)(x);
#define JOIN_FOLD(name, OPERATION, x) name = OPERATION(name, x);
#define FOLD(NAME, x) (x)
#define DEFINE_FOLD(NAME, OPERATION)
#define MASK(x, n, fill) (x)
#else
#define EACH_ELEMENT                                                                                                     \
    for (idx u = 0; u < ELEMENT_RUNS; ++u) {                                                                             \
        DECLARE_RUN(u)                                                                                                   \
        for (idx first = 0; first < RUN; first += LANES * CHAINS) {                                                      \
            _Pragma("unroll") for (int chain = 0; chain < CHAINS; ++chain) {                                             \
                const idx from = first + chain * LANES;                                                                  \
                if (!WHOLE_CHAINS && from >= RUN) break;                                                                 \
                const idx ALONG = OVERLAPPING ? min(from, (idx)(RUN - LANES)) : from;                                    \
                const int n = WHOLE_VECTORS || OVERLAPPING ? LANES : (int)min((idx)LANES, RUN - ALONG);                  \
                const int again = OVERLAPPING ? (int)(from - ALONG) : 0;                                                 \
                const int slot = (int)(u * ((RUN + LANES - 1) / LANES) + first / LANES) + chain;
#define END_ELEMENT                                                                                                      \
            }                                                                                                            \
        }                                                                                                                \
    }
#define START_FOLD(name, x)                                                                                              \
    V name[CHAINS];                                                                                                      \
    for (int chain = 0; chain < CHAINS; ++chain) name[chain] = (V)(x);
#define JOIN_FOLD(name, OPERATION, x) name[chain] = OPERATION(name[chain], x);
#define FOLD(NAME, x) NAME(x)
#define DEFINE_FOLD(NAME, OPERATION)                                                                                     \
    static inline V NAME(const V *chains) {                                                                              \
        V x = chains[0];                                                                                                 \
        for (int chain = 1; chain < CHAINS; ++chain) x = OPERATION(x, chains[chain]);                                    \
        const float8 a = OPERATION(x.lo, x.hi);                                                                          \
        const float4 b = OPERATION(a.lo, a.hi);                                                                          \
        const float2 c = OPERATION(b.lo, b.hi);                                                                          \
        return (V)(OPERATION(c.x, c.y));                                                                                 \
    }
// Lanes past the row's end must not count, nor those that the vector before had.
#if OVERLAPPING
#define MASK(x, n, fill) (again == 0 ? (x) : (LANE_NUMBERS >= (int16)(again) ? (x) : (V)(fill)))
#else
#define MASK(x, n, fill) (WHOLE_VECTORS || (n) == LANES ? (x) : (LANE_NUMBERS < (int16)(n) ? (x) : (V)(fill)))
#endif
#endif

#endif
#endif

// With FETCHES_NEXT, what a work-item reads next, the single run of SRC0 in the row behind, can be fetched while a row is worked on that is near
// already: START_NEXT where that begins, FETCH_NEXT at each element.
#if FETCHES_NEXT
#define START_NEXT                                                                                                       \
    size_t next_row;                                                                                                     \
    {                                                                                                                    \
        const idx number = min(row + 1, (idx)(ROWS - 1));                                                                \
        DECLARE_ROW(number)                                                                                              \
        const idx ALONG = 0;                                                                                             \
        next_row = (size_t)src0 + (size_t)(OFF_SRC0) * BYTES_SRC0;                                                       \
    }
#define FETCH_NEXT FETCH(next_row + (size_t)slot * (LANES * BYTES_SRC0));
#else
#define START_NEXT
#define FETCH_NEXT
#endif
