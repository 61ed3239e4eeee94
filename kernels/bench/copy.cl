// How many bytes are copied in a second.
// V: a vector of floats; RUN: vectors that a work-item copies; a run is consecutive where NEXT is 1, else the work-items stride together.

#if defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define STORE(value, address) __builtin_nontemporal_store(value, address)
#endif
#endif
#ifndef STORE
#define STORE(value, address) (*(address) = (value))
#endif

__kernel void copied(__global const V* from, __global V* to) {
#if NEXT
    const size_t first = get_global_id(0) * RUN;
    const size_t step = 1;
#else
    const size_t first = get_global_id(0);
    const size_t step = get_global_size(0);
#endif
    for (size_t i = 0; i < RUN; i++) STORE(from[first + i * step], to + first + i * step);
}
