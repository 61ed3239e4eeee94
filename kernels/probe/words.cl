// Sums of products of pairs of words.
__kernel void probe(__global const uchar *in, __global int *out) {
    int16 sum = (int16)(1);
    const int16 a = vload16(0, (__global const int *)in), b = vload16(1, (__global const int *)in);
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    vstore16(sum, 0, out);
}
