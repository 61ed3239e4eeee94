// What normalisations by the squares around each element and their gradients have in common. A row is one element, or LANES of them along a
// dimension that windows do not reach along; the loops of others around an element are the kernel's own.

// The window around `at` along one dimension; none where the generator leaves it out.
#define AROUND(i, at, before, after, size) \
    for (idx i = max(at - (before), (idx)0), end_##i = min(at + (after), (idx)((size) - 1)); i <= end_##i; ++i)
#if REACH_C
#define AROUND_C(i, at, before, after) AROUND(i, at, before, after, SIZE_C)
#else
#define AROUND_C(i, at, before, after)
#endif
#if REACH_D
#define AROUND_D(i, at, before, after) AROUND(i, at, before, after, SIZE_D)
#else
#define AROUND_D(i, at, before, after)
#endif
#if REACH_H
#define AROUND_H(i, at, before, after) AROUND(i, at, before, after, SIZE_H)
#else
#define AROUND_H(i, at, before, after)
#endif
#if REACH_W
#define AROUND_W(i, at, before, after) AROUND(i, at, before, after, SIZE_W)
#else
#define AROUND_W(i, at, before, after)
#endif

// A base to the power of minus beta. The usual powers are roots.
#if BETA_IS_THREE_QUARTERS
#define POWER(x) ((V)(1) / (sqrt(x) * sqrt(sqrt(x))))
#elif BETA_IS_HALF
#define POWER(x) ((V)(1) / sqrt(x))
#elif BETA_IS_ONE
#define POWER(x) ((V)(1) / (x))
#else
#define POWER(x) pow(x, (V)(-(R)BETA))
#endif
#define BASE(sum) ((V)((R)K) + (V)((R)ALPHA) * (sum))
