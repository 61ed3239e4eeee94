// A case in words, and the library that it runs on.
#ifndef CASE_H
#define CASE_H

#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "oneapi/dnnl/dnnl.h"
#include "oneapi/dnnl/dnnl_debug.h"
#include "oneapi/dnnl/dnnl_ocl.h"

using Dims = std::vector<dnnl_dim_t>;
using Words = std::vector<std::string>;

// A call that did not succeed, by its name.
struct Refused {
    dnnl_status_t status;
    std::string call;
};

// The case itself makes no sense.
struct Wrong {
    std::string why;
};

inline void *library;

constexpr const char *ABSENT = " is absent";

// A function of the library, which may lack it.
template <typename Function>
Function function(const char *name) {
    void *found = dlsym(library, name);
    if (!found) throw Refused {dnnl_unimplemented, std::string(name) + ABSENT};
    return reinterpret_cast<Function>(found);
}
#define FN(name) function<decltype(&::name)>(#name)

inline void check(dnnl_status_t status, const char *call) {
    if (status != dnnl_success) throw Refused {status, call};
}
#define TRY(name, ...) check(FN(name)(__VA_ARGS__), #name)

inline Words split(const std::string &text, char by) {
    Words words;
    std::stringstream stream(text);
    for (std::string word; std::getline(stream, word, by);) words.push_back(word);
    return words;
}

// `key=value` words, some keys more than once.
struct Case {
    std::string primitive;
    std::map<std::string, Words> words;

    explicit Case(const std::string &text) {
        Words all = split(text, ' ');
        primitive = all.at(0);
        for (size_t i = 1; i < all.size(); i++) {
            const size_t at = all[i].find('=');
            if (at == std::string::npos) throw Wrong {"no value: " + all[i]};
            words[all[i].substr(0, at)].push_back(all[i].substr(at + 1));
        }
    }

    bool has(const char *key) const { return words.count(key) > 0; }
    const Words &all(const char *key) const {
        static const Words none;
        const auto found = words.find(key);
        return found == words.end() ? none : found->second;
    }
    std::string word(const char *key, const char *absent = "") const { return has(key) ? all(key)[0] : absent; }
    double number(const char *key, double absent = 0) const { return has(key) ? std::atof(all(key)[0].c_str()) : absent; }
};

inline Dims numbers(const std::string &text, char by = 'x') {
    Dims dims;
    for (const std::string &word : split(text, by)) dims.push_back(word == "*" ? DNNL_RUNTIME_DIM_VAL : std::atoll(word.c_str()));
    return dims;
}

// The value of an enumeration by the name that the library has for it.
template <typename Enum>
Enum named(const char *names, const std::string &name, int end) {
    const auto name_of = function<const char *(*)(Enum)>(names);
    for (int value = 0; value < end; value++)
        if (name == name_of(static_cast<Enum>(value))) return static_cast<Enum>(value);
    throw Wrong {name + " is unknown to " + names};
}

inline dnnl_data_type_t type_of(const std::string &name) { return named<dnnl_data_type_t>("dnnl_dt2str", name, 32); }
inline dnnl_alg_kind_t algorithm(const std::string &name) {
    return named<dnnl_alg_kind_t>("dnnl_alg_kind2str", name, 0x40000);
}
inline dnnl_prop_kind_t prop(const std::string &name) { return named<dnnl_prop_kind_t>("dnnl_prop_kind2str", name, 256); }

// A descriptor that is ended with its scope.
struct Desc {
    dnnl_memory_desc_t raw = nullptr;
    Desc() = default;
    Desc(const Desc &) = delete;
    Desc(Desc &&other) noexcept : raw(other.raw) { other.raw = nullptr; }
    Desc &operator=(Desc &&other) noexcept {
        std::swap(raw, other.raw);
        return *this;
    }
    ~Desc() {
        if (raw) FN(dnnl_memory_desc_destroy)(raw);
    }
    operator const_dnnl_memory_desc_t() const { return raw; }
};

// `f32:2x3:ab`, `f32:2x3:any` or `f32:2x3:4,1` with strides. Dimensions at the places in `unknown` are left to the execution.
inline Desc descriptor(const std::string &text, const std::vector<size_t> &unknown = {}) {
    const Words parts = split(text, ':');
    if (parts.size() < 3) throw Wrong {"no descriptor: " + text};
    Dims dims = numbers(parts[1]);
    for (size_t i : unknown) dims.at(i) = DNNL_RUNTIME_DIM_VAL;
    Desc desc;
    if (std::isdigit(static_cast<unsigned char>(parts[2][0])))
        TRY(dnnl_memory_desc_create_with_strides, &desc.raw, static_cast<int>(dims.size()), dims.data(), type_of(parts[0]),
                numbers(parts[2], ',').data());
    else
        TRY(dnnl_memory_desc_create_with_tag, &desc.raw, static_cast<int>(dims.size()), dims.data(), type_of(parts[0]),
                named<dnnl_format_tag_t>("dnnl_fmt_tag2str", parts[2], 875));
    return desc;
}

// The places of an operand's dimensions that the word `unknown` names: digits, or letters of a product (`b` for its batch).
inline std::vector<size_t> unknown(const Case &one, const std::string &key) {
    std::vector<size_t> places;
    const size_t rank = one.has(key.c_str()) ? numbers(split(one.word(key.c_str()), ':').at(1)).size() : 0;
    const std::string tail = key == "src" ? "mk" : key == "wei" ? "kn" : key == "bia" ? " n" : "mn";
    for (size_t i = 0; i < rank; i++) {
        const char letter = one.primitive != "matmul" ? static_cast<char>('0' + i) : i + 2 < rank ? 'b' : tail[i + 2 - rank];
        if (one.word("unknown").find(letter) != std::string::npos) places.push_back(i);
    }
    return places;
}

inline Desc optional(const Case &one, const char *key) { return one.has(key) ? descriptor(one.word(key), unknown(one, key)) : Desc(); }

#endif
