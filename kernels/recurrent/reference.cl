// For every device, layout and type: a work-group takes a sequence, and its work-items the hidden units, one step after the other.
// With HAS_GATES the products of the inputs are there already. CELL is one of the numbers below; a direction of its own is that of the
// third group number, or with ADDS_UP both, one after the other. With `counts` it computes what another launch gave up.
#define VANILLA 0
#define LSTM 1
#define GRU 2
#define LINEAR_GRU 3

#define OF_INPUT(sum)                                                                                                    \
    {                                                                                                                    \
        IF_GATES(sum += LD1_GATES(OFF_GATES);)                                                                           \
        IF_NO_GATES(for (idx k = 0; k < INPUTS; ++k) sum += LD1_SRC0(OFF_SRC0) * LD1_WEIGHTS(OFF_WEIGHTS);)              \
        IF_BIAS(sum += LD1_BIAS(OFF_BIAS);)                                                                              \
    }
#define OF_STATE(sum, X)                                                                                                 \
    {                                                                                                                    \
        for (idx k = 0; k < HIDDEN; ++k) sum += LD1_##X(OFF_##X) * LD1_STATE_WEIGHTS(OFF_STATE_WEIGHTS);                 \
        IF_STATE_BIAS(sum += LD1_STATE_BIAS(OFF_STATE_BIAS);)                                                            \
    }
// The sum of a gate.
#define SUM(name, number)                                                                                                \
    R name = 0;                                                                                                          \
    {                                                                                                                    \
        const idx gate = number;                                                                                         \
        OF_INPUT(name)                                                                                                   \
        OF_STATE(name, STATES_K)                                                                                          \
    }
#define PEEP(sum, number, cell)                                                                                          \
    IF_PEEPHOLES({                                                                                                       \
        const idx gate = number;                                                                                         \
        sum += LD1_PEEPHOLES(OFF_PEEPHOLES) * cell;                                                                      \
    })
#define EACH_UNIT for (idx unit = item; unit < HIDDEN; unit += items)
#define SYNCHRONIZE barrier(CLK_GLOBAL_MEM_FENCE);

__kernel void recurrent_reference(PARAMS) {
    ENTER
    IF_COUNTS(if (*(const __global int *)counts == 0) return;)
    const idx item = (idx)get_local_id(0), items = (idx)get_local_size(0), n = (idx)get_group_id(1);
    idx length = STEPS;
    IF_LENGTHS(length = min(max((idx)NAT1_LENGTHS(OFF_LENGTHS), (idx)0), (idx)STEPS);)
    for (idx way = 0; way < WAYS; ++way) {
        const idx d = WAYS == 1 ? (idx)get_group_id(2) : way;
        const int backward = BACKWARD;
        idx turn = 0;
        EACH_UNIT {
            R state = 0, cell = 0;
            IF_INITIAL_STATE(state = LD1_INITIAL_STATE(OFF_INITIAL_STATE);)
            IF_INITIAL_CELL(cell = LD1_INITIAL_CELL(OFF_INITIAL_CELL);)
            KEEP_STATES(OFF_STATES, 1, state);
            IF_CELLS(KEEP_CELLS(OFF_CELLS, 1, cell);)
        }
        SYNCHRONIZE
        for (idx i = 0; i < length; ++i) {
            const idx step = backward ? length - 1 - i : i;
#if CELL == GRU
            EACH_UNIT {
                SUM(reset, 1)
                KEEP_KEPT(OFF_KEPT, 1, eltwise_sigmoid(reset) * LD1_STATES(OFF_STATES));
            }
            SYNCHRONIZE
#endif
            EACH_UNIT {
                R next;
#if CELL == VANILLA
                SUM(sum, 0)
                next = ACTIVATION(sum);
#elif CELL == LSTM
                const R old = LD1_CELLS(OFF_CELLS);
                SUM(input, INPUT_GATE)
                SUM(forget, FORGET_GATE)
                SUM(candidate, CANDIDATE_GATE)
                SUM(output, OUTPUT_GATE)
                PEEP(input, INPUT_PEEPHOLE, old)
                PEEP(forget, FORGET_PEEPHOLE, old)
                const R cell = eltwise_sigmoid(forget) * old + eltwise_sigmoid(input) * eltwise_tanh(candidate);
                PEEP(output, OUTPUT_PEEPHOLE, cell)
                KEEP_CELLS(OFF_CELLS, 1, cell);
                next = eltwise_sigmoid(output) * eltwise_tanh(cell);
#else
                SUM(update, 0)
                R candidate = 0, of_state = 0;
                {
                    const idx gate = 2;
                    OF_INPUT(candidate)
#if CELL == GRU
                    OF_STATE(of_state, KEPT_K)
#else
                    OF_STATE(of_state, STATES_K)
#endif
                }
#if CELL == LINEAR_GRU
                SUM(reset, 1)
                of_state *= eltwise_sigmoid(reset);
#endif
                candidate = eltwise_tanh(candidate + of_state);
                next = candidate + eltwise_sigmoid(update) * (LD1_STATES(OFF_STATES) - candidate);
#endif
                const R shown = next;
                {
                    const idx before = turn, turn = 1 - before;
                    KEEP_STATES(OFF_STATES, 1, next);
                }
#if ADDS_UP
                if (way == 0) {
                    KEEP_TOTALS(OFF_TOTALS, 1, shown);
                } else {
                    KEEP_DST(OFF_DST, 1, LD1_TOTALS(OFF_TOTALS) + shown);
                }
#else
                KEEP_DST(OFF_DST, 1, shown);
#endif
            }
            SYNCHRONIZE
            turn = 1 - turn;
        }
        EACH_UNIT {
            IF_LAST_STATE(KEEP_LAST_STATE(OFF_LAST_STATE, 1, LD1_STATES(OFF_STATES));)
            IF_LAST_CELL(KEEP_LAST_CELL(OFF_LAST_CELL, 1, LD1_CELLS(OFF_CELLS));)
            if (way == WAYS - 1) {
                for (idx step = length; step < STEPS; ++step) KEEP_DST(OFF_DST, 1, (R)0);
            }
        }
        SYNCHRONIZE
    }
}
