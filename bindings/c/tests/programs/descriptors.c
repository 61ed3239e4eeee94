/* Memory descriptors in C: made, asked, taken apart, compared. */
#include <string.h>

#include "oneapi/dnnl/dnnl.h"
#include "oneapi/dnnl/dnnl_debug.h"

#include "expect.h"

static const dnnl_dim_t *numbers(const_dnnl_memory_desc_t md, dnnl_query_t what) {
    dnnl_dims_t *result = NULL;
    CHECK(dnnl_memory_desc_query(md, what, &result) == dnnl_success);
    return *result;
}

static void blocked(void) {
    dnnl_dims_t dims = {2, 17, 3, 5};
    dnnl_memory_desc_t md = NULL, copy = NULL, wide = NULL;
    CHECK(dnnl_memory_desc_create_with_tag(&md, 4, dims, dnnl_f32, dnnl_nChw16c) == dnnl_success);
    CHECK(numbers(md, dnnl_query_padded_dims)[1] == 32);
    CHECK(numbers(md, dnnl_query_strides)[0] == 480 && numbers(md, dnnl_query_strides)[3] == 16);
    CHECK(numbers(md, dnnl_query_inner_blks)[0] == 16 && numbers(md, dnnl_query_inner_idxs)[0] == 1);
    CHECK(dnnl_memory_desc_get_size(md) == 2 * 32 * 3 * 5 * sizeof(float));

    int ndims = 0, nblks = 0;
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    CHECK(dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &ndims) == dnnl_success && ndims == 4);
    CHECK(dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &nblks) == dnnl_success && nblks == 1);
    CHECK(dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind) == dnnl_success && kind == dnnl_blocked);

    CHECK(dnnl_memory_desc_clone(&copy, md) == dnnl_success && dnnl_memory_desc_equal(md, copy) == 1);
    CHECK(dnnl_memory_desc_create_with_tag(&wide, 4, dims, dnnl_f32, dnnl_nChw8c) == dnnl_success);
    CHECK(dnnl_memory_desc_equal(md, wide) == 0);
    CHECK(dnnl_memory_desc_destroy(md) == dnnl_success);
    CHECK(dnnl_memory_desc_destroy(copy) == dnnl_success);
    CHECK(dnnl_memory_desc_destroy(wide) == dnnl_success);
}

static void parts(void) {
    dnnl_dims_t dims = {2, 32, 8, 8}, part = {1, 16, 4, 4}, offsets = {1, 16, 2, 3};
    dnnl_memory_desc_t md = NULL, sub = NULL;
    dnnl_dim_t offset = 0;
    CHECK(dnnl_memory_desc_create_with_tag(&md, 4, dims, dnnl_f32, dnnl_aBcd16b) == dnnl_success);
    CHECK(dnnl_memory_desc_create_submemory(&sub, md, part, offsets) == dnnl_success);
    CHECK(dnnl_memory_desc_query(sub, dnnl_query_submemory_offset_s64, &offset) == dnnl_success);
    CHECK(offset == 2048 + 1024 + 2 * 128 + 3 * 16);
    dnnl_memory_desc_destroy(sub);

    sub = NULL;
    offsets[1] = 8;
    CHECK(dnnl_memory_desc_create_submemory(&sub, md, part, offsets) == dnnl_unimplemented && sub == NULL);
    offsets[1] = 17;
    CHECK(dnnl_memory_desc_create_submemory(&sub, md, part, offsets) == dnnl_invalid_arguments && sub == NULL);
    dnnl_memory_desc_destroy(md);
}

static void views(void) {
    dnnl_dims_t dims = {2, 3}, turned = {3, 2}, flat = {6}, wrong = {7};
    int permutation[2] = {1, 0}, twice[2] = {0, 0};
    dnnl_memory_desc_t md = NULL, out = NULL, expected = NULL;
    CHECK(dnnl_memory_desc_create_with_tag(&md, 2, dims, dnnl_s8, dnnl_ab) == dnnl_success);
    CHECK(dnnl_memory_desc_create_with_tag(&expected, 2, turned, dnnl_s8, dnnl_ba) == dnnl_success);
    CHECK(dnnl_memory_desc_permute_axes(&out, md, permutation) == dnnl_success);
    CHECK(dnnl_memory_desc_equal(out, expected) == 1);
    dnnl_memory_desc_destroy(out);
    CHECK(dnnl_memory_desc_permute_axes(&out, md, twice) == dnnl_invalid_arguments);
    CHECK(dnnl_memory_desc_reshape(&out, md, 1, flat) == dnnl_success);
    CHECK(numbers(out, dnnl_query_strides)[0] == 1 && dnnl_memory_desc_get_size(out) == 6);
    dnnl_memory_desc_destroy(out);
    CHECK(dnnl_memory_desc_reshape(&out, md, 1, wrong) == dnnl_invalid_arguments);
    CHECK(dnnl_memory_desc_reshape(&out, expected, 1, flat) == dnnl_invalid_arguments);
    dnnl_memory_desc_destroy(md);
    dnnl_memory_desc_destroy(expected);
}

static void special(void) {
    dnnl_dims_t dims = {4, DNNL_RUNTIME_DIM_VAL}, known = {4, 5};
    dnnl_memory_desc_t md = NULL;
    CHECK(dnnl_memory_desc_create_with_strides(&md, 2, dims, dnnl_f32, NULL) == dnnl_success);
    CHECK(dnnl_memory_desc_get_size(md) == DNNL_RUNTIME_SIZE_VAL);
    dnnl_memory_desc_destroy(md);

    dnnl_sparse_encoding_t encoding = dnnl_sparse_encoding_undef;
    dnnl_data_type_t type = dnnl_data_type_undef;
    dnnl_dim_t nnz = 0;
    int handles = 0;
    CHECK(dnnl_memory_desc_create_with_coo_encoding(&md, 2, known, dnnl_f16, 7, dnnl_s32) == dnnl_success);
    CHECK(dnnl_memory_desc_query_v2(md, dnnl_query_sparse_encoding, 0, &encoding) == dnnl_success && encoding == dnnl_coo);
    CHECK(dnnl_memory_desc_query_v2(md, dnnl_query_nnz_s64, 0, &nnz) == dnnl_success && nnz == 7);
    CHECK(dnnl_memory_desc_query_v2(md, dnnl_query_num_handles_s32, 0, &handles) == dnnl_success && handles == 3);
    CHECK(dnnl_memory_desc_query_v2(md, dnnl_query_data_type, 2, &type) == dnnl_success && type == dnnl_s32);
    CHECK(dnnl_memory_desc_query_v2(md, dnnl_query_data_type, 3, &type) == dnnl_invalid_arguments);
    CHECK(dnnl_memory_desc_query_v2(md, dnnl_query_data_type, -1, &type) == dnnl_invalid_arguments);
    CHECK(dnnl_memory_desc_query(md, dnnl_query_nnz_s64, &nnz) == dnnl_unimplemented);
    CHECK(dnnl_memory_desc_get_size_v2(md, 0) == 14 && dnnl_memory_desc_get_size_v2(md, 2) == 28);
    dnnl_memory_desc_destroy(md);
    CHECK(dnnl_memory_desc_create_with_coo_encoding(&md, 2, known, dnnl_f32, -1, dnnl_s32) == dnnl_invalid_arguments);
    CHECK(dnnl_memory_desc_create_with_coo_encoding(&md, 2, known, dnnl_f32, 7, dnnl_f32) == dnnl_invalid_arguments);

    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    CHECK(dnnl_memory_desc_create_host_scalar(&md, dnnl_s64) == dnnl_success);
    CHECK(dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind) == dnnl_success);
    CHECK(kind == dnnl_format_kind_host_scalar && dnnl_memory_desc_get_size(md) == 8);
    dnnl_memory_desc_destroy(md);

    CHECK(dnnl_memory_desc_create_with_tag(&md, 0, NULL, dnnl_data_type_undef, dnnl_format_tag_undef) == dnnl_success);
    CHECK(dnnl_memory_desc_get_size(md) == 0);
    dnnl_memory_desc_destroy(md);

    for (int value = dnnl_f16; value <= dnnl_s64; ++value) {
        CHECK(dnnl_memory_desc_create_with_tag(&md, 2, known, (dnnl_data_type_t)value, dnnl_ba) == dnnl_success);
        int four_bits = value == dnnl_s4 || value == dnnl_u4 || value == dnnl_f4_e2m1 || value == dnnl_f4_e3m0;
        size_t size = dnnl_data_type_size((dnnl_data_type_t)value);
        CHECK(dnnl_memory_desc_get_size(md) == (four_bits ? 10 : 20 * size));
        dnnl_memory_desc_destroy(md);
    }
}

static void settings(void) {
    dnnl_fpmath_mode_t mode = dnnl_fpmath_mode_any;
    dnnl_primitive_attr_t attr = NULL;
    const dnnl_version_t *version = dnnl_version();
    CHECK(version->major == DNNL_VERSION_MAJOR && version->minor == DNNL_VERSION_MINOR);
    CHECK(version->patch == DNNL_VERSION_PATCH && version->hash != NULL);
    CHECK(version->cpu_runtime == DNNL_RUNTIME_THREADPOOL && version->gpu_runtime == DNNL_RUNTIME_OCL);
    CHECK(strcmp(dnnl_status2str(dnnl_unimplemented), "unimplemented") == 0);
    CHECK(strcmp(dnnl_status2str((dnnl_status_t)77), "unknown status") == 0);
    CHECK(dnnl_get_default_fpmath_mode(&mode) == dnnl_success && mode == dnnl_fpmath_mode_strict);
    CHECK(dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_bf16) == dnnl_success);
    CHECK(dnnl_get_default_fpmath_mode(&mode) == dnnl_success && mode == dnnl_fpmath_mode_bf16);
    CHECK(dnnl_set_default_fpmath_mode((dnnl_fpmath_mode_t)9) == dnnl_invalid_arguments);
    CHECK(dnnl_set_verbose(3) == dnnl_invalid_arguments && dnnl_set_verbose(0) == dnnl_success);
    int is_told = 7;
    CHECK(dnnl_verbose_profiling_enabled(&is_told) == dnnl_success && is_told == 0);
    CHECK(dnnl_set_verbose(1) == dnnl_success && dnnl_verbose_profiling_enabled(&is_told) == dnnl_success && is_told == 1);
    CHECK(dnnl_set_verbose(0) == dnnl_success && dnnl_verbose_profiling_enabled(NULL) == dnnl_invalid_arguments);
    CHECK(dnnl_primitive_attr_create(&attr) == dnnl_success && attr != NULL);
    CHECK(dnnl_primitive_attr_destroy(attr) == dnnl_success);
}

int main(void) {
    blocked();
    parts();
    views();
    special();
    settings();
    puts("passed");
    return 0;
}
