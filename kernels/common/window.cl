// Source positions of the taps of a window. Loops: od, oh, ow over the result and kd, kh, kw over the window; missing spatial
// dimensions have one step.
#define IN_DEPTH (od * STRIDE_D - PAD_D + kd * DILATION_D)
#define IN_HEIGHT (oh * STRIDE_H - PAD_H + kh * DILATION_H)
#define IN_WIDTH (ow * STRIDE_W - PAD_W + kw * DILATION_W)
#define INSIDE(i, size) ((i) >= 0 && (i) < (size))
