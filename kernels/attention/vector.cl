// For CPUs: a work-item computes attention for QUERIES vectors of queries against blocks of T_BLOCK keys. Vectors run along the
// queries, so that the softmax needs no horizontal reductions and keys and values are read as scalars in place. Products are register
// tiles of TILE_M keys (or elements of values) x QUERIES vectors, repeated by EACH_M and EACH_V as in matmul/vector.cl. Keys past the
// last read it again and weigh nothing; elements past the last are not stored. SCORE, WEIGHT and SEE are those of reference.cl.
// Keys and values that must be converted are copied by blocks into local memory, COPY_WIDTH floats each, and read from there.
#define LANE_NUMBERS (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define CLEAR_ROW(i) EACH_V(CLEAR, i)
#define CLEAR(i, j) V sum##i##_##j = (V)(0);
#define AIM_KEY(i)                                                                                                       \
    const idx t##i = min(first_t + r + i, (idx)(T_SIZE - 1));                                                            \
    idx at##i;                                                                                                           \
    {                                                                                                                    \
        const idx t = t##i, d = 0;                                                                                       \
        at##i = OFF_SRC1;                                                                                                \
    }
#define LOAD_QUERY(i, j) const V b##j = queries[d * QUERIES + j];
#define MULTIPLY_KEY(i)                                                                                                  \
    {                                                                                                                    \
        const idx t = t##i;                                                                                              \
        const R a = KEY(i);                                                                                              \
        EACH_V(MULTIPLY, i)                                                                                              \
    }
#define MULTIPLY(i, j) sum##i##_##j += a * b##j;
#define STORE_KEY(i) EACH_V(STORE_PRODUCT, i)
#define STORE_PRODUCT(i, j) weights[(r + i) * QUERIES + j] = sum##i##_##j;
#if COPY_WIDTH
#define KEY(i) copied[(r + i) * COPY_WIDTH + d]
#define VALUE(i) copied[r * COPY_WIDTH + first_e + i]
// For `r` below ROWS the elements that OFF_X addresses by `t` and VARIABLE.
#define COPY(X, VARIABLE, SIZE, ROWS)                                                                                    \
    for (int r = 0; r < ROWS; ++r) {                                                                                     \
        const idx t = min(first_t + r, (idx)(T_SIZE - 1));                                                               \
        for (idx VARIABLE = 0; VARIABLE < SIZE; VARIABLE += COPY_STEP_##X)                                               \
            COPY_##X(OFF_##X, (int)min((idx)16, SIZE - VARIABLE), copied + r * COPY_WIDTH + VARIABLE)                    \
    }
#else
#define KEY(i) DEQ1_SRC1(LD1_SRC1(at##i + d * D_STEP))
#define VALUE(i) DEQ1_SRC2(LD1_SRC2(at##i + r * T_STEP))
#endif
#define AIM_VALUE(i)                                                                                                     \
    const idx e##i = min(first_e + i, (idx)(E_SIZE - 1));                                                                \
    idx at##i;                                                                                                           \
    {                                                                                                                    \
        const idx t = first_t, e = e##i;                                                                                 \
        at##i = OFF_SRC2;                                                                                                \
    }                                                                                                                    \
    EACH_V(RESUME, i)
#define RESUME(i, j) V sum##i##_##j = sums[(first_e + i) * QUERIES + j] * shrink[j];
#define LOAD_WEIGHT(i, j) const V b##j = weights[r * QUERIES + j];
#define MULTIPLY_VALUE(i)                                                                                                \
    {                                                                                                                    \
        const idx e = e##i;                                                                                              \
        const R a = VALUE(i);                                                                                            \
        EACH_V(MULTIPLY, i)                                                                                              \
    }
#define STORE_VALUE(i) EACH_V(STORE_SUM, i)
#define STORE_SUM(i, j) sums[(first_e + i) * QUERIES + j] = sum##i##_##j;

// e^x for x <= 0 (and NaN) as a power of two times a polynomial of the rest, exactly zero where a float is no longer normal. The coefficients
// are a minimax fit of 2^f on [-1/2, 1/2].
static inline V exp_negative(const V x) {
    const V y = x * 1.44269504088896341f;
    const V t = y < (V)(-126.0f) ? (V)(-126.0f) : y;
    const V z = t + 12582912.0f;
    const V f = t - (z - 12582912.0f);
    V p = (V)(1.327642832e-03f);
    p = p * f + 9.675540985e-03f;
    p = p * f + 5.550713409e-02f;
    p = p * f + 2.402211973e-01f;
    p = p * f + 6.931469670e-01f;
    p = p * f + 1.000000072e+00f;
    p *= AS(float, (AS(int, z) << 23) + 0x3f800000);
    return y < (V)(-126.0f) ? (V)(0.0f) : p;
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void attention_vector(PARAMS) {
    ENTER
    __local V queries[D_ROWS * QUERIES];
    __local V weights[T_BLOCK * QUERIES];
    __local V sums[E_ROWS * QUERIES];
#if COPY_WIDTH
    __local float copied[T_BLOCK * COPY_WIDTH];
#endif
    DECLARE_BATCH((idx)get_global_id(1))
    const idx first_s = (idx)get_global_id(0) * (16 * QUERIES);
    V top[QUERIES], total[QUERIES], shrink[QUERIES];
    for (int j = 0; j < QUERIES; ++j) {
        const idx s = first_s + 16 * j;
        const int n = clamp((int)(S_SIZE - s), 0, 16);
        top[j] = (V)(-INFINITY);
        total[j] = (V)(0);
        shrink[j] = (V)(1);
        for (idx d = 0; d < D_SIZE; ++d)
            queries[d * QUERIES + j] = n > 0 ? DEQ_SRC0(LD_SRC0(OFF_SRC0, n), n) : (V)(0);
        for (int e = 0; e < E_ROWS; ++e) sums[e * QUERIES + j] = (V)(0);
    }
    for (int pass = TWO_PASSES ? 0 : 1; pass < 2; ++pass) {
        for (idx first_t = 0; first_t < T_SIZE; first_t += T_BLOCK) {
            const int keys = (int)min((idx)T_BLOCK, T_SIZE - first_t);
#if HIDES
            {
                const idx s = min(first_s + 16 * QUERIES, (idx)S_SIZE) - 1, t = first_t;
                const int n = 1;
                SEE(0)
                if (SEEN == 0) break;
            }
#endif
#if COPY_WIDTH
            COPY(SRC1, d, D_SIZE, (keys + TILE_M - 1) / TILE_M * TILE_M)
#endif
            for (int r = 0; r < keys; r += TILE_M) {
                EACH_M(AIM_KEY)
                EACH_M(CLEAR_ROW)
                for (idx d = 0; d < D_SIZE; ++d) {
                    EACH_V(LOAD_QUERY, 0)
                    EACH_M(MULTIPLY_KEY)
                }
                EACH_M(STORE_KEY)
            }
            for (int j = 0; j < QUERIES; ++j) {
                const idx s = first_s + 16 * j;
                const int n = clamp((int)(S_SIZE - s), 0, 16);
                V high = top[j];
                for (int r = 0; r < keys; ++r) {
                    const idx t = first_t + r;
                    const V dot_product = weights[r * QUERIES + j];
                    SCORE(dot_product)
                    weights[r * QUERIES + j] = SCORED;
                    high = LARGER(SCORED, high);
                }
                const V base = high == (V)(-INFINITY) ? (V)(0) : high;
                if (!TWO_PASSES || pass == 0) {
                    shrink[j] = exp_negative(top[j] - base);
                    V sum = total[j] * shrink[j];
                    for (int r = 0; r < keys; ++r) {
                        const V weight = exp_negative(weights[r * QUERIES + j] - base);
                        weights[r * QUERIES + j] = weight;
                        sum += weight;
                    }
                    total[j] = sum;
                    top[j] = high;
                } else {
                    shrink[j] = (V)(1);
                    const V whole = INF_AS_ZERO ? (high == (V)(-INFINITY) ? (V)(1) : total[j]) : total[j];
                    for (int r = 0; r < keys; ++r) {
                        const idx t = first_t + r;
                        const V share = exp_negative(weights[r * QUERIES + j] - base) / whole;
                        WEIGHT(share)
                        weights[r * QUERIES + j] = WEIGHTED;
                    }
                }
            }
            if (pass == 0) continue;
#if COPY_WIDTH
            COPY(SRC2, e, E_SIZE, keys)
#endif
            for (idx first_e = 0; first_e < E_SIZE; first_e += TILE_M) {
                EACH_M(AIM_VALUE)
                for (int r = 0; r < keys; ++r) {
                    const idx t = first_t + r;
                    EACH_V(LOAD_WEIGHT, 0)
                    EACH_M(MULTIPLY_VALUE)
                }
                EACH_M(STORE_VALUE)
            }
        }
    }
    for (int j = 0; j < QUERIES; ++j) {
        const idx s = first_s + 16 * j;
        if (s >= S_SIZE) continue;
        const int n = (int)min((idx)16, S_SIZE - s);
        const V high = top[j], whole = total[j];
        for (idx e = 0; e < E_SIZE; ++e) {
            V v = sums[e * QUERIES + j];
#if !TWO_PASSES
            v /= whole;
            if (NOTHING_IS_ZERO) v = high == (V)(-INFINITY) ? (V)(0) : v;
#endif
            POST_OPS(v, n)
            ST_DST(OFF_DST, n, v);
        }
        STORE_STATISTICS(high + log(whole), n)
    }
}
