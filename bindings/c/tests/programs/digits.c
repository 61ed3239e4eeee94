/* Trains a small convolutional network on images of digits: forward, backward and update, all by primitives.

       ./digits FILE [PLATFORM | cpu] [EPOCHS]

   FILE is examples/digits/heldout.safetensors: 360 images of 8x8 pixels from 0 to 16, with labels. Every fifth one is held back. The network:

       image [N, 1, 8, 8] - convolution 3x3 - ReLU - maximum of 2x2 - convolution 3x3 - ReLU - maximum of 2x2 - inner product - softmax

   With `cpu` it runs on the host engine of the library that is loaded, if that has one. */
#include <math.h>

#include "check.h"

enum { IMAGES = 360, SIDE = 8, CLASSES = 10, BATCH = 24, FIRST = 16, SECOND = 32, MOST_ARGS = 8 };

static dnnl_engine_t engine;
static dnnl_stream_t stream;

/* Ends the program where a call fails. */
static void try_(dnnl_status_t status, const char *call, int line) {
    if (status == dnnl_success) return;
    printf("FAILED %s: %s (line %d)\n", call, dnnl_status2str(status), line);
    exit(2);
}
#define TRY(call) try_((call), #call, __LINE__)

/* A tensor of floats, dense in row-major order. */
typedef struct {
    dnnl_memory_desc_t desc;
    dnnl_memory_t memory;
    size_t count;
} tensor;

static tensor make(const_dnnl_memory_desc_t desc) {
    tensor made = {0};
    TRY(dnnl_memory_desc_clone(&made.desc, desc));
    TRY(dnnl_memory_create(&made.memory, desc, engine, DNNL_MEMORY_ALLOCATE));
    made.count = dnnl_memory_desc_get_size(desc) / sizeof(float);
    return made;
}

static tensor floats(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    const dnnl_dims_t dims = {a, b, c, d};
    dnnl_memory_desc_t desc;
    TRY(dnnl_memory_desc_create_with_strides(&desc, rank, dims, dnnl_f32, NULL));
    tensor made = make(desc);
    dnnl_memory_desc_destroy(desc);
    return made;
}

static void end(tensor *t) {
    dnnl_memory_destroy(t->memory);
    dnnl_memory_desc_destroy(t->desc);
}

/* What was enqueued may still read the tensor. */
static void put(tensor *t, const float *values) {
    void *mapped = NULL;
    TRY(dnnl_stream_wait(stream));
    TRY(dnnl_memory_map_data(t->memory, &mapped));
    memcpy(mapped, values, t->count * sizeof(float));
    TRY(dnnl_memory_unmap_data(t->memory, mapped));
}

static void get(tensor *t, float *values) {
    void *mapped = NULL;
    TRY(dnnl_stream_wait(stream));
    TRY(dnnl_memory_map_data(t->memory, &mapped));
    memcpy(values, mapped, t->count * sizeof(float));
    TRY(dnnl_memory_unmap_data(t->memory, mapped));
}

/* Numbers in (-scale, scale), always the same. */
static void draw(tensor *t, float scale) {
    static uint32_t state = 12345;
    float *values = calloc(t->count, sizeof(float));
    for (size_t i = 0; i < t->count && scale > 0; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = ((float)(state >> 8) / 8388608.0f - 1.0f) * scale;
    }
    put(t, values);
    free(values);
}

/* A primitive with what it reads and writes. */
typedef struct {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[MOST_ARGS];
    int count;
} step;

static step bound(dnnl_primitive_desc_t described, int count, const dnnl_exec_arg_t *args) {
    step made = {.count = count};
    TRY(dnnl_primitive_create(&made.primitive, described));
    memcpy(made.args, args, (size_t)count * sizeof *args);
    return made;
}
#define STEP(described, ...) \
    bound((described), (int)(sizeof((dnnl_exec_arg_t[]) {__VA_ARGS__}) / sizeof(dnnl_exec_arg_t)), (dnnl_exec_arg_t[]) {__VA_ARGS__})

static void run(const step *steps, int count) {
    for (int i = 0; i < count; i++)
        TRY(dnnl_primitive_execute(steps[i].primitive, stream, steps[i].count, steps[i].args));
}

enum { FORWARD = 8, BACKWARD = 9, PARAMETERS = 6 };

typedef struct {
    tensor image, a1, p1, a2, p2, score, probability;
    tensor d_score, d_p2, d_a2, d_p1, d_a1;
    tensor workspace1, workspace2;
    /* Weights and biases, their gradients, and what they moved by. */
    tensor parameter[PARAMETERS], gradient[PARAMETERS], moved[PARAMETERS];
    step forward[FORWARD], backward[BACKWARD], update[2 * PARAMETERS];
} network;

static const dnnl_dims_t ones = {1, 1}, zeros = {0, 0}, twos = {2, 2};

/* A layer of convolution, ReLU (in place) and maximum, forward and back. `d_x` is null for the first one. */
static void layer(network *net, int which, tensor *x, tensor *a, tensor *p, tensor *workspace, tensor *d_x, tensor *d_a, tensor *d_p) {
    tensor *w = &net->parameter[2 * which], *b = w + 1, *d_w = &net->gradient[2 * which], *d_b = d_w + 1;
    dnnl_primitive_desc_t convolution, relu, pooling, back;
    step *f = &net->forward[3 * which], *g = &net->backward[which ? 2 : 6];
    TRY(dnnl_convolution_forward_primitive_desc_create(&convolution, engine, dnnl_forward_training, dnnl_convolution_direct, x->desc, w->desc, b->desc, a->desc, ones, zeros, ones, ones, NULL));
    f[0] = STEP(convolution, {DNNL_ARG_SRC, x->memory}, {DNNL_ARG_WEIGHTS, w->memory}, {DNNL_ARG_BIAS, b->memory}, {DNNL_ARG_DST, a->memory});
    TRY(dnnl_eltwise_forward_primitive_desc_create(&relu, engine, dnnl_forward_training, dnnl_eltwise_relu_use_dst_for_bwd, a->desc, a->desc, 0, 0, NULL));
    f[1] = STEP(relu, {DNNL_ARG_SRC, a->memory}, {DNNL_ARG_DST, a->memory});
    TRY(dnnl_pooling_forward_primitive_desc_create(&pooling, engine, dnnl_forward_training, dnnl_pooling_max, a->desc, p->desc, twos, twos, zeros, zeros, zeros, NULL));
    *workspace = make(dnnl_primitive_desc_query_md(pooling, dnnl_query_workspace_md, 0));
    f[2] = STEP(pooling, {DNNL_ARG_SRC, a->memory}, {DNNL_ARG_DST, p->memory}, {DNNL_ARG_WORKSPACE, workspace->memory});

    TRY(dnnl_pooling_backward_primitive_desc_create(&back, engine, dnnl_pooling_max, d_a->desc, d_p->desc, twos, twos, zeros, zeros, zeros, pooling, NULL));
    *g++ = STEP(back, {DNNL_ARG_DIFF_DST, d_p->memory}, {DNNL_ARG_WORKSPACE, workspace->memory}, {DNNL_ARG_DIFF_SRC, d_a->memory});
    dnnl_primitive_desc_destroy(back);
    TRY(dnnl_eltwise_backward_primitive_desc_create(&back, engine, dnnl_eltwise_relu_use_dst_for_bwd, d_a->desc, d_a->desc, a->desc, 0, 0, relu, NULL));
    *g++ = STEP(back, {DNNL_ARG_DST, a->memory}, {DNNL_ARG_DIFF_DST, d_a->memory}, {DNNL_ARG_DIFF_SRC, d_a->memory});
    dnnl_primitive_desc_destroy(back);
    TRY(dnnl_convolution_backward_weights_primitive_desc_create(&back, engine, dnnl_convolution_direct, x->desc, d_w->desc, d_b->desc, d_a->desc, ones, zeros, ones, ones, convolution, NULL));
    *g++ = STEP(back, {DNNL_ARG_SRC, x->memory}, {DNNL_ARG_DIFF_DST, d_a->memory}, {DNNL_ARG_DIFF_WEIGHTS, d_w->memory}, {DNNL_ARG_DIFF_BIAS, d_b->memory});
    dnnl_primitive_desc_destroy(back);
    if (d_x) {
        TRY(dnnl_convolution_backward_data_primitive_desc_create(&back, engine, dnnl_convolution_direct, d_x->desc, w->desc, d_a->desc, ones, zeros, ones, ones, convolution, NULL));
        *g++ = STEP(back, {DNNL_ARG_WEIGHTS, w->memory}, {DNNL_ARG_DIFF_DST, d_a->memory}, {DNNL_ARG_DIFF_SRC, d_x->memory});
        dnnl_primitive_desc_destroy(back);
    }
    dnnl_primitive_desc_destroy(convolution);
    dnnl_primitive_desc_destroy(relu);
    dnnl_primitive_desc_destroy(pooling);
}

/* The inner product and softmax behind the layers. The gradient of the scores is the host's, see below. */
static void classifier(network *net) {
    tensor *w = &net->parameter[4], *b = w + 1, *d_w = &net->gradient[4], *d_b = d_w + 1;
    dnnl_primitive_desc_t product, softmax, back;
    TRY(dnnl_inner_product_forward_primitive_desc_create(&product, engine, dnnl_forward_training, net->p2.desc, w->desc, b->desc, net->score.desc, NULL));
    net->forward[6] = STEP(product, {DNNL_ARG_SRC, net->p2.memory}, {DNNL_ARG_WEIGHTS, w->memory}, {DNNL_ARG_BIAS, b->memory}, {DNNL_ARG_DST, net->score.memory});
    TRY(dnnl_softmax_forward_primitive_desc_create(&softmax, engine, dnnl_forward_training, dnnl_softmax_accurate, net->score.desc, net->probability.desc, 1, NULL));
    net->forward[7] = STEP(softmax, {DNNL_ARG_SRC, net->score.memory}, {DNNL_ARG_DST, net->probability.memory});
    TRY(dnnl_inner_product_backward_weights_primitive_desc_create(&back, engine, net->p2.desc, d_w->desc, d_b->desc, net->d_score.desc, product, NULL));
    net->backward[0] = STEP(back, {DNNL_ARG_SRC, net->p2.memory}, {DNNL_ARG_DIFF_DST, net->d_score.memory}, {DNNL_ARG_DIFF_WEIGHTS, d_w->memory}, {DNNL_ARG_DIFF_BIAS, d_b->memory});
    dnnl_primitive_desc_destroy(back);
    TRY(dnnl_inner_product_backward_data_primitive_desc_create(&back, engine, net->d_p2.desc, w->desc, net->d_score.desc, product, NULL));
    net->backward[1] = STEP(back, {DNNL_ARG_WEIGHTS, w->memory}, {DNNL_ARG_DIFF_DST, net->d_score.memory}, {DNNL_ARG_DIFF_SRC, net->d_p2.memory});
    dnnl_primitive_desc_destroy(back);
    dnnl_primitive_desc_destroy(product);
    dnnl_primitive_desc_destroy(softmax);
}

/* Each parameter moves on as it did before, and down its gradient: two sums, in place. */
static void updates(network *net, float momentum, float rate) {
    for (int i = 0; i < PARAMETERS; i++) {
        tensor *p = &net->parameter[i], *g = &net->gradient[i], *v = &net->moved[i];
        const float kept[] = {momentum, -rate}, whole[] = {1, 1};
        const_dnnl_memory_desc_t of_move[] = {v->desc, g->desc}, of_step[] = {p->desc, v->desc};
        dnnl_primitive_desc_t described;
        TRY(dnnl_sum_primitive_desc_create(&described, engine, v->desc, 2, kept, of_move, NULL));
        net->update[2 * i] = STEP(described, {DNNL_ARG_MULTIPLE_SRC, v->memory}, {DNNL_ARG_MULTIPLE_SRC + 1, g->memory}, {DNNL_ARG_DST, v->memory});
        dnnl_primitive_desc_destroy(described);
        TRY(dnnl_sum_primitive_desc_create(&described, engine, p->desc, 2, whole, of_step, NULL));
        net->update[2 * i + 1] = STEP(described, {DNNL_ARG_MULTIPLE_SRC, p->memory}, {DNNL_ARG_MULTIPLE_SRC + 1, v->memory}, {DNNL_ARG_DST, p->memory});
        dnnl_primitive_desc_destroy(described);
    }
}

static void build(network *net) {
    net->image = floats(4, BATCH, 1, 8, 8);
    net->a1 = floats(4, BATCH, FIRST, 8, 8), net->d_a1 = floats(4, BATCH, FIRST, 8, 8);
    net->p1 = floats(4, BATCH, FIRST, 4, 4), net->d_p1 = floats(4, BATCH, FIRST, 4, 4);
    net->a2 = floats(4, BATCH, SECOND, 4, 4), net->d_a2 = floats(4, BATCH, SECOND, 4, 4);
    net->p2 = floats(4, BATCH, SECOND, 2, 2), net->d_p2 = floats(4, BATCH, SECOND, 2, 2);
    net->score = floats(2, BATCH, CLASSES, 0, 0), net->probability = floats(2, BATCH, CLASSES, 0, 0), net->d_score = floats(2, BATCH, CLASSES, 0, 0);
    /* The uniform distribution whose variance is two over the number of inputs. */
    const float scale[] = {sqrtf(6.0f / 9), 0, sqrtf(6.0f / (9 * FIRST)), 0, sqrtf(3.0f / (4 * SECOND)), 0};
    for (int i = 0; i < PARAMETERS; i++) {
        tensor *const all[] = {&net->parameter[i], &net->gradient[i], &net->moved[i]};
        for (int j = 0; j < 3; j++) {
            switch (i) {
                case 0: *all[j] = floats(4, FIRST, 1, 3, 3); break;
                case 1: *all[j] = floats(1, FIRST, 0, 0, 0); break;
                case 2: *all[j] = floats(4, SECOND, FIRST, 3, 3); break;
                case 3: *all[j] = floats(1, SECOND, 0, 0, 0); break;
                case 4: *all[j] = floats(4, CLASSES, SECOND, 2, 2); break;
                default: *all[j] = floats(1, CLASSES, 0, 0, 0); break;
            }
            draw(all[j], j ? 0 : scale[i]);
        }
    }
    layer(net, 0, &net->image, &net->a1, &net->p1, &net->workspace1, NULL, &net->d_a1, &net->d_p1);
    layer(net, 1, &net->p1, &net->a2, &net->p2, &net->workspace2, &net->d_p1, &net->d_a2, &net->d_p2);
    classifier(net);
    updates(net, 0.9f, 0.05f);
}

static void end_all(network *net) {
    for (int i = 0; i < FORWARD; i++) dnnl_primitive_destroy(net->forward[i].primitive);
    for (int i = 0; i < BACKWARD; i++) dnnl_primitive_destroy(net->backward[i].primitive);
    for (int i = 0; i < 2 * PARAMETERS; i++) dnnl_primitive_destroy(net->update[i].primitive);
    for (int i = 0; i < PARAMETERS; i++) end(&net->parameter[i]), end(&net->gradient[i]), end(&net->moved[i]);
    tensor *const rest[] = {&net->image, &net->a1, &net->p1, &net->a2, &net->p2, &net->score, &net->probability, &net->d_score, &net->d_p2, &net->d_a2, &net->d_p1,
            &net->d_a1, &net->workspace1, &net->workspace2};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) end(rest[i]);
}

static float pixels[IMAGES][SIDE * SIDE];
static int labels[IMAGES];

/* A length of eight bytes, that many of names, then the images and the labels. */
static void read_images(const char *path) {
    static unsigned char bytes[IMAGES * (SIDE * SIDE + 1)];
    FILE *file = fopen(path, "rb");
    unsigned char length[8];
    if (!file || fread(length, 1, 8, file) != 8 || fseek(file, 8 + (length[0] | length[1] << 8), SEEK_SET) || fread(bytes, 1, sizeof bytes, file) != sizeof bytes) {
        printf("FAILED to read %s\n", path);
        exit(2);
    }
    fclose(file);
    for (int i = 0; i < IMAGES; i++) {
        for (int j = 0; j < SIDE * SIDE; j++) pixels[i][j] = (float)bytes[i * SIDE * SIDE + j] / 16;
        labels[i] = bytes[IMAGES * SIDE * SIDE + i];
    }
}

/* Classifies a batch; returns how many are right, and adds up the loss. */
static int classify(network *net, const int *chosen, float (*probability)[CLASSES], double *loss) {
    static float batch[BATCH][SIDE * SIDE];
    int right = 0;
    for (int i = 0; i < BATCH; i++) memcpy(batch[i], pixels[chosen[i]], sizeof batch[i]);
    put(&net->image, batch[0]);
    run(net->forward, FORWARD);
    get(&net->probability, probability[0]);
    for (int i = 0; i < BATCH; i++) {
        int best = 0;
        for (int c = 1; c < CLASSES; c++) if (probability[i][c] > probability[i][best]) best = c;
        right += best == labels[chosen[i]];
        *loss -= log((double)probability[i][labels[chosen[i]]] + 1e-30);
    }
    return right;
}

static void open_engine(const char *platform) {
    if (strcmp(platform, "cpu") == 0) {
        TRY(dnnl_engine_create(&engine, dnnl_cpu, 0));
        return;
    }
    const cl_device_id wanted = check_device(platform);
    for (size_t i = 0; i < dnnl_engine_get_count(dnnl_gpu); i++) {
        cl_device_id device = NULL;
        TRY(dnnl_engine_create(&engine, dnnl_gpu, i));
        TRY(dnnl_ocl_interop_get_device(engine, &device));
        if (device == wanted) return;
        dnnl_engine_destroy(engine);
    }
    printf("FAILED: no engine on %s\n", platform);
    exit(2);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    const int epochs = argc > 3 ? atoi(argv[3]) : 30;
    static network net;
    static float probability[BATCH][CLASSES];
    int learned[IMAGES], held[IMAGES], learns = 0, holds = 0;
    read_images(argv[1]);
    for (int i = 0; i < IMAGES; i++) *(i % 5 == 3 ? &held[holds++] : &learned[learns++]) = i;
    open_engine(argc > 2 ? argv[2] : "intel");
    TRY(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    build(&net);
    uint32_t state = 1;
    for (int epoch = 0; epoch < epochs; epoch++) {
        double loss = 0;
        /* Another order in each epoch (Fisher and Yates). */
        for (int i = learns - 1; i > 0; i--) {
            state = state * 1664525u + 1013904223u;
            const int j = (int)((state >> 8) % (uint32_t)(i + 1)), other = learned[i];
            learned[i] = learned[j], learned[j] = other;
        }
        for (int first = 0; first + BATCH <= learns; first += BATCH) {
            classify(&net, learned + first, probability, &loss);
            /* The gradient of the mean cross entropy behind softmax: what it gives, less what it should give. */
            for (int i = 0; i < BATCH; i++) {
                probability[i][labels[learned[first + i]]] -= 1;
                for (int c = 0; c < CLASSES; c++) probability[i][c] /= BATCH;
            }
            put(&net.d_score, probability[0]);
            run(net.backward, BACKWARD);
            run(net.update, 2 * PARAMETERS);
        }
        printf("epoch %d loss %.6f\n", epoch + 1, loss / learns);
    }
    double loss = 0;
    int right = 0;
    for (int first = 0; first + BATCH <= holds; first += BATCH) right += classify(&net, held + first, probability, &loss);
    printf("held back: %d of %d\n", right, holds);
    end_all(&net);
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
    return 0;
}
