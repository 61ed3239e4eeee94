// Where an index of a resampled dimension of size `to` lies in the original one of size `from`: between two neighbours, at PART of the
// way. Positions are fractions of whole numbers, so that nothing is lost before they are rounded.
typedef struct {
    idx low, high;
    R part;
} neighbours;

// What divides positions by the number below their fractions: a multiplication where those have 32 bits.
#if LARGE
#define OVER(x, n, factor, shift) ((x) / (n))
#else
#define OVER(x, n, factor, shift) QUOTIENT(x, n, factor, shift)
#endif

KEEP_PRODUCTS
// What comes behind `to` is the generator's OVER_D, OVER_H or OVER_W. SHARE is the quotient of a number by `below`, which has an inverse.
static inline neighbours neighbours_of(const idx x, const idx from, const idx to, const idx below, const idx factor,
                                       const idx shift, const R inverse) {
#if ALIGNED
    const whole above = to > 1 ? 2 * (whole)x * (from - 1) : 0;
#else
    const whole above = (2 * (whole)x + 1) * from - to;
#endif
    neighbours all;
#if NEAREST
    // Halves round up.
    all.low = min((idx)OVER(2 * above + (whole)below / 2, below, factor, shift), from - 1);
    all.high = all.low;
    all.part = 0;
#else
    const idx low = above > 0 ? (idx)OVER(above, below, factor, shift) : 0;
    all.low = min(low, from - 1);
    all.high = above > 0 ? min(all.low + 1, from - 1) : 0;
    all.part = above > 0 ? SHARE(above - (whole)low * below, below, inverse) : 0;
#endif
    return all;
}

// The part that index `x` takes of the original's index `s`.
static inline R part_of(const idx x, const idx s, const idx from, const idx to, const idx below, const idx factor, const idx shift,
                        const R inverse) {
    const neighbours at = neighbours_of(x, from, to, below, factor, shift, inverse);
#if NEAREST
    return at.low == s ? 1 : 0;
#else
    return (at.low == s ? 1 - at.part : 0) + (at.high == s ? at.part : 0);
#endif
}

// No index outside these takes part of the original's index `s`.
static inline idx first_taker(const idx s, const idx from, const idx to) {
#if ALIGNED
    const whole x = from > 1 ? ((whole)s - 1) * (to - 1) / (from - 1) - 1 : 0;
#else
    const whole x = (2 * (whole)s - 1) * to / (2 * (whole)from) - 1;
#endif
    return x > 0 ? (idx)x : 0;
}
static inline idx last_taker(const idx s, const idx from, const idx to) {
#if ALIGNED
    const whole x = from > 1 ? ((whole)s + 1) * (to - 1) / (from - 1) + 1 : to;
#else
    const whole x = (2 * (whole)s + 3) * to / (2 * (whole)from) + 1;
#endif
    return x < to ? (idx)x : to - 1;
}
