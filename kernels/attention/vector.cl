// For CPUs: a work-item computes attention for QUERIES vectors of queries against blocks of T_BLOCK keys. Vectors run along the queries,
// so that the softmax needs no horizontal reductions and keys and values are read as scalars in place; queries and results that lie along
// their rows change places with `put_transposed`. Products are register tiles of TILE_M keys (or elements of values) x QUERIES vectors,
// repeated by EACH_M and EACH_V as in matmul/vector.cl. Local memory has room for T_ROOM keys. The last tile of a block starts so early
// that it is a whole one, too: what it computes again is the same, or not stored. SCORE, WEIGHT and SEE are those of reference.cl. Keys
// and values that must be converted are copied by blocks into local memory, COPY_WIDTH floats each, and read from there; IN_PLACE ones
// are f32 and mean what they are. KEEPS says that weights have room for all keys, so that of two passes the first one alone multiplies.
#define LANE_NUMBERS (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define CLEAR_ROW(i) EACH_V(CLEAR, i)
#define CLEAR(i, j) V sum##i##_##j = (V)(0);
#define LOAD_QUERY(i, j) const V b##j = queries[d * QUERIES + j];
#define MULTIPLY_KEY(i)                                                                                                  \
    {                                                                                                                    \
        const idx t = aim_t + i;                                                                                         \
        const R a = KEY(i);                                                                                              \
        EACH_V(MULTIPLY, i)                                                                                              \
    }
#define MULTIPLY(i, j) sum##i##_##j += a * b##j;
#define STORE_KEY(i) EACH_V(STORE_PRODUCT, i)
#define STORE_PRODUCT(i, j) to[i * QUERIES + j] = sum##i##_##j;
#define RESUME_ROW(i) EACH_V(RESUME, i)
#define RESUME(i, j) V sum##i##_##j = to[i * QUERIES + j] * shrink[j];
#define LOAD_WEIGHT(i, j) const V b##j = weights[r * QUERIES + j];
#define MULTIPLY_VALUE(i)                                                                                                \
    {                                                                                                                    \
        const idx e = aim_e + i;                                                                                         \
        const R a = VALUE(i);                                                                                            \
        EACH_V(MULTIPLY, i)                                                                                              \
    }
#define STORE_VALUE(i)                                                                                                   \
    if (aim_e + i >= first_e) {                                                                                          \
        EACH_V(STORE_SUM, i)                                                                                             \
    }
#define STORE_SUM(i, j) to[i * QUERIES + j] = sum##i##_##j;

// Rows of a tile are a constant distance apart, so that the addresses of all of them share one register.
#if COPIES_SRC1
#define KEYS const __local float *
#define AIM_KEYS copied + aim_r * COPY_WIDTH
#define KEY(i) key[i * COPY_WIDTH]
#define NEXT_D 1
#else
#define NEXT_D D_STEP
#if IN_PLACE_SRC1
#define KEYS const __global float *
#define AIM_KEYS (const __global float *)src1 + OFF_SRC1
#define KEY(i) ELEMENT(key, i * (idx)KEY_APART)
#else
#define KEYS idx
#define AIM_KEYS OFF_SRC1
#define KEY(i) DEQ1_SRC1(LD1_SRC1(key + i * KEY_APART))
#endif
#endif
#if COPIES_SRC2
#define VALUES const __local float *
#define AIM_VALUES copied + aim_e
#define VALUE(i) value[i]
#define NEXT_T COPY_WIDTH
#else
#define NEXT_T T_STEP
#if IN_PLACE_SRC2
#define VALUES const __global float *
#define AIM_VALUES (const __global float *)src2 + OFF_SRC2
#define VALUE(i) ELEMENT(value, i * (idx)VALUE_APART)
#else
#define VALUES idx
#define AIM_VALUES OFF_SRC2
#define VALUE(i) DEQ1_SRC2(LD1_SRC2(value + i * VALUE_APART))
#endif
#endif
#if ANYDNN_UNALIGNED
#define ELEMENT(p, i) as_float(vload4(0, (const __global uchar *)((p) + (i))))
#else
#define ELEMENT(p, i) (p)[i]
#endif
// For `r` below ROWS the elements that OFF_X addresses by `t` and VARIABLE.
#define COPY(X, VARIABLE, SIZE, ROWS)                                                                                    \
    for (int r = 0; r < ROWS; ++r) {                                                                                     \
        const idx t = first_t + r;                                                                                       \
        for (idx VARIABLE = 0; VARIABLE < SIZE; VARIABLE += COPY_STEP_##X)                                               \
            COPY_##X(OFF_##X, (int)min((idx)16, SIZE - VARIABLE), copied + r * COPY_WIDTH + VARIABLE)                    \
    }

// Defines `v`: the result at `e` for the vector `j` of queries.
#if TWO_PASSES
#define DIVIDED(v) v
#else
#define DIVIDED(v) (NOTHING_IS_ZERO ? (high == (V)(-INFINITY) ? (V)(0) : (v) * share) : (v) * share)
#endif
#define FINISH(v)                                                                                                        \
    V v = DIVIDED(sums[e * QUERIES + j]);                                                                                \
    POST_OPS(v, n)

// Vectors side by side hide each other's latencies, but what a score gathers beside the product is too much code to repeat.
#define EACH_QUERY _Pragma("unroll") for (int j = 0; j < QUERIES; ++j)
#if SCORES_ARE_PLAIN
#define EACH_SCORE EACH_QUERY
#else
#define EACH_SCORE for (int j = 0; j < QUERIES; ++j)
#endif
// How many of the 16 elements from `first` on exist.
#define PART_OF(size, first) (size % 16 == 0 ? 16 : (int)min((idx)16, size - first))

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
    __local V kept[WEIGHTS_ROOM * QUERIES];
    __local V sums[E_ROWS * QUERIES];
#if COPY_WIDTH
    __local float copied[T_ROOM * COPY_WIDTH];
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
#if LOAD_LINES
        const idx line_s = s;
        for (idx d = 0; d < D_SIZE; d += 16) {
            V line[16];
            NOT_UNROLLED for (int i = 0; i < 16; ++i) {
                const idx s = min(line_s + i, (idx)(S_SIZE - 1));
                line[i] = LOAD_LINE(OFF_SRC0, PART_OF(D_SIZE, d));
            }
            put_transposed(line, (__local float *)(queries + d * QUERIES + j), 16 * QUERIES);
        }
#else
        for (idx d = 0; d < D_SIZE; ++d)
            queries[d * QUERIES + j] = n > 0 ? DEQ_SRC0(LD_SRC0(OFF_SRC0, n), n) : (V)(0);
#endif
        for (int e = 0; e < E_ROWS; ++e) sums[e * QUERIES + j] = (V)(0);
    }
    for (int pass = TWO_PASSES ? 0 : 1; pass < 2; ++pass) {
        for (idx first_t = 0; first_t < T_SIZE; first_t += T_BLOCK) {
            const int keys = (int)min((idx)T_BLOCK, T_SIZE - first_t);
            __local V *const weights = kept + (KEEPS ? first_t : 0) * QUERIES;
#if HIDES
            {
                const idx s = min(first_s + 16 * QUERIES, (idx)S_SIZE) - 1, t = first_t;
                const int n = 1;
                SEE(0)
                if (SEEN == 0) break;
            }
#endif
            V high[QUERIES], base[QUERIES];
            EACH_QUERY high[j] = top[j];
            // The second pass finds the scores of the first one.
            const bool multiplies = !KEEPS || pass == 0;
#if COPIES_SRC1
            if (multiplies) COPY(SRC1, d, D_SIZE, keys)
#endif
            // A sequence that is shorter than a tile.
            for (int r = 0; multiplies && keys < TILE_M && r < keys; ++r) {
                const idx aim_t = first_t + r;
                const int aim_r = r;
                KEYS key;
                {
                    const idx t = aim_t, d = 0;
                    key = AIM_KEYS;
                }
                V sum[QUERIES];
                EACH_QUERY sum[j] = (V)(0);
                for (idx d = 0; d < D_SIZE; ++d) {
                    const idx t = aim_t;
                    const R a = KEY(0);
                    EACH_QUERY sum[j] += a * queries[d * QUERIES + j];
                    key += NEXT_D;
                }
                EACH_QUERY weights[r * QUERIES + j] = sum[j];
            }
            for (int r = 0; multiplies && keys >= TILE_M && r < keys; r += TILE_M) {
                const int aim_r = min(r, keys - TILE_M);
                const idx aim_t = first_t + aim_r;
                __local V *to = weights + aim_r * QUERIES;
                KEYS key;
                {
                    const idx t = aim_t, d = 0;
                    key = AIM_KEYS;
                }
                EACH_M(CLEAR_ROW)
                for (idx d = 0; d < D_SIZE; ++d) {
                    EACH_V(LOAD_QUERY, 0)
                    EACH_M(MULTIPLY_KEY)
                    key += NEXT_D;
                }
                EACH_M(STORE_KEY)
            }
            for (int r = 0; multiplies && r < keys; ++r) {
                const idx t = first_t + r;
                EACH_SCORE {
                    const idx s = first_s + 16 * j;
                    const int n = clamp((int)(S_SIZE - s), 0, 16);
                    const V dot_product = weights[r * QUERIES + j];
                    SCORE(dot_product)
                    weights[r * QUERIES + j] = SCORED;
                    high[j] = LARGER(SCORED, high[j]);
                }
            }
            EACH_QUERY base[j] = high[j] == (V)(-INFINITY) ? (V)(0) : high[j];
            if (!TWO_PASSES || pass == 0) {
                EACH_QUERY {
                    shrink[j] = exp_negative(top[j] - base[j]);
                    total[j] *= shrink[j];
                    top[j] = high[j];
                }
                for (int r = 0; r < keys; ++r) {
                    EACH_QUERY {
                        const V weight = exp_negative(weights[r * QUERIES + j] - base[j]);
                        if (!TWO_PASSES) weights[r * QUERIES + j] = weight;
                        total[j] += weight;
                    }
                }
            } else {
                for (int j = 0; j < QUERIES; ++j) {
                    const idx s = first_s + 16 * j;
                    const int n = clamp((int)(S_SIZE - s), 0, 16);
                    shrink[j] = (V)(1);
                    const V whole = INF_AS_ZERO ? (high[j] == (V)(-INFINITY) ? (V)(1) : total[j]) : total[j];
                    for (int r = 0; r < keys; ++r) {
                        const idx t = first_t + r;
                        const V share = exp_negative(weights[r * QUERIES + j] - base[j]) / whole;
                        WEIGHT(share)
                        weights[r * QUERIES + j] = WEIGHTED;
                    }
                }
            }
            if (pass == 0) continue;
#if COPIES_SRC2
            COPY(SRC2, e, E_SIZE, keys)
#endif
            for (idx first_e = 0; first_e < E_SIZE; first_e += TILE_M) {
                const idx aim_e = min(first_e, (idx)(E_SIZE - TILE_M));
                __local V *to = sums + aim_e * QUERIES;
                VALUES value;
                {
                    const idx t = first_t, e = aim_e;
                    value = AIM_VALUES;
                }
                EACH_M(RESUME_ROW)
                for (int r = 0; r < keys; ++r) {
                    const idx t = first_t + r;
                    EACH_V(LOAD_WEIGHT, 0)
                    EACH_M(MULTIPLY_VALUE)
                    value += NEXT_T;
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
        const V share = (V)(1) / whole;
#if STORE_LINES
        // Nothing reads the queries any more.
        __local float *square = (__local float *)queries;
        for (idx first_e = 0; first_e < E_SIZE; first_e += 16) {
            V line[16];
            NOT_UNROLLED for (int i = 0; i < 16; ++i) {
                line[i] = (V)(0);
                if (i >= PART_OF(E_SIZE, first_e)) continue;
                const idx e = first_e + i;
                FINISH(v)
                line[i] = v;
            }
            put_transposed(line, square, 16);
            const idx line_s = s, e = first_e;
            NOT_UNROLLED for (int i = 0; i < n; ++i) {
                const idx s = line_s + i;
                STORE_LINE(OFF_DST, PART_OF(E_SIZE, first_e), *(__local V *)(square + 16 * i));
            }
        }
#else
        for (idx e = 0; e < E_SIZE; ++e) {
            FINISH(v)
            ST_DST(OFF_DST, n, v);
        }
#endif
        STORE_STATISTICS(high + log(whole), n)
    }
}
