// Source positions of the taps of a window. Loops: od, oh, ow over the result and kd, kh, kw over the window; missing spatial
// dimensions have one step. A transposed window lies over the result: a place of it sees the source element whose tap reaches it.
#if TRANSPOSED
#define ABOVE_DEPTH (od + PAD_D - kd * DILATION_D)
#define ABOVE_HEIGHT (oh + PAD_H - kh * DILATION_H)
#define ABOVE_WIDTH (ow + PAD_W - kw * DILATION_W)
#define IN_DEPTH (ABOVE_DEPTH / STRIDE_D)
#define IN_HEIGHT (ABOVE_HEIGHT / STRIDE_H)
#define IN_WIDTH (ABOVE_WIDTH / STRIDE_W)
#define REACHED(i, stride, size) ((i) >= 0 && (i) % (stride) == 0 && (i) / (stride) < (size))
#define INSIDE_DEPTH REACHED(ABOVE_DEPTH, STRIDE_D, SRC_D)
#define INSIDE_HEIGHT REACHED(ABOVE_HEIGHT, STRIDE_H, SRC_H)
#define INSIDE_WIDTH REACHED(ABOVE_WIDTH, STRIDE_W, SRC_W)
#else
#define IN_DEPTH (od * STRIDE_D - PAD_D + kd * DILATION_D)
#define IN_HEIGHT (oh * STRIDE_H - PAD_H + kh * DILATION_H)
#define IN_WIDTH (ow * STRIDE_W - PAD_W + kw * DILATION_W)
#define INSIDE(i, size) ((i) >= 0 && (i) < (size))
#define INSIDE_DEPTH INSIDE(IN_DEPTH, SRC_D)
#define INSIDE_HEIGHT INSIDE(IN_HEIGHT, SRC_H)
#define INSIDE_WIDTH INSIDE(IN_WIDTH, SRC_W)
#endif

// How many steps lie before an offset, and how many, with that of length zero, do not lie behind one.
#define STEPS_BEFORE(offset, step) ((offset) <= 0 ? 0 : ((offset) + (step) - 1) / (step))
#define STEPS_WITHIN(offset, step) ((offset) < 0 ? 0 : (offset) / (step) + 1)
