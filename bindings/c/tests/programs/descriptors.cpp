// Memory descriptors by the C++ wrappers.
#include "oneapi/dnnl/dnnl.hpp"

#include "expect.h"

using dnnl::memory;
using desc = memory::desc;
using type = memory::data_type;
using tag = memory::format_tag;

template <typename F>
static dnnl_status_t thrown(F call) {
    try {
        call();
    } catch (const dnnl::error &error) {
        return error.status;
    }
    return dnnl_success;
}

int main() {
    desc nhwc({1, 64, 7, 7}, type::f16, tag::nhwc);
    CHECK(nhwc.get_strides() == memory::dims({64 * 7 * 7, 1, 7 * 64, 64}));
    CHECK(nhwc.get_ndims() == 4 && nhwc.get_data_type() == type::f16);
    CHECK(nhwc.get_size() == 64 * 7 * 7 * 2);
    CHECK(nhwc == desc({1, 64, 7, 7}, type::f16, memory::dims({64 * 7 * 7, 1, 7 * 64, 64})));
    CHECK(nhwc != desc({1, 64, 7, 7}, type::f16, tag::nchw));

    desc blocked({20, 17, 2, 2}, type::bf16, tag::OIhw8i16o2i);
    CHECK(blocked.get_padded_dims() == memory::dims({32, 32, 2, 2}));
    CHECK(blocked.get_inner_nblks() == 3 && blocked.get_inner_blks() == memory::dims({8, 16, 2}));
    CHECK(blocked.get_inner_idxs() == memory::dims({1, 0, 1}));
    CHECK(blocked.get_format_kind() == memory::format_kind::blocked);

    desc matrix({64, 48}, type::f32, tag::ab);
    desc part = matrix.submemory_desc({16, 8}, {32, 40});
    CHECK(part.get_submemory_offset() == 32 * 48 + 40 && part.get_strides() == matrix.get_strides());
    CHECK(matrix.reshape({64, 6, 8}).get_strides() == memory::dims({48, 8, 1}));
    CHECK(matrix.permute_axes({1, 0}) == desc({48, 64}, type::f32, tag::ba));
    CHECK(!matrix.reshape({5}, true));
    CHECK(thrown([&] { matrix.reshape({5}); }) == dnnl_invalid_arguments);
    CHECK(thrown([&] { desc({2, 3}, type::f32, tag::abc); }) == dnnl_invalid_arguments);

    desc any({3, 4}, type::s8, tag::any);
    CHECK(any.get_format_kind() == memory::format_kind::any && any.get_size() == 0);

    desc coo = desc::coo({100, 100}, type::f32, 12, type::s32);
    CHECK(coo.get_sparse_encoding() == memory::sparse_encoding::coo && coo.get_nnz() == 12);
    CHECK(coo.get_num_handles() == 3 && coo.get_size(1) == 48 && coo.get_data_type(1) == type::s32);

    desc scalar = desc::host_scalar(type::f32);
    CHECK(scalar.get_format_kind() == memory::format_kind::host_scalar && scalar.get_size() == 4);

    desc zero;
    CHECK(zero.is_zero() && zero.get_ndims() == 0 && desc(matrix) == matrix);
    puts("passed");
    return 0;
}
