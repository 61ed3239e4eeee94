// For processors. A work-item runs a chain: some sequences in one direction (with ADDS_UP in both, one after the other), step after
// step. Its hidden units lie in panels of VECTORS vectors for each gate, of which the products of AT_ONCE vectors with a tile of TILE_N
// sequences stay in registers. The products of the inputs are there already, or their weights lie in such panels, too.
//
// With COOPERATE some work-groups share a chain, each with panels of its own, which stay in its core's cache. Whoever claims the panels of a
// work-group for a phase computes them; a phase begins when all panels of the one before are done. A work-group claims its own panels first,
// then waits a little for the others, and helps where nobody claimed: it waits for work alone that another one has begun, so that
// work-groups that do not run at all, or run one after the other, stop nothing. A claim waits for all that was stored before and holds up
// what is read behind it, which is why it is for all panels of a work-group.
#define VANILLA 0
#define LSTM 1
#define GRU 2
#define LINEAR_GRU 3
#define PHASES (CELL == GRU ? 2 : 1)
#define WIDTH (16 * VECTORS)
#define ALL_V (GATES_COUNT * VECTORS)
// Polls of a counter before helping.
#define POLLS_AT_MOST 2000

#define CLEAR(i, v, a) V sum##i##_##v##_##a = (V)(0);
#define RESUME(i, v, a) sum##i##_##v##_0 = TO_SUMS[(of_rows + (i)) * ALL_V + from + (v)];
// Where gates are neighbours, all vectors are, so that one number leads to them.
#define WEIGHTS_AT(i, v, a)                                                                                              \
    idx at_##v;                                                                                                          \
    if (v == 0 || GATES_APART) {                                                                                         \
        const idx gate = (from + v) / VECTORS, part = (from + v) % VECTORS, k = (idx)first_k;                            \
        at_##v = PASTE(OFF_, MATRIX);                                                                                    \
    } else {                                                                                                             \
        at_##v = at_0 + (idx)(v) * 16;                                                                                   \
    }
#define LOAD(i, v, a)                                                                                                    \
    const V w_##v = PASTE(LD_, MATRIX)(at_##v, 16);                                                                      \
    FETCH_AHEAD(v);                                                                                                      \
    at_##v += STEP_PANELS;
#define POINTER_STATE_WEIGHTS state_weights
#define POINTER_WEIGHTS weights
// Bytes ahead of the weights at hand that are fetched: panels are read as they lie in memory, but not all of them stay near.
#define AHEAD 4096
#define FETCH_AHEAD(v) FETCH_NEAR(PASTE(POINTER_, MATRIX) + ((size_t)(at_##v) * PASTE(BYTES_, MATRIX) + AHEAD))
// The products of the inputs for a tile, before its products of states: rows lie far apart. The next panel reads on where this one ends.
#define FETCH_GATES                                                                                                      \
    for (int i = 0; i < rows; ++i) {                                                                                     \
        const idx n = first + i;                                                                                         \
        LENGTH                                                                                                           \
        if (t >= length) continue;                                                                                       \
        const idx step = backward ? length - 1 - t : t;                                                                  \
        for (idx gate = 0; gate < GATES_COUNT; ++gate)                                                                   \
            for (idx part = 0; part < VECTORS; ++part)                                                                   \
                FETCH_NEAR(gates + ((size_t)(OFF_GATES) + (backwards ? 0 : 15)) * BYTES_GATES);                          \
    }
#define MULTIPLY(i, v, a) sum##i##_##v##_##a += x * w_##v;
#define JOIN(i, v, a) sum##i##_##v##_0 += sum##i##_##v##_##a;
#define SAVE(i, v, a) TO_SUMS[(of_rows + (i)) * ALL_V + from + (v)] = sum##i##_##v##_0;
// Where a sequence's input or state begins; sequences behind the last one read that again, those that ended their first step.
#define ROW_AT(i, a)                                                                                                     \
    idx row_##i;                                                                                                         \
    {                                                                                                                    \
        const idx n = min(first + of_rows + i, end_n - 1), row = of_rows + i, k = 0;                                     \
        LENGTH                                                                                                           \
        const idx step = max((idx)(backward ? length - 1 - t : min((idx)t, length - 1)), (idx)0);                        \
        row_##i = PASTE(OFF_, OPERAND);                                                                                  \
    }
#define CLEAR_ROW(i, a) EACH_V(CLEAR, i, a)
#define CLEAR_TERM(a) EACH_N(CLEAR_ROW, a)
#define RESUME_ROW(i, a) EACH_V(RESUME, i, a)
#define SAVE_ROW(i, a) EACH_V(SAVE, i, a)
#define JOIN_ROW(i, a) EACH_V(JOIN, i, a)
#define JOIN_TERM(a)                                                                                                     \
    if (a > 0) { EACH_N(JOIN_ROW, a) }
#define MULTIPLY_ROW(i, a)                                                                                               \
    {                                                                                                                    \
        const R x = PASTE(TERM_, OPERAND)(i, a);                                                                         \
        EACH_V(MULTIPLY, i, a)                                                                                           \
    }
#define MULTIPLY_TERM(a)                                                                                                 \
    {                                                                                                                    \
        EACH_V(LOAD, 0, a)                                                                                               \
        EACH_N(MULTIPLY_ROW, a)                                                                                          \
    }
// States of a tile's sequences are neighbours, unit by unit, so that one pointer leads to all of them.
#define TERM_STATES_K(i, a) of_tile[(k + (a)) * TILE_N + i]
#define TERM_KEPT_K(i, a) of_tile[(k + (a)) * TILE_N + i]
#define TERM_INITIAL_STATE_K(i, a) LD1_INITIAL_STATE_K(row_##i + (idx)(k + a) * STEP_INITIAL_STATE_K)
#define TERM_SRC0(i, a) LD1_SRC0(row_##i + (idx)(k + a) * STEP_SRC0)
#define TILE_STATES_K ((const __global R *)states + row_0)
#define TILE_KEPT_K ((const __global R *)kept + row_0)
#define TILE_INITIAL_STATE_K 0
#define TILE_SRC0 0
// The products of a tile's sequences with some vectors: of ROWS and AT_ONCE at a time, each in APART sums of terms that do not wait for one
// another. The weights of NEAR_TERMS stay in the first cache level for all rows.
#define PRODUCT(FIRST, END, TERMS)                                                                                       \
    for (size_t first_k = 0; first_k < (size_t)(TERMS); first_k += NEAR_TERMS)                                           \
        for (int of_rows = 0; of_rows < rows; of_rows += ROWS)                                                           \
            for (int from = FIRST; from < (END); from += AT_ONCE) {                                                      \
                EACH_N(ROW_AT, 0)                                                                                        \
                EACH_V(WEIGHTS_AT, 0, 0)                                                                                 \
                EACH_APART(CLEAR_TERM)                                                                                   \
                if (first_k > 0) { EACH_N(RESUME_ROW, 0) }                                                               \
                const __global R *const of_tile = PASTE(TILE_, OPERAND);                                                 \
                const size_t terms = min((size_t)(TERMS), first_k + NEAR_TERMS);                                         \
                size_t k = first_k;                                                                                      \
                for (; k + APART <= terms; k += APART) { EACH_APART(MULTIPLY_TERM) }                                     \
                for (; k < terms; ++k) MULTIPLY_TERM(0)                                                                  \
                EACH_APART(JOIN_TERM)                                                                                    \
                EACH_N(SAVE_ROW, 0)                                                                                      \
            }
// A single step needs no states of other work-items: each has some panels.
#if ONE_STEP
#define BEFORE INITIAL_STATE_K
#else
#define BEFORE STATES_K
#endif
#if MULTIPLIES_STATES
#define PRODUCT_OF_STATES(FIRST, END) PRODUCT(FIRST, END, HIDDEN)
#else
// States that nobody gave are zeros.
#define PRODUCT_OF_STATES(FIRST, END)                                                                                    \
    for (int i = 0; i < TILE_N * ALL_V; ++i) sums[i] = (V)(0);
#endif
#define OF_INPUT(sum)                                                                                                    \
    IF_GATES(sum += LD_GATES(OFF_GATES, lanes);)                                                                         \
    IF_NO_GATES(sum += of_inputs[i * ALL_V + gate * VECTORS + part];)                                                    \
    IF_BIAS(sum += LD_BIAS(OFF_BIAS, lanes);)
#define OF_STATE(sum) IF_STATE_BIAS(sum += LD_STATE_BIAS(OFF_STATE_BIAS, lanes);)
// The sum of a gate.
#define SUM(name, number)                                                                                                \
    V name = sums[i * ALL_V + (number) * VECTORS + part];                                                                \
    {                                                                                                                    \
        const idx gate = number;                                                                                         \
        OF_INPUT(name)                                                                                                   \
        OF_STATE(name)                                                                                                   \
    }
#define PEEP(sum, number, cell)                                                                                          \
    IF_PEEPHOLES({                                                                                                       \
        const idx gate = number;                                                                                         \
        sum += LD_PEEPHOLES(OFF_PEEPHOLES, lanes) * cell;                                                                \
    })
// What gradients read.
#define KEEP_GATE(number, value)                                                                                         \
    IF_WORKSPACE({                                                                                                       \
        const idx gate = number;                                                                                         \
        KEEP_WORKSPACE(OFF_WORKSPACE, lanes, value);                                                                     \
    })
#define EACH_TILE for (idx first = first_n, tile = first_tile; first < end_n; first += TILE_N, ++tile)
#define EACH_PART                                                                                                        \
    for (idx part = 0; part < VECTORS; ++part)                                                                           \
        for (int lanes = (int)min((idx)16, HIDDEN - panel * WIDTH - part * 16), once = 1; once && lanes > 0; once = 0)
#define LENGTH                                                                                                           \
    idx length = STEPS;                                                                                                  \
    IF_LENGTHS(length = min(max((idx)NAT1_LENGTHS(OFF_LENGTHS), (idx)0), (idx)STEPS);)

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void recurrent_panels(PARAMS) {
    ENTER
    const idx first_n = (idx)get_global_id(1) * CHAIN_N, end_n = min(first_n + CHAIN_N, (idx)BATCH);
    const idx first_tile = (idx)get_global_id(1) * CHAIN_TILES;
    const idx k = 0, lane = 0;
    // Steps behind the end of every sequence change nothing.
    idx steps = STEPS;
    IF_LENGTHS(
        steps = 0;
        for (idx n = first_n; n < end_n; ++n) {
            LENGTH
            steps = max(steps, length);
        }
    )
    const int phases_of_way = 2 + (int)steps * PHASES;
    const int helper = (int)get_global_id(0), helpers = (int)get_global_size(0);
#if COOPERATE
    const int chain = (int)(get_global_id(2) * get_global_size(1) + get_global_id(1));
    // A line of the cache for each number.
    volatile __global int *const claims = (volatile __global int *)claimed + (size_t)chain * (helpers + 1) * 16;
    volatile __global int *const done = claims + (size_t)helpers * 16;
    int polls = POLLS_AT_MOST;
#endif
    for (int phase = 0; phase < WAYS * phases_of_way; ++phase) {
        const int way = phase / phases_of_way, of_way = phase - way * phases_of_way;
        const idx d = WAYS == 1 ? (idx)get_global_id(2) : way;
        const int backward = BACKWARD;
        const int t = (of_way - 1) / PHASES;
        const idx turn = t & 1;
        // Every other step goes through the panels from the last one on, which the cache still has.
        const int backwards = t & 1;
        int of_helper = helper;
#if COOPERATE
        const int target = (phase + 1) * helpers;
        for (int others = 0;; ++others) {
            if (others == 1) {
                for (int polled = 0; polled < polls && *done - target < 0; ++polled) {}
                polls = *done - target < 0 ? 1 : POLLS_AT_MOST;
            }
            if (*done - target >= 0) break;
            if (others == helpers) {
                while (*done - target < 0) {}
                break;
            }
            of_helper = helper + others < helpers ? helper + others : helper + others - helpers;
            volatile __global int *const claim = claims + (size_t)of_helper * 16;
            if (*claim != phase || atomic_cmpxchg(claim, phase, phase + 1) != phase) continue;
            mem_fence(CLK_GLOBAL_MEM_FENCE);
#else
        {
#endif
        const int first_panel = of_helper * PANELS / helpers, end_panel = (of_helper + 1) * PANELS / helpers;
        for (idx next = first_panel; next < end_panel; ++next) {
            const idx panel = backwards ? end_panel - 1 - (next - first_panel) : next;
            if (of_way == 0) {
                // Sequences behind the last one begin as that, so that whole tiles are numbers.
                EACH_TILE {
                    for (idx row = 0; row < TILE_N; ++row) {
                        const idx n = min(first + row, end_n - 1);
                        EACH_PART {
                            V state = (V)(0), cell = (V)(0);
                            IF_INITIAL_STATE(state = LD_INITIAL_STATE(OFF_INITIAL_STATE, lanes);)
                            IF_INITIAL_CELL(cell = LD_INITIAL_CELL(OFF_INITIAL_CELL, lanes);)
                            const idx turn = 0;
                            KEEP_STATES(OFF_STATES, lanes, state);
                            IF_KEPT(KEEP_KEPT(OFF_KEPT, lanes, state);)
                            IF_CELLS(KEEP_CELLS(OFF_CELLS, lanes, cell);)
                        }
                    }
                }
            } else if (of_way == phases_of_way - 1) {
                for (idx n = first_n; n < end_n; ++n) {
                    LENGTH
                    const idx tile = first_tile + (n - first_n) / TILE_N, row = (n - first_n) % TILE_N;
                    EACH_PART {
                        const idx turn = steps & 1;
                        IF_LAST_STATE(KEEP_LAST_STATE(OFF_LAST_STATE, lanes, LD_STATES(OFF_STATES, lanes));)
                        IF_LAST_CELL(KEEP_LAST_CELL(OFF_LAST_CELL, lanes, LD_CELLS(OFF_CELLS, lanes));)
                        for (idx step = way == WAYS - 1 ? length : STEPS; step < STEPS; ++step) {
                            KEEP_DST(OFF_DST, lanes, (V)(0));
                        }
                        IF_WORKSPACE(for (idx step = length; step < STEPS; ++step) {
                            for (idx row = 0; row < KEPT_ROWS; ++row) KEEP_GATE(row, (V)(0))
                        })
                    }
                }
            } else {
                EACH_TILE {
                    V sums[TILE_N * ALL_V];
                    IF_NO_GATES(V of_inputs[TILE_N * ALL_V];)
                    const int rows = (int)min((idx)TILE_N, end_n - first);
                    IF_GATES(FETCH_GATES)
#if CELL == GRU
                    if ((of_way & 1) != 0) {
#define TO_SUMS of_inputs
#define OPERAND SRC0
#define MATRIX WEIGHTS
                        IF_NO_GATES(PRODUCT(0, FIRST_PHASE, INPUTS))
#undef MATRIX
#undef OPERAND
#undef TO_SUMS
#define TO_SUMS sums
#define OPERAND BEFORE
#define MATRIX STATE_WEIGHTS
                        PRODUCT_OF_STATES(0, FIRST_PHASE)
#undef MATRIX
#undef OPERAND
#undef TO_SUMS
                        for (int i = 0; i < rows; ++i) {
                            const idx n = first + i, row = i;
                            LENGTH
                            if (t >= length) continue;
                            const idx step = backward ? length - 1 - t : t;
                            EACH_PART {
                                SUM(update, 0)
                                SUM(reset, 1)
                                update = eltwise_sigmoid(update);
                                reset = eltwise_sigmoid(reset);
                                KEEP_UPDATES(OFF_UPDATES, lanes, update);
                                KEEP_GATE(0, update)
                                KEEP_GATE(1, reset)
                                const V reset_state = reset * LD_STATES(OFF_STATES, lanes);
                                KEEP_KEPT(OFF_KEPT, lanes, reset_state);
                            }
                        }
                        continue;
                    }
#define TO_SUMS of_inputs
#define OPERAND SRC0
#define MATRIX WEIGHTS
                    IF_NO_GATES(PRODUCT(FIRST_PHASE, ALL_V, INPUTS))
#undef MATRIX
#undef OPERAND
#undef TO_SUMS
#define TO_SUMS sums
#define OPERAND KEPT_K
#define MATRIX STATE_WEIGHTS
                    PRODUCT_OF_STATES(FIRST_PHASE, ALL_V)
#undef MATRIX
#undef OPERAND
#undef TO_SUMS
#else
#define TO_SUMS of_inputs
#define OPERAND SRC0
#define MATRIX WEIGHTS
                    IF_NO_GATES(PRODUCT(0, ALL_V, INPUTS))
#undef MATRIX
#undef OPERAND
#undef TO_SUMS
#define TO_SUMS sums
#define OPERAND BEFORE
#define MATRIX STATE_WEIGHTS
                    PRODUCT_OF_STATES(0, ALL_V)
#undef MATRIX
#undef OPERAND
#undef TO_SUMS
#endif
                    for (int i = 0; i < rows; ++i) {
                        const idx n = first + i, row = i;
                        LENGTH
                        const idx step = backward ? length - 1 - t : t;
                        EACH_PART {
#if CELL == GRU || CELL == LINEAR_GRU
                            V state = LD_STATES(OFF_STATES, lanes);
#else
                            V state = (V)(0);
                            IF_NO_WORKSPACE(if (t >= length)) state = LD_STATES(OFF_STATES, lanes);
#endif
                            if (t < length) {
                                KEEP_GATE(GATES_COUNT, state)
#if CELL == VANILLA
                                SUM(sum, 0)
                                state = ACTIVATION(sum);
                                KEEP_GATE(0, state)
#elif CELL == LSTM
                                const V old = LD_CELLS(OFF_CELLS, lanes);
                                KEEP_GATE(GATES_COUNT + 1, old)
                                SUM(input, INPUT_GATE)
                                SUM(forget, FORGET_GATE)
                                SUM(candidate, CANDIDATE_GATE)
                                SUM(output, OUTPUT_GATE)
                                PEEP(input, INPUT_PEEPHOLE, old)
                                PEEP(forget, FORGET_PEEPHOLE, old)
                                input = eltwise_sigmoid(input);
                                forget = eltwise_sigmoid(forget);
                                candidate = eltwise_tanh(candidate);
                                const V cell = forget * old + input * candidate;
                                PEEP(output, OUTPUT_PEEPHOLE, cell)
                                output = eltwise_sigmoid(output);
                                KEEP_GATE(INPUT_GATE, input)
                                KEEP_GATE(FORGET_GATE, forget)
                                KEEP_GATE(CANDIDATE_GATE, candidate)
                                KEEP_GATE(OUTPUT_GATE, output)
                                KEEP_CELLS(OFF_CELLS, lanes, cell);
                                state = output * eltwise_tanh(cell);
#else
                                V candidate = (V)(0), of_state = sums[i * ALL_V + 2 * VECTORS + part];
                                {
                                    const idx gate = 2;
                                    OF_INPUT(candidate)
                                    OF_STATE(of_state)
                                }
#if CELL == GRU
                                const V update = LD_UPDATES(OFF_UPDATES, lanes);
#else
                                SUM(update, 0)
                                SUM(reset, 1)
                                update = eltwise_sigmoid(update);
                                reset = eltwise_sigmoid(reset);
                                KEEP_GATE(0, update)
                                KEEP_GATE(1, reset)
                                KEEP_GATE(GATES_COUNT + 1, of_state)
                                of_state *= reset;
#endif
                                candidate = eltwise_tanh(candidate + of_state);
                                KEEP_GATE(2, candidate)
                                state = candidate + update * (state - candidate);
#endif
#if ADDS_UP
                                if (way == 0) {
                                    KEEP_TOTALS(OFF_TOTALS, lanes, state);
                                } else {
                                    KEEP_DST(OFF_DST, lanes, LD_TOTALS(OFF_TOTALS, lanes) + state);
                                }
#else
                                KEEP_DST(OFF_DST, lanes, state);
#endif
                            }
                            const idx before = turn, turn = 1 - before;
                            KEEP_STATES(OFF_STATES, lanes, state);
                        }
                    }
                }
            }
        }
#if COOPERATE
            mem_fence(CLK_GLOBAL_MEM_FENCE);
            atomic_add(done, 1);
#endif
        }
#if COOPERATE
        mem_fence(CLK_GLOBAL_MEM_FENCE);
#endif
    }
}
