// For every device: a layer that keeps what its gradients read, with attention and projections, and layers of integers. A work-group runs
// CHAIN_N sequences in one direction (with ADDS_UP in both, one after the other), step after step; its work-items share the units, LANES at a
// time. The products of the inputs are there already; those of the states are made for TILE_N sequences at a time.
// ALL_V is the number of gates, of which FIRST_V are made before the reset gate is known and SECOND_V behind it.
// Of integers STORED is what stands for a number and NUMBER what one stands for; products of states come without the shift, those of inputs
// with it.
#if IS_INTEGER
#define STORED(v) clamp(rint((v) * SCALE + SHIFT), (V)(LEAST), (V)(MOST))
#define NUMBER(v) (((v) - SHIFT) / SCALE)
#define FACTOR(x) ((x) - SHIFT)
#else
#define STORED(v) (v)
#define NUMBER(v) (v)
#define FACTOR(x) (x)
#endif
// States as they are given and shown: numbers, or what stands for them.
#if IS_INTEGER && !GIVES_INTEGERS
#define GIVEN(v) STORED(v)
#else
#define GIVEN(v) (v)
#endif
#if IS_INTEGER && !SHOWS_INTEGERS
#define SHOWN(v) NUMBER(v)
#define SUMMED(v) (v)
#else
#define SHOWN(v) (v)
#define SUMMED(v) STORED(v)
#endif
#if IS_INTEGER && !ENDS_IN_INTEGERS
#define LAST(v) NUMBER(v)
#else
#define LAST(v) (v)
#endif
#define NOTHING STORED((V)(0))
#define VANILLA 0
#define LSTM 1
#define GRU 2
#define LINEAR_GRU 3

#define CLEAR(i, g) V sum##i##_##g = (V)(0);
#define CLEAR_ROW(i) EACH_V(CLEAR, i)
#define LOAD(i, g)                                                                                                       \
    V w_##g;                                                                                                             \
    {                                                                                                                    \
        const idx gate = g;                                                                                              \
        w_##g = PASTE(LD_, MATRIX)(PASTE(OFF_, MATRIX), PASTE(LANES_OF_, MATRIX));                                       \
    }
#define MULTIPLY(i, g) sum##i##_##g += x * w_##g;
#define SAVE(i, g) sums[i * ALL_V + g] = sum##i##_##g;
#define SAVE_ROW(i) EACH_V(SAVE, i)
// Sequences behind the last one read that again.
#define MULTIPLY_ROW(i)                                                                                                  \
    {                                                                                                                    \
        const idx n = min(first + i, end_n - 1);                                                                         \
        const R x = FACTOR(PASTE(LD1_, OPERAND)(PASTE(OFF_, OPERAND)));                                                  \
        EACH_V(MULTIPLY, i)                                                                                              \
    }
#define PRODUCT(TERMS)                                                                                                   \
    {                                                                                                                    \
        EACH_N(CLEAR_ROW)                                                                                                \
        for (idx k = 0; k < TERMS; ++k) {                                                                                \
            EACH_V(LOAD, 0)                                                                                              \
            EACH_N(MULTIPLY_ROW)                                                                                         \
        }                                                                                                                \
        EACH_N(SAVE_ROW)                                                                                                 \
    }
// Takes the shift off the products of the inputs, and the scales off all products.
#define WEIGH(sum)                                                                                                       \
    sum = (sum - SHIFT * LD_WEIGHTS_SUMS(OFF_WEIGHTS_SUMS, lanes)) / (SCALE * LD_WEIGHTS_SCALES(OFF_WEIGHTS_SCALES, lanes));
// The sum of a gate.
#define SUM(name, number)                                                                                                \
    V name = sums[i * ALL_V + number];                                                                                   \
    {                                                                                                                    \
        const idx gate = number;                                                                                         \
        name += LD_GATES(OFF_GATES, lanes);                                                                              \
        IF_WEIGHTS_SCALES(WEIGH(name))                                                                                   \
        IF_BIAS(name += LD_BIAS(OFF_BIAS, lanes);)                                                                       \
        IF_STATE_BIAS(name += LD_STATE_BIAS(OFF_STATE_BIAS, lanes);)                                                     \
    }
#define PEEP(sum, number, cell)                                                                                          \
    IF_PEEPHOLES({                                                                                                       \
        const idx gate = number;                                                                                         \
        sum += LD_PEEPHOLES(OFF_PEEPHOLES, lanes) * cell;                                                                \
    })
#define KEEP_GATE(number, value)                                                                                         \
    IF_WORKSPACE({                                                                                                       \
        const idx gate = number;                                                                                         \
        KEEP_WORKSPACE(OFF_WORKSPACE, lanes, value);                                                                     \
    })
#define EACH_BLOCK(COUNT)                                                                                                \
    for (idx block = item; block * LANES < (COUNT); block += items)                                                      \
        for (int lanes = (int)min((idx)LANES, (idx)(COUNT) - block * LANES), once = 1; once; once = 0)
#define EACH_TILE for (idx first = first_n; first < end_n; first += TILE_N)
#define EACH_ROW for (int i = 0; i < (int)min((idx)TILE_N, end_n - first); ++i)
#define LENGTH                                                                                                           \
    idx length = STEPS;                                                                                                  \
    IF_LENGTHS(length = min(max((idx)NAT1_LENGTHS(OFF_LENGTHS), (idx)0), (idx)STEPS);)
// The sequence of a row and its step.
#define PLACE                                                                                                            \
    const idx n = first + i;                                                                                             \
    LENGTH                                                                                                               \
    const idx step = backward ? length - 1 - t : t;
#define SHOW(state)                                                                                                      \
    {                                                                                                                    \
        const V stored_state = STORED(state);                                                                            \
        SHOW_STATE(stored_state)                                                                                         \
        NEXT_STATE(stored_state)                                                                                         \
    }
#if ADDS_UP
#define SHOW_STATE(state)                                                                                                \
    if (way == 0) {                                                                                                      \
        KEEP_TOTALS(OFF_TOTALS, lanes, NUMBER(state));                                                                   \
    } else {                                                                                                             \
        const V total = LD_TOTALS(OFF_TOTALS, lanes) + NUMBER(state);                                                    \
        KEEP_DST(OFF_DST, lanes, SUMMED(total));                                                                         \
    }
#else
#define SHOW_STATE(state) KEEP_DST(OFF_DST, lanes, SHOWN(state));
#endif
#define NEXT_STATE(state)                                                                                                \
    {                                                                                                                    \
        const V next_state = state;                                                                                      \
        const idx before = turn, turn = 1 - before;                                                                      \
        KEEP_STATES(OFF_STATES, lanes, next_state);                                                                      \
    }
#define SYNCHRONIZE barrier(CLK_GLOBAL_MEM_FENCE);

__kernel void recurrent_training(PARAMS) {
    ENTER
    const idx lane = 0, item = (idx)get_local_id(0), items = (idx)get_local_size(0);
    const idx first_n = (idx)get_group_id(1) * CHAIN_N, end_n = min(first_n + CHAIN_N, (idx)BATCH);
    for (idx way = 0; way < WAYS; ++way) {
        const idx d = WAYS == 1 ? (idx)get_group_id(2) : way;
        const int backward = BACKWARD;
        idx turn = 0, longest = 0;
        for (idx n = first_n; n < end_n; ++n) {
            LENGTH
            longest = max(longest, length);
            EACH_BLOCK(UNITS) {
                V state = NOTHING;
                IF_INITIAL_STATE(state = LD_INITIAL_STATE(OFF_INITIAL_STATE, lanes); state = GIVEN(state);)
                KEEP_STATES(OFF_STATES, lanes, state);
            }
#if CELL == LSTM
            EACH_BLOCK(HIDDEN) {
                V cell = (V)(0);
                IF_INITIAL_CELL(cell = LD_INITIAL_CELL(OFF_INITIAL_CELL, lanes);)
                KEEP_CELLS(OFF_CELLS, lanes, cell);
            }
#endif
        }
        SYNCHRONIZE
        for (idx t = 0; t < longest; ++t) {
#define OPERAND STATES_K
#define MATRIX STATE_WEIGHTS
#define EACH_V FIRST_V
            EACH_BLOCK(HIDDEN) {
#if CELL == GRU
                EACH_TILE {
                    V sums[TILE_N * ALL_V];
                    PRODUCT(UNITS)
                    EACH_ROW {
                        PLACE
                        if (t >= length) continue;
                        SUM(update, 0)
                        SUM(reset, 1)
                        update = eltwise_sigmoid(update);
                        reset = eltwise_sigmoid(reset);
                        KEEP_UPDATES(OFF_UPDATES, lanes, update);
                        KEEP_GATE(0, update)
                        KEEP_GATE(1, reset)
                        const V reset_state = reset * NUMBER(LD_STATES(OFF_STATES, lanes));
                        KEEP_KEPT(OFF_KEPT, lanes, STORED(reset_state));
                    }
                }
            }
            SYNCHRONIZE
#undef OPERAND
#undef EACH_V
#define OPERAND KEPT_K
#define EACH_V SECOND_V
            EACH_BLOCK(HIDDEN) {
#endif
                EACH_TILE {
                    V sums[TILE_N * ALL_V];
                    PRODUCT(UNITS)
                    EACH_ROW {
                        PLACE
                        if (t >= length) {
#if !PROJECTS
                            NEXT_STATE(LD_STATES(OFF_STATES, lanes))
#endif
                            continue;
                        }
                        V old = (V)(0);
#if PROJECTS
                        // What is behind the last unit of a state is zero in the workspace.
                        const int left = (int)min((idx)lanes, UNITS - block * LANES);
                        if (left > 0) old = NUMBER(LD_STATES(OFF_STATES, left));
#else
                        old = NUMBER(LD_STATES(OFF_STATES, lanes));
#endif
                        KEEP_GATE(ALL_V, old)
#if CELL == VANILLA
                        SUM(sum, 0)
                        const V state = ACTIVATION(sum);
                        KEEP_GATE(0, state)
#elif CELL == LSTM
                        const V old_cell = LD_CELLS(OFF_CELLS, lanes);
                        KEEP_GATE(ALL_V + 1, old_cell)
                        SUM(input, INPUT_GATE)
                        SUM(forget, FORGET_GATE)
                        SUM(candidate, CANDIDATE_GATE)
                        SUM(output, OUTPUT_GATE)
                        PEEP(input, INPUT_PEEPHOLE, old_cell)
                        PEEP(forget, FORGET_PEEPHOLE, old_cell)
                        input = eltwise_sigmoid(input);
                        forget = eltwise_sigmoid(forget);
                        candidate = eltwise_tanh(candidate);
                        const V cell = forget * old_cell + input * candidate;
                        PEEP(output, OUTPUT_PEEPHOLE, cell)
                        output = eltwise_sigmoid(output);
                        KEEP_GATE(INPUT_GATE, input)
                        KEEP_GATE(FORGET_GATE, forget)
                        KEEP_GATE(CANDIDATE_GATE, candidate)
                        KEEP_GATE(OUTPUT_GATE, output)
                        KEEP_CELLS(OFF_CELLS, lanes, cell);
                        const V state = output * eltwise_tanh(cell);
#else
                        V candidate, product = sums[i * ALL_V + 2];
                        {
                            const idx gate = 2;
                            candidate = LD_GATES(OFF_GATES, lanes);
                            IF_WEIGHTS_SCALES(candidate += product; product = (V)(0); WEIGH(candidate))
                            IF_BIAS(candidate += LD_BIAS(OFF_BIAS, lanes);)
                            IF_STATE_BIAS(product += LD_STATE_BIAS(OFF_STATE_BIAS, lanes);)
                        }
#if CELL == GRU
                        V update = LD_UPDATES(OFF_UPDATES, lanes);
#else
                        SUM(update, 0)
                        SUM(reset, 1)
                        update = eltwise_sigmoid(update);
                        reset = eltwise_sigmoid(reset);
                        KEEP_GATE(0, update)
                        KEEP_GATE(1, reset)
                        KEEP_GATE(ALL_V + 1, product)
                        product *= reset;
#endif
                        candidate = eltwise_tanh(candidate + product);
                        KEEP_GATE(2, candidate)
                        IF_ATTENTION(update *= (V)((R)1 - LD1_ATTENTION(OFF_ATTENTION));)
                        const V state = candidate + update * (old - candidate);
#endif
#if PROJECTS
                        KEEP_WHOLE(OFF_WHOLE, lanes, STORED(state));
#else
                        SHOW(state)
#endif
                    }
                }
            }
#undef OPERAND
#undef MATRIX
#undef EACH_V
            SYNCHRONIZE
#if PROJECTS
#define OPERAND WHOLE_K
#define MATRIX PROJECTION
#define EACH_V ONE_V
            EACH_BLOCK(UNITS) {
                EACH_TILE {
                    V sums[TILE_N * ALL_V];
                    PRODUCT(HIDDEN)
                    EACH_ROW {
                        PLACE
                        if (t < length) {
                            V state = sums[i * ALL_V];
                            IF_PROJECTION_SCALES(state /= SCALE * LD_PROJECTION_SCALES(OFF_PROJECTION_SCALES, lanes);)
                            SHOW(state)
                        } else {
                            NEXT_STATE(LD_STATES(OFF_STATES, lanes))
                        }
                    }
                }
            }
#undef OPERAND
#undef MATRIX
#undef EACH_V
            SYNCHRONIZE
#endif
            turn = 1 - turn;
        }
        for (idx n = first_n; n < end_n; ++n) {
            LENGTH
            EACH_BLOCK(UNITS) {
                IF_LAST_STATE(KEEP_LAST_STATE(OFF_LAST_STATE, lanes, LAST(LD_STATES(OFF_STATES, lanes)));)
                for (idx step = way == WAYS - 1 ? length : STEPS; step < STEPS; ++step) {
                    KEEP_DST(OFF_DST, lanes, SHOWN(NOTHING));
                }
            }
            EACH_BLOCK(HIDDEN) {
                IF_LAST_CELL(KEEP_LAST_CELL(OFF_LAST_CELL, lanes, LD_CELLS(OFF_CELLS, lanes));)
                for (idx step = length; step < STEPS; ++step) {
                    for (idx row = 0; row < ROWS; ++row) {
                        KEEP_GATE(row, (V)(0))
                    }
                }
            }
        }
        SYNCHRONIZE
    }
}
