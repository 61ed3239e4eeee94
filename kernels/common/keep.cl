// Random numbers of elements, of 32 bits: Philox-4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011) used as the
// contract's `keeps` says.
static inline VEC(uint) random_word(const VEC(ulong) index, const long seed, const long offset) {
    const ulong low = 0xffffffffUL;
    const VEC(ulong) first = index & (VEC(ulong))(~3UL);
    const VEC(uint) first_low = CONVERT(uint, first & (VEC(ulong))(low));
    const uint offset_low = (uint)((ulong)offset & low), offset_high = (uint)((ulong)offset >> 32);
    uint k0 = (uint)((ulong)seed & low), k1 = offset == 0 ? k0 : (uint)((ulong)seed >> 32);
    VEC(uint) c0 = offset == 0 ? first_low : (VEC(uint))(offset_low);
    VEC(uint) c1 = offset == 0 ? first_low + (VEC(uint))(1) : (VEC(uint))(offset_high);
    VEC(uint) c2 = first_low;
    VEC(uint) c3 = offset == 0 ? first_low + (VEC(uint))(3) : CONVERT(uint, first >> (VEC(ulong))(32));
    for (int round = 0; round < 10; ++round) {
        const VEC(uint) high_a = mul_hi(c0, (VEC(uint))(0xD2511F53U)), low_a = c0 * (VEC(uint))(0xD2511F53U);
        const VEC(uint) high_b = mul_hi(c2, (VEC(uint))(0xCD9E8D57U)), low_b = c2 * (VEC(uint))(0xCD9E8D57U);
        c0 = high_b ^ c1 ^ (VEC(uint))(k0);
        c1 = low_b;
        c2 = high_a ^ c3 ^ (VEC(uint))(k1);
        c3 = low_a;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    const VEC(uint) word = offset == 0 ? (VEC(uint))(2) : CONVERT(uint, index & (VEC(ulong))(3));
    return word == (VEC(uint))(0) ? c0 : word == (VEC(uint))(1) ? c1 : word == (VEC(uint))(2) ? c2 : c3;
}

// A number from zero to below one, by the 24 upper bits.
static inline V random_number(const VEC(ulong) index, const long seed, const long offset) {
    return CONVERT(R, random_word(index, seed, offset) >> (VEC(uint))(8)) * (V)(K(5.9604644775390625e-8));
}

// Dropout: one where an element is kept, zero where it is dropped. Kept are numbers of at least probability * 2^32.
static inline V keeps(const VEC(ulong) index, const long seed, const long offset, const float probability) {
    const VEC(uint) number = random_word(index, seed, offset);
    // A power of two scales without rounding, and no number lies between a threshold and the integer above it.
    const float threshold = ceil(probability * 4294967296.0f);
    if (!(threshold < 4294967296.0f)) return (V)(0);
    const VEC(uint) least = (VEC(uint))(convert_uint_sat(threshold));
    return CONVERT(R, select((VEC(uint))(0), (VEC(uint))(1), number >= least));
}
