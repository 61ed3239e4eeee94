/* Each function of primitives and attributes with every pointer null in turn. */
#ifndef PRIMITIVES_NULL_H
#define PRIMITIVES_NULL_H

/* Headers declare it where an experimental feature is on. */
dnnl_status_t dnnl_memory_desc_create_with_grouped_encoding(dnnl_memory_desc_t *, int, const dnnl_dims_t, dnnl_data_type_t,
        int, dnnl_dim_t, dnnl_data_type_t);

/* For every pointer of `n` being null alone, and for none and all of them, evaluates a call and then `after`. */
#define EACH_ALONE(function, n, call, after) \
    do { \
        printf("called %s\n", #function); \
        for (int one = -2; one < (n); one++) { \
            unsigned m = one == -2 ? 0 : one == -1 ? ~0u : ~(1u << one); \
            (void)m; \
            call; \
            after; \
        } \
    } while (0)
#define ALONE(function, n, arguments, after) EACH_ALONE(function, n, count(function arguments), after)

static void null_more(dnnl_engine_t engine, const_dnnl_memory_desc_t desc, const_dnnl_primitive_desc_t given,
        const_dnnl_primitive_t primitive, const_dnnl_primitive_attr_t attr) {
    dnnl_dims_t ones = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    float floats[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const float *float_slot = NULL;
    uint8_t bytes[64] = {0};
    int64_t result[8] = {0};
    int number = 0;
    int32_t word = 0;
    size_t size = 0;
    dnnl_alg_kind_t alg;
    dnnl_data_type_t type;
    dnnl_fpmath_mode_t fpmath;
    dnnl_accumulation_mode_t accumulation;
    dnnl_rounding_mode_t rounding;
    dnnl_scratchpad_mode_t scratchpad;
    dnnl_primitive_desc_t pd = NULL, pd_slot = NULL;
    dnnl_primitive_t primitive_slot = NULL;
    dnnl_memory_desc_t md_slot = NULL;
    dnnl_primitive_attr_t own = NULL, attr_slot = NULL;
    dnnl_post_ops_t ops = NULL, ops_slot = NULL;
    const_dnnl_primitive_desc_t pd_lent = NULL;
    const_dnnl_primitive_attr_t attr_lent = NULL;
    const_dnnl_post_ops_t ops_lent = NULL;
    const_dnnl_memory_desc_t lent_slot = NULL, several[3] = {desc, desc, desc};
    OK(dnnl_primitive_desc_clone(&pd, given));
    OK(dnnl_primitive_attr_create(&own));
    OK(dnnl_post_ops_create(&ops));
    for (int k = -1; k < 3; k++) {
        ALONE(dnnl_augru_backward_primitive_desc_create, 20, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_rnn_direction_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, desc), P(7, desc), P(8, desc), P(9, desc), P(10, desc), P(11, desc), P(12, desc), P(13, desc), P(14, desc), P(15, desc), P(16, desc), P(17, desc), (unsigned)k, P(18, pd), P(19, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_augru_forward_primitive_desc_create, 11, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_rnn_direction_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, desc), P(7, desc), P(8, desc), P(9, desc), (unsigned)k, P(10, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_batch_normalization_backward_primitive_desc_create, 7, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, P(2, desc), P(3, desc), P(4, desc), (float)k, (unsigned)k, P(5, pd), P(6, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_batch_normalization_forward_primitive_desc_create, 5, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, P(2, desc), P(3, desc), (float)k, (unsigned)k, P(4, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_binary_primitive_desc_create, 6, (P(0, &pd_slot), P(1, engine), (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_binary_primitive_desc_create_v2, 7, (P(0, &pd_slot), P(1, engine), (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_concat_primitive_desc_create, 5, (P(0, &pd_slot), P(1, engine), P(2, desc), k, k, P(3, several), P(4, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_convolution_backward_data_primitive_desc_create, 11, (P(0, &pd_slot), P(1, engine), (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, ones), P(6, ones), P(7, ones), P(8, ones), P(9, pd), P(10, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_convolution_backward_weights_primitive_desc_create, 12, (P(0, &pd_slot), P(1, engine), (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, ones), P(7, ones), P(8, ones), P(9, ones), P(10, pd), P(11, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_convolution_forward_primitive_desc_create, 11, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, ones), P(7, ones), P(8, ones), P(9, ones), P(10, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_deconvolution_backward_data_primitive_desc_create, 11, (P(0, &pd_slot), P(1, engine), (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, ones), P(6, ones), P(7, ones), P(8, ones), P(9, pd), P(10, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_deconvolution_backward_weights_primitive_desc_create, 12, (P(0, &pd_slot), P(1, engine), (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, ones), P(7, ones), P(8, ones), P(9, ones), P(10, pd), P(11, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_deconvolution_forward_primitive_desc_create, 11, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, ones), P(7, ones), P(8, ones), P(9, ones), P(10, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_eltwise_backward_primitive_desc_create, 7, (P(0, &pd_slot), P(1, engine), (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), P(4, desc), (float)k, (float)k, P(5, pd), P(6, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_gemm_s8s8s32, 4, ('n', 'n', 'n', k, k, k, (float)k, P(0, (const int8_t *)bytes), k, (int8_t)k, P(1, (const int8_t *)bytes), k, (int8_t)k, (float)k, P(2, &word), k, P(3, &word)), (void)0);
        ALONE(dnnl_gemm_u8s8s32, 4, ('n', 'n', 'n', k, k, k, (float)k, P(0, bytes), k, (uint8_t)k, P(1, (const int8_t *)bytes), k, (int8_t)k, (float)k, P(2, &word), k, P(3, &word)), (void)0);
        EACH_ALONE(dnnl_get_cpu_isa_hints, 0, calls += dnnl_get_cpu_isa_hints() > 1000, (void)0);
        ALONE(dnnl_get_primitive_cache_capacity, 1, (P(0, &number)), (void)0);
        ALONE(dnnl_group_normalization_backward_primitive_desc_create, 7, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, P(2, desc), P(3, desc), P(4, desc), k, (float)k, (unsigned)k, P(5, pd), P(6, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_group_normalization_forward_primitive_desc_create, 5, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, P(2, desc), P(3, desc), k, (float)k, (unsigned)k, P(4, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_gru_backward_primitive_desc_create, 18, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_rnn_direction_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, desc), P(7, desc), P(8, desc), P(9, desc), P(10, desc), P(11, desc), P(12, desc), P(13, desc), P(14, desc), P(15, desc), (unsigned)k, P(16, pd), P(17, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_gru_forward_primitive_desc_create, 10, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_rnn_direction_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, desc), P(7, desc), P(8, desc), (unsigned)k, P(9, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_inner_product_backward_data_primitive_desc_create, 7, (P(0, &pd_slot), P(1, engine), P(2, desc), P(3, desc), P(4, desc), P(5, pd), P(6, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_inner_product_backward_weights_primitive_desc_create, 8, (P(0, &pd_slot), P(1, engine), P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, pd), P(7, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_inner_product_forward_primitive_desc_create, 7, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_layer_normalization_backward_primitive_desc_create, 8, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), (float)k, (unsigned)k, P(6, pd), P(7, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_layer_normalization_backward_primitive_desc_create_v2, 8, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), (dnnl_data_type_t)k, (dnnl_data_type_t)k, (float)k, (unsigned)k, P(6, pd), P(7, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_layer_normalization_forward_primitive_desc_create, 6, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, P(2, desc), P(3, desc), P(4, desc), (float)k, (unsigned)k, P(5, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_layer_normalization_forward_primitive_desc_create_v2, 6, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, P(2, desc), P(3, desc), P(4, desc), (dnnl_data_type_t)k, (float)k, (unsigned)k, P(5, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_lbr_augru_backward_primitive_desc_create, 20, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_rnn_direction_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, desc), P(7, desc), P(8, desc), P(9, desc), P(10, desc), P(11, desc), P(12, desc), P(13, desc), P(14, desc), P(15, desc), P(16, desc), P(17, desc), (unsigned)k, P(18, pd), P(19, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_lbr_augru_forward_primitive_desc_create, 11, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_rnn_direction_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, desc), P(7, desc), P(8, desc), P(9, desc), (unsigned)k, P(10, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_lbr_gru_backward_primitive_desc_create, 18, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_rnn_direction_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, desc), P(7, desc), P(8, desc), P(9, desc), P(10, desc), P(11, desc), P(12, desc), P(13, desc), P(14, desc), P(15, desc), (unsigned)k, P(16, pd), P(17, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_lbr_gru_forward_primitive_desc_create, 10, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_rnn_direction_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, desc), P(7, desc), P(8, desc), (unsigned)k, P(9, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_lrn_backward_primitive_desc_create, 7, (P(0, &pd_slot), P(1, engine), (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), P(4, desc), k, (float)k, (float)k, (float)k, P(5, pd), P(6, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_lrn_forward_primitive_desc_create, 5, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), k, (float)k, (float)k, (float)k, P(4, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_lstm_backward_primitive_desc_create, 26, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_rnn_direction_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, desc), P(7, desc), P(8, desc), P(9, desc), P(10, desc), P(11, desc), P(12, desc), P(13, desc), P(14, desc), P(15, desc), P(16, desc), P(17, desc), P(18, desc), P(19, desc), P(20, desc), P(21, desc), P(22, desc), P(23, desc), (unsigned)k, P(24, pd), P(25, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_lstm_forward_primitive_desc_create, 14, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_rnn_direction_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, desc), P(7, desc), P(8, desc), P(9, desc), P(10, desc), P(11, desc), P(12, desc), (unsigned)k, P(13, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_memory_desc_create_with_blob, 2, (P(0, &md_slot), P(1, bytes)), END(memory_desc, md_slot));
        ALONE(dnnl_memory_desc_create_with_csr_encoding, 2, (P(0, &md_slot), k, P(1, ones), (dnnl_data_type_t)k, k, (dnnl_data_type_t)k, (dnnl_data_type_t)k), END(memory_desc, md_slot));
        ALONE(dnnl_memory_desc_create_with_grouped_encoding, 2, (P(0, &md_slot), k, P(1, ones), (dnnl_data_type_t)k, k, k, (dnnl_data_type_t)k), END(memory_desc, md_slot));
        ALONE(dnnl_memory_desc_create_with_packed_encoding, 2, (P(0, &md_slot), k, P(1, ones), (dnnl_data_type_t)k, k), END(memory_desc, md_slot));
        ALONE(dnnl_memory_desc_get_blob, 3, (P(0, bytes), P(1, &size), P(2, desc)), (void)0);
        ALONE(dnnl_pooling_backward_primitive_desc_create, 11, (P(0, &pd_slot), P(1, engine), (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), P(4, ones), P(5, ones), P(6, ones), P(7, ones), P(8, ones), P(9, pd), P(10, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_pooling_forward_primitive_desc_create, 10, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), P(4, ones), P(5, ones), P(6, ones), P(7, ones), P(8, ones), P(9, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_post_ops_append_binary_v2, 3, (P(0, ops), (dnnl_alg_kind_t)k, P(1, desc), P(2, desc)), (void)0);
        ALONE(dnnl_post_ops_append_dw, 1, (P(0, ops), (dnnl_data_type_t)k, (dnnl_data_type_t)k, (dnnl_data_type_t)k, k, k, k), (void)0);
        ALONE(dnnl_post_ops_append_eltwise, 1, (P(0, ops), (dnnl_alg_kind_t)k, (float)k, (float)k), (void)0);
        ALONE(dnnl_post_ops_append_prelu, 1, (P(0, ops), k), (void)0);
        ALONE(dnnl_post_ops_append_sum, 1, (P(0, ops), (float)k, k, (dnnl_data_type_t)k), (void)0);
        ALONE(dnnl_post_ops_clone, 2, (P(0, &ops_slot), P(1, ops)), END(post_ops, ops_slot));
        EACH_ALONE(dnnl_post_ops_get_kind, 1, calls += dnnl_post_ops_get_kind(P(0, ops), k) > 1000, (void)0);
        ALONE(dnnl_post_ops_get_params_binary, 3, (P(0, ops), k, P(1, &alg), P(2, &lent_slot)), (void)0);
        ALONE(dnnl_post_ops_get_params_binary_v2, 4, (P(0, ops), k, P(1, &alg), P(2, &lent_slot), P(3, &lent_slot)), (void)0);
        ALONE(dnnl_post_ops_get_params_dw, 7, (P(0, ops), k, P(1, &type), P(2, &type), P(3, &type), P(4, ones), P(5, ones), P(6, ones)), (void)0);
        ALONE(dnnl_post_ops_get_params_eltwise, 4, (P(0, ops), k, P(1, &alg), P(2, floats), P(3, floats)), (void)0);
        ALONE(dnnl_post_ops_get_params_prelu, 2, (P(0, ops), k, P(1, &number)), (void)0);
        ALONE(dnnl_post_ops_get_params_sum, 4, (P(0, ops), k, P(1, floats), P(2, &word), P(3, &type)), (void)0);
        EACH_ALONE(dnnl_post_ops_len, 1, calls += dnnl_post_ops_len(P(0, ops)) > 1000, (void)0);
        ALONE(dnnl_prelu_backward_primitive_desc_create, 9, (P(0, &pd_slot), P(1, engine), P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, desc), P(7, pd), P(8, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_prelu_forward_primitive_desc_create, 6, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_primitive_attr_clone, 2, (P(0, &attr_slot), P(1, attr)), END(primitive_attr, attr_slot));
        ALONE(dnnl_primitive_attr_get_accumulation_mode, 2, (P(0, attr), P(1, &accumulation)), (void)0);
        ALONE(dnnl_primitive_attr_get_deterministic, 2, (P(0, attr), P(1, &number)), (void)0);
        ALONE(dnnl_primitive_attr_get_dropout, 2, (P(0, attr), P(1, &lent_slot)), (void)0);
        ALONE(dnnl_primitive_attr_get_dropout_v2, 5, (P(0, attr), P(1, &lent_slot), P(2, &type), P(3, &number), P(4, &number)), (void)0);
        ALONE(dnnl_primitive_attr_get_fpmath_mode, 2, (P(0, attr), P(1, &fpmath)), (void)0);
        ALONE(dnnl_primitive_attr_get_fpmath_mode_v2, 3, (P(0, attr), P(1, &fpmath), P(2, &number)), (void)0);
        ALONE(dnnl_primitive_attr_get_post_ops, 2, (P(0, attr), P(1, &ops_lent)), (void)0);
        ALONE(dnnl_primitive_attr_get_rnn_data_qparams, 3, (P(0, attr), P(1, floats), P(2, floats)), (void)0);
        ALONE(dnnl_primitive_attr_get_rnn_weights_projection_qparams, 4, (P(0, attr), P(1, ones), P(2, &number), P(3, &float_slot)), (void)0);
        ALONE(dnnl_primitive_attr_get_rnn_weights_qparams, 4, (P(0, attr), P(1, ones), P(2, &number), P(3, &float_slot)), (void)0);
        ALONE(dnnl_primitive_attr_get_rounding, 2, (P(0, own), k, P(1, &rounding)), (void)0);
        ALONE(dnnl_primitive_attr_get_scratchpad_mode, 2, (P(0, attr), P(1, &scratchpad)), (void)0);
        ALONE(dnnl_primitive_attr_set_accumulation_mode, 1, (P(0, own), (dnnl_accumulation_mode_t)k), (void)0);
        ALONE(dnnl_primitive_attr_set_deterministic, 1, (P(0, own), k), (void)0);
        ALONE(dnnl_primitive_attr_set_dropout, 2, (P(0, own), P(1, desc)), (void)0);
        ALONE(dnnl_primitive_attr_set_dropout_v2, 2, (P(0, own), P(1, desc), (dnnl_data_type_t)k, k, k), (void)0);
        ALONE(dnnl_primitive_attr_set_fpmath_mode, 1, (P(0, own), (dnnl_fpmath_mode_t)k), (void)0);
        ALONE(dnnl_primitive_attr_set_fpmath_mode_v2, 1, (P(0, own), (dnnl_fpmath_mode_t)k, k), (void)0);
        ALONE(dnnl_primitive_attr_set_precomputed_reductions, 2, (P(0, own), k, k, k, P(1, ones), (dnnl_data_type_t)k), (void)0);
        ALONE(dnnl_primitive_attr_set_rnn_data_qparams, 1, (P(0, own), (float)k, (float)k), (void)0);
        ALONE(dnnl_primitive_attr_set_rnn_weights_projection_qparams, 2, (P(0, own), k, k, P(1, floats)), (void)0);
        ALONE(dnnl_primitive_attr_set_rnn_weights_qparams, 2, (P(0, own), k, k, P(1, floats)), (void)0);
        ALONE(dnnl_primitive_attr_set_rounding, 1, (P(0, own), k, (dnnl_rounding_mode_t)k), (void)0);
        ALONE(dnnl_primitive_attr_set_scales, 2, (P(0, own), k, k, k, P(1, ones), (dnnl_data_type_t)k), (void)0);
        ALONE(dnnl_primitive_attr_set_scales_mask, 1, (P(0, own), k, k), (void)0);
        ALONE(dnnl_primitive_attr_set_scales_v2, 2, (P(0, own), k, k, k, P(1, ones), (dnnl_data_type_t)k, k), (void)0);
        ALONE(dnnl_primitive_attr_set_scales_v3, 2, (P(0, own), k, k, k, P(1, ones), (dnnl_data_type_t)k, k, (dnnl_quantization_mode_t)k), (void)0);
        ALONE(dnnl_primitive_attr_set_zero_points, 2, (P(0, own), k, k, k, P(1, ones), (dnnl_data_type_t)k), (void)0);
        ALONE(dnnl_primitive_attr_set_zero_points_mask, 1, (P(0, own), k, k), (void)0);
        ALONE(dnnl_primitive_attr_set_zero_points_v2, 2, (P(0, own), k, k, k, P(1, ones), (dnnl_data_type_t)k, k), (void)0);
        ALONE(dnnl_primitive_create_from_cache_blob, 3, (P(0, &primitive_slot), P(1, pd), sizeof bytes, P(2, bytes)), END(primitive, primitive_slot));
        ALONE(dnnl_primitive_desc_clone, 2, (P(0, &pd_slot), P(1, pd)), END(primitive_desc, pd_slot));
        ALONE(dnnl_primitive_desc_get_attr, 2, (P(0, pd), P(1, &attr_lent)), (void)0);
        ALONE(dnnl_primitive_desc_next_impl, 1, (P(0, pd)), (void)0);
        ALONE(dnnl_primitive_desc_query, 2, (P(0, pd), (dnnl_query_t)k, k, P(1, result)), (void)0);
        EACH_ALONE(dnnl_primitive_desc_query_s32, 1, calls += dnnl_primitive_desc_query_s32(P(0, pd), (dnnl_query_t)k, k) > 1000, (void)0);
        ALONE(dnnl_primitive_get_cache_blob, 3, (P(0, primitive), P(1, &size), P(2, bytes)), size = 0);
        ALONE(dnnl_primitive_get_primitive_desc, 2, (P(0, primitive), P(1, &pd_lent)), (void)0);
        ALONE(dnnl_reduction_primitive_desc_create, 5, (P(0, &pd_slot), P(1, engine), (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), (float)k, (float)k, P(4, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_resampling_backward_primitive_desc_create, 7, (P(0, &pd_slot), P(1, engine), (dnnl_alg_kind_t)k, P(2, floats), P(3, desc), P(4, desc), P(5, pd), P(6, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_resampling_forward_primitive_desc_create, 6, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_alg_kind_t)k, P(2, floats), P(3, desc), P(4, desc), P(5, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_set_cpu_isa_hints, 0, ((dnnl_cpu_isa_hints_t)k), (void)0);
        ALONE(dnnl_set_jit_dump, 0, (k), (void)0);
        ALONE(dnnl_set_jit_profiling_flags, 0, ((unsigned)k), (void)0);
        ALONE(dnnl_set_jit_profiling_jitdumpdir, 1, (P(0, "")), (void)0);
        ALONE(dnnl_set_max_cpu_isa, 0, ((dnnl_cpu_isa_t)k), (void)0);
        ALONE(dnnl_set_primitive_cache_capacity, 0, (k), (void)0);
        ALONE(dnnl_sgemm, 3, ('n', 'n', k, k, k, (float)k, P(0, floats), k, P(1, floats), k, (float)k, P(2, floats), k), (void)0);
        ALONE(dnnl_shuffle_backward_primitive_desc_create, 6, (P(0, &pd_slot), P(1, engine), P(2, desc), P(3, desc), k, k, P(4, pd), P(5, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_shuffle_forward_primitive_desc_create, 5, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, P(2, desc), P(3, desc), k, k, P(4, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_softmax_backward_primitive_desc_create, 7, (P(0, &pd_slot), P(1, engine), (dnnl_alg_kind_t)k, P(2, desc), P(3, desc), P(4, desc), k, P(5, pd), P(6, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_sum_primitive_desc_create, 6, (P(0, &pd_slot), P(1, engine), P(2, desc), k, P(3, floats), P(4, several), P(5, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_vanilla_rnn_backward_primitive_desc_create, 18, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_alg_kind_t)k, (dnnl_rnn_direction_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, desc), P(7, desc), P(8, desc), P(9, desc), P(10, desc), P(11, desc), P(12, desc), P(13, desc), P(14, desc), P(15, desc), (unsigned)k, (float)k, (float)k, P(16, pd), P(17, attr)), END(primitive_desc, pd_slot));
        ALONE(dnnl_vanilla_rnn_forward_primitive_desc_create, 10, (P(0, &pd_slot), P(1, engine), (dnnl_prop_kind_t)k, (dnnl_alg_kind_t)k, (dnnl_rnn_direction_t)k, P(2, desc), P(3, desc), P(4, desc), P(5, desc), P(6, desc), P(7, desc), P(8, desc), (unsigned)k, (float)k, (float)k, P(9, attr)), END(primitive_desc, pd_slot));
    }
    OK(dnnl_set_primitive_cache_capacity(1024));
    OK(dnnl_post_ops_destroy(ops));
    OK(dnnl_primitive_attr_destroy(own));
    OK(dnnl_primitive_desc_destroy(pd));
}

#endif
