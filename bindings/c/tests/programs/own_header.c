/* A program of anydnn's own header alone. */
#include <string.h>

#include "../../include/anydnn.h"

#include "expect.h"

int main(void) {
    dnnl_dim_t dims[4] = {2, 17, 3, 5}, bad[1] = {-5};
    dnnl_memory_desc_t md = NULL;
    CHECK(anydnn_format_tag("aBcd16b") > dnnl_format_tag_any && anydnn_format_tag("any") == dnnl_format_tag_any);
    CHECK(anydnn_format_tag("zz") == dnnl_format_tag_undef && anydnn_format_tag(NULL) == dnnl_format_tag_undef);
    CHECK(dnnl_memory_desc_create_with_tag(&md, 4, dims, dnnl_f32, anydnn_format_tag("aBcd16b")) == dnnl_success);
    CHECK(dnnl_memory_desc_get_size(md) == 3840);
    CHECK(dnnl_memory_desc_destroy(md) == dnnl_success);
    dims[0] = DNNL_RUNTIME_DIM_VAL;
    CHECK(dnnl_memory_desc_create_with_strides(&md, 4, dims, dnnl_f32, NULL) == dnnl_success);
    CHECK(dnnl_memory_desc_get_size(md) == DNNL_RUNTIME_SIZE_VAL);
    CHECK(dnnl_memory_desc_destroy(md) == dnnl_success);
    CHECK(dnnl_memory_desc_create_with_strides(&md, 1, bad, dnnl_f32, NULL) == dnnl_invalid_arguments);
    CHECK(strstr(anydnn_last_error(), "dnnl_memory_desc_create_with_strides") != NULL);
    CHECK(strstr(anydnn_last_error(), "-5") != NULL);
    CHECK(anydnn_set_specialize("always") == dnnl_invalid_arguments && strstr(anydnn_last_error(), "always") != NULL);
    CHECK(anydnn_set_specialize("never") == dnnl_success && anydnn_set_specialize(NULL) == dnnl_success);
    CHECK(dnnl_version()->gpu_runtime == DNNL_RUNTIME_OCL);
    puts("passed");
    return 0;
}
