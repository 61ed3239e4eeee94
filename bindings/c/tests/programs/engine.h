// The engine and the stream that a program through oneDNN's C++ interface runs its checks on.
#ifndef ENGINE_H
#define ENGINE_H

#include <cstring>
#include <functional>

#include "oneapi/dnnl/dnnl.hpp"
#include "oneapi/dnnl/dnnl_ocl.hpp"

#include "check.h"

static dnnl::engine *eng;
static dnnl::stream *str;

/* Runs the checks of `body` on the engine that the program's argument names: `cpu` for the host, or a platform of OpenCL for its first device. */
static int run_checks(int argc, char **argv, const std::function<void()> &body) {
    const char *name = argc > 1 ? argv[1] : nullptr;
    const bool on_host = name && std::strcmp(name, "cpu") == 0;
    const cl_device_id device = on_host ? nullptr : check_device(name);
    const cl_context context = on_host ? nullptr : check_context(device);
    {
        dnnl::engine e = on_host ? dnnl::engine(dnnl::engine::kind::cpu, 0) : dnnl::ocl_interop::make_engine(device, context);
        dnnl::stream s(e);
        eng = &e, str = &s;
        body();
    }
    if (context) CL(clReleaseContext(context));
    return check_end();
}

#endif
