// How many products are summed in a second: chains that do not wait for one another.
// V: a vector of floats; STEPS: products in each chain.

#define CHAINS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)

__kernel void products(__global float* out, const float factor, const float summand) {
    const V f = (V)(factor);
    const V s = (V)(summand);
#define START(i) V c##i = (V)(factor + i);
    CHAINS(START)
    for (int step = 0; step < STEPS; step++) {
#define STEP(i) c##i = fma(c##i, f, s);
        CHAINS(STEP)
    }
    V sum = (V)(0.0f);
#define SUM(i) sum += c##i;
    CHAINS(SUM)
    out[get_global_id(0)] = sum.s0 + sum.s1 + sum.s2 + sum.s3;
}
