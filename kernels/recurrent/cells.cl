// What the kernels that take all steps have in common: the numbers of the cells, and how results are kept. Loop variables have the names of the
// operands' addresses: `d` is the direction, `n` the sequence, `unit` the hidden unit, `step` its place in time.
#define VANILLA 0
#define LSTM 1
#define GRU 2
#define LINEAR_GRU 3
// What a cell adds to the sum of a gate.
#define PEEP(sum, number, cell)                                                                                          \
    IF_PEEPHOLES({                                                                                                       \
        const idx gate = number;                                                                                         \
        sum += LD1_PEEPHOLES(OFF_PEEPHOLES) * cell;                                                                      \
    })
// Keeps the state of a step. The second direction of a sum adds to what the first one has kept.
#if ADDS_UP
#define KEEP_STATE(state)                                                                                                \
    if (d == 0) {                                                                                                        \
        KEEP_TOTALS(OFF_TOTALS, 1, state);                                                                               \
    } else {                                                                                                             \
        KEEP_DST(OFF_DST, 1, LD1_TOTALS(OFF_TOTALS) + state);                                                            \
    }
#else
#define KEEP_STATE(state) KEEP_DST(OFF_DST, 1, state);
#endif
// Keeps what is there behind the last step of a sequence, and zeros for the steps that it lacks.
#define KEEP_LAST(state, cell, length)                                                                                   \
    IF_LAST_STATE(KEEP_LAST_STATE(OFF_LAST_STATE, 1, state);)                                                            \
    IF_LAST_CELL(KEEP_LAST_CELL(OFF_LAST_CELL, 1, cell);)                                                                \
    if (!ADDS_UP || d == 1) {                                                                                            \
        for (idx step = length; step < STEPS; ++step) KEEP_DST(OFF_DST, 1, (R)0);                                        \
    }
