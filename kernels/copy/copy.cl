// Copies SIZE bytes between memories of any kinds at any byte offsets; a work-item takes sixteen bytes.
__kernel void copy_bytes(const __global uchar *from, const ulong from_byte, __global uchar *to, const ulong to_byte,
                         const ulong size) {
    const ulong at = (ulong)get_global_id(0) * 16;
    if (at >= size) return;
    from += from_byte + at;
    to += to_byte + at;
    if (size - at >= 16) {
        vstore16(vload16(0, from), 0, to);
    } else {
        for (ulong i = 0; i < size - at; ++i) to[i] = from[i];
    }
}
