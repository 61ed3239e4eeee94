// Loads, stores and conversions of LANES elements at once: a template that the generator includes for one lane and, where the
// program is vectorised, once more for LANES lanes. The functions' names end in the number of lanes.

#undef VEC
#undef FN
#undef AS
#undef CONVERT
#undef SATURATE
#if LANES == 1
#define VEC(t) t
#define FN(name) name##_1
#define HALF_LOAD(p) vload_half(0, p)
#define HALF_STORE(v, p) vstore_half_rte(v, 0, p)
#else
#define VEC(t) PASTE(t, LANES)
#define FN(name) PASTE(name##_, LANES)
#define HALF_LOAD(p) PASTE(vload_half, LANES)(0, p)
#define HALF_STORE(v, p) PASTE(PASTE(vstore_half, LANES), _rte)(v, 0, p)
#endif
// Vectors of half as many lanes.
#undef HALF_VEC
#undef HALF_VLOAD
#undef HALF_VSTORE
#if LANES == 16
#define HALF_VEC(t) PASTE(t, 8)
#define HALF_VLOAD vload8
#define HALF_VSTORE vstore8
#elif LANES == 8
#define HALF_VEC(t) PASTE(t, 4)
#define HALF_VLOAD vload4
#define HALF_VSTORE vstore4
#elif LANES == 2
#define HALF_VEC(t) t
#define HALF_VLOAD(o, p) (p)[o]
#define HALF_VSTORE(v, o, p) (p)[o] = (v)
#else
#define HALF_VEC(t) PASTE(t, 2)
#define HALF_VLOAD vload2
#define HALF_VSTORE vstore2
#endif
#define AS(t, x) PASTE(as_, VEC(t))(x)
#define CONVERT(t, x) PASTE(convert_, VEC(t))(x)

// From raw bits to the natural arithmetic type.

static inline VEC(float) FN(unpack_f32)(const VEC(uint) x) { return AS(float, x); }
static inline VEC(float) FN(unpack_bf16)(const VEC(ushort) x) { return AS(float, CONVERT(uint, x) << (VEC(uint))(16)); }
static inline VEC(int) FN(unpack_s32)(const VEC(uint) x) { return AS(int, x); }
static inline VEC(int) FN(unpack_s8)(const VEC(uchar) x) { return CONVERT(int, AS(char, x)); }
static inline VEC(int) FN(unpack_u8)(const VEC(uchar) x) { return CONVERT(int, x); }
static inline VEC(int) FN(unpack_boolean)(const VEC(uchar) x) { return CONVERT(int, x); }
static inline VEC(long) FN(unpack_s64)(const VEC(ulong) x) { return AS(long, x); }
static inline VEC(int) FN(unpack_u4)(const VEC(uchar) x) { return CONVERT(int, x); }
static inline VEC(int) FN(unpack_s4)(const VEC(uchar) x) { return (CONVERT(int, x) ^ (VEC(int))(8)) - (VEC(int))(8); }
// Bits of a float from the sign and the magnitude of one of eight bits; its subnormals are multiples of a power of two.
static inline VEC(float) FN(unpack_f8_e5m2)(const VEC(uchar) x) {
    const VEC(uint) bits = CONVERT(uint, x), magnitude = bits & (VEC(uint))(0x7f);
    const VEC(uint) normal = (magnitude << (VEC(uint))(21)) + (VEC(uint))(112u << 23);
    const VEC(uint) special = (VEC(uint))(0x7f800000u) | (magnitude << (VEC(uint))(21));
    const VEC(uint) small = AS(uint, CONVERT(float, magnitude) * (VEC(float))(0x1p-16f));
    const VEC(uint) value =
        magnitude < (VEC(uint))(4) ? small : (magnitude < (VEC(uint))(0x7c) ? normal : special);
    return AS(float, value | (bits & (VEC(uint))(0x80)) << (VEC(uint))(24));
}
static inline VEC(float) FN(unpack_f8_e4m3)(const VEC(uchar) x) {
    const VEC(uint) bits = CONVERT(uint, x), magnitude = bits & (VEC(uint))(0x7f);
    const VEC(uint) normal = (magnitude << (VEC(uint))(20)) + (VEC(uint))(120u << 23);
    const VEC(uint) small = AS(uint, CONVERT(float, magnitude) * (VEC(float))(0x1p-9f));
    const VEC(uint) value =
        magnitude < (VEC(uint))(8) ? small : (magnitude < (VEC(uint))(0x7f) ? normal : (VEC(uint))(0x7fc00000u));
    return AS(float, value | (bits & (VEC(uint))(0x80)) << (VEC(uint))(24));
}
// Nothing of it is special, and half of one is its only subnormal.
static inline VEC(float) FN(unpack_f4_e2m1)(const VEC(uchar) x) {
    const VEC(uint) bits = CONVERT(uint, x), magnitude = bits & (VEC(uint))(7);
    const VEC(uint) normal = (magnitude << (VEC(uint))(22)) + (VEC(uint))(126u << 23);
    const VEC(uint) small = magnitude * (VEC(uint))(as_uint(0.5f));
    const VEC(uint) value = magnitude < (VEC(uint))(2) ? small : normal;
    return AS(float, value | (bits & (VEC(uint))(8)) << (VEC(uint))(28));
}
static inline VEC(float) FN(unpack_f16)(const VEC(ushort) x) {
    const VEC(ushort) bits = x;
    return HALF_LOAD((const __private half *)&bits);
}

// From a value to raw bits.

static inline VEC(uint) FN(pack_f32)(const VEC(R) v) { return AS(uint, CONVERT(float, v)); }
static inline VEC(ushort) FN(pack_f16)(const VEC(R) v) {
    VEC(ushort) bits;
    HALF_STORE(CONVERT(float, v), (__private half *)&bits);
    return bits;
}
static inline VEC(ushort) FN(pack_bf16)(const VEC(R) v) {
    const VEC(float) f = CONVERT(float, v);
    const VEC(uint) bits = AS(uint, f);
    const VEC(uint) high = bits >> (VEC(uint))(16);
    const VEC(uint) rounded = (bits + (VEC(uint))(0x7fff) + (high & (VEC(uint))(1))) >> (VEC(uint))(16);
    // A NaN must neither round to infinity nor lose its last mantissa bit.
    return CONVERT(ushort, f != f ? (high | (VEC(uint))(0x40)) : rounded);
}
static inline VEC(uchar) FN(pack_boolean)(const VEC(R) v) {
    return CONVERT(uchar, v != (VEC(R))(0) ? (VEC(R))(1) : (VEC(R))(0));
}

// A float of at most eight bits from one of 32: `cut` bits of the mantissa go, `bias` is the difference of the exponents' biases. Halves
// round to even; adding `magic` does that below `normal`, the bits of the smallest normal number. What is too large becomes `overflow`.
static inline VEC(uchar) FN(narrow)(const VEC(float) f, const uint cut, const uint bias, const float magic,
                                    const uint normal, const uint greatest, const uint overflow, const uint nan,
                                    const uint sign) {
    const VEC(uint) bits = AS(uint, f), magnitude = bits & (VEC(uint))(0x7fffffffu);
    const VEC(uint) nearest = (VEC(uint))((1u << (cut - 1)) - 1) + ((magnitude >> (VEC(uint))(cut)) & (VEC(uint))(1));
    const VEC(uint) rounded = ((magnitude + nearest) >> (VEC(uint))(cut)) - (VEC(uint))(bias << (23 - cut));
    const VEC(uint) small = AS(uint, AS(float, magnitude) + (VEC(float))(magic)) - (VEC(uint))(as_uint(magic));
    VEC(uint) value = magnitude < (VEC(uint))(normal) ? small : rounded;
    value = value > (VEC(uint))(greatest) ? (VEC(uint))(overflow) : value;
    value = f != f ? (VEC(uint))(nan) : value;
    return CONVERT(uchar, value | (bits >> (VEC(uint))(31)) * (VEC(uint))(sign));
}
static inline VEC(uchar) FN(pack_f8_e5m2)(const VEC(R) v) {
    return FN(narrow)(CONVERT(float, v), 21, 112, 0x1p7f, 113u << 23, 0x7b, 0x7c, 0x7f, 0x80);
}
static inline VEC(uchar) FN(pack_f8_e4m3)(const VEC(R) v) {
    return FN(narrow)(CONVERT(float, v), 20, 120, 0x1p14f, 121u << 23, 0x7e, 0x7f, 0x7f, 0x80);
}
// Negative zero stands for what is no number.
static inline VEC(uchar) FN(pack_f4_e2m1)(const VEC(R) v) {
    return FN(narrow)(CONVERT(float, v), 22, 126, 0x1p22f, 127u << 23, 7, 7, 8, 8);
}

#if R_IS_INTEGER
#define SATURATE(t, v) PASTE(PASTE(convert_, VEC(t)), _sat)(v)
#else
#define SATURATE(t, v) PASTE(PASTE(convert_, VEC(t)), _sat_rte)((v) == (v) ? (v) : (VEC(R))(0))
#endif
static inline VEC(uint) FN(pack_s32)(const VEC(R) v) { return AS(uint, SATURATE(int, v)); }
static inline VEC(uchar) FN(pack_s8)(const VEC(R) v) { return AS(uchar, SATURATE(char, v)); }
static inline VEC(uchar) FN(pack_u8)(const VEC(R) v) { return SATURATE(uchar, v); }
static inline VEC(uchar) FN(pack_s4)(const VEC(R) v) {
    return AS(uchar, clamp(SATURATE(char, v), (VEC(char))(-8), (VEC(char))(7))) & (VEC(uchar))(15);
}
static inline VEC(uchar) FN(pack_u4)(const VEC(R) v) { return min(SATURATE(uchar, v), (VEC(uchar))(15)); }
static inline VEC(ulong) FN(pack_s64)(const VEC(R) v) { return AS(ulong, SATURATE(long, v)); }

#ifdef USE_F64
static inline VEC(double) FN(unpack_f64)(const VEC(ulong) x) { return AS(double, x); }
static inline VEC(ulong) FN(pack_f64)(const VEC(R) v) { return AS(ulong, CONVERT(double, v)); }
#endif

// Several elements: n <= LANES of them, side by side (load, store) or s elements apart (gather, scatter). Lanes past n read as zero.

#if LANES > 1
#define SPREAD(BITS, S)                                                                                                  \
    static inline VEC(S) FN(gather_##BITS)(const __global uchar *p, const idx o, const idx s, const int n) {             \
        S t[LANES];                                                                                                      \
        NOT_UNROLLED for (int l = 0; l < LANES; ++l) t[l] = l < n ? get_##BITS(p, o + l * s) : (S)0;                     \
        return PASTE(vload, LANES)(0, t);                                                                                \
    }                                                                                                                    \
    static inline void FN(scatter_##BITS)(__global uchar *p, const idx o, const idx s, const int n, const VEC(S) v) {    \
        S t[LANES];                                                                                                      \
        PASTE(vstore, LANES)(v, 0, t);                                                                                   \
        NOT_UNROLLED for (int l = 0; l < LANES; ++l)                                                                     \
            if (l < n) put_##BITS(p, o + l * s, t[l]);                                                                   \
    }
#define WHOLE(n) (!ANYDNN_UNALIGNED && (n) >= LANES)
// Where a driver compiles for the processor itself vload and vstore of many lanes are several accesses of fewer; a vector that is aligned to its
// elements alone is one.
#if LANES == 16 && defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
#define LOOSE(S) typedef VEC(S) FN(loose_##S) __attribute__((aligned(sizeof(S))));
#define LOAD_LANES(S, p) (*(const __global FN(loose_##S) *)(p))
#define STORE_LANES(S, v, p) (*(__global FN(loose_##S) *)(p) = (v))
#else
#define LOOSE(S)
#define LOAD_LANES(S, p) PASTE(vload, LANES)(0, p)
#define STORE_LANES(S, v, p) PASTE(vstore, LANES)(v, 0, p)
#endif
#define MEMORY(BITS, S)                                                                                                  \
    LOOSE(S)                                                                                                             \
    SPREAD(BITS, S)                                                                                                      \
    PART(BITS, S)                                                                                                        \
    static inline VEC(S) FN(load_##BITS)(const __global uchar *p, const idx o, const int n) {                            \
        if (WHOLE(n)) return LOAD_LANES(S, (const __global S *)p + o);                                                   \
        return FN(load_part_##BITS)(p, o, n);                                                                            \
    }                                                                                                                    \
    static inline void FN(store_##BITS)(__global uchar *p, const idx o, const int n, const VEC(S) v) {                   \
        if (WHOLE(n)) STORE_LANES(S, v, (__global S *)p + o);                                                            \
        else FN(store_part_##BITS)(p, o, n, v);                                                                          \
    }                                                                                                                    \
    static inline void FN(stream_##BITS)(__global uchar *p, const idx o, const int n, const VEC(S) v) {                  \
        __global S *q = (__global S *)p + o;                                                                             \
        if (WHOLE(n) && ((size_t)q & (sizeof(VEC(S)) - 1)) == 0) STREAM(v, (__global VEC(S) *)q);                        \
        else FN(store_##BITS)(p, o, n, v);                                                                               \
    }
// Fewer than 16 elements as powers of two of them, the largest first.
#if LANES == 16 && !ANYDNN_UNALIGNED
#define PART(BITS, S)                                                                                                    \
    static inline VEC(S) FN(load_part_##BITS)(const __global uchar *p, const idx o, const int n) {                       \
        const __global S *q = (const __global S *)p + o;                                                                 \
        const int n4 = n & 8, n2 = n & 12, n1 = n & 14;                                                                  \
        const PASTE(S, 8) a = n & 8 ? vload8(0, q) : (PASTE(S, 8))(0);                                                   \
        const PASTE(S, 4) b = n & 4 ? vload4(0, q + n4) : (PASTE(S, 4))(0);                                              \
        const PASTE(S, 2) c = n & 2 ? vload2(0, q + n2) : (PASTE(S, 2))(0);                                              \
        const S d = n & 1 ? q[n1] : (S)0;                                                                                \
        const PASTE(S, 4) cd = n & 2 ? (PASTE(S, 4))(c, d, 0) : (PASTE(S, 4))(d, 0, 0, 0);                               \
        const PASTE(S, 8) bcd = n & 4 ? (PASTE(S, 8))(b, cd) : (PASTE(S, 8))(cd, (PASTE(S, 4))(0));                      \
        return n & 8 ? (VEC(S))(a, bcd) : (VEC(S))(bcd, (PASTE(S, 8))(0));                                               \
    }                                                                                                                    \
    static inline void FN(store_part_##BITS)(__global uchar *p, const idx o, const int n, const VEC(S) v) {              \
        __global S *q = (__global S *)p + o;                                                                             \
        if (n & 8) vstore8(v.lo, 0, q);                                                                                  \
        const PASTE(S, 8) bcd = n & 8 ? v.hi : v.lo;                                                                     \
        if (n & 4) vstore4(bcd.lo, 0, q + (n & 8));                                                                      \
        const PASTE(S, 4) cd = n & 4 ? bcd.hi : bcd.lo;                                                                  \
        if (n & 2) vstore2(cd.lo, 0, q + (n & 12));                                                                      \
        if (n & 1) q[n & 14] = n & 2 ? cd.z : cd.x;                                                                      \
    }
#else
#define PART(BITS, S)                                                                                                    \
    static inline VEC(S) FN(load_part_##BITS)(const __global uchar *p, const idx o, const int n) {                       \
        return FN(gather_##BITS)(p, o, 1, n);                                                                            \
    }                                                                                                                    \
    static inline void FN(store_part_##BITS)(__global uchar *p, const idx o, const int n, const VEC(S) v) {              \
        FN(scatter_##BITS)(p, o, 1, n, v);                                                                               \
    }
#endif
// The same of vectors that start at a multiple of their length: in one access where the pointer is aligned to that as well. Words are
// what some devices load as many of at once as they can.
#define WHOLE_MEMORY(BITS, S, W)                                                                                         \
    static inline VEC(S) FN(load_whole_##BITS)(const __global uchar *p, const idx o, const int n) {                      \
        if (n >= LANES && IS_WHOLE(p, sizeof(VEC(S))))                                                                   \
            return AS(S, *(const __global W *)((const __global S *)p + o));                                              \
        return FN(load_##BITS)(p, o, n);                                                                                 \
    }                                                                                                                    \
    static inline void FN(store_whole_##BITS)(__global uchar *p, const idx o, const int n, const VEC(S) v) {             \
        if (n >= LANES && IS_WHOLE(p, sizeof(VEC(S)))) *(__global W *)((__global S *)p + o) = PASTE(as_, W)(v);          \
        else FN(store_##BITS)(p, o, n, v);                                                                               \
    }
MEMORY(8, uchar)
MEMORY(16, ushort)
MEMORY(32, uint)
MEMORY(64, ulong)
#if LANES == 2
WHOLE_MEMORY(8, uchar, ushort)
WHOLE_MEMORY(16, ushort, uint)
WHOLE_MEMORY(32, uint, uint2)
WHOLE_MEMORY(64, ulong, ulong2)
#elif LANES == 4
WHOLE_MEMORY(8, uchar, uint)
WHOLE_MEMORY(16, ushort, uint2)
WHOLE_MEMORY(32, uint, uint4)
WHOLE_MEMORY(64, ulong, ulong4)
#elif LANES == 8
WHOLE_MEMORY(8, uchar, uint2)
WHOLE_MEMORY(16, ushort, uint4)
WHOLE_MEMORY(32, uint, uint8)
WHOLE_MEMORY(64, ulong, ulong8)
#endif
SPREAD(4, uchar)
#undef WHOLE_MEMORY
// Halves where they lie, since devices convert them on the way. Some need them aligned like whole vectors, which they should not.
static inline VEC(float) FN(load_f16)(const __global uchar *p, const idx o, const int n) {
    const __global half *q = (const __global half *)p + o;
    if (WHOLE(n) && ((size_t)q & (LANES * 2 - 1)) == 0) return HALF_LOAD(q);
    return FN(unpack_f16)(FN(load_16)(p, o, n));
}
static inline void FN(store_f16)(__global uchar *p, const idx o, const int n, const VEC(R) v) {
    __global half *q = (__global half *)p + o;
    if (WHOLE(n) && ((size_t)q & (LANES * 2 - 1)) == 0) HALF_STORE(CONVERT(float, v), q);
    else FN(store_16)(p, o, n, FN(pack_f16)(v));
}
#undef MEMORY
#undef SPREAD
#undef PART
#undef WHOLE
#undef LOOSE
#undef LOAD_LANES
#undef STORE_LANES
// Whole bytes. Where the first element is the second of its byte, the others of each pair are those of the next byte.
static inline VEC(uchar) FN(load_4)(const __global uchar *p, const idx o, const int n) {
    if (n < LANES) return FN(gather_4)(p, o, 1, n);
    const HALF_VEC(uchar) bytes = HALF_VLOAD(0, p + (o >> 1));
    const HALF_VEC(uchar) four = (HALF_VEC(uchar))(4), low = (HALF_VEC(uchar))(15);
    VEC(uchar) v;
    v.even = bytes & low;
    v.odd = bytes >> four;
    if (o & 1) {
        v.even = v.odd;
        v.odd = HALF_VLOAD(0, p + (o >> 1) + 1) & low;
    }
    return v;
}
static inline void FN(store_4)(__global uchar *p, const idx o, const int n, const VEC(uchar) v) {
    if (n < LANES || (o & 1)) FN(scatter_4)(p, o, 1, n, v);
    else HALF_VSTORE(v.even | (v.odd << (HALF_VEC(uchar))(4)), 0, p + (o >> 1));
}
#endif

#undef HALF_LOAD
#undef HALF_STORE
