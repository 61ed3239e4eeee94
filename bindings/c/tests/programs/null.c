/* Null never crashes: each descriptor and settings function with each pointer null. */
#include "oneapi/dnnl/dnnl.h"

#include "expect.h"

#define INVALID(call) CHECK((call) == dnnl_invalid_arguments)

const char *anydnn_last_error(void);

int main(void) {
    dnnl_dims_t dims = {2, 3};
    int axes[2] = {0, 1}, number = 0;
    dnnl_memory_desc_t md = NULL, out = NULL;
    CHECK(dnnl_memory_desc_create_with_tag(&md, 2, dims, dnnl_f32, dnnl_ab) == dnnl_success);

    INVALID(dnnl_memory_desc_create_with_tag(NULL, 2, dims, dnnl_f32, dnnl_ab));
    INVALID(dnnl_memory_desc_create_with_tag(&out, 2, NULL, dnnl_f32, dnnl_ab));
    INVALID(dnnl_memory_desc_create_with_strides(NULL, 2, dims, dnnl_f32, dims));
    INVALID(dnnl_memory_desc_create_with_strides(&out, 2, NULL, dnnl_f32, dims));
    INVALID(dnnl_memory_desc_create_with_coo_encoding(NULL, 2, dims, dnnl_f32, 1, dnnl_s32));
    INVALID(dnnl_memory_desc_create_with_coo_encoding(&out, 2, NULL, dnnl_f32, 1, dnnl_s32));
    INVALID(dnnl_memory_desc_create_host_scalar(NULL, dnnl_f32));
    INVALID(dnnl_memory_desc_create_submemory(NULL, md, dims, dims));
    INVALID(dnnl_memory_desc_create_submemory(&out, NULL, dims, dims));
    INVALID(dnnl_memory_desc_create_submemory(&out, md, NULL, dims));
    INVALID(dnnl_memory_desc_create_submemory(&out, md, dims, NULL));
    INVALID(dnnl_memory_desc_reshape(NULL, md, 2, dims));
    INVALID(dnnl_memory_desc_reshape(&out, NULL, 2, dims));
    INVALID(dnnl_memory_desc_reshape(&out, md, 2, NULL));
    INVALID(dnnl_memory_desc_permute_axes(NULL, md, axes));
    INVALID(dnnl_memory_desc_permute_axes(&out, NULL, axes));
    INVALID(dnnl_memory_desc_permute_axes(&out, md, NULL));
    INVALID(dnnl_memory_desc_clone(NULL, md));
    INVALID(dnnl_memory_desc_clone(&out, NULL));
    INVALID(dnnl_memory_desc_query(NULL, dnnl_query_ndims_s32, &number));
    INVALID(dnnl_memory_desc_query(md, dnnl_query_ndims_s32, NULL));
    INVALID(dnnl_memory_desc_query(md, dnnl_query_dims, NULL));
    INVALID(dnnl_memory_desc_query_v2(NULL, dnnl_query_ndims_s32, 0, &number));
    INVALID(dnnl_memory_desc_query_v2(md, dnnl_query_submemory_offset_s64, 0, NULL));
    INVALID(dnnl_get_default_fpmath_mode(NULL));
    INVALID(dnnl_primitive_attr_create(NULL));
    CHECK(out == NULL);

    CHECK(anydnn_last_error()[0] != '\0');
    CHECK(dnnl_memory_desc_equal(NULL, NULL) == 1 && dnnl_memory_desc_equal(md, NULL) == 0);
    CHECK(dnnl_memory_desc_get_size(NULL) == 0 && dnnl_memory_desc_get_size_v2(NULL, 0) == 0);
    CHECK(dnnl_memory_desc_destroy(NULL) == dnnl_success);
    CHECK(dnnl_primitive_attr_destroy(NULL) == dnnl_success);
    CHECK(dnnl_memory_desc_destroy(md) == dnnl_success);
    puts("passed");
    return 0;
}
