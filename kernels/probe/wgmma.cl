// The product of a 64x16 matrix and the transpose of an 8x16 one, both of f16 in rows that follow one another in `in`.
#define SM90A "//@sm_90a "

__attribute__((reqd_work_group_size(128, 1, 1)))
__kernel void probe(__global const ushort *in, __global float *out) {
    __local ushort tiles[72 * 16] __attribute__((aligned(128)));
    const int item = (int)get_local_id(0);
    // Core matrices: eight rows by eight elements, those for the upper half of the terms behind the others.
    for (int e = item; e < 72 * 16; e += 128) {
        const int row = e / 16, k = e % 16;
        const int place = row < 64 ? (k / 8) * 512 + row * 8 + k % 8 : 1024 + (k / 8) * 64 + (row - 64) * 8 + k % 8;
        tiles[place] = in[e];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint at = (uint)(ulong)tiles;
    // Start, step along the terms, step along the rows, all in units of 16 bytes.
    const ulong a = (ulong)(at >> 4) | (ulong)(1024 >> 4) << 16 | (ulong)(128 >> 4) << 32;
    const ulong b = (ulong)((at + 2048) >> 4) | (ulong)(128 >> 4) << 16 | (ulong)(128 >> 4) << 32;
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    asm volatile(SM90A "wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(SM90A "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(s0), "+f"(s1), "+f"(s2), "+f"(s3)
                 : "l"(a), "l"(b));
    asm volatile(SM90A "wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile(SM90A "wgmma.wait_group.sync.aligned 0;" : "+f"(s0), "+f"(s1), "+f"(s2), "+f"(s3)::"memory");
    const int row = (item / 32) * 16 + (item % 32) / 4, column = item % 4 * 2;
    out[row * 8 + column] = s0;
    out[row * 8 + column + 1] = s1;
    out[(row + 8) * 8 + column] = s2;
    out[(row + 8) * 8 + column + 1] = s3;
}
