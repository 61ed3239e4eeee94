/* The graph API and what came with it, for objects_null.c: every function with every combination of null and valid pointers. */
#include "oneapi/dnnl/dnnl_graph.h"
#include "oneapi/dnnl/dnnl_graph_ocl.h"

static void *null_malloc(size_t size, size_t alignment, cl_device_id device, cl_context context) {
    (void)size, (void)alignment, (void)device, (void)context;
    return NULL;
}
static void null_free(void *buffer, cl_device_id device, cl_context context, cl_event event) {
    (void)buffer, (void)device, (void)context, (void)event;
}

#define END_GRAPH(kind, slot) \
    do { \
        if (slot) dnnl_graph_##kind##_destroy(slot); \
        slot = NULL; \
    } while (0)

/* A finalised graph of one ReLU. */
static void null_relu(dnnl_graph_graph_t graph, const dnnl_graph_logical_tensor_t *src,
        const dnnl_graph_logical_tensor_t *dst, dnnl_graph_op_t *op) {
    OK(dnnl_graph_op_create(op, 7, dnnl_graph_op_relu, "relu"));
    OK(dnnl_graph_op_add_input(*op, src));
    OK(dnnl_graph_op_add_output(*op, dst));
    OK(dnnl_graph_add_op(graph, *op));
    OK(dnnl_graph_graph_finalize(graph));
    OK(dnnl_graph_graph_filter(graph, dnnl_graph_partition_policy_fusion));
}

static void null_graphs(dnnl_engine_t engine, dnnl_stream_t stream, cl_device_id device, cl_context context,
        const pointers_t *pointers, cl_command_queue queue, cl_event done) {
    dnnl_graph_logical_tensor_t src, dst, scalar, slot;
    const dnnl_dims_t dims = {4, 4}, strides = {4, 1};
    dnnl_graph_allocator_t allocator = NULL, allocator_slot = NULL;
    dnnl_engine_t engine_slot = NULL;
    dnnl_graph_tensor_t in = NULL, out = NULL, tensor_slot = NULL;
    dnnl_graph_op_t op = NULL, op_slot = NULL;
    dnnl_graph_graph_t graph = NULL, graph_slot = NULL;
    dnnl_graph_partition_t partition = NULL, partition_slot = NULL;
    dnnl_graph_compiled_partition_t compiled = NULL, compiled_slot = NULL;
    dnnl_graph_op_kind_t op_kind;
    dnnl_engine_kind_t kind, own_kind = dnnl_any_engine;
    dnnl_fpmath_mode_t mode;
    const dnnl_graph_inplace_pair_t *pairs = NULL;
    cl_event event_slot = NULL;
    size_t size = 0, ids[4];
    uint8_t flag = 0;
    int n = 0;
    float value = 1, values[16] = {0};
    int64_t number = 1;
    uint8_t blob[16] = {0};
    void *handle = NULL, *bytes = pointer_of(pointers, queue, sizeof values, values);

    OK(dnnl_engine_get_kind(engine, &own_kind));
    for (int k = -2; k < 15; k++)
        for (int t = -1; t < 5; t++) {
            FUZZ(dnnl_graph_logical_tensor_init, 1,
                    (P(0, &slot), 1, dnnl_f32, k, (dnnl_graph_layout_type_t)(t < 0 ? 0 : t % 4),
                            (dnnl_graph_tensor_property_t)(t < 0 ? 3 : t % 4)), (void)0);
            if (k <= 2)
                FUZZ(dnnl_graph_logical_tensor_init_with_dims, 2,
                        (P(0, &slot), 1, (dnnl_data_type_t)(t + 1), k, m >> 1 & 1 ? dims : NULL,
                                (dnnl_graph_layout_type_t)(t < 0 ? 9 : t), dnnl_graph_tensor_property_variable), (void)0);
        }
    FUZZ(dnnl_graph_logical_tensor_init_with_strides, 3,
            (P(0, &slot), 1, dnnl_f32, 2, m >> 1 & 1 ? dims : NULL, m >> 2 & 1 ? strides : NULL,
                    dnnl_graph_tensor_property_variable), (void)0);
    OK(dnnl_graph_logical_tensor_init_with_dims(&src, 1, dnnl_f32, 2, dims, dnnl_graph_layout_type_strided,
            dnnl_graph_tensor_property_variable));
    OK(dnnl_graph_logical_tensor_init_with_dims(&dst, 2, dnnl_f32, 2, dims, dnnl_graph_layout_type_strided,
            dnnl_graph_tensor_property_variable));
    OK(dnnl_graph_logical_tensor_init(&scalar, 3, dnnl_f32, 0, dnnl_graph_layout_type_strided,
            dnnl_graph_tensor_property_host_scalar));
    FUZZ(dnnl_graph_logical_tensor_get_mem_size, 2, (P(0, &src), P(1, &size)), (void)0);
    FUZZ(dnnl_graph_logical_tensor_is_equal, 3, (P(0, &src), P(1, &dst), P(2, &flag)), (void)0);

    FUZZ(dnnl_graph_allocator_create, 1, (P(0, &allocator_slot), NULL, NULL), END_GRAPH(allocator, allocator_slot));
    FUZZ(dnnl_graph_ocl_interop_allocator_create, 3,
            (P(0, &allocator_slot), m >> 1 & 1 ? null_malloc : NULL, m >> 2 & 1 ? null_free : NULL),
            END_GRAPH(allocator, allocator_slot));
    OK(dnnl_graph_ocl_interop_allocator_create(&allocator, null_malloc, null_free));
    FUZZ(dnnl_graph_allocator_destroy, 0, (NULL), (void)0);
    for (int k = -1; k < 4; k++)
        FUZZ(dnnl_graph_make_engine_with_allocator, 2,
                (P(0, &engine_slot), (dnnl_engine_kind_t)k, 0, P(1, allocator)), END(engine, engine_slot));
    FUZZ(dnnl_graph_ocl_interop_make_engine_with_allocator, 4,
            (P(0, &engine_slot), P(1, device), P(2, context), P(3, allocator)), END(engine, engine_slot));
    FUZZ(dnnl_graph_ocl_interop_make_engine_from_cache_blob_with_allocator, 5,
            (P(0, &engine_slot), P(1, device), P(2, context), P(3, allocator), sizeof blob, P(4, blob)),
            END(engine, engine_slot));

    void *handles[] = {bytes, DNNL_MEMORY_NONE, DNNL_MEMORY_ALLOCATE};
    for (int h = 0; h < 3; h++)
        FUZZ(dnnl_graph_tensor_create, 3, (P(0, &tensor_slot), m >> 1 & 1 ? &src : NULL, P(2, engine), handles[h]),
                END_GRAPH(tensor, tensor_slot));
    FUZZ(dnnl_graph_tensor_create_scalar, 3, (P(0, &tensor_slot), m >> 1 & 1 ? &scalar : NULL, P(2, &value)),
            END_GRAPH(tensor, tensor_slot));
    OK(dnnl_graph_tensor_create(&in, &src, engine, bytes));
    OK(dnnl_graph_tensor_create(&out, &dst, engine, DNNL_MEMORY_ALLOCATE));
    FUZZ(dnnl_graph_tensor_destroy, 0, (NULL), (void)0);
    FUZZ(dnnl_graph_tensor_get_data_handle, 2, (P(0, in), P(1, &handle)), (void)0);
    FUZZ(dnnl_graph_tensor_set_data_handle, 2, (P(0, in), P(1, bytes)), (void)0);
    OK(dnnl_graph_tensor_set_data_handle(in, bytes));
    FUZZ(dnnl_graph_tensor_get_engine, 2, (P(0, in), P(1, &engine_slot)), engine_slot = NULL);
    FUZZ(dnnl_graph_tensor_get_logical_tensor, 2, (P(0, in), P(1, &slot)), (void)0);

    for (int k = -1; k < 90; k++)
        FUZZ(dnnl_graph_op_create, 2, (P(0, &op_slot), 1, (dnnl_graph_op_kind_t)k, P(1, "op")),
                END_GRAPH(op, op_slot));
    FUZZ(dnnl_graph_op_destroy, 0, (NULL), (void)0);
    for (int k = 0; k < 16; k++)
        FUZZ(dnnl_graph_graph_create, 1, (P(0, &graph_slot), (dnnl_engine_kind_t)(k - 2)), END_GRAPH(graph, graph_slot));
    for (int k = -1; k < 7; k++)
        FUZZ(dnnl_graph_graph_create_with_fpmath_mode, 1, (P(0, &graph_slot), own_kind, (dnnl_fpmath_mode_t)k),
                END_GRAPH(graph, graph_slot));
    OK(dnnl_graph_graph_create(&graph, own_kind));
    FUZZ(dnnl_graph_graph_destroy, 0, (NULL), (void)0);
    FUZZ(dnnl_graph_graph_filter, 1, (P(0, graph), dnnl_graph_partition_policy_fusion), (void)0);
    FUZZ(dnnl_graph_graph_get_partition_num, 2, (P(0, graph), P(1, &size)), (void)0);
    FUZZ(dnnl_graph_graph_set_fpmath_mode, 1, (P(0, graph), dnnl_fpmath_mode_any, 1), (void)0);
    FUZZ(dnnl_graph_graph_get_fpmath_mode, 3, (P(0, graph), P(1, &mode), P(2, &n)), (void)0);
    FUZZ(dnnl_graph_graph_is_finalized, 2, (P(0, graph), P(1, &flag)), (void)0);
    FUZZ(dnnl_graph_graph_finalize, 0, (NULL), (void)0);
    FUZZ(dnnl_graph_add_op, 1, (NULL, P(0, op)), (void)0);
    null_relu(graph, &src, &dst, &op);
    FUZZ(dnnl_graph_add_op, 2, (P(0, graph), P(1, op)), (void)0);
    FUZZ(dnnl_graph_op_add_input, 1, (NULL, P(0, &src)), (void)0);
    FUZZ(dnnl_graph_op_add_input, 1, (P(0, op), NULL), (void)0);
    FUZZ(dnnl_graph_op_add_output, 1, (P(0, op), NULL), (void)0);
    FUZZ(dnnl_graph_op_get_id, 2, (P(0, op), P(1, &size)), (void)0);
    FUZZ(dnnl_graph_op_get_kind, 2, (P(0, op), P(1, &op_kind)), (void)0);
    for (int a = -1; a < 0x102; a++) {
        const dnnl_graph_op_attr_t name = (dnnl_graph_op_attr_t)a;
        FUZZ(dnnl_graph_op_set_attr_f32, 2, (P(0, op), name, P(1, &value), 1), (void)0);
        FUZZ(dnnl_graph_op_set_attr_bool, 2, (P(0, op), name, P(1, &flag), 1), (void)0);
        FUZZ(dnnl_graph_op_set_attr_s64, 2, (P(0, op), name, P(1, &number), 1), (void)0);
        FUZZ(dnnl_graph_op_set_attr_str, 2, (P(0, op), name, P(1, "none"), 4), (void)0);
    }

    for (size_t count_ = 0; count_ < 3; count_++) {
        FUZZ(dnnl_graph_graph_get_partitions, 2, (P(0, graph), count_, P(1, &partition_slot)),
                END_GRAPH(partition, partition_slot));
        if (count_ == 1) break;
    }
    OK(dnnl_graph_graph_get_partitions(graph, 1, &partition));
    FUZZ(dnnl_graph_partition_destroy, 0, (NULL), (void)0);
    dnnl_graph_op_t plain = NULL;
    OK(dnnl_graph_op_create(&plain, 9, dnnl_graph_op_relu, "relu"));
    OK(dnnl_graph_op_add_input(plain, &src));
    OK(dnnl_graph_op_add_output(plain, &dst));
    FUZZ(dnnl_graph_partition_create_with_op, 2, (P(0, &partition_slot), P(1, plain), own_kind),
            END_GRAPH(partition, partition_slot));
    OK(dnnl_graph_op_destroy(plain));
    FUZZ(dnnl_graph_partition_get_op_num, 2, (P(0, partition), P(1, &size)), (void)0);
    FUZZ(dnnl_graph_partition_get_ops, 2, (P(0, partition), 1, P(1, ids)), (void)0);
    FUZZ(dnnl_graph_partition_get_id, 2, (P(0, partition), P(1, &size)), (void)0);
    FUZZ(dnnl_graph_partition_get_input_ports_num, 2, (P(0, partition), P(1, &size)), (void)0);
    FUZZ(dnnl_graph_partition_get_input_ports, 2, (P(0, partition), 1, P(1, &slot)), (void)0);
    FUZZ(dnnl_graph_partition_get_output_ports_num, 2, (P(0, partition), P(1, &size)), (void)0);
    FUZZ(dnnl_graph_partition_get_output_ports, 2, (P(0, partition), 1, P(1, &slot)), (void)0);
    FUZZ(dnnl_graph_partition_is_supported, 2, (P(0, partition), P(1, &flag)), (void)0);
    FUZZ(dnnl_graph_partition_get_engine_kind, 2, (P(0, partition), P(1, &kind)), (void)0);
    FUZZ(dnnl_graph_compiled_partition_create, 2, (P(0, &compiled_slot), P(1, partition)),
            END_GRAPH(compiled_partition, compiled_slot));
    FUZZ(dnnl_graph_compiled_partition_destroy, 0, (NULL), (void)0);
    OK(dnnl_graph_compiled_partition_create(&compiled, partition));
    const dnnl_graph_logical_tensor_t *ins[] = {&src}, *outs[] = {&dst}, *nothing[] = {NULL};
    INVALID(dnnl_graph_compiled_partition_query_logical_tensor(compiled, 1, &slot));
    FUZZ(dnnl_graph_partition_compile, 5,
            (P(0, partition), P(1, compiled), 1, m >> 2 & 1 ? ins : NULL, 1, m >> 3 & 1 ? outs : NULL, P(4, engine)), (void)0);
    INVALID(dnnl_graph_partition_compile(partition, compiled, 1, nothing, 1, outs, engine));
    FUZZ(dnnl_graph_compiled_partition_query_logical_tensor, 2, (P(0, compiled), 1, P(1, &slot)), (void)0);
    FUZZ(dnnl_graph_compiled_partition_get_inplace_ports, 3, (P(0, compiled), P(1, &size), P(2, &pairs)), (void)0);
    FUZZ(dnnl_graph_compiled_partition_get_scratchpad_logical_tensor, 2, (P(0, compiled), P(1, &slot)), (void)0);
    const_dnnl_graph_tensor_t given[] = {in}, made[] = {out}, none[] = {NULL};
    FUZZ(dnnl_graph_compiled_partition_execute, 4,
            (P(0, compiled), P(1, stream), 1, m >> 2 & 1 ? given : NULL, 1, m >> 3 & 1 ? made : NULL), (void)0);
    FUZZ(dnnl_graph_compiled_partition_execute_v2, 4,
            (P(0, compiled), P(1, stream), 1, m >> 2 & 1 ? given : NULL, 1, m >> 3 & 1 ? made : NULL, NULL), (void)0);
    INVALID(dnnl_graph_compiled_partition_execute(compiled, stream, 1, none, 1, made));
    for (int ndeps = -1; ndeps < 2; ndeps++) {
        FUZZ(dnnl_graph_ocl_interop_compiled_partition_execute, 6,
                (P(0, compiled), P(1, stream), 1, m >> 2 & 1 ? given : NULL, 1, m >> 3 & 1 ? made : NULL, P(4, &done),
                        ndeps, P(5, &event_slot)), (void)0);
        FUZZ(dnnl_graph_ocl_interop_compiled_partition_execute_v2, 6,
                (P(0, compiled), P(1, stream), 1, m >> 2 & 1 ? given : NULL, 1, m >> 3 & 1 ? made : NULL, NULL,
                        P(4, &done), ndeps, P(5, &event_slot)), (void)0);
    }
    OK(dnnl_stream_wait(stream));

    FUZZ(dnnl_graph_get_compiled_partition_cache_capacity, 1, (P(0, &n)), (void)0);
    EACH(dnnl_graph_set_compiled_partition_cache_capacity, 0,
            count(dnnl_graph_set_compiled_partition_cache_capacity(-1)), (void)0);
    EACH(dnnl_graph_set_constant_tensor_cache, 0, count(dnnl_graph_set_constant_tensor_cache(-1)), (void)0);
    FUZZ(dnnl_graph_get_constant_tensor_cache, 1, (P(0, &n)), (void)0);
    for (int k = -1; k < 4; k++) {
        EACH(dnnl_graph_set_constant_tensor_cache_capacity, 0,
                count(dnnl_graph_set_constant_tensor_cache_capacity((dnnl_engine_kind_t)k, 0)), (void)0);
        FUZZ(dnnl_graph_get_constant_tensor_cache_capacity, 1, ((dnnl_engine_kind_t)k, P(0, &size)), (void)0);
    }
    EACH(dnnl_graph_set_dump_mode, 0, count(dnnl_graph_set_dump_mode((dnnl_graph_dump_mode_t)64)), (void)0);
    EACH(dnnl_graph_set_dump_mode, 0, count(dnnl_graph_set_dump_mode(dnnl_graph_dump_mode_none)), (void)0);

    OK(dnnl_graph_compiled_partition_destroy(compiled));
    /* The cache keeps compiled partitions, and they their engine. */
    OK(dnnl_graph_set_compiled_partition_cache_capacity(0));
    OK(dnnl_graph_set_compiled_partition_cache_capacity(1024));
    OK(dnnl_graph_partition_destroy(partition));
    OK(dnnl_graph_op_destroy(op));
    OK(dnnl_graph_graph_destroy(graph));
    OK(dnnl_graph_tensor_destroy(in));
    OK(dnnl_graph_tensor_destroy(out));
    OK(dnnl_graph_allocator_destroy(allocator));
    CL(clFinish(queue));
    pointer_free(pointers, bytes);
}

/* Post-operations, matrix products, softmax and queries. */
static void null_primitives(dnnl_engine_t engine) {
    dnnl_memory_desc_t desc = NULL;
    const dnnl_dims_t dims = {4, 4};
    dnnl_post_ops_t ops = NULL, ops_slot = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd_slot = NULL;
    OK(dnnl_memory_desc_create_with_tag(&desc, 2, dims, dnnl_f32, dnnl_ab));
    OK(dnnl_primitive_attr_create(&attr));
    FUZZ(dnnl_post_ops_create, 1, (P(0, &ops_slot)), END(post_ops, ops_slot));
    FUZZ(dnnl_post_ops_destroy, 0, (NULL), (void)0);
    OK(dnnl_post_ops_create(&ops));
    for (int k = -1; k < 14; k++)
        FUZZ(dnnl_post_ops_append_binary, 2, (P(0, ops), (dnnl_alg_kind_t)(dnnl_binary_add + k), P(1, desc)), (void)0);
    for (int k = -1; k < 3; k++)
        FUZZ(dnnl_primitive_attr_set_scratchpad_mode, 1, (P(0, attr), (dnnl_scratchpad_mode_t)k), (void)0);
    FUZZ(dnnl_primitive_attr_set_post_ops, 2, (P(0, attr), P(1, ops)), (void)0);
    OK(dnnl_primitive_attr_set_post_ops(attr, NULL));
    FUZZ(dnnl_matmul_primitive_desc_create, 7,
            (P(0, &pd_slot), P(1, engine), P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, attr)),
            END(primitive_desc, pd_slot));
    for (int axis = -1; axis < 3; axis++)
        FUZZ(dnnl_softmax_forward_primitive_desc_create, 5,
                (P(0, &pd_slot), P(1, engine), dnnl_forward_inference, dnnl_softmax_accurate, P(2, desc), P(3, desc),
                        axis, P(4, attr)), END(primitive_desc, pd_slot));
    OK(dnnl_matmul_primitive_desc_create(&pd_slot, engine, desc, desc, NULL, desc, NULL));
    for (int what = 120; what < 260; what++)
        EACH(dnnl_primitive_desc_query_md, 1,
                calls += dnnl_primitive_desc_query_md(P(0, pd_slot), (dnnl_query_t)what, 0) == NULL, (void)0);
    OK(dnnl_primitive_desc_destroy(pd_slot));
    for (int k = -1; k < 18; k++)
        EACH(dnnl_dt2str, 0, calls += dnnl_dt2str((dnnl_data_type_t)k) != NULL, (void)0);
    for (int k = -1; k < 18; k++) {
        EACH(dnnl_accumulation_mode2str, 0, calls += dnnl_accumulation_mode2str((dnnl_accumulation_mode_t)k) != NULL, (void)0);
        EACH(dnnl_engine_kind2str, 0, calls += dnnl_engine_kind2str((dnnl_engine_kind_t)k) != NULL, (void)0);
        EACH(dnnl_sparse_encoding2str, 0, calls += dnnl_sparse_encoding2str((dnnl_sparse_encoding_t)k) != NULL, (void)0);
        EACH(dnnl_fmt_tag2str, 0, calls += dnnl_fmt_tag2str((dnnl_format_tag_t)k) != NULL, (void)0);
        EACH(dnnl_prop_kind2str, 0, calls += dnnl_prop_kind2str((dnnl_prop_kind_t)k) != NULL, (void)0);
        EACH(dnnl_prim_kind2str, 0, calls += dnnl_prim_kind2str((dnnl_primitive_kind_t)k) != NULL, (void)0);
        EACH(dnnl_alg_kind2str, 0, calls += dnnl_alg_kind2str((dnnl_alg_kind_t)k) != NULL, (void)0);
        EACH(dnnl_rnn_flags2str, 0, calls += dnnl_rnn_flags2str((dnnl_rnn_flags_t)k) != NULL, (void)0);
        EACH(dnnl_rnn_direction2str, 0, calls += dnnl_rnn_direction2str((dnnl_rnn_direction_t)k) != NULL, (void)0);
        EACH(dnnl_scratchpad_mode2str, 0, calls += dnnl_scratchpad_mode2str((dnnl_scratchpad_mode_t)k) != NULL, (void)0);
        EACH(dnnl_rounding_mode2str, 0, calls += dnnl_rounding_mode2str((dnnl_rounding_mode_t)k) != NULL, (void)0);
        EACH(dnnl_quantization_mode2str, 0, calls += dnnl_quantization_mode2str((dnnl_quantization_mode_t)k) != NULL, (void)0);
        EACH(dnnl_cpu_isa2str, 0, calls += dnnl_cpu_isa2str((dnnl_cpu_isa_t)k) != NULL, (void)0);
        EACH(dnnl_cpu_isa_hints2str, 0, calls += dnnl_cpu_isa_hints2str((dnnl_cpu_isa_hints_t)k) != NULL, (void)0);
        EACH(dnnl_runtime2str, 0, calls += dnnl_runtime2str((unsigned)k) != NULL, (void)0);
        EACH(dnnl_fmt_kind2str, 0, calls += dnnl_fmt_kind2str((dnnl_format_kind_t)k) != NULL, (void)0);
        EACH(dnnl_fpmath_mode2str, 0, calls += dnnl_fpmath_mode2str((dnnl_fpmath_mode_t)k) != NULL, (void)0);
    }
    EACH(dnnl_get_effective_cpu_isa, 0, calls += dnnl_get_effective_cpu_isa() == 0, (void)0);
    OK(dnnl_post_ops_destroy(ops));
    OK(dnnl_primitive_attr_destroy(attr));
    OK(dnnl_memory_desc_destroy(desc));
}
