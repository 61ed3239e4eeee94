/* Graphs as programs for oneDNN make them: how many values an attribute has, what a tensor may be said to be, capacities. */
#include "check.h"

#include "oneapi/dnnl/dnnl_graph.h"

static dnnl_graph_logical_tensor_t tensor(size_t id, dnnl_graph_layout_type_t layout) {
    dnnl_graph_logical_tensor_t made;
    const dnnl_dims_t dims = {4, 6};
    OK(dnnl_graph_logical_tensor_init_with_dims(
            &made, id, dnnl_f32, 2, dims, layout, dnnl_graph_tensor_property_undef));
    return made;
}

static dnnl_graph_op_t operation(size_t id, dnnl_graph_op_kind_t kind, const dnnl_graph_logical_tensor_t *in,
        const dnnl_graph_logical_tensor_t *out) {
    dnnl_graph_op_t op = NULL;
    OK(dnnl_graph_op_create(&op, id, kind, "op"));
    OK(dnnl_graph_op_add_input(op, in));
    OK(dnnl_graph_op_add_output(op, out));
    return op;
}

/* A value that is no list is one value, whether its number is told or not. */
static void attributes(void) {
    const dnnl_graph_logical_tensor_t x = tensor(0, dnnl_graph_layout_type_strided),
                                      y = tensor(1, dnnl_graph_layout_type_strided);
    const int64_t axis = 1;
    const float alpha = 0.5F, pair[2] = {1, 2};
    const uint8_t flag = 1;
    for (size_t count = 0; count < 3; count++) {
        dnnl_graph_op_t softmax = operation(0, dnnl_graph_op_softmax, &x, &y);
        dnnl_graph_op_t elu = operation(1, dnnl_graph_op_elu, &x, &y);
        const dnnl_status_t expected = count < 2 ? dnnl_success : dnnl_invalid_arguments;
        ABOUT(dnnl_graph_op_set_attr_s64);
        STATUS(expected, dnnl_graph_op_set_attr_s64(softmax, dnnl_graph_op_attr_axis, count < 2 ? &axis : (int64_t[]) {1, 1}, count));
        ABOUT(dnnl_graph_op_set_attr_f32);
        STATUS(expected, dnnl_graph_op_set_attr_f32(elu, dnnl_graph_op_attr_alpha, count < 2 ? &alpha : pair, count));
        INVALID(dnnl_graph_op_set_attr_f32(elu, dnnl_graph_op_attr_alpha, NULL, count));
        ABOUT(dnnl_graph_op_set_attr_bool);
        STATUS(count == 1 ? dnnl_success : dnnl_invalid_arguments,
                dnnl_graph_op_set_attr_bool(softmax, dnnl_graph_op_attr_keep_dims, &flag, count));
        /* Both have what they must have. */
        ABOUT(dnnl_graph_add_op);
        dnnl_graph_graph_t graph = NULL;
        OK(dnnl_graph_graph_create(&graph, dnnl_gpu));
        STATUS(count < 2 ? dnnl_success : dnnl_invalid_graph_op, dnnl_graph_add_op(graph, elu));
        OK(dnnl_graph_graph_destroy(graph));
        OK(dnnl_graph_op_destroy(softmax));
        OK(dnnl_graph_op_destroy(elu));
    }
    /* One word, or all its bytes. */
    ABOUT(dnnl_graph_op_set_attr_str);
    for (size_t count = 0; count < 12; count++) {
        dnnl_graph_op_t gelu = operation(0, dnnl_graph_op_gelu, &x, &y);
        STATUS(count ? dnnl_success : dnnl_invalid_arguments,
                dnnl_graph_op_set_attr_str(gelu, dnnl_graph_op_attr_mode, "gelu_tanh", count));
        INVALID(dnnl_graph_op_set_attr_str(gelu, dnnl_graph_op_attr_mode, NULL, count));
        dnnl_graph_graph_t graph = NULL;
        OK(dnnl_graph_graph_create(&graph, dnnl_gpu));
        /* A word cut short would be refused here. */
        OK(dnnl_graph_add_op(graph, gelu));
        OK(dnnl_graph_graph_destroy(graph));
        OK(dnnl_graph_op_destroy(gelu));
    }
}

/* Every operation must say the same of a tensor. */
static void layouts(void) {
    ABOUT(dnnl_graph_graph_finalize);
    const dnnl_dims_t dims = {4, 6}, columns = {1, 4};
    dnnl_graph_logical_tensor_t shared[4];
    shared[0] = tensor(1, dnnl_graph_layout_type_strided);
    shared[1] = tensor(1, dnnl_graph_layout_type_any);
    shared[2] = tensor(1, dnnl_graph_layout_type_undef);
    OK(dnnl_graph_logical_tensor_init_with_strides(
            &shared[3], 1, dnnl_f32, 2, dims, columns, dnnl_graph_tensor_property_undef));
    const dnnl_graph_logical_tensor_t x = tensor(0, dnnl_graph_layout_type_strided),
                                      y = tensor(2, dnnl_graph_layout_type_strided);
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            dnnl_graph_graph_t graph = NULL;
            dnnl_graph_op_t first = operation(0, dnnl_graph_op_relu, &x, &shared[a]),
                            second = operation(1, dnnl_graph_op_relu, &shared[b], &y);
            OK(dnnl_graph_graph_create(&graph, dnnl_gpu));
            OK(dnnl_graph_add_op(graph, first));
            OK(dnnl_graph_add_op(graph, second));
            STATUS(a == b ? dnnl_success : dnnl_invalid_graph, dnnl_graph_graph_finalize(graph));
            OK(dnnl_graph_graph_destroy(graph));
            OK(dnnl_graph_op_destroy(first));
            OK(dnnl_graph_op_destroy(second));
        }
}

static void capacities(void) {
    ABOUT(dnnl_graph_set_constant_tensor_cache_capacity);
    size_t size = 0;
    OK(dnnl_graph_set_constant_tensor_cache_capacity(dnnl_cpu, 5));
    OK(dnnl_graph_set_constant_tensor_cache_capacity(dnnl_gpu, 7));
    OK(dnnl_graph_get_constant_tensor_cache_capacity(dnnl_cpu, &size));
    CHECK(size == 5);
    OK(dnnl_graph_get_constant_tensor_cache_capacity(dnnl_gpu, &size));
    CHECK(size == 7);
    OK(dnnl_graph_set_constant_tensor_cache_capacity(dnnl_gpu, 0));
}

int main(int argc, char **argv) {
    /* The ledger of references opens with the first call. */
    CL(clReleaseContext(check_context(check_device(argc > 1 ? argv[1] : NULL))));
    attributes();
    layouts();
    capacities();
    return check_end();
}
