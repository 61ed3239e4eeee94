// The attributes of a case, and the memories that they ask for.
#ifndef ATTRIBUTES_H
#define ATTRIBUTES_H

#include "memory.h"

inline int argument(const std::string &name) {
    static const std::map<std::string, int> arguments {{"src", DNNL_ARG_SRC}, {"src0", DNNL_ARG_SRC_0}, {"src1", DNNL_ARG_SRC_1},
            {"wei", DNNL_ARG_WEIGHTS}, {"dst", DNNL_ARG_DST}, {"bia", DNNL_ARG_BIAS}};
    const auto found = arguments.find(name);
    if (found != arguments.end()) return found->second;
    if (name.rfind("multiple", 0) == 0) return DNNL_ARG_MULTIPLE_SRC + std::atoi(name.c_str() + 8);
    throw Wrong {"no argument: " + name};
}

// An argument that attributes bring: its descriptor (none where the primitive tells it), and how it is filled.
struct Extra {
    int arg;
    Desc desc;
    std::string fill;
};

struct Attributes {
    dnnl_primitive_attr_t raw = nullptr;
    std::vector<Extra> extras;

    explicit Attributes(const Case &one) {
        static const char *const keys[] = {"po", "scale", "zp", "fpmath", "acc", "deterministic", "scratchpad", "rounding", "dropout", "rnn_data", "sums"};
        bool any = false;
        for (const char *key : keys) any = any || one.has(key);
        if (!any) return;
        TRY(dnnl_primitive_attr_create, &raw);
        for (const std::string &scale : one.all("scale")) quantization(one, scale, true);
        for (const std::string &point : one.all("zp")) quantization(one, point, false);
        for (const std::string &sums : one.all("sums")) reductions(one, sums);
        if (one.has("fpmath")) {
            const Words parts = split(one.word("fpmath"), ':');
            TRY(dnnl_primitive_attr_set_fpmath_mode_v2, raw, named<dnnl_fpmath_mode_t>("dnnl_fpmath_mode2str", parts[0], 8),
                    parts.size() > 1);
        }
        if (one.has("acc"))
            TRY(dnnl_primitive_attr_set_accumulation_mode, raw,
                    named<dnnl_accumulation_mode_t>("dnnl_accumulation_mode2str", one.word("acc"), 8));
        if (one.has("deterministic")) TRY(dnnl_primitive_attr_set_deterministic, raw, static_cast<int>(one.number("deterministic")));
        if (one.has("scratchpad"))
            TRY(dnnl_primitive_attr_set_scratchpad_mode, raw, named<dnnl_scratchpad_mode_t>("dnnl_scratchpad_mode2str", one.word("scratchpad"), 4));
        if (one.has("rounding")) rounding(split(one.word("rounding"), ':'));
        if (one.has("dropout")) dropout(one, split(one.word("dropout"), ':'));
        if (one.has("rnn_data")) recurrent(one);
        if (one.has("po")) post_operations(one);
    }
    Attributes(const Attributes &) = delete;
    ~Attributes() {
        if (raw) FN(dnnl_primitive_attr_destroy)(raw);
    }

private:
    // `ARG:SEED`
    void rounding(const Words &parts) {
        TRY(dnnl_primitive_attr_set_rounding, raw, argument(parts.at(0)), dnnl_rounding_mode_stochastic);
        extras.push_back({DNNL_ARG_ATTR_ROUNDING_SEED, vector(dnnl_s32, 1), "=" + parts.at(1)});
    }

    // `PROBABILITY:SEED:OFFSET`, with `:LAYOUT` of a mask. The offset is `none`, or `first` for the first form of the attribute.
    void dropout(const Case &one, const Words &parts) {
        const bool is_first = parts.at(2) == "first", has_offset = !is_first && parts[2] != "none", has_mask = parts.size() > 3;
        Desc mask;
        if (has_mask)
            mask = descriptor("u8:" + split(one.word("dst"), ':').at(1) + ":" + parts[3]);
        else
            TRY(dnnl_memory_desc_create_with_tag, &mask.raw, 0, nullptr, dnnl_data_type_undef, dnnl_format_tag_undef);
        if (is_first)
            TRY(dnnl_primitive_attr_set_dropout, raw, mask.raw);
        else
            TRY(dnnl_primitive_attr_set_dropout_v2, raw, mask.raw, dnnl_s64, has_offset, 0);
        extras.push_back({DNNL_ARG_ATTR_DROPOUT_PROBABILITY, vector(dnnl_f32, 1), "=" + parts.at(0)});
        extras.push_back({DNNL_ARG_ATTR_DROPOUT_SEED, vector(is_first ? dnnl_s32 : dnnl_s64, 1), "=" + parts.at(1)});
        if (has_offset) extras.push_back({DNNL_ARG_ATTR_DROPOUT_OFFSET, vector(dnnl_s64, 1), "=" + parts[2]});
        if (has_mask) extras.push_back({DNNL_ARG_ATTR_DROPOUT_MASK, std::move(mask), "any"});
    }

    // `rnn_data=SCALE:SHIFT`, and `rnn_weights` and `rnn_projection`, each `MASK:SCALE` of the smallest factor; the others are one or two quarters
    // of it larger.
    void recurrent(const Case &one) {
        const Words data = split(one.word("rnn_data"), ':');
        const auto number = [](const std::string &text) { return static_cast<float>(std::atof(text.c_str())); };
        TRY(dnnl_primitive_attr_set_rnn_data_qparams, raw, number(data.at(0)), number(data.at(1)));
        const auto scales = [&](const char *key, const char *of, int &mask) {
            const Words parts = split(one.word(key), ':');
            mask = std::atoi(parts.at(0).c_str());
            const Dims dims = numbers(split(one.word(of), ':').at(1));
            size_t count = 1;
            for (size_t i = 0; i < dims.size(); i++) count *= mask >> i & 1 ? static_cast<size_t>(dims[i]) : 1;
            std::vector<float> made(count);
            for (size_t i = 0; i < count; i++) made[i] = number(parts.at(1)) * (1 + static_cast<float>(i * 5 % 3) / 4);
            return made;
        };
        int mask = 0;
        if (one.has("rnn_weights")) {
            const std::vector<float> made = scales("rnn_weights", "wei", mask);
            TRY(dnnl_primitive_attr_set_rnn_weights_qparams, raw, static_cast<dnnl_dim_t>(made.size()), mask, made.data());
        }
        if (one.has("rnn_projection")) {
            const std::vector<float> made = scales("rnn_projection", "wei3", mask);
            TRY(dnnl_primitive_attr_set_rnn_weights_projection_qparams, raw, static_cast<dnnl_dim_t>(made.size()), mask, made.data());
        }
    }

    // `ARG:MASK`, `ARG:MASK:TYPE`, `ARG:MASK:TYPE:GROUPS`, or `ARG:MASK:TYPE:GROUPS:MODE` for scales that the primitive finds.
    void quantization(const Case &one, const std::string &text, bool is_scale) {
        const Words parts = split(text, ':');
        const int arg = argument(parts.at(0)), mask = std::atoi(parts.at(1).c_str());
        const dnnl_data_type_t type = parts.size() > 2 ? type_of(parts[2]) : is_scale ? dnnl_f32 : dnnl_s32;
        const Dims groups = parts.size() > 3 ? numbers(parts[3]) : Dims();
        if (parts.size() > 4)
            TRY(dnnl_primitive_attr_set_scales_v3, raw, arg, mask, static_cast<int>(groups.size()), groups.data(), type, 0,
                    parts[4] == "mx" ? dnnl_quantization_mode_dynamic_mx : dnnl_quantization_mode_dynamic_fp);
        else if (parts.size() > 2 && is_scale)
            TRY(dnnl_primitive_attr_set_scales, raw, arg, mask, static_cast<int>(groups.size()), groups.data(), type);
        else if (is_scale)
            TRY(dnnl_primitive_attr_set_scales_mask, raw, arg, mask);
        else if (parts.size() > 2)
            TRY(dnnl_primitive_attr_set_zero_points, raw, arg, mask, static_cast<int>(groups.size()), groups.data(), type);
        else
            TRY(dnnl_primitive_attr_set_zero_points_mask, raw, arg, mask);
        // Groups are of the last two dimensions.
        const bool is_one_of_many = parts[0].rfind("multiple", 0) == 0;
        const std::string desc = is_one_of_many ? one.all("multiple").at(static_cast<size_t>(arg - DNNL_ARG_MULTIPLE_SRC))
                                                : one.word(parts[0] == "src0" ? "src" : parts[0].c_str());
        const Dims dims = numbers(split(desc, ':').at(1));
        dnnl_dim_t count = 1;
        for (size_t i = 0; i < dims.size(); i++) {
            if (!(mask >> i & 1)) continue;
            const size_t from_back = dims.size() - i;
            count *= from_back <= groups.size() ? dims[i] / groups[groups.size() - from_back] : dims[i];
        }
        extras.push_back({(is_scale ? DNNL_ARG_ATTR_SCALES : DNNL_ARG_ATTR_ZERO_POINTS) | arg, vector(type, count), is_scale ? "scale" : "point"});
    }

    // `MASK:GROUPS`: sums of the source over groups, which may be any numbers.
    void reductions(const Case &one, const std::string &text) {
        const Words parts = split(text, ':');
        const Dims groups = numbers(parts.at(1)), dims = numbers(split(one.word("src"), ':').at(1));
        TRY(dnnl_primitive_attr_set_precomputed_reductions, raw, DNNL_ARG_SRC, std::atoi(parts[0].c_str()), static_cast<int>(groups.size()),
                groups.data(), dnnl_s32);
        dnnl_dim_t count = 1;
        for (size_t i = 0; i < dims.size(); i++) {
            const size_t from_back = dims.size() - i;
            count *= from_back <= groups.size() ? dims[i] / groups[groups.size() - from_back] : dims[i];
        }
        extras.push_back({DNNL_ARG_ATTR_PRECOMPUTED_REDUCTIONS | DNNL_ARG_SRC, vector(dnnl_s32, count), "any"});
    }

    void post_operations(const Case &one) {
        dnnl_post_ops_t ops = nullptr;
        TRY(dnnl_post_ops_create, &ops);
        try {
            int index = 0;
            for (const std::string &text : one.all("po")) post_operation(one, ops, text, index++);
            TRY(dnnl_primitive_attr_set_post_ops, raw, ops);
        } catch (...) {
            FN(dnnl_post_ops_destroy)(ops);
            throw;
        }
        FN(dnnl_post_ops_destroy)(ops);
    }

    void post_operation(const Case &one, dnnl_post_ops_t ops, const std::string &text, int index) {
        const Words parts = split(text, ':');
        const int base = DNNL_ARG_ATTR_MULTIPLE_POST_OP(index);
        const auto value = [&](size_t i) { return parts.size() > i ? static_cast<float>(std::atof(parts[i].c_str())) : 0.F; };
        if (parts[0] == "sum")
            TRY(dnnl_post_ops_append_sum, ops, value(1), static_cast<int>(value(2)), parts.size() > 3 ? type_of(parts[3]) : dnnl_data_type_undef);
        else if (parts[0] == "prelu") {
            const int mask = std::atoi(parts.at(1).c_str());
            TRY(dnnl_post_ops_append_prelu, ops, mask);
            const Dims dims = numbers(split(one.word("dst"), ':').at(1));
            dnnl_dim_t count = 1;
            for (size_t i = 0; i < dims.size(); i++) count *= mask >> i & 1 ? dims[i] : 1;
            extras.push_back({base | DNNL_ARG_WEIGHTS, vector(dnnl_f32, count), "any"});
        } else if (parts[0] == "dw") {
            // `dw:WEIGHTS:BIAS:RESULT:KERNEL:STRIDE:PADDING`, types and sizes; no bias where its type is `undef`.
            const dnnl_data_type_t bias = parts.at(2) == "undef" ? dnnl_data_type_undef : type_of(parts[2]);
            TRY(dnnl_post_ops_append_dw, ops, type_of(parts.at(1)), bias, type_of(parts.at(3)), static_cast<dnnl_dim_t>(value(4)),
                    static_cast<dnnl_dim_t>(value(5)), static_cast<dnnl_dim_t>(value(6)));
            extras.push_back({DNNL_ARG_ATTR_POST_OP_DW | DNNL_ARG_WEIGHTS, Desc(), "any"});
            if (bias != dnnl_data_type_undef) extras.push_back({DNNL_ARG_ATTR_POST_OP_DW | DNNL_ARG_BIAS, Desc(), "any"});
        } else if (parts[0].rfind("eltwise", 0) == 0)
            TRY(dnnl_post_ops_append_eltwise, ops, algorithm(parts[0]), value(1), value(2));
        else {
            Desc desc = descriptor(parts.at(1) + ":" + parts.at(2) + ":" + parts.at(3));
            TRY(dnnl_post_ops_append_binary, ops, algorithm(parts[0]), desc);
            extras.push_back({base | DNNL_ARG_SRC_1, std::move(desc), parts[0] == "binary_div" ? "positive" : "any"});
        }
    }

    static Desc vector(dnnl_data_type_t type, dnnl_dim_t count) {
        Desc made;
        TRY(dnnl_memory_desc_create_with_tag, &made.raw, 1, &count, type, dnnl_a);
        return made;
    }
};

#endif
