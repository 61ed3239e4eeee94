// What every program starts with. The generator has defined before:
//   R       the scalar type values are computed in (float, double or long), R_IS_INTEGER whether it is long
//   idx     the type of element offsets (int, or long where a tensor needs it)
// and defines after it, for each operand X of the kernel:
//   OFF_X           the element offset at the current values of the loop variables
//   LD_X(o, n)      n lanes from element offset o on, converted to V;  LD1_X(o) one element, converted to R
//   NAT1_X(o)       one element in its natural arithmetic type (float, int, long, double)
//   ST_X(o, n, v)   the opposite of LD_X: rounds half to even, saturates integers, NaN becomes integer zero
//   KEEP_X(o, n, v) the same for what is read again soon: ST_X may pass the cache by
//   PARAMS, ENTER   the kernel's parameters, and the code that applies the operands' byte offsets

#pragma OPENCL FP_CONTRACT ON

// Between KEEP_PRODUCTS and JOIN_PRODUCTS, at the top of a file, a product is rounded before it becomes a part of a sum. NVIDIA's compiler joins
// those of different statements and functions, as the numbers that it knows allow, and a program for one shape would have other bits than
// the one for every shape. SUM_OF_PRODUCT(a, b, c) is a * b + c in one step for all that.
#ifdef __NV_CL_C_VERSION
#define KEEP_PRODUCTS _Pragma("OPENCL FP_CONTRACT OFF")
#define JOIN_PRODUCTS _Pragma("OPENCL FP_CONTRACT ON")
#define SUM_OF_PRODUCT(a, b, c) fma(a, b, c)
#else
#define KEEP_PRODUCTS
#define JOIN_PRODUCTS
#define SUM_OF_PRODUCT(a, b, c) ((a) * (b) + (c))
#endif

// Defined as 1 when an operand's first byte is not aligned to its element: every access then goes byte by byte.
#ifndef ANYDNN_UNALIGNED
#define ANYDNN_UNALIGNED 0
#endif

// Defined as 1 where the program for unaligned memory runs unless all operands are aligned to their vectors.
#ifndef ANYDNN_ALIGNED
#define ANYDNN_ALIGNED 0
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

// For rare loops: compilers that unroll them, everywhere they are used, take ten times as long.
#define NOT_UNROLLED _Pragma("nounroll")

// Whether a vector of these bytes may be accessed as one wherever it starts at a multiple of them from here on.
#define IS_WHOLE(p, bytes) (!ANYDNN_UNALIGNED && (ANYDNN_ALIGNED || ((size_t)(p) & ((bytes) - 1)) == 0))
// A store past the cache, at an address that is a multiple of the vector's size.
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#define STREAM(v, p) __builtin_nontemporal_store(v, p)
#endif
#endif
#ifndef STREAM
#define STREAM(v, p) (*(p) = (v))
#endif

// Fetches a line into the second-level cache, or the first (FETCH_NEAR), of a device whose pointers are all alike: NVIDIA's are not.
#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch) && !defined(__NV_CL_C_VERSION)
#define FETCH(p) __builtin_prefetch((const __private void *)(size_t)(p), 0, 1)
#define FETCH_NEAR(p) __builtin_prefetch((const __private void *)(size_t)(p), 0, 3)
#endif
#endif
#ifndef FETCH
#define FETCH(p)
#define FETCH_NEAR(p)
#endif

// A loop that is unrolled, so that what it indexes becomes registers.
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); ++i)

// One by the root of a value.
#define INVERSE_ROOT(x) rsqrt(x)

// How two values join.
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
// NaN wins. Two choices: processors have an instruction for the inner one, and none for what two comparisons have in common. What is
// joined from many values goes second: the next value then is compared with itself while that is still computed.
#define LARGER(a, b) ((a) != (a) ? (a) : (a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) != (a) ? (a) : (a) < (b) ? (a) : (b))
// The largest of two more values and of what the values before gave, in f32: NaN is looked for in both at once.
#define PLAIN_LARGER(a, b) ((b) > (a) ? (b) : (a))
#define LARGER_OF_TWO(a, b, before)                                                                                      \
    (((a) != (a)) | ((b) != (b)) ? (V)(NAN) : PLAIN_LARGER(before, PLAIN_LARGER(a, b)))

// Elements as raw bits, by their size.

static inline uchar get_8(const __global uchar *p, const idx o) { return p[o]; }
static inline void put_8(__global uchar *p, const idx o, const uchar x) { p[o] = x; }

// Two elements share a byte, the first in its low half. Another work-item may store the other half, or a byte beside it, at the same
// time: a store changes its own bits alone, by atomic operations on the aligned word around them.
static inline uchar get_4(const __global uchar *p, const idx o) { return (p[o >> 1] >> ((int)(o & 1) * 4)) & 15; }
static inline void put_4(__global uchar *p, const idx o, const uchar x) {
    const size_t at = (size_t)(p + (o >> 1));
    volatile __global uint *word = (volatile __global uint *)(at & ~(size_t)3);
    const uint shift = (uint)(at & 3) * 8 + (uint)(o & 1) * 4;
    atomic_and(word, ~(15u << shift));
    atomic_or(word, (uint)(x & 15) << shift);
}

#if ANYDNN_UNALIGNED

static inline ushort get_16(const __global uchar *p, const idx o) { return as_ushort(vload2(0, p + (size_t)o * 2)); }
static inline uint get_32(const __global uchar *p, const idx o) { return as_uint(vload4(0, p + (size_t)o * 4)); }
static inline ulong get_64(const __global uchar *p, const idx o) { return as_ulong(vload8(0, p + (size_t)o * 8)); }
static inline void put_16(__global uchar *p, const idx o, const ushort x) { vstore2(as_uchar2(x), 0, p + (size_t)o * 2); }
static inline void put_32(__global uchar *p, const idx o, const uint x) { vstore4(as_uchar4(x), 0, p + (size_t)o * 4); }
static inline void put_64(__global uchar *p, const idx o, const ulong x) { vstore8(as_uchar8(x), 0, p + (size_t)o * 8); }

#else

static inline ushort get_16(const __global uchar *p, const idx o) { return ((const __global ushort *)p)[o]; }
static inline uint get_32(const __global uchar *p, const idx o) { return ((const __global uint *)p)[o]; }
static inline ulong get_64(const __global uchar *p, const idx o) { return ((const __global ulong *)p)[o]; }
static inline void put_16(__global uchar *p, const idx o, const ushort x) { ((__global ushort *)p)[o] = x; }
static inline void put_32(__global uchar *p, const idx o, const uint x) { ((__global uint *)p)[o] = x; }
static inline void put_64(__global uchar *p, const idx o, const ulong x) { ((__global ulong *)p)[o] = x; }

#endif
