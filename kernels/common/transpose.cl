// A square of 16 x 16 floats, stored with its lines and lanes changed, lines `step` floats apart. Included where V is float16.
// It is transposed in four rounds, each of which pairs line i with line i + 8.
#define LOW(a, b) (V)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#define HIGH(a, b) (V)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf)
#define PAIR(x, y, a, b, c, d) const V y##c = LOW(x##a, x##b), y##d = HIGH(x##a, x##b);
#define ROUND(x, y)                                                                                                      \
    PAIR(x, y, 0, 8, 0, 1) PAIR(x, y, 1, 9, 2, 3) PAIR(x, y, 2, 10, 4, 5) PAIR(x, y, 3, 11, 6, 7)                        \
    PAIR(x, y, 4, 12, 8, 9) PAIR(x, y, 5, 13, 10, 11) PAIR(x, y, 6, 14, 12, 13) PAIR(x, y, 7, 15, 14, 15)
#define EACH_LINE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
static inline void put_transposed(const __private V *line, __local float *to, const int step) {
#define GET(i) const V a##i = line[i];
#define PUT(i) *(__local V *)(to + i * step) = e##i;
    EACH_LINE(GET)
    ROUND(a, b)
    ROUND(b, c)
    ROUND(c, d)
    ROUND(d, e)
    EACH_LINE(PUT)
}
