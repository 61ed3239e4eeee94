// Copies of operands of ELEMENT bytes for the units of packed.cl: with AS_WORDS the source becomes pairs of words of the even and of the odd of
// each four terms.
#if ELEMENT == 1
#define BITS uchar
#else
#define BITS ushort
#endif
#define BITS16 PASTE(BITS, 16)
// Terms in four bytes of weights.
#define PER (4 / ELEMENT)
static inline void store_terms(__global uchar *to, const idx k, const BITS16 v) {
#if AS_WORDS
    const short8 x = as_short8(v);
#if SRC0_SIGNED
    const uint4 even = as_uint4((x << (short8)(8)) >> (short8)(8)), odd = as_uint4(x >> (short8)(8));
#else
    const uint4 even = as_uint4(x) & (uint4)(0x00ff00ff), odd = (as_uint4(x) >> (uint4)(8)) & (uint4)(0x00ff00ff);
#endif
    vstore8((uint8)(even.x, odd.x, even.y, odd.y, even.z, odd.z, even.w, odd.w), 0, (__global uint *)(to + k * 2));
#else
    vstore16(v, 0, (__global BITS *)(to + k * ELEMENT));
#endif
}
