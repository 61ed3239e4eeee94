// Products of a pair of words by those of 16 columns, added to what is there.
__kernel void probe(__global const uchar *in, __global int *out) {
    int16 sum = (int16)(1);
    const int16 a = (int16)(*(__global const int *)in), b = vload16(0, (__global const int *)(in + 4));
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    vstore16(sum - (int16)(1), 0, out);
}
