// Zeros for the numbers by which work-groups share a sequence.
__kernel void recurrent_clear(PARAMS) {
    ENTER
    const idx i = (idx)get_global_id(0);
    if (i < WORDS) ((__global int *)claimed)[i] = 0;
}
