// Copies a convolution's operands for packed.cl: the source with its borders, which mean zero, channels innermost; weights in parts of 16 output
// channels, of runs of taps side by side and their channels. Channels are PIXEL_TERMS with those that are missing, which are zeros.
#ifdef PACK_SOURCE
#define LANE_NUMBERS (BITS16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
// A line of the source with its borders, of one group.
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void convolution_pack_source(PARAMS) {
    ENTER
    DECLARE_LINE((idx)get_global_id(0))
    DECLARE_GROUP((idx)get_global_id(1))
    const bool is_line = (pd >= PAD_D) & (pd < PAD_D + SRC_D) & (ph >= PAD_H) & (ph < PAD_H + SRC_H);
    const idx id = pd - PAD_D, ih = ph - PAD_H;
    if (IS_RUN) {
        // Places that follow each other in both, between borders.
        BITS16 border = (BITS16)(0);
#if HAS_ZERO_SRC0
        border = (BITS16)((BITS)NAT1_ZERO_SRC0(OFF_ZERO_SRC0));
#endif
        const idx pw = 0, iw = 0, c = 0, all = WIDTH * PIXEL_TERMS;
        const idx before = is_line ? min((idx)(PAD_W * PIXEL_TERMS), all) : all;
        const idx end = is_line ? min((idx)((PAD_W + SRC_W) * PIXEL_TERMS), all) : all;
        __global uchar *to = dst + OFF_DST;
        const idx from = OFF_SRC0;
        NOT_UNROLLED for (idx k = 0; k < before; k += 16) store_terms(to, k, border);
        NOT_UNROLLED for (idx k = before; k < end; k += 16)
            store_terms(to, k, RAW_SRC0(from + (k - before), (int)min(end - k, (idx)16)));
        NOT_UNROLLED for (idx k = end; k < all; k += 16) store_terms(to, k, border);
        return;
    }
    for (idx pw = 0; pw < WIDTH; ++pw) {
        const idx iw = pw - PAD_W;
        const bool is_inside = is_line && iw >= 0 && iw < SRC_W;
        __global uchar *to;
        {
            const idx c = 0;
            to = dst + OFF_DST;
        }
        for (idx c = 0; c < PIXEL_TERMS; c += 16) {
            const int n = (int)clamp(CHANNELS - c, (idx)0, (idx)16);
            BITS16 v = (BITS16)(0);
            if (n > 0) {
                if (is_inside) {
                    // A whole vector where the source holds so much takes less time than a part of one.
                    const idx from = OFF_SRC0;
                    if (from + 16 <= SRC_ROOM) v = RAW_SRC0(from, 16) & PASTE(as_, BITS16)(LANE_NUMBERS < (BITS16)((BITS)n));
                    else v = RAW_SRC0(from, n);
                }
#if HAS_ZERO_SRC0
                else
                    for (int l = 0; l < 16; ++l) ((__private BITS *)&v)[l] = l < n ? (BITS)NAT1_ZERO_SRC0(OFF_ZERO_SRC0) : (BITS)0;
#endif
            }
            // What is stored past the place is stored again with the next one; a line ends in a gap.
            store_terms(to, c, v);
        }
    }
}
#else
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void convolution_pack_weights(PARAMS) {
    ENTER
    DECLARE_PARTS((idx)get_global_id(0))
    const idx lane = 0;
    const int columns = (int)clamp(GROUP_OUTPUTS - panel * 16, (idx)0, (idx)16);
    __global uint *to = (__global uint *)(dst + OFF_DST);
    for (idx kd = 0; kd < KERNEL_D; ++kd)
        for (idx kh = 0; kh < KERNEL_H; ++kh)
            for (idx first = 0; first < KERNEL_W; first += RUN_TAPS) {
                // The next term's tap and channel.
                idx kw = first, c = 0;
                for (idx quad = 0; quad < RUN_STEPS * STEP_QUADS; ++quad, to += 16) {
                    uint16 all = (uint16)(0);
                    for (int i = 0; i < PER; ++i) {
                        if (kw < first + RUN_TAPS && c < CHANNELS && columns > 0)
                            all |= convert_uint16(RAW_WEIGHTS(OFF_WEIGHTS, columns)) << (uint16)(i * 8 * ELEMENT);
                        if (++c == PIXEL_TERMS) {
                            ++kw;
                            c = 0;
                        }
                    }
                    vstore16(all, 0, to);
                }
            }
}
#endif
