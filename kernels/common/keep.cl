// Dropout: one where an element is kept, zero where it is dropped. The random numbers are those of Philox-4x32-10 (Salmon et al.,
// Parallel random numbers: as easy as 1, 2, 3, 2011): word index % 4 of the block with the counter (index / 4, offset) and the key
// seed. Kept are numbers of at least probability * 2^32.
static inline V keeps(const VEC(ulong) index, const long seed, const long offset, const float probability) {
    const VEC(ulong) block = index >> (VEC(ulong))(2);
    VEC(uint) c0 = CONVERT(uint, block & (VEC(ulong))(0xffffffffUL));
    VEC(uint) c1 = CONVERT(uint, block >> (VEC(ulong))(32));
    VEC(uint) c2 = (VEC(uint))((uint)((ulong)offset & 0xffffffffUL));
    VEC(uint) c3 = (VEC(uint))((uint)((ulong)offset >> 32));
    uint k0 = (uint)((ulong)seed & 0xffffffffUL), k1 = (uint)((ulong)seed >> 32);
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
    const VEC(uint) word = CONVERT(uint, index & (VEC(ulong))(3));
    const VEC(uint) number = word == (VEC(uint))(0) ? c0 : word == (VEC(uint))(1) ? c1 : word == (VEC(uint))(2) ? c2 : c3;
    // A power of two scales without rounding, and no number lies between a threshold and the integer above it.
    const float threshold = ceil(probability * 4294967296.0f);
    if (!(threshold < 4294967296.0f)) return (V)(0);
    const VEC(uint) least = (VEC(uint))(convert_uint_sat(threshold));
    return CONVERT(R, select((VEC(uint))(0), (VEC(uint))(1), number >= least));
}
