// Memory that is filled and read element by element, in any strided or blocked layout.
#ifndef MEMORY_H
#define MEMORY_H

#include "case.h"

inline dnnl_engine_t engine;
inline dnnl_stream_t stream;

template <typename T>
T query(const_dnnl_memory_desc_t desc, dnnl_query_t what) {
    T value {};
    TRY(dnnl_memory_desc_query, desc, what, &value);
    return value;
}

// A float of eight bits or fewer: exponent, mantissa, whether the largest exponent holds infinities.
inline double small_float(unsigned bits, int exponents, int mantissas, bool ieee) {
    const int sign = static_cast<int>(bits >> (exponents + mantissas) & 1), bias = (1 << (exponents - 1)) - 1;
    const int exponent = static_cast<int>(bits >> mantissas & ((1U << exponents) - 1));
    const unsigned mantissa = bits & ((1U << mantissas) - 1);
    double value = exponent ? std::ldexp(1.0 + std::ldexp(mantissa, -mantissas), exponent - bias)
                            : std::ldexp(mantissa, 1 - bias - mantissas);
    if (ieee && exponent == (1 << exponents) - 1) value = mantissa ? NAN : INFINITY;
    if (!ieee && exponents == 4 && (bits & 0x7F) == 0x7F) value = NAN;
    return sign ? -value : value;
}

struct Float {
    int exponents, mantissas;
    bool ieee;
};

inline bool float_of(dnnl_data_type_t type, Float &format) {
    switch (type) {
        case dnnl_f16: format = {5, 10, true}; return true;
        case dnnl_bf16: format = {8, 7, true}; return true;
        case dnnl_f8_e5m2: format = {5, 2, true}; return true;
        case dnnl_f8_e4m3: format = {4, 3, false}; return true;
        case dnnl_f4_e2m1: format = {2, 1, false}; return true;
        default: return false;
    }
}

template <typename T>
T at(const void *data, size_t index) {
    T value;
    std::memcpy(&value, static_cast<const char *>(data) + index * sizeof(T), sizeof(T));
    return value;
}

template <typename T>
void put(void *data, size_t index, T value) {
    std::memcpy(static_cast<char *>(data) + index * sizeof(T), &value, sizeof(T));
}

// Two elements share a byte, the first one in its low half.
inline unsigned nibble(const void *data, size_t i) { return at<uint8_t>(data, i / 2) >> i % 2 * 4 & 15; }

inline void put_nibble(void *data, size_t i, unsigned bits) {
    const int shift = static_cast<int>(i % 2) * 4;
    put<uint8_t>(data, i / 2, static_cast<uint8_t>((at<uint8_t>(data, i / 2) & ~(15 << shift)) | (bits & 15) << shift));
}

inline double load(dnnl_data_type_t type, const void *data, size_t i) {
    Float format {};
    if (float_of(type, format)) {
        const int width = format.exponents + format.mantissas + 1;
        const unsigned bits = width == 16 ? at<uint16_t>(data, i) : width == 8 ? at<uint8_t>(data, i) : nibble(data, i);
        return small_float(bits, format.exponents, format.mantissas, format.ieee);
    }
    switch (type) {
        case dnnl_f32: return at<float>(data, i);
        case dnnl_f64: return at<double>(data, i);
        case dnnl_s32: return at<int32_t>(data, i);
        case dnnl_s64: return static_cast<double>(at<int64_t>(data, i));
        case dnnl_s8: return at<int8_t>(data, i);
        case dnnl_u8: return at<uint8_t>(data, i);
        case dnnl_e8m0: return at<uint8_t>(data, i) == 255 ? NAN : std::ldexp(1.0, at<uint8_t>(data, i) - 127);
        case dnnl_u4: return nibble(data, i);
        case dnnl_s4: return (static_cast<int>(nibble(data, i)) ^ 8) - 8;
        default: throw Wrong {"values of an unknown type"};
    }
}

// Stores a value that the type represents.
inline void store(dnnl_data_type_t type, void *data, size_t i, double value) {
    Float format {};
    if (float_of(type, format)) {
        const unsigned sign = std::signbit(value) ? 1U << (format.exponents + format.mantissas) : 0;
        int exponent = 0;
        const double fraction = std::frexp(std::fabs(value), &exponent);
        const int biased = exponent - 1 + (1 << (format.exponents - 1)) - 1;
        unsigned bits = 0;
        if (value != 0 && biased > 0)
            bits = static_cast<unsigned>(biased) << format.mantissas
                    | static_cast<unsigned>(std::lround(std::ldexp(fraction * 2 - 1, format.mantissas)));
        else if (value != 0)
            bits = static_cast<unsigned>(std::lround(std::ldexp(fraction * 2, biased - 1 + format.mantissas)));
        bits |= sign;
        switch (format.exponents + format.mantissas + 1) {
            case 16: put<uint16_t>(data, i, static_cast<uint16_t>(bits)); break;
            case 8: put<uint8_t>(data, i, static_cast<uint8_t>(bits)); break;
            default: put_nibble(data, i, bits);
        }
        return;
    }
    switch (type) {
        case dnnl_f32: put<float>(data, i, static_cast<float>(value)); break;
        case dnnl_f64: put<double>(data, i, value); break;
        case dnnl_s32: put<int32_t>(data, i, static_cast<int32_t>(value)); break;
        case dnnl_s64: put<int64_t>(data, i, static_cast<int64_t>(value)); break;
        case dnnl_s8: put<int8_t>(data, i, static_cast<int8_t>(value)); break;
        case dnnl_u8: put<uint8_t>(data, i, static_cast<uint8_t>(value)); break;
        case dnnl_e8m0: put<uint8_t>(data, i, static_cast<uint8_t>(value > 0 ? std::ilogb(value) + 127 : 0)); break;
        case dnnl_u4:
        case dnnl_s4: put_nibble(data, i, static_cast<unsigned>(static_cast<int>(value))); break;
        default: throw Wrong {"values of an unknown type"};
    }
}

// Where the elements of a strided or blocked descriptor lie.
struct Layout {
    Dims dims, padded, strides, blocks, axes;
    dnnl_dim_t offset = 0;
    dnnl_data_type_t type = dnnl_data_type_undef;

    explicit Layout(const_dnnl_memory_desc_t desc) {
        const int rank = query<int>(desc, dnnl_query_ndims_s32), inner = query<int>(desc, dnnl_query_inner_nblks_s32);
        const auto array = [&](dnnl_query_t what, int count) {
            const auto *first = query<const dnnl_dim_t *>(desc, what);
            return Dims(first, first + count);
        };
        dims = array(dnnl_query_dims, rank);
        padded = array(dnnl_query_padded_dims, rank);
        strides = array(dnnl_query_strides, rank);
        blocks = array(dnnl_query_inner_blks, inner);
        axes = array(dnnl_query_inner_idxs, inner);
        offset = query<dnnl_dim_t>(desc, dnnl_query_submemory_offset_s64);
        type = query<dnnl_data_type_t>(desc, dnnl_query_data_type);
    }

    static bool describes(const_dnnl_memory_desc_t desc) { return query<dnnl_format_kind_t>(desc, dnnl_query_format_kind) == dnnl_blocked; }

    size_t count(const Dims &of) const {
        size_t count = 1;
        for (dnnl_dim_t dim : of) count *= static_cast<size_t>(dim);
        return count;
    }

    // The place of the element at a position in row-major order of `of`; whether it is outside of `dims` is told too.
    size_t place(size_t index, const Dims &of, bool *outside = nullptr) const {
        Dims at(of.size());
        for (size_t i = of.size(); i-- > 0;) {
            at[i] = static_cast<dnnl_dim_t>(index % static_cast<size_t>(of[i]));
            index /= static_cast<size_t>(of[i]);
            if (outside && at[i] >= dims[i]) *outside = true;
        }
        dnnl_dim_t place = offset, size = 1;
        for (size_t b = blocks.size(); b-- > 0;) {
            dnnl_dim_t &own = at[static_cast<size_t>(axes[b])];
            place += own % blocks[b] * size;
            own /= blocks[b];
            size *= blocks[b];
        }
        for (size_t i = 0; i < at.size(); i++) place += at[i] * strides[i];
        return static_cast<size_t>(place);
    }
};

using Values = std::vector<double>;

struct Memory {
    dnnl_memory_t raw = nullptr;

    explicit Memory(const_dnnl_memory_desc_t desc) { TRY(dnnl_memory_create, &raw, desc, engine, DNNL_MEMORY_ALLOCATE); }
    Memory(const Memory &) = delete;
    ~Memory() { FN(dnnl_memory_destroy)(raw); }

    const_dnnl_memory_desc_t desc() const {
        const_dnnl_memory_desc_t desc = nullptr;
        TRY(dnnl_memory_get_memory_desc, raw, &desc);
        return desc;
    }

    template <typename Body>
    void mapped(const Body &body) const {
        void *data = nullptr;
        TRY(dnnl_memory_map_data, raw, &data);
        if (data) body(data);
        TRY(dnnl_memory_unmap_data, raw, data);
        TRY(dnnl_stream_wait, stream);
    }

    void clear(int byte) const {
        const size_t bytes = FN(dnnl_memory_desc_get_size)(desc());
        mapped([&](void *data) { std::memset(data, byte, bytes); });
    }
};

// Another layout of the same tensor: dense, row by row.
inline Desc plain(const_dnnl_memory_desc_t desc) {
    const int rank = query<int>(desc, dnnl_query_ndims_s32);
    const auto *dims = query<const dnnl_dim_t *>(desc, dnnl_query_dims);
    Dims strides(static_cast<size_t>(rank));
    dnnl_dim_t stride = 1;
    for (size_t i = strides.size(); i-- > 0; stride *= std::max<dnnl_dim_t>(dims[i], 1)) strides[i] = stride;
    Desc made;
    TRY(dnnl_memory_desc_create_with_strides, &made.raw, rank, dims, query<dnnl_data_type_t>(desc, dnnl_query_data_type), strides.data());
    return made;
}

inline void reorder(const Memory &from, const Memory &to) {
    dnnl_primitive_desc_t described = nullptr;
    dnnl_primitive_t primitive = nullptr;
    TRY(dnnl_reorder_primitive_desc_create, &described, from.desc(), engine, to.desc(), engine, nullptr);
    const dnnl_status_t made = FN(dnnl_primitive_create)(&primitive, described);
    FN(dnnl_primitive_desc_destroy)(described);
    check(made, "dnnl_primitive_create");
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from.raw}, {DNNL_ARG_TO, to.raw}};
    const dnnl_status_t done = FN(dnnl_primitive_execute)(primitive, stream, 2, args);
    FN(dnnl_stream_wait)(stream);
    FN(dnnl_primitive_destroy)(primitive);
    check(done, "dnnl_primitive_execute of a reorder");
}

inline void fill(const Memory &memory, const Values &values) {
    const_dnnl_memory_desc_t desc = memory.desc();
    // Blocks of signed bytes may have more behind them than their descriptor tells, which a reorder knows.
    const bool more = Layout::describes(desc) && query<dnnl_data_type_t>(desc, dnnl_query_data_type) == dnnl_s8 && !Layout(desc).blocks.empty();
    if (more || !Layout::describes(desc)) {
        const Desc dense = plain(desc);
        const Memory between(dense);
        fill(between, values);
        reorder(between, memory);
        return;
    }
    const Layout layout(desc);
    memory.clear(0);
    memory.mapped([&](void *data) {
        for (size_t i = 0; i < layout.count(layout.dims); i++) store(layout.type, data, layout.place(i, layout.dims), values[i]);
    });
}

// The elements, and whether the padding of blocks holds anything but zeros.
inline Values read(const Memory &memory, bool &dirty) {
    const_dnnl_memory_desc_t desc = memory.desc();
    if (!Layout::describes(desc)) {
        const Desc dense = plain(desc);
        const Memory between(dense);
        reorder(memory, between);
        return read(between, dirty);
    }
    const Layout layout(desc);
    Values values(layout.count(layout.dims));
    memory.mapped([&](void *data) {
        for (size_t i = 0; i < values.size(); i++) values[i] = load(layout.type, data, layout.place(i, layout.dims));
        if (layout.padded == layout.dims) return;
        for (size_t i = 0; i < layout.count(layout.padded); i++) {
            bool outside = false;
            const size_t place = layout.place(i, layout.padded, &outside);
            if (outside && load(layout.type, data, place) != 0) dirty = true;
        }
    });
    return values;
}

#endif
