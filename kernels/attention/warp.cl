// What attention on tensor cores does with registers of a warp, TYPE being that of 16 bits, and with elements on their way to local memory.
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

// Whether a condition holds for any work-item of the warp.
static inline bool holds_in_warp(const bool x) {
    uint y;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.any.pred p, p, 0xffffffff; selp.u32 %0, 1, 0, p; }"
                 : "=r"(y)
                 : "r"((uint)x));
    return y != 0;
}

// Eight elements from global to local memory, zeros where there are none. `whole` says that sixteen bytes may be read at once.
static inline void fetch(const __global uchar *from, const idx offset, const bool there, const bool whole, const uint to) {
#if !ANYDNN_UNALIGNED
    if (whole) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :
                     : "r"(to), "l"((ulong)(from + (there ? (size_t)offset * 2 : 0))), "r"(there ? 16 : 0)
                     : "memory");
        return;
    }
#endif
    uint bits[4];
    for (int i = 0; i < 4; ++i)
        bits[i] = there ? get_16(from, offset + 2 * i) | (uint)get_16(from, offset + 2 * i + 1) << 16 : 0;
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(to), "r"(bits[0]), "r"(bits[1]), "r"(bits[2]), "r"(bits[3])
                 : "memory");
}
