// For CPUs, where queries are few: a work-item computes attention for one query. Vectors run along the elements of queries, keys and values,
// which lie side by side; the products of 16 keys are joined into a vector along the keys, so that scores and weights are computed 16 at a
// time. Keys pass in blocks of T_BLOCK, with a running maximum; a block's weights wait in local memory for the values.
// SCORE and SEE are those of reference.cl; their lanes run along the keys.
//   LOAD_QUERY(o, n), LOAD_KEY(o, n), LOAD_VALUE(o, n)   n elements of an operand's line from offset o, zeros behind them
//   STORE_LINE(o, n, v)                                  the same of the result
#define LANE_NUMBERS (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define VECTORS(size) ((size + 15) / 16)
// How many elements of a line of `size` are in its vector `i`.
#define PART_OF(size, i) (size % 16 == 0 || i < size / 16 ? 16 : size % 16)
// NaN makes the sum NaN; the largest score need not be.
#define JOIN_ALL(OPERATION, x)                                                                                           \
    const float8 halves = OPERATION(x.lo, x.hi);                                                                         \
    const float4 quarters = OPERATION(halves.lo, halves.hi);                                                             \
    const float2 pair = OPERATION(quarters.lo, quarters.hi);                                                             \
    return OPERATION(pair.x, pair.y);

// The product of the query and a key, not yet joined.
#define MULTIPLY(i)                                                                                                      \
    {                                                                                                                    \
        const idx t = first_t + r + (i);                                                                                 \
        V product = (V)(0);                                                                                              \
        _Pragma("unroll") for (int j = 0; j < VECTORS(D_SIZE); ++j) {                                                    \
            const idx d = 16 * j;                                                                                        \
            product += query[j] * LOAD_KEY(OFF_SRC1, PART_OF(D_SIZE, j));                                                \
        }                                                                                                                \
        products[i] = product;                                                                                           \
    }

static inline R largest_of(const V x) { JOIN_ALL(PLAIN_LARGER, x) }
static inline R sum_of(const V x) { JOIN_ALL(PLUS, x) }

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void attention_decode(PARAMS) {
    ENTER
    __local V weights[T_BLOCK / 16];
    DECLARE_BATCH((idx)get_global_id(1))
    const idx s = (idx)get_global_id(0);
    V query[VECTORS(D_SIZE)], sums[VECTORS(E_SIZE)];
    _Pragma("unroll") for (int i = 0; i < VECTORS(D_SIZE); ++i) {
        const idx d = 16 * i;
        query[i] = LOAD_QUERY(OFF_SRC0, PART_OF(D_SIZE, i));
    }
    _Pragma("unroll") for (int i = 0; i < VECTORS(E_SIZE); ++i) sums[i] = (V)(0);
    R top = -INFINITY;
    V total = (V)(0);
    for (idx first_t = 0; first_t < T_SIZE; first_t += T_BLOCK) {
        const int keys = (int)min((idx)T_BLOCK, T_SIZE - first_t);
#if HIDES
        {
            const idx t = first_t;
            const int n = 1;
            SEE(0)
            if (SEEN == 0) break;
        }
#endif
        V highest = (V)(-INFINITY);
        for (int r = 0; r < keys; r += 16) {
            V products[16];
            const int some = min(keys - r, 16);
            if (some == 16) {
                _Pragma("unroll 4") for (int i = 0; i < 16; ++i) MULTIPLY(i)
            } else {
                NOT_UNROLLED for (int i = 0; i < some; ++i) MULTIPLY(i)
                NOT_UNROLLED for (int i = some; i < 16; ++i) products[i] = (V)(0);
            }
            const V dot_product = sums_of(products);
            const idx t = first_t + r;
            const int n = min(keys - r, 16);
            SCORE(dot_product)
            const V score = LANE_NUMBERS < (int16)(n) ? SCORED : (V)(-INFINITY);
            weights[r / 16] = score;
            highest = PLAIN_LARGER(highest, score);
        }
        const R high = PLAIN_LARGER(top, largest_of(highest));
        const R base = high == -INFINITY ? 0 : high;
        const R shrink = EXP_NEGATIVE((V)(top - base)).s0;
        top = high;
        total *= (V)(shrink);
        for (int r = 0; r < keys; r += 16) {
            const V weight = EXP_NEGATIVE(weights[r / 16] - (V)(base));
            weights[r / 16] = weight;
            total += weight;
        }
        _Pragma("unroll") for (int i = 0; i < VECTORS(E_SIZE); ++i) sums[i] *= (V)(shrink);
        for (int r = 0; r < keys; ++r) {
            const idx t = first_t + r;
            const V weight = (V)(((const __local R *)weights)[r]);
            _Pragma("unroll") for (int i = 0; i < VECTORS(E_SIZE); ++i) {
                const idx e = 16 * i;
                sums[i] += weight * LOAD_VALUE(OFF_SRC2, PART_OF(E_SIZE, i));
            }
        }
    }
    const V share = (V)(NOTHING_IS_ZERO && top == -INFINITY ? 0 : 1 / sum_of(total));
    _Pragma("unroll") for (int i = 0; i < VECTORS(E_SIZE); ++i) {
        const idx e = 16 * i;
        const V v = sums[i] * share;
        STORE_LINE(OFF_DST, PART_OF(E_SIZE, i), v);
    }
}
