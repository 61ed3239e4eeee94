// Tensors of floats on a device, and named groups of checks, for programs through oneDNN's C++ interface.
#ifndef VALUES_H
#define VALUES_H

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "engine.h"

using namespace dnnl;
using dims = memory::dims;
using dt = memory::data_type;
using tag = memory::format_tag;
typedef std::vector<float> floats;

[[maybe_unused]] static floats random_floats(size_t n, unsigned seed) {
    floats v(n);
    for (auto &x : v) {
        seed = seed * 1664525u + 1013904223u;
        x = (float)((seed >> 8) % 2001) / 1000.0f - 1.0f;
    }
    return v;
}

[[maybe_unused]] static memory to_device(const memory::desc &md, const floats &values, const memory::desc &plain) {
    memory flat(plain, *eng), m(md, *eng);
    float *p = (float *)flat.map_data();
    std::memcpy(p, values.data(), values.size() * sizeof(float));
    flat.unmap_data(p);
    reorder(flat, m).execute(*str, flat, m);
    str->wait();
    return m;
}

[[maybe_unused]] static floats to_host(memory &m, const memory::desc &plain) {
    memory flat(plain, *eng);
    reorder(m, flat).execute(*str, m, flat);
    str->wait();
    float *p = (float *)flat.map_data();
    floats v(p, p + plain.get_size() / sizeof(float));
    flat.unmap_data(p);
    return v;
}

[[maybe_unused]] static memory::desc nchw(dims d) {
    const tag tags[] = {tag::a, tag::a, tag::ab, tag::abc, tag::abcd, tag::abcde};
    return memory::desc(d, dt::f32, tags[d.size()]);
}

[[maybe_unused]] static bool close_to(const floats &got, const std::vector<double> &want, double bound = 1e-4) {
    if (got.size() != want.size()) {
        printf("sizes %zu and %zu\n", got.size(), want.size());
        return false;
    }
    for (size_t i = 0; i < got.size(); i++)
        if (!(std::fabs(got[i] - want[i]) <= bound * (1 + std::fabs(want[i])))) {
            printf("element %zu is %g, expected %g\n", i, got[i], want[i]);
            return false;
        }
    return true;
}

/* A group of primitives that throws counts as failed, and the next goes on. */
[[maybe_unused]] static void group(const char *name, const std::function<void()> &body) {
    ABOUT_NAME(name);
    try {
        body();
    } catch (const error &e) {
        printf("%s: %s (%d)\n", name, e.what(), (int)e.status);
        CHECK(!"no error");
    }
}

#endif
