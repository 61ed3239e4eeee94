// Prepares weights of 3 x 3 taps for `winograd.cl`: G w G' in panels of PANEL output channels, [panel][place][channel][output], in which outputs
// that there are not are zeros. A work-item prepares a channel of a panel.
#define PLACE(i, j, x) put_32(dst, to + ((i) * 4 + (j)) * PANEL * CHANNELS, pack_f32_1(x))
#define TAP(h, w) LD1_SRC0(from + (h) * TAP_H_STEP + (w) * TAP_W_STEP)

__kernel void convolution_winograd_weights(PARAMS) {
    ENTER
    const idx number = (idx)get_global_id(0), panel = BY_CHANNELS(number), c = number - panel * CHANNELS;
    for (int lane = 0; lane < PANEL; ++lane) {
        const idx o = panel * PANEL + lane, to = (panel * PLACES * CHANNELS + c) * PANEL + lane;
        float w[3][3], rows[4][3];
        EACH(h, 3) EACH(k, 3) w[h][k] = 0;
        if (o < OUTPUTS) {
            const idx from = OFF_SRC0;
            EACH(h, 3) EACH(k, 3) w[h][k] = TAP(h, k);
        }
        EACH(k, 3) {
            const float ends = w[0][k] + w[2][k];
            rows[0][k] = w[0][k];
            rows[1][k] = 0.5f * (ends + w[1][k]);
            rows[2][k] = 0.5f * (ends - w[1][k]);
            rows[3][k] = w[2][k];
        }
        EACH(i, 4) {
            const float ends = rows[i][0] + rows[i][2];
            PLACE(i, 0, rows[i][0]);
            PLACE(i, 1, 0.5f * (ends + rows[i][1]));
            PLACE(i, 2, 0.5f * (ends - rows[i][1]));
            PLACE(i, 3, rows[i][2]);
        }
    }
}
