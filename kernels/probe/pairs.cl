// A product of a pair of bf16 by those of 16 columns. The compiler knows nothing of the registers, which are put back.
__kernel void probe(__global const uchar *in, __global float *out) {
    ulong saved[24];
    __asm__ volatile("vmovdqu64 %%zmm0, (%2)\n\tvmovdqu64 %%zmm1, 64(%2)\n\tvmovdqu64 %%zmm2, 128(%2)\n\t"
                     "vpbroadcastd (%0), %%zmm1\n\tvmovdqu64 4(%0), %%zmm2\n\tvpxord %%zmm0, %%zmm0, %%zmm0\n\t"
                     "vdpbf16ps %%zmm2, %%zmm1, %%zmm0\n\tvmovdqu64 %%zmm0, (%1)\n\t"
                     "vmovdqu64 (%2), %%zmm0\n\tvmovdqu64 64(%2), %%zmm1\n\tvmovdqu64 128(%2), %%zmm2"
                     ::"r"(in), "r"(out), "r"(&saved[0]) : "memory");
}
