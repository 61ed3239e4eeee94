// All steps of a few sequences by one work-group, for layers of few hidden units: what multiplies the states is in registers, a gate of a unit
// to a work-item, states and sums are in local memory, and nobody waits for another work-group. For any device with work-groups that large.
//   UNITS   room for hidden units, a multiple of four
//   ROWS    sequences of a work-group
//   AHEAD   steps whose inputs are on their way
#define GROUP (GATES_COUNT * UNITS)
// What a work-item finishes of a step: its unit of so many sequences.
#define OWN ((ROWS + GATES_COUNT - 1) / GATES_COUNT)
#define OWN_ROW(u) ((u) * GATES_COUNT + column)
#define EACH_OWN                                                                                                         \
    EACH(u, OWN)                                                                                                         \
    for (idx n = first_n + OWN_ROW(u), once = 1; once && OWN_ROW(u) < ROWS && n < BATCH && unit < HIDDEN; once = 0)
// Steps of a sequence, with `n`.
#define LENGTH(to)                                                                                                       \
    to = STEPS;                                                                                                          \
    IF_LENGTHS(to = min(max((idx)NAT1_LENGTHS(OFF_LENGTHS), (idx)0), (idx)STEPS);)
// Lets the inputs of the gate come for the steps from this one on; nobody looks at them before `given` takes them.
#define FETCH(first)                                                                                                     \
    EACH(s, AHEAD) {                                                                                                     \
        EACH(r, ROWS) {                                                                                                  \
            const idx n = first_n + r, gate = column, at = (first) + s;                                                  \
            coming[s][r] = 0;                                                                                            \
            if (at < ends[r] && unit < HIDDEN) {                                                                         \
                const idx step = backward ? ends[r] - 1 - at : at;                                                       \
                coming[s][r] = LD1_GATES(OFF_GATES);                                                                     \
            }                                                                                                            \
        }                                                                                                                \
    }
// The sums of the gate over the states of all sequences.
#define PRODUCT(FROM)                                                                                                    \
    EACH(r, ROWS) {                                                                                                      \
        float4 parts = 0.0f;                                                                                             \
        EACH(i, UNITS / 4) {                                                                                             \
            const float4 x = (FROM)[r][i];                                                                               \
            parts.x = fma(x.x, weights[4 * i], parts.x);                                                                 \
            parts.y = fma(x.y, weights[4 * i + 1], parts.y);                                                             \
            parts.z = fma(x.z, weights[4 * i + 2], parts.z);                                                             \
            parts.w = fma(x.w, weights[4 * i + 3], parts.w);                                                             \
        }                                                                                                                \
        product[r] = (parts.x + parts.y) + (parts.z + parts.w);                                                          \
    }
#define SUM(number) sums[OWN_ROW(u)][number][unit]
#define SHARE(TO, row, value) ((__local float *)(TO)[row])[unit] = value;
#define MEET barrier(CLK_LOCAL_MEM_FENCE);

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void recurrent_single_group(PARAMS) {
    ENTER
    __local float4 states[ROWS][UNITS / 4];
    __local float sums[ROWS][GATES_COUNT][UNITS];
    __local float given[AHEAD][ROWS][GROUP];
#if CELL == GRU
    __local float4 kept[ROWS][UNITS / 4];
#elif CELL == LINEAR_GRU
    // The inputs of the candidate, to which the reset gate does nothing.
    __local float candidates[ROWS][UNITS];
#endif
    const int item = (int)get_local_id(0), column = item / UNITS;
    const idx unit = item % UNITS, chain = FIRST_CHAIN + (idx)get_group_id(0);
    const idx d = chain / CHAINS_OF_WAY, first_n = chain % CHAINS_OF_WAY * ROWS;
    const int backward = BACKWARD;

    float weights[UNITS], coming[AHEAD][ROWS], product[ROWS];
    // What each step adds to the inputs of the gate, and to the product of a candidate that is reset.
    float always = 0, to_product = 0;
    {
        const idx gate = column;
        EACH(i, UNITS) {
            const idx k = i;
            weights[i] = 0;
            if (k < HIDDEN && unit < HIDDEN) weights[i] = LD1_STATE_WEIGHTS(OFF_STATE_WEIGHTS);
        }
        if (unit < HIDDEN) {
            IF_BIAS(always += LD1_BIAS(OFF_BIAS);)
            IF_STATE_BIAS(if (CELL == LINEAR_GRU && column == 2) to_product += LD1_STATE_BIAS(OFF_STATE_BIAS);
                          else always += LD1_STATE_BIAS(OFF_STATE_BIAS);)
        }
    }
    idx ends[ROWS], most = 0;
    EACH(r, ROWS) {
        const idx n = first_n + r;
        ends[r] = 0;
        if (n < BATCH) { LENGTH(ends[r]) }
        most = max(most, ends[r]);
    }
    idx length[OWN];
    float state[OWN], cell[OWN], update[OWN];
    EACH(u, OWN) length[u] = 0, state[u] = cell[u] = update[u] = 0;
    EACH_OWN {
        LENGTH(length[u])
        IF_INITIAL_STATE(state[u] = LD1_INITIAL_STATE(OFF_INITIAL_STATE);)
        IF_INITIAL_CELL(cell[u] = LD1_INITIAL_CELL(OFF_INITIAL_CELL);)
    }
    EACH(u, OWN) {
        if (OWN_ROW(u) < ROWS) {
            SHARE(states, OWN_ROW(u), state[u])
#if CELL == GRU
            SHARE(kept, OWN_ROW(u), 0)
#endif
        }
    }
    FETCH(0)
    for (idx t = 0; t < most; ++t) {
        const int slot = (int)(t % AHEAD);
        if (slot == 0) {
            EACH(s, AHEAD) {
                EACH(r, ROWS) given[s][r][item] = coming[s][r] + always;
            }
            FETCH(t + AHEAD)
        }
        MEET
#if CELL == GRU
        if (column < 2) {
            PRODUCT(states)
            EACH(r, ROWS) sums[r][column][unit] = product[r] + given[slot][r][item];
        }
        MEET
        EACH_OWN {
            if (t < length[u]) {
                update[u] = eltwise_sigmoid(SUM(0));
                SHARE(kept, OWN_ROW(u), eltwise_sigmoid(SUM(1)) * state[u])
            }
        }
        MEET
        if (column == 2) {
            PRODUCT(kept)
            EACH(r, ROWS) sums[r][2][unit] = product[r] + given[slot][r][item];
        }
#else
        PRODUCT(states)
        EACH(r, ROWS) {
            float sum = product[r] + given[slot][r][item];
#if CELL == LINEAR_GRU
            if (column == 2) {
                candidates[r][unit] = given[slot][r][item];
                sum = product[r] + to_product;
            }
#endif
            sums[r][column][unit] = sum;
        }
#endif
        MEET
        EACH_OWN {
            if (t < length[u]) {
#if CELL == VANILLA
                const float sum = SUM(0);
                state[u] = ACTIVATION(sum);
#elif CELL == LSTM
                const float old = cell[u];
                float input = SUM(INPUT_GATE), forget = SUM(FORGET_GATE), output = SUM(OUTPUT_GATE);
                PEEP(input, INPUT_PEEPHOLE, old)
                PEEP(forget, FORGET_PEEPHOLE, old)
                const float next =
                    eltwise_sigmoid(forget) * old + eltwise_sigmoid(input) * eltwise_tanh(SUM(CANDIDATE_GATE));
                PEEP(output, OUTPUT_PEEPHOLE, next)
                cell[u] = next;
                state[u] = eltwise_sigmoid(output) * eltwise_tanh(next);
#else
#if CELL == LINEAR_GRU
                update[u] = eltwise_sigmoid(SUM(0));
                const float candidate =
                    eltwise_tanh(SUM(2) * eltwise_sigmoid(SUM(1)) + candidates[OWN_ROW(u)][unit]);
#else
                const float candidate = eltwise_tanh(SUM(2));
#endif
                state[u] = candidate + update[u] * (state[u] - candidate);
#endif
                SHARE(states, OWN_ROW(u), state[u])
                const idx step = backward ? length[u] - 1 - t : t;
                KEEP_STATE(state[u])
            }
        }
    }
    EACH_OWN {
        KEEP_LAST(state[u], cell[u], length[u])
    }
}
