// A product of unsigned bytes, 16 rows of 64, by signed ones, 16 columns of 64.
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void probe(__global const uchar *in, __global int *out) {
    // The unit wants four terms of each column side by side.
    uchar columns[1024];
    for (int n = 0; n < 16; ++n)
        for (int k = 0; k < 64; ++k) columns[k / 4 * 64 + n * 4 + k % 4] = in[1024 + n * 64 + k];
    uint configuration[16];
    for (int i = 0; i < 16; ++i) configuration[i] = 0;
    configuration[0] = 1;
    configuration[4] = 0x00400040;
    configuration[5] = 0x00000040;
    configuration[12] = 0x00101010;
    const ulong step = 64;
    __asm__ volatile("ldtilecfg (%0)" ::"r"(&configuration[0]) : "memory");
    __asm__ volatile("tilezero %%tmm0" ::: "memory");
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm1" ::"r"(in), "r"(step) : "memory");
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm2" ::"r"(&columns[0]), "r"(step) : "memory");
    __asm__ volatile("tdpbusd %%tmm2, %%tmm1, %%tmm0" ::: "memory");
    __asm__ volatile("tilestored %%tmm0, (%0,%1,1)" ::"r"(out), "r"(step) : "memory");
    __asm__ volatile("tilerelease" ::: "memory");
}
