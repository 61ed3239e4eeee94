// For CPUs: an expression of bytes that gives bytes, from a table of all 256 that each work-item makes first. COMPUTE declares the V value from
// `bytes`, LANES of them at once. FROM and TO are where the elements lie, one behind the other along the loop ALONG.
__kernel void expression_tabled(PARAMS) {
    ENTER
    uchar table[256];
    const int n = LANES;
    for (int byte = 0; byte < 256; byte += LANES) {
        uchar some[LANES];
        for (int i = 0; i < LANES; ++i) some[i] = (uchar)(byte + i);
        const VEC(uchar) bytes = PASTE(vload, LANES)(0, some);
        const idx ALONG = 0;
        COMPUTE
        PASTE(vstore, LANES)(PACK_RESULT(value), 0, table + byte);
    }
    const idx first = (idx)get_global_id(0) * CHUNK, last = min(first + CHUNK, (idx)RUN);
    const __global uchar *const from = FROM;
    __global uchar *const to = TO;
    idx i = first;
    // Loads before stores: the compiler does not know that what is stored is not read next.
    for (; i + 8 <= last; i += 8) {
        const uchar a = table[from[i]], b = table[from[i + 1]], c = table[from[i + 2]], d = table[from[i + 3]];
        const uchar e = table[from[i + 4]], f = table[from[i + 5]], g = table[from[i + 6]], h = table[from[i + 7]];
        to[i] = a, to[i + 1] = b, to[i + 2] = c, to[i + 3] = d;
        to[i + 4] = e, to[i + 5] = f, to[i + 6] = g, to[i + 7] = h;
    }
    for (; i < last; ++i) to[i] = table[from[i]];
}
