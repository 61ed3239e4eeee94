// A product of 16 rows by 8 columns of 16 terms in f16, whose rows come through an asynchronous copy.
__attribute__((reqd_work_group_size(32, 1, 1)))
__kernel void probe(__global const uint *in, __global float *out) {
    __local uint tile[128] __attribute__((aligned(16)));
    const uint item = get_local_id(0), outer = item / 4, inner = item % 4;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint)(ulong)tile + item * 16), "l"(in + item * 4));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    // Eight rows by eight terms each: the upper and lower rows, then the same of the upper terms.
    const uint at = (uint)(ulong)tile + (item % 16) * 32 + item / 16 * 16;
    uint a0, a1, a2, a3;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a0), "=r"(a1), "=r"(a2), "=r"(a3)
                 : "r"(at));
    __global const uint *column = in + 128 + outer * 8 + inner;
    float x = 0, y = 0, z = 0, w = 0;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(x), "+f"(y), "+f"(z), "+f"(w)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(column[0]), "r"(column[4]));
    const uint first = outer * 8 + inner * 2;
    out[first] = x;
    out[first + 1] = y;
    out[first + 64] = z;
    out[first + 65] = w;
}
