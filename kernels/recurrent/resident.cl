// One launch for all steps on NVIDIA's devices, whose work-groups meet after each of them. A work-group has some hidden units with all their
// gates and keeps what multiplies the states in registers. Sums of a gate's units, cells and states are in registers, too: of states only
// what the products of the next step read goes through memory. In front of this stands resident_mma.cl or resident_simt.cl, which defines
//   GROUP, ROWS, UNITS   work-items, sequences and hidden units of a work-group
//   PITCH                words from the states of a sequence to those of the next one
//   OWN                  how many values of a step a work-item finishes, with OWN_ROW(u), OWN_UNIT(u) and FINISHES
//   DECLARE_PRODUCT, LOAD_WEIGHTS
//   PRODUCT(FROM, FIRST, COUNT)   sums up the products of the states at FROM with the weights of COUNT gates in `product`
//   SHARE(TO, values)    stores states for the products of the next step
//
// A chain is a direction of ROWS sequences. Its work-groups wait for one another, which needs all of them on the device at once. Who has
// waited for too long says so in `counts` and ends, and so do the others; the launch behind this one then computes the layer.
// Polls of a counter before giving up: about a second.
#define POLLS_AT_MOST (1 << 20)
// Words between two numbers that work-groups share, so that each is in a line of the cache of its own.
#define APART 32

// What another work-group has stored: past the first-level cache, which does not hear of it.
static inline uint4 shared_vector(const __global uint *from) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
}
static inline uint shared_number(const __global uint *from) {
    uint v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
    return v;
}
static inline void count_up(__global uint *at) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" : : "l"(at) : "memory");
}

// Says that what this work-group had to store is stored.
#define ARRIVE                                                                                                           \
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);                                                                 \
    if (item == 0) count_up(counter);                                                                                    \
    arrivals += groups;
// Until all work-groups of the chain have arrived.
#define WAIT                                                                                                             \
    if (item == 0) {                                                                                                     \
        int tries = 0;                                                                                                   \
        while (shared_number(counter) < arrivals && tries < POLLS_AT_MOST) {                                             \
            ++tries;                                                                                                     \
            if (tries % 1024 == 0 && shared_number(gave_up) != 0) tries = POLLS_AT_MOST;                                 \
        }                                                                                                                \
        if (tries == POLLS_AT_MOST) count_up(gave_up);                                                                   \
        ends = tries == POLLS_AT_MOST;                                                                                   \
    }                                                                                                                    \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                        \
    if (ends) return;

// The sum of a gate.
#define SUM(name, number) float name = product[number][u] + given[number][u];
// The values of a work-item that there are.
#define EACH_UNIT                                                                                                        \
    _Pragma("unroll") for (int u = 0; u < OWN; ++u)                                                                      \
        for (idx unit = first_unit + OWN_UNIT(u), n = first_n + OWN_ROW(u), once = 1;                                    \
             once && FINISHES && n < BATCH && unit < HIDDEN; once = 0)
// The sums that do not depend on states, of the step that comes next.
#define FETCH_GIVEN(t)                                                                                                   \
    EACH_UNIT {                                                                                                          \
        if ((t) < length[u]) {                                                                                           \
            const idx step = backward ? length[u] - 1 - (t) : (t);                                                       \
            EACH(g, GATES_COUNT) {                                                                                       \
                const idx gate = g;                                                                                      \
                given[g][u] = LD1_GATES(OFF_GATES);                                                                      \
                IF_BIAS(given[g][u] += LD1_BIAS(OFF_BIAS);)                                                              \
                IF_STATE_BIAS(if (CELL != LINEAR_GRU || g != 2) given[g][u] += LD1_STATE_BIAS(OFF_STATE_BIAS);)          \
            }                                                                                                            \
        }                                                                                                                \
    }

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void recurrent_resident(PARAMS) {
    ENTER
    __local int ends;
    const int item = (int)get_local_id(0);
    const uint groups = (uint)get_num_groups(0);
    const int chain = FIRST_CHAIN + (int)get_group_id(1);
    const idx d = chain / CHAINS_OF_WAY, first_n = (idx)(chain % CHAINS_OF_WAY) * ROWS;
    const idx first_unit = (idx)get_group_id(0) * UNITS;
    const int backward = BACKWARD;
    __global uint *const gave_up = (__global uint *)counts;
    __global uint *const counter = gave_up + (size_t)(1 + chain) * APART;
    // States before a step and behind it change places; then, of a cell with two products, the states that the reset gate left.
    __global uint *const states = gave_up + (size_t)(1 + CHAINS) * APART + (size_t)chain * BUFFERS * (ROWS * PITCH);
    uint arrivals = 0;
    DECLARE_PRODUCT
    LOAD_WEIGHTS

    idx length[OWN];
    float state[OWN], cell[OWN], given[GATES_COUNT][OWN], product[GATES_COUNT][OWN];
    EACH(u, OWN) {
        length[u] = STEPS;
        state[u] = cell[u] = 0;
    }
    EACH_UNIT {
        IF_LENGTHS(length[u] = min(max((idx)NAT1_LENGTHS(OFF_LENGTHS), (idx)0), (idx)STEPS);)
        IF_INITIAL_STATE(state[u] = LD1_INITIAL_STATE(OFF_INITIAL_STATE);)
        IF_INITIAL_CELL(cell[u] = LD1_INITIAL_CELL(OFF_INITIAL_CELL);)
    }
    SHARE(states, state)
    ARRIVE
    FETCH_GIVEN(0)
    for (int t = 0; t < STEPS; ++t) {
        const __global uint *const before = states + (t & 1) * (ROWS * PITCH);
        __global uint *const behind = states + (1 - (t & 1)) * (ROWS * PITCH);
        WAIT
#if CELL == GRU
        __global uint *const kept = states + 2 * (ROWS * PITCH);
        float update[OWN], left[OWN];
        EACH(u, OWN) left[u] = 0;
        PRODUCT(before, 0, 2)
        EACH_UNIT {
            if (t < length[u]) {
                SUM(of_update, 0)
                SUM(reset, 1)
                update[u] = eltwise_sigmoid(of_update);
                left[u] = eltwise_sigmoid(reset) * state[u];
            }
        }
        SHARE(kept, left)
        ARRIVE
        WAIT
        PRODUCT(kept, 2, 1)
#else
        PRODUCT(before, 0, GATES_COUNT)
#endif
        EACH_UNIT {
            if (t < length[u]) {
#if CELL == VANILLA
                SUM(sum, 0)
                state[u] = ACTIVATION(sum);
#elif CELL == LSTM
                const float old = cell[u];
                SUM(input, INPUT_GATE)
                SUM(forget, FORGET_GATE)
                SUM(candidate, CANDIDATE_GATE)
                SUM(output, OUTPUT_GATE)
                PEEP(input, INPUT_PEEPHOLE, old)
                PEEP(forget, FORGET_PEEPHOLE, old)
                const float next = eltwise_sigmoid(forget) * old + eltwise_sigmoid(input) * eltwise_tanh(candidate);
                PEEP(output, OUTPUT_PEEPHOLE, next)
                cell[u] = next;
                state[u] = eltwise_sigmoid(output) * eltwise_tanh(next);
#else
                float candidate = product[2][u];
#if CELL == LINEAR_GRU
                SUM(of_update, 0)
                SUM(reset, 1)
                const float of_old = eltwise_sigmoid(of_update);
                {
                    const idx gate = 2;
                    IF_STATE_BIAS(candidate += LD1_STATE_BIAS(OFF_STATE_BIAS);)
                }
                candidate *= eltwise_sigmoid(reset);
#else
                const float of_old = update[u];
#endif
                candidate = eltwise_tanh(candidate + given[2][u]);
                state[u] = candidate + of_old * (state[u] - candidate);
#endif
            }
        }
        SHARE(behind, state)
        ARRIVE
        // While the others still compute.
        EACH_UNIT {
            if (t < length[u]) {
                const idx step = backward ? length[u] - 1 - t : t;
                KEEP_STATE(state[u])
            }
        }
        if (t + 1 < STEPS) { FETCH_GIVEN(t + 1) }
    }
    EACH_UNIT {
        KEEP_LAST(state[u], cell[u], length[u])
    }
}
