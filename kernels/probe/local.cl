// Whether a work-group of 128 has the local memory beyond OpenCL's that WANTED names, in bytes: words all over it come back from a
// neighbour. Nothing is touched where the system says that there is less.
#define SM90A "//@sm_90a "

__attribute__((reqd_work_group_size(128, 1, 1)))
__kernel void probe(__global const uint *in, __global uint *out) {
    __local uchar tiles[1024] __attribute__((aligned(1024)));
    asm volatile("//@local " WANTED ";");
    const uint item = (uint)get_local_id(0), start = (uint)(ulong)tiles, bytes = in[0];
    uint there, sum = 0;
    asm volatile(SM90A "mov.u32 %0, %%total_smem_size;" : "=r"(there));
    if (there >= bytes) {
        for (uint at = item * 4; at < bytes; at += 512)
            asm volatile("st.shared.u32 [%0], %1;" ::"r"(start + at), "r"(at) : "memory");
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint at = (127 - item) * 4; at < bytes; at += 512) {
            uint x;
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(start + at) : "memory");
            sum += x == at;
        }
    }
    out[item] = sum;
}
