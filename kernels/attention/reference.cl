// One work-item per query and E_BLOCK elements of its result: correct for every layout and type. The keys are passed over once, with a
// running maximum, or twice where weights must be known before they meet the values (TWO_PASSES).
//   SCORE(x)    declares what the nodes of the scores compute of the product `x`, at the loop variables' values
//   SCORED      the score;  WEIGHT(x), WEIGHTED likewise for a weight
//   SEE, SEEN   with HIDES: whether a key is seen by a query; one that is not hides all behind it, from earlier queries too
__kernel void attention_reference(PARAMS) {
    ENTER
    const idx item = (idx)get_global_id(0);
    if (item >= ITEMS) return;
    const int n = 1;
    const idx first_e = item % E_BLOCKS * E_BLOCK;
    DECLARE_ROW(item / E_BLOCKS)
    const int columns = (int)min((idx)E_BLOCK, E_SIZE - first_e);
    R top = -INFINITY, total = 0;
    R sums[E_BLOCK];
    for (int c = 0; c < E_BLOCK; ++c) sums[c] = 0;
    for (int pass = TWO_PASSES ? 0 : 1; pass < 2; ++pass) {
        for (idx t = 0; t < T_SIZE; ++t) {
#if HIDES
            SEE(0)
            if (SEEN == 0) break;
#endif
            R dot_product = 0;
            for (idx d = 0; d < D_SIZE; ++d)
                dot_product += DEQ1_SRC0(LD1_SRC0(OFF_SRC0)) * DEQ1_SRC1(LD1_SRC1(OFF_SRC1));
            SCORE(dot_product)
            R weight;
            if (!TWO_PASSES || pass == 0) {
                const R high = LARGER(SCORED, top);
                const R base = high == -INFINITY ? 0 : high;
                const R shrink = exp(top - base);
                weight = exp(SCORED - base);
                total = total * shrink + weight;
                top = high;
                if (!TWO_PASSES)
                    for (int c = 0; c < E_BLOCK; ++c) sums[c] *= shrink;
            } else {
                const R base = INF_AS_ZERO && top == -INFINITY ? 0 : top;
                const R share = exp(SCORED - base) / (INF_AS_ZERO && top == -INFINITY ? 1 : total);
                WEIGHT(share)
                weight = WEIGHTED;
            }
            if (pass == 1)
                for (int c = 0; c < columns; ++c) {
                    const idx e = first_e + c;
                    sums[c] += weight * DEQ1_SRC2(LD1_SRC2(OFF_SRC2));
                }
        }
    }
    const bool nothing = NOTHING_IS_ZERO && top == -INFINITY;
    for (int c = 0; c < columns; ++c) {
        const idx e = first_e + c;
        V v = TWO_PASSES ? sums[c] : nothing ? 0 : sums[c] / total;
        POST_OPS(v, n)
        ST_DST(OFF_DST, n, v);
    }
    if (first_e == 0) STORE_STATISTICS(top + log(total), n)
}
