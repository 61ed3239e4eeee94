// For every device: the gradients by the sums of the gates of all steps, from the last to the first, of CHAIN_N sequences in one direction for
// each work-group, whose work-items share the units, LANES at a time. OF_STATE is the gradient by the state, OF_CELL that by the cell; TURNED are
// the state's weights with the units that they belong to in the last dimension. Of a linear product before the reset the candidate has two
// such sums: that of the input's products, and behind the gates that of the state's.
#define VANILLA 0
#define LSTM 1
#define GRU 2
#define LINEAR_GRU 3
// The sums of the gates through which the state before a step is seen.
#define SEEN_GATES (CELL == GRU ? 2 : GATES_COUNT)
#define SEEN_ROW(gate) (CELL == LINEAR_GRU && (gate) == 2 ? 3 : (gate))

#define CLEAR_ROW(i) V sum##i = (V)(0);
// Where a row's factors begin; sequences behind the last one read that again, those that have not begun their first step.
#define ROW_AT(i)                                                                                                        \
    idx row_##i;                                                                                                         \
    {                                                                                                                    \
        const idx n = min(first + i, end_n - 1), k = 0, gate = row;                                                      \
        LENGTH                                                                                                           \
        const idx step = max((idx)(backward ? length - 1 - t : min((idx)t, length - 1)), (idx)0);                        \
        row_##i = PASTE(OFF_, OPERAND);                                                                                  \
    }
#define MULTIPLY_ROW(i) sum##i += PASTE(LD1_, OPERAND)(row_##i + k) * w;
#define SAVE_ROW(i) sums[i] = sum##i;
// Adds the products of a row of each sequence and the matrix of a gate.
#define ADD_PRODUCT(number, matrix_gate, TERMS)                                                                          \
    {                                                                                                                    \
        const idx row = number;                                                                                          \
        EACH_N(ROW_AT)                                                                                                   \
        const idx gate = matrix_gate;                                                                                    \
        for (idx k = 0; k < TERMS; ++k) {                                                                                \
            const V w = PASTE(LD_, MATRIX)(PASTE(OFF_, MATRIX), PASTE(LANES_OF_, MATRIX));                               \
            EACH_N(MULTIPLY_ROW)                                                                                         \
        }                                                                                                                \
    }
#define GATE(name, number)                                                                                               \
    V name;                                                                                                              \
    {                                                                                                                    \
        const idx gate = number;                                                                                         \
        name = LD_WORKSPACE(OFF_WORKSPACE, lanes);                                                                       \
    }
#define KEEP_SUM(number, value)                                                                                          \
    {                                                                                                                    \
        const idx gate = number;                                                                                         \
        KEEP_OF_SUMS(OFF_OF_SUMS, lanes, value);                                                                               \
    }
#define PEEP(name, number)                                                                                               \
    V name = (V)(0);                                                                                                     \
    IF_PEEPHOLES({                                                                                                       \
        const idx gate = number;                                                                                         \
        name = LD_PEEPHOLES(OFF_PEEPHOLES, lanes);                                                                       \
    })
#define ADD_PEEP(number, value)                                                                                          \
    IF_OF_PEEPHOLES({                                                                                                    \
        const idx gate = number;                                                                                         \
        KEEP_OF_PEEPHOLES(OFF_OF_PEEPHOLES, lanes, LD_OF_PEEPHOLES(OFF_OF_PEEPHOLES, lanes) + (value));                  \
    })
#define EACH_BLOCK(COUNT)                                                                                                \
    for (idx block = item; block * LANES < (COUNT); block += items)                                                      \
        for (int lanes = (int)min((idx)LANES, (idx)(COUNT) - block * LANES), once = 1; once; once = 0)
#define EACH_TILE for (idx first = first_n; first < end_n; first += TILE_N)
#define EACH_ROW for (int i = 0; i < (int)min((idx)TILE_N, end_n - first); ++i)
#define LENGTH                                                                                                           \
    idx length = STEPS;                                                                                                  \
    IF_LENGTHS(length = min(max((idx)NAT1_LENGTHS(OFF_LENGTHS), (idx)0), (idx)STEPS);)
#define PLACE                                                                                                            \
    const idx n = first + i;                                                                                             \
    LENGTH                                                                                                               \
    if (t >= length) continue;                                                                                           \
    const idx step = backward ? length - 1 - t : t;
#define SYNCHRONIZE barrier(CLK_GLOBAL_MEM_FENCE);

__kernel void recurrent_backward(PARAMS) {
    ENTER
    const idx lane = 0, item = (idx)get_local_id(0), items = (idx)get_local_size(0), d = (idx)get_group_id(2);
    const idx first_n = (idx)get_group_id(1) * CHAIN_N, end_n = min(first_n + CHAIN_N, (idx)BATCH);
    const int backward = BACKWARD;
    const V one = (V)(1);
    idx longest = 0;
    for (idx n = first_n; n < end_n; ++n) {
        LENGTH
        longest = max(longest, length);
        EACH_BLOCK(UNITS) {
            V by = (V)(0);
            IF_DIFF_LAST_STATE(by = LD_DIFF_LAST_STATE(OFF_DIFF_LAST_STATE, lanes);)
            KEEP_OF_STATE(OFF_OF_STATE, lanes, by);
            for (idx step = length; step < STEPS; ++step) {
                IF_OF_STATES(KEEP_OF_STATES(OFF_OF_STATES, lanes, (V)(0));)
            }
        }
        EACH_BLOCK(HIDDEN) {
            V by = (V)(0);
            IF_DIFF_LAST_CELL(by = LD_DIFF_LAST_CELL(OFF_DIFF_LAST_CELL, lanes);)
            IF_OF_CELL(KEEP_OF_CELL(OFF_OF_CELL, lanes, by);)
            for (idx gate = 0; gate < 3; ++gate) {
                IF_OF_PEEPHOLES(KEEP_OF_PEEPHOLES(OFF_OF_PEEPHOLES, lanes, (V)(0));)
            }
            for (idx step = length; step < STEPS; ++step) {
                for (idx gate = 0; gate < SUMS_COUNT; ++gate) KEEP_OF_SUMS(OFF_OF_SUMS, lanes, (V)(0));
                IF_KEPT(KEEP_KEPT(OFF_KEPT, lanes, (V)(0));)
                IF_WHOLE(KEEP_WHOLE(OFF_WHOLE, lanes, (V)(0));)
                IF_OF_ATTENTION(KEEP_OF_ATTENTION(OFF_OF_ATTENTION, lanes, (V)(0));)
            }
        }
    }
    SYNCHRONIZE
    for (idx t = longest - 1; t >= 0; --t) {
#if PROJECTS
        EACH_BLOCK(UNITS) {
            EACH_TILE {
                EACH_ROW {
                    PLACE
                    const V by = LD_OF_STATE(OFF_OF_STATE, lanes) + LD_DIFF_DST(OFF_DIFF_DST, lanes);
                    KEEP_OF_STATES(OFF_OF_STATES, lanes, by);
                }
            }
        }
        SYNCHRONIZE
#endif
        EACH_BLOCK(HIDDEN) {
            EACH_TILE {
#if PROJECTS
#define OPERAND OF_STATES_K
#define MATRIX TURNED_PROJECTION
                V sums[TILE_N];
                {
                    EACH_N(CLEAR_ROW)
                    ADD_PRODUCT(0, 0, UNITS)
                    EACH_N(SAVE_ROW)
                }
#undef OPERAND
#undef MATRIX
#endif
                EACH_ROW {
                    PLACE
#if PROJECTS
                    const V by = sums[i];
#else
                    const V by = LD_OF_STATE(OFF_OF_STATE, lanes) + LD_DIFF_DST(OFF_DIFF_DST, lanes);
#endif
#if CELL == VANILLA
                    GATE(y, 0)
                    KEEP_SUM(0, by * SLOPE(y))
#elif CELL == LSTM
                    GATE(input, INPUT_GATE)
                    GATE(forget, FORGET_GATE)
                    GATE(candidate, CANDIDATE_GATE)
                    GATE(output, OUTPUT_GATE)
                    GATE(old, GATES_COUNT + 1)
                    PEEP(of_input_cell, INPUT_PEEPHOLE)
                    PEEP(of_forget_cell, FORGET_PEEPHOLE)
                    PEEP(of_output_cell, OUTPUT_PEEPHOLE)
                    const V cell = forget * old + input * candidate;
                    const V bent = eltwise_tanh(cell);
                    IF_WHOLE(KEEP_WHOLE(OFF_WHOLE, lanes, output * bent);)
                    const V by_output = by * bent * output * (one - output);
                    const V by_cell = LD_OF_CELL(OFF_OF_CELL, lanes) + by * output * (one - bent * bent) + by_output * of_output_cell;
                    const V by_input = by_cell * candidate * input * (one - input);
                    const V by_forget = by_cell * old * forget * (one - forget);
                    const V before = by_cell * forget + by_input * of_input_cell + by_forget * of_forget_cell;
                    KEEP_OF_CELL(OFF_OF_CELL, lanes, before);
                    KEEP_SUM(INPUT_GATE, by_input)
                    KEEP_SUM(FORGET_GATE, by_forget)
                    KEEP_SUM(CANDIDATE_GATE, by_cell * input * (one - candidate * candidate))
                    KEEP_SUM(OUTPUT_GATE, by_output)
                    ADD_PEEP(INPUT_PEEPHOLE, by_input * old)
                    ADD_PEEP(FORGET_PEEPHOLE, by_forget * old)
                    ADD_PEEP(OUTPUT_PEEPHOLE, by_output * cell)
#else
                    GATE(update, 0)
                    GATE(reset, 1)
                    GATE(candidate, 2)
                    GATE(old, GATES_COUNT)
                    V factor = one;
                    IF_ATTENTION(factor = (V)((R)1 - LD1_ATTENTION(OFF_ATTENTION));)
                    const V mixed = factor * update;
                    const V by_mixed = by * (old - candidate);
                    const V by_candidate = by * (one - mixed) * (one - candidate * candidate);
                    KEEP_SUM(0, by_mixed * factor * update * (one - update))
                    KEEP_SUM(2, by_candidate)
                    KEEP_OF_STATE(OFF_OF_STATE, lanes, by * mixed);
                    IF_OF_ATTENTION(KEEP_OF_ATTENTION(OFF_OF_ATTENTION, lanes, -by_mixed * update);)
#if CELL == GRU
                    IF_KEPT(KEEP_KEPT(OFF_KEPT, lanes, reset * old);)
#else
                    GATE(product, GATES_COUNT + 1)
                    KEEP_SUM(1, by_candidate * product * reset * (one - reset))
                    KEEP_SUM(3, by_candidate * reset)
#endif
#endif
                }
            }
        }
        SYNCHRONIZE
#define OPERAND OF_SUMS_K
#define MATRIX TURNED
#if CELL == GRU
        EACH_BLOCK(HIDDEN) {
            EACH_TILE {
                V sums[TILE_N];
                {
                    EACH_N(CLEAR_ROW)
                    ADD_PRODUCT(2, 2, HIDDEN)
                    EACH_N(SAVE_ROW)
                }
                EACH_ROW {
                    PLACE
                    GATE(reset, 1)
                    GATE(old, GATES_COUNT)
                    KEEP_SUM(1, sums[i] * old * reset * (one - reset))
                    KEEP_OF_STATE(OFF_OF_STATE, lanes, LD_OF_STATE(OFF_OF_STATE, lanes) + sums[i] * reset);
                }
            }
        }
        SYNCHRONIZE
#endif
        EACH_BLOCK(UNITS) {
            EACH_TILE {
                V sums[TILE_N];
                {
                    EACH_N(CLEAR_ROW)
                    for (idx seen = 0; seen < SEEN_GATES; ++seen) ADD_PRODUCT(SEEN_ROW(seen), seen, HIDDEN)
                    EACH_N(SAVE_ROW)
                }
                EACH_ROW {
                    PLACE
#if CELL == GRU || CELL == LINEAR_GRU
                    KEEP_OF_STATE(OFF_OF_STATE, lanes, LD_OF_STATE(OFF_OF_STATE, lanes) + sums[i]);
#else
                    KEEP_OF_STATE(OFF_OF_STATE, lanes, sums[i]);
#endif
                }
            }
        }
        SYNCHRONIZE
#undef OPERAND
#undef MATRIX
    }
    for (idx n = first_n; n < end_n; ++n) {
        EACH_BLOCK(UNITS) {
            IF_DIFF_INITIAL_STATE(KEEP_DIFF_INITIAL_STATE(OFF_DIFF_INITIAL_STATE, lanes, LD_OF_STATE(OFF_OF_STATE, lanes));)
        }
        EACH_BLOCK(HIDDEN) {
            IF_DIFF_INITIAL_CELL(KEEP_DIFF_INITIAL_CELL(OFF_DIFF_INITIAL_CELL, lanes, LD_OF_CELL(OFF_OF_CELL, lanes));)
        }
    }
}
