// Objects that are destroyed when the process ends, after main and in whatever state OpenCL is in by then: no crash, no word.
#include "check.h"

#include "oneapi/dnnl/dnnl.hpp"
#include "oneapi/dnnl/dnnl_ocl.hpp"

using namespace dnnl;

// Made before OpenCL is, so ended after it.
static engine late_engine;
static stream late_stream;
static memory late_buffer, late_pointer;
static primitive late_primitive;

int main(int argc, char **argv) {
    cl_device_id device = check_device(argc > 1 ? argv[1] : nullptr);
    cl_context context = check_context(device);
    const memory::desc desc({64}, memory::data_type::f32, memory::format_tag::a);
    late_engine = ocl_interop::make_engine(device, context);
    late_stream = stream(late_engine, stream::flags::out_of_order);
    late_buffer = ocl_interop::make_memory(desc, late_engine, ocl_interop::memory_kind::buffer);
    late_pointer = ocl_interop::make_memory(desc, late_engine, ocl_interop::memory_kind::usm);
    late_primitive = eltwise_forward(eltwise_forward::primitive_desc(
            late_engine, prop_kind::forward_inference, algorithm::eltwise_abs, desc, desc));
    late_primitive.execute(late_stream, {{DNNL_ARG_SRC, late_buffer}, {DNNL_ARG_DST, late_pointer}});
    late_stream.wait();
    ABOUT_NAME("late destruction");
    CHECK(late_pointer.map_data<float>() != nullptr);
    return check_end();
}
