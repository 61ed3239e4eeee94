// Runs cases in words on a library that has oneDNN's C functions, and prints what they give, all numbers in bits.
//
//     ./compare LIBRARY [gpu WORD OF A PLATFORM'S NAME | cpu] < CASES
//
// Each line is a case: `softmax prop=forward_inference alg=softmax_accurate src=f32:2x3:ab dst=f32:2x3:ab axis=1`. Inputs follow from
// the case's words `seed` and `fill`.
#include "primitives.h"

#include <algorithm>
#include <memory>

#include <CL/cl.h>

namespace {

using Memories = std::map<int, std::unique_ptr<Memory>>;

// What memories were filled with.
std::map<int, Values> before;

// Numbers that every type of floats has, eighths up to two; or integers.
double value(const std::string &fill, dnnl_data_type_t type, uint64_t seed, size_t index) {
    uint64_t x = seed * 0x9E3779B97F4A7C15U + index * 0xD1342543DE82EF95U + 0x2545F4914F6CDD1DU;
    x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9U;
    x = (x ^ x >> 29) * 0x94D049BB133111EBU;
    x ^= x >> 32;
    const int r = static_cast<int>(x % 33) - 16;
    const bool is_float = type != dnnl_s32 && type != dnnl_s64 && type != dnnl_s8 && type != dnnl_u8 && type != dnnl_s4 && type != dnnl_u4;
    if (fill[0] == '=') return std::atof(fill.c_str() + 1);
    if (fill == "scale") return std::ldexp(1.0, r % 3 - 1);
    if (fill == "point") return type == dnnl_u8 || type == dnnl_u4 ? (r + 16) % 4 : r % 4;
    // A float of four bits has halves up to two alone.
    if (type == dnnl_f4_e2m1) return r % 5 / 2.0;
    if (fill == "distinct" && is_float) return (static_cast<double>(index * 2654435761U % 65537) - 32768) / 1024;
    if (fill == "positive") return is_float ? (std::abs(r) + 1) / 8.0 : std::abs(r) % 7 + 1;
    if (fill == "small" && is_float) return r / 64.0;
    if (fill == "unit" && is_float) return std::abs(r) / 16.0;
    if (is_float) return r / 8.0;
    if (type == dnnl_u8 || type == dnnl_u4) return (r + 16) % 16;
    return r / 2;
}

struct Argument {
    int arg;
    const char *name;
};

const Argument arguments[] = {{DNNL_ARG_SRC_0, "src"}, {DNNL_ARG_SRC_1, "src1"}, {DNNL_ARG_WEIGHTS_0, "wei"}, {DNNL_ARG_BIAS, "bia"},
        {DNNL_ARG_DST, "dst"}, {DNNL_ARG_MEAN, "mean"}, {DNNL_ARG_VARIANCE, "variance"}, {DNNL_ARG_SCALE, "scale"},
        {DNNL_ARG_SHIFT, "shift"}, {DNNL_ARG_WORKSPACE, "workspace"}, {DNNL_ARG_SCRATCHPAD, "scratchpad"},
        {DNNL_ARG_DIFF_SRC, "dsrc"}, {DNNL_ARG_DIFF_DST, "ddst"}, {DNNL_ARG_DIFF_WEIGHTS, "dwei"}, {DNNL_ARG_DIFF_BIAS, "dbia"},
        {DNNL_ARG_DIFF_SCALE, "dscale"}, {DNNL_ARG_DIFF_SHIFT, "dshift"}, {DNNL_ARG_MULTIPLE_SRC, "multiple0"},
        {DNNL_ARG_MULTIPLE_SRC + 1, "multiple1"}, {DNNL_ARG_MULTIPLE_SRC + 2, "multiple2"}, {DNNL_ARG_MULTIPLE_SRC + 3, "multiple3"},
        {DNNL_ARG_SRC_2, "src2"}, {DNNL_ARG_SRC_3, "src3"}, {DNNL_ARG_WEIGHTS_1, "wei1"}, {DNNL_ARG_WEIGHTS_2, "wei2"},
        {DNNL_ARG_WEIGHTS_3, "wei3"}, {DNNL_ARG_DST_1, "dst1"}, {DNNL_ARG_DST_2, "dst2"}, {DNNL_ARG_DIFF_SRC_1, "dsrc1"},
        {DNNL_ARG_DIFF_SRC_2, "dsrc2"}, {DNNL_ARG_DIFF_SRC_3, "dsrc3"}, {DNNL_ARG_DIFF_DST_1, "ddst1"}, {DNNL_ARG_DIFF_DST_2, "ddst2"},
        {DNNL_ARG_DIFF_WEIGHTS_1, "dwei1"}, {DNNL_ARG_DIFF_WEIGHTS_2, "dwei2"}, {DNNL_ARG_DIFF_WEIGHTS_3, "dwei3"}};

// Whether a primitive writes an argument.
bool is_result(int arg, bool is_backward, unsigned flags) {
    if (is_backward)
        return (arg >= DNNL_ARG_DIFF_SRC && arg <= DNNL_ARG_DIFF_SRC_3) || (arg >= DNNL_ARG_DIFF_WEIGHTS && arg <= DNNL_ARG_DIFF_WEIGHTS_3) || arg == DNNL_ARG_DIFF_BIAS || arg == DNNL_ARG_DIFF_SCALE
                || arg == DNNL_ARG_DIFF_SHIFT;
    const bool statistics = (arg == DNNL_ARG_MEAN || arg == DNNL_ARG_VARIANCE) && !(flags & dnnl_use_global_stats);
    return (arg >= DNNL_ARG_DST && arg <= DNNL_ARG_DST_2) || arg == DNNL_ARG_WORKSPACE || arg == DNNL_ARG_ATTR_DROPOUT_MASK
            || arg == (DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST) || statistics;
}

const_dnnl_memory_desc_t operand(const PrimitiveDesc &described, int arg) {
    const auto *desc = FN(dnnl_primitive_desc_query_md)(described.raw, dnnl_query_exec_arg_md, arg);
    return desc && query<int>(desc, dnnl_query_ndims_s32) > 0 ? desc : nullptr;
}

// Fills what is not there yet and executes.
void execute(const Case &one, const PrimitiveDesc &described, const Attributes &attr, bool is_backward, Memories &memories) {
    const auto seed = static_cast<uint64_t>(one.number("seed"));
    std::vector<dnnl_exec_arg_t> args;
    const auto bind = [&](int arg, const_dnnl_memory_desc_t desc, const std::string &how, bool fresh) {
        auto &memory = memories[arg];
        if (!memory || fresh) {
            memory = std::make_unique<Memory>(desc);
            Values values;
            const int rank = query<int>(desc, dnnl_query_ndims_s32);
            const auto *dims = query<const dnnl_dim_t *>(desc, dnnl_query_dims);
            size_t count = 1;
            for (int i = 0; i < rank; i++) count *= static_cast<size_t>(dims[i]);
            const auto type = query<dnnl_data_type_t>(desc, dnnl_query_data_type);
            for (size_t i = 0; i < count; i++) values.push_back(value(how, type, seed + static_cast<uint64_t>(arg) * 977, i));
            fill(*memory, values);
            before[arg] = values;
        } else if (!FN(dnnl_memory_desc_equal)(memory->desc(), desc)) {
            auto other = std::make_unique<Memory>(desc);
            reorder(*memory, *other);
            memory = std::move(other);
        }
        args.push_back({arg, memory->raw});
    };
    for (const Argument &each : arguments) {
        const_dnnl_memory_desc_t desc = operand(described, each.arg);
        if (!desc) continue;
        if (each.arg == DNNL_ARG_SCRATCHPAD || each.arg == DNNL_ARG_WORKSPACE) {
            auto &memory = memories[each.arg];
            if (!memory) memory = std::make_unique<Memory>(desc);
            args.push_back({each.arg, memory->raw});
            continue;
        }
        // What is known at execution only is known now.
        Desc known;
        const auto *dims = query<const dnnl_dim_t *>(desc, dnnl_query_dims);
        if (std::count(dims, dims + query<int>(desc, dnnl_query_ndims_s32), DNNL_RUNTIME_DIM_VAL)) {
            known = descriptor(one.word(each.name));
            desc = known;
        }
        std::string how = one.word(("fill." + std::string(each.name)).c_str(), one.word("fill", "any").c_str());
        if (each.arg == DNNL_ARG_VARIANCE) how = "positive";
        // Blocks of a result must be filled by the primitive, so the memory holds numbers before.
        bind(each.arg, desc, how, is_backward && is_result(each.arg, true, 0));
    }
    for (const Extra &extra : attr.extras) {
        const_dnnl_memory_desc_t desc = extra.desc.raw ? extra.desc.raw : operand(described, extra.arg);
        if (!desc) throw Wrong {"no descriptor of argument " + std::to_string(extra.arg)};
        bind(extra.arg, desc, extra.fill, false);
    }
    dnnl_primitive_t primitive = nullptr;
    TRY(dnnl_primitive_create, &primitive, described.raw);
    const dnnl_status_t done = FN(dnnl_primitive_execute)(primitive, stream, static_cast<int>(args.size()), args.data());
    const dnnl_status_t waited = FN(dnnl_stream_wait)(stream);
    FN(dnnl_primitive_destroy)(primitive);
    check(done, "dnnl_primitive_execute");
    check(waited, "dnnl_stream_wait");
}

// What attributes make a primitive write.
const Argument extra_results[] = {{DNNL_ARG_ATTR_DROPOUT_MASK, "mask"}, {DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, "dst_scales"}};

void print(const Case &one, const PrimitiveDesc &described, bool is_backward, const Memories &memories) {
    std::vector<Argument> all(std::begin(arguments), std::end(arguments));
    all.insert(all.end(), std::begin(extra_results), std::end(extra_results));
    for (const Argument &each : all) {
        const auto found = memories.find(each.arg);
        const bool is_extra = each.arg > DNNL_ARG_MULTIPLE_SRC + 64 || each.arg == DNNL_ARG_ATTR_DROPOUT_MASK;
        const bool own = is_result(each.arg, is_backward, static_cast<unsigned>(one.number("flags")))
                && (is_extra || operand(described, each.arg));
        if (found == memories.end() || each.arg == DNNL_ARG_WORKSPACE || !own) continue;
        bool dirty = false;
        const Values values = read(*found->second, dirty);
        std::printf("result %s %s %s ", each.name, dirty ? "dirty" : values == before[each.arg] ? "untouched" : "clean",
                FN(dnnl_dt2str)(query<dnnl_data_type_t>(found->second->desc(), dnnl_query_data_type)));
        for (double x : values) {
            uint64_t bits = 0;
            std::memcpy(&bits, &x, sizeof bits);
            std::printf("%016llx", static_cast<unsigned long long>(bits));
        }
        std::printf("\n");
    }
}

template <typename T>
std::vector<T> numbers_of(const Case &one, dnnl_data_type_t type, size_t count, uint64_t salt) {
    std::vector<T> made(count);
    for (size_t i = 0; i < count; i++) made[i] = static_cast<T>(value("any", type, static_cast<uint64_t>(one.number("seed")) + salt, i));
    return made;
}

template <typename T>
void print_matrix(const char *type, const std::vector<T> &values) {
    std::printf("result dst clean %s ", type);
    for (T each : values) {
        const double x = static_cast<double>(each);
        uint64_t bits = 0;
        std::memcpy(&bits, &x, sizeof bits);
        std::printf("%016llx", static_cast<unsigned long long>(bits));
    }
    std::printf("\n");
}

// `gemm type=f32 trans=NT m=3 n=4 k=5 more=2 alpha=1 beta=0 offset=F`: rows are `more` elements longer than they must be.
void run_gemm(const Case &one) {
    const auto size = [&](const char *key) { return static_cast<dnnl_dim_t>(one.number(key)); };
    const std::string trans = one.word("trans"), type = one.word("type"), offset = one.word("offset", "F");
    const dnnl_dim_t m = size("m"), n = size("n"), k = size("k"), more = size("more");
    const bool ta = std::tolower(trans[0]) == 't', tb = std::tolower(trans[1]) == 't';
    const dnnl_dim_t lda = std::max<dnnl_dim_t>(1, ta ? m : k) + more, ldb = std::max<dnnl_dim_t>(1, tb ? k : n) + more;
    const dnnl_dim_t ldc = std::max<dnnl_dim_t>(1, n) + more;
    const auto area = [](dnnl_dim_t rows, dnnl_dim_t row) { return static_cast<size_t>(std::max<dnnl_dim_t>(1, rows) * row); };
    const size_t as = area(ta ? k : m, lda), bs = area(tb ? n : k, ldb), cs = area(m, ldc);
    const auto alpha = static_cast<float>(one.number("alpha", 1)), beta = static_cast<float>(one.number("beta"));
    if (type == "f32") {
        const auto a = numbers_of<float>(one, dnnl_f32, as, 1), b = numbers_of<float>(one, dnnl_f32, bs, 2);
        auto c = numbers_of<float>(one, dnnl_f32, cs, 3);
        TRY(dnnl_sgemm, trans[0], trans[1], m, n, k, alpha, a.data(), lda, b.data(), ldb, beta, c.data(), ldc);
        return print_matrix("f32", c);
    }
    const auto b = numbers_of<int8_t>(one, dnnl_s8, bs, 2);
    auto c = numbers_of<int32_t>(one, dnnl_s32, cs, 3);
    const auto co = numbers_of<int32_t>(one, dnnl_s32, static_cast<size_t>(std::max<dnnl_dim_t>(1, std::max(m, n))), 4);
    if (type == "u8") {
        const auto a = numbers_of<uint8_t>(one, dnnl_u8, as, 1);
        TRY(dnnl_gemm_u8s8s32, trans[0], trans[1], offset[0], m, n, k, alpha, a.data(), lda, static_cast<uint8_t>(one.number("ao")),
                b.data(), ldb, static_cast<int8_t>(one.number("bo")), beta, c.data(), ldc, co.data());
    } else {
        const auto a = numbers_of<int8_t>(one, dnnl_s8, as, 1);
        TRY(dnnl_gemm_s8s8s32, trans[0], trans[1], offset[0], m, n, k, alpha, a.data(), lda, static_cast<int8_t>(one.number("ao")),
                b.data(), ldb, static_cast<int8_t>(one.number("bo")), beta, c.data(), ldc, co.data());
    }
    print_matrix("s32", c);
}

void run(const std::string &text) {
    const Case one(text);
    if (one.primitive == "gemm") return run_gemm(one);
    const Described d(one);
    const dnnl_prop_kind_t kind = one.has("prop") ? prop(one.word("prop")) : dnnl_forward_inference;
    const bool is_backward = kind != dnnl_forward_inference && kind != dnnl_forward_training;
    const Attributes attr(one);
    Memories memories;
    PrimitiveDesc first, second;
    if (!is_backward) {
        forward(d, kind, attr, first);
        execute(one, first, attr, false, memories);
        print(one, first, false, memories);
        return;
    }
    // The forward pass has no attributes of its own.
    const Case bare("none");
    const Attributes none(bare);
    forward(d, dnnl_forward_training, none, first);
    execute(one, first, none, false, memories);
    backward(d, kind, first.raw, attr, second);
    execute(one, second, attr, true, memories);
    print(one, second, true, memories);
}

void open_engine(const std::string &kind, const std::string &platform) {
    if (kind == "cpu") return TRY(dnnl_engine_create, &engine, dnnl_cpu, 0);
    void *opencl = dlopen("libOpenCL.so.1", RTLD_NOW);
    if (!opencl) throw Wrong {"there is no libOpenCL.so.1"};
    const auto device_info = reinterpret_cast<decltype(&clGetDeviceInfo)>(dlsym(opencl, "clGetDeviceInfo"));
    const auto platform_info = reinterpret_cast<decltype(&clGetPlatformInfo)>(dlsym(opencl, "clGetPlatformInfo"));
    const size_t count = FN(dnnl_engine_get_count)(dnnl_gpu);
    for (size_t i = 0; i < count; i++) {
        TRY(dnnl_engine_create, &engine, dnnl_gpu, i);
        cl_device_id device = nullptr;
        cl_platform_id of = nullptr;
        char name[256] = "";
        TRY(dnnl_ocl_interop_get_device, engine, &device);
        device_info(device, CL_DEVICE_PLATFORM, sizeof of, &of, nullptr);
        platform_info(of, CL_PLATFORM_NAME, sizeof name - 1, name, nullptr);
        if (std::strstr(name, platform.c_str())) return;
        FN(dnnl_engine_destroy)(engine);
    }
    throw Wrong {"no device of platform " + platform};
}

std::string reason() {
    const auto last = reinterpret_cast<const char *(*)()>(dlsym(library, "anydnn_last_error"));
    return last ? last() : "";
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    try {
        open_engine(argv[2], argc > 3 ? argv[3] : "");
        TRY(dnnl_stream_create, &stream, engine, dnnl_stream_default_flags);
    } catch (const Wrong &wrong) {
        std::fprintf(stderr, "%s\n", wrong.why.c_str());
        return 2;
    } catch (const Refused &refused) {
        std::fprintf(stderr, "%s: %d\n", refused.call.c_str(), refused.status);
        return 2;
    }
    char *line = nullptr;
    size_t room = 0;
    bool goes_on = true;
    for (ssize_t length; goes_on && (length = getline(&line, &room, stdin)) > 0;) {
        std::string text(line, static_cast<size_t>(length));
        if (text.back() == '\n') text.pop_back();
        std::printf("case\n");
        std::fflush(stdout);
        try {
            run(text);
            std::printf("end success\n");
        } catch (const Refused &refused) {
            const bool absent = refused.call.find(ABSENT) != std::string::npos;
            std::printf("end %s %s: %s\n", FN(dnnl_status2str)(refused.status), refused.call.c_str(), absent ? "" : reason().c_str());
            // A library that could not generate a kernel may generate none after it: another process takes the rest.
            goes_on = refused.status != dnnl_runtime_error;
        } catch (const Wrong &wrong) {
            std::printf("end wrong %s\n", wrong.why.c_str());
        }
        std::fflush(stdout);
    }
    std::free(line);
    FN(dnnl_stream_destroy)(stream);
    FN(dnnl_engine_destroy)(engine);
    return 0;
}
