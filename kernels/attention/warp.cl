// What attention on tensor cores does with registers of a warp, TYPE being that of 16 bits.
static inline uint pair(const float low, const float high) {
    uint bits;
    asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
static inline float power_of_two(const float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// The value of the work-item whose number differs in the bits of `mask`.
static inline float other(const float x, const int mask) {
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(y) : "f"(x), "r"(mask));
    return y;
}
