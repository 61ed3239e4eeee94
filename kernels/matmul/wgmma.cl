// A work-group of one or two NVIDIA warpgroups computes TILE_M x TILE_N tiles of a product by their tensor cores: slices of K_TILE
// terms of both operands come into a ring of STAGES places in local memory while earlier ones are multiplied (wgmma_slices.cl). Two to
// four groups share a multiprocessor, so that one multiplies while another stores. Serves matmul and, with generated im2col indices,
// convolution:
//   BYTES, INTEGERS                                              bytes of an element of either operand: 2, 4 for f32 taken as tf32, or 1; and
//                                                                whether sums are integers
//   DECLARE_M(t), DECLARE_N(t), DECLARE_K(t), DECLARE_BATCH(t)   loop variables from a linear index
//   SRC_INSIDE                                                   whether the source element exists (else it is zero)
//   A_FETCH, B_FETCH                                             how an operand comes:
//     BY_TERMS    16 bytes at once, which hold neighbours along K (rows are those of the result for A, its columns for B)
//     BY_ROWS     16 bytes at once, which hold neighbours along the rows
//     BY_ELEMENT  element by element, from anywhere; lanes along the rows where ROWS_FIRST says so
//   A_WORDS, A_ODD, A_LINE, and of B                             where defined, whatever comes BY_TERMS or BY_ROWS comes in words, from lines so
//                                                                many bytes apart, which may be odd multiples of two
//   WGMMA(a, b), WGMMA_WAIT                                      the instructions, with the registers of `sums`
//   HALF_RESULT, USES_GELU_ERF                                   whether the result is of 16 bits, and whether that function is a post-operation
//   PACKED_RESULT                                                where defined, the type of such a result, as text, whose vectors of eight lie at
//                                                                multiples of 16 bytes
//   A_CHANNELS, A_TAPS, OFF_TAP                                  of a window whose slices hold channels of one tap each: how many channels and
//                                                                taps there are, and the part of OFF_SRC0 that depends on the term
//   BIAS_BY_COLUMN                                               where defined, a column has one bias
//   OVERLAPS                                                     whether the first slices of a tile come while the sums of the one before are
//                                                                stored, which takes registers
//   RESIDENT                                                     how many groups share a multiprocessor, as text
//   LAG                                                          of how many slices the products go on while those of the next one begin,
//                                                                which suits a group that has a multiprocessor alone: 0 or 1
//   LOCAL_BYTES                                                  where defined, the bytes of the ring, as text, which are more than OpenCL's
//   SCALED, EXACT                                                whether sums are multiplied by scales, and whether they are the result
//                                                                themselves, as integers of 32 bits
//   BATCHES                                                      products of their own, whose tiles follow one another
//   FOR_ALL                                                      whether sizes and steps may come with the launch
//   PARTS, SPLIT                                                 shares of the sum, and whether there are several, which another kernel adds up then
//   LAST_PARTS, WHOLE_TILES                                      where defined, the tiles behind so many have shares of their sums, which come behind
//                                                                whole tiles and wait in PARTIAL for wgmma_join.cl

#define SM90A "//@sm_90a "
// A program for every shape has what takes compilers long once: it is what a process waits for at first.
#if FOR_ALL && !defined(KNOWN_SHAPE)
#define LEAN 1
#undef BIAS_BY_COLUMN
#undef OVERLAPS
#define OVERLAPS LEAN
#define UNROLLED_UNLESS_LEAN NOT_UNROLLED
#else
#define LEAN 0
#define UNROLLED_UNLESS_LEAN _Pragma("unroll")
#endif
#define GROUP (TILE_M * 2)
#define K_BYTES (K_TILE * BYTES)
// Elements of 16 bytes.
#define RUN (16 / BYTES)
#define CHUNKS (K_BYTES / 16)
#define STEPS ((TERMS + K_TILE - 1) / K_TILE)
#define PART_STEPS ((STEPS + PARTS - 1) / PARTS)
#define TILES_M ((M_SIZE + TILE_M - 1) / TILE_M)
#define TILES_N ((N_SIZE + TILE_N - 1) / TILE_N)
#define TILES (TILES_M * TILES_N * BATCHES)
// What groups take one after the other: tiles, then the shares of the last ones, so that neighbours have the same terms.
#ifdef LAST_PARTS
#define LAST_TILES (TILES - WHOLE_TILES)
#define LAST_STEPS ((STEPS + LAST_PARTS - 1) / LAST_PARTS)
#define UNITS (WHOLE_TILES + LAST_TILES * LAST_PARTS)
#define TILE_OF(t) ((t) < WHOLE_TILES ? (t) : WHOLE_TILES + ((t) - WHOLE_TILES) % LAST_TILES)
#define BEGIN_OF(t) ((t) < WHOLE_TILES ? 0 : ((t) - WHOLE_TILES) / LAST_TILES * LAST_STEPS)
#define STEPS_OF(t) ((t) < WHOLE_TILES ? STEPS : LAST_STEPS)
#else
#define UNITS TILES
#define TILE_OF(t) (t)
#define BEGIN_OF(t) ((int)get_group_id(2) * PART_STEPS)
#define STEPS_OF(t) PART_STEPS
#endif
#define A_BYTES (TILE_M * K_BYTES)
#define STAGE_BYTES ((TILE_M + TILE_N) * K_BYTES)
#define NEXT_PLACE(at) ((at) == start + (STAGES - 1) * STAGE_BYTES ? start : (at) + STAGE_BYTES)
// Slices on their way: the others are multiplied.
#define AHEAD (STAGES - 1 - LAG)
// Tiles of a column of this many rows of tiles follow one another, so that what runs at the same time shares operands in the cache.
#define RASTER 16

// Where a chunk of 16 bytes lies in a tile: rows of K_BYTES, or for BY_ROWS columns of 64 rows of terms of 128 bytes; swizzled as the
// instruction expects it, which also keeps neighbours out of one another's memory banks.
#define PLACE_BY_TERMS(row, chunk) ((row) * K_BYTES + (((chunk) ^ (((row) * K_BYTES / 128) & (CHUNKS - 1))) << 4))
#define PLACE_BY_ROWS(chunk, term) (((chunk) >> 3) * (K_TILE * 128) + (term) * 128 + ((((chunk) ^ (term)) & 7) << 4))

// Descriptors of a tile: address, the step to the next 64 rows (BY_ROWS), the step to the next core matrix, the swizzle.
#define DESCRIPTOR(at, far, near, swizzle) \
    ((ulong)(((at) & 0x3ffff) >> 4) | (ulong)((far) >> 4) << 16 | (ulong)((near) >> 4) << 32 | (ulong)(swizzle) << 62)
#define DESCRIBE_BY_TERMS(at) DESCRIPTOR(at, 16, 8 * K_BYTES, K_BYTES == 128 ? 1 : 2)
#define DESCRIBE_BY_ROWS(at) DESCRIPTOR(at, K_TILE * 128, 1024, 1)
// From the terms of one instruction to the next, in units of 16 bytes.
#define NEXT_BY_TERMS 2
#define NEXT_BY_ROWS 128
#if A_FETCH == BY_ROWS
#define DESCRIBE_A(at, warpgroup) DESCRIBE_BY_ROWS((at) + (warpgroup) * (K_TILE * 128))
#define NEXT_A NEXT_BY_ROWS
#define A_BY_ROWS "1"
#else
#define DESCRIBE_A(at, warpgroup) DESCRIBE_BY_TERMS((at) + (warpgroup) * (64 * K_BYTES))
#define NEXT_A NEXT_BY_TERMS
#define A_BY_ROWS "0"
#endif
#if B_FETCH == BY_ROWS
#define DESCRIBE_B DESCRIBE_BY_ROWS
#define NEXT_B NEXT_BY_ROWS
#define B_BY_ROWS "1"
#else
#define DESCRIBE_B DESCRIBE_BY_TERMS
#define NEXT_B NEXT_BY_TERMS
#define B_BY_ROWS "0"
#endif

// Each of four neighbouring lanes has two columns of each of four blocks of eight; then it has the eight columns of one block.
static inline float partner(const float x, const int distance) {
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(y) : "f"(x), "r"(distance));
    return y;
}
#define EXCHANGE_1(low, high, distance)                                                                                  \
    {                                                                                                                    \
        const bool upper = (quad & (distance)) != 0;                                                                     \
        const float own = low, other = high, got = partner(upper ? own : other, distance);                               \
        low = upper ? got : own;                                                                                         \
        high = upper ? other : got;                                                                                      \
    }
#define EXCHANGE(low, high, distance)                                                                                    \
    EXCHANGE_1(low.s0, high.s0, distance)                                                                                \
    EXCHANGE_1(low.s1, high.s1, distance)
// Integers move among lanes as the bits of floats.
#if INTEGERS
#define SUM int
#define SUM4 int4
#define AS_SUM4(x) as_int4(x)
#define AS_MOVED(x) as_float(x)
#define AS_SUMS(v) convert_float8(as_int8(v))
#else
#define SUM float
#define SUM4 float4
#define AS_SUM4(x) as_float4(x)
#define AS_MOVED(x) (x)
#define AS_SUMS(v) (v)
#endif
#define SUM_AT(j, e) AS_MOVED(sums[(4 * block + (j)) * 4 + 2 * half_tile + (e)])
#define PAIR(j) (float2)(SUM_AT(j, 0), SUM_AT(j, 1))

#if SCALED
// An address may name the terms.
#define SCALE_SUMS                                                                                                       \
    {                                                                                                                    \
        DECLARE_K((idx)0)                                                                                                \
        v = OUT_SRC0(OUT_WEIGHTS(v, n), n);                                                                              \
    }
#else
#define SCALE_SUMS
#endif
#ifdef BIAS_BY_COLUMN
#define ADD_ITS_BIAS v += bias_of[block];
#else
#define ADD_ITS_BIAS ADD_BIAS(v, n)
#endif
#ifdef PACKED_RESULT
// An instruction rounds two sums to even, as ST_DST does one by one, and one access stores all eight.
static inline uint pack_pair(const float low, const float high) {
    uint bits;
    asm("cvt.rn." PACKED_RESULT "x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
#define STORE_RESULT                                                                                                     \
    if (!ANYDNN_UNALIGNED && n >= 8)                                                                                     \
        *(__global uint4 *)(dst + (size_t)(OFF_DST) * 2) =                                                               \
            (uint4)(pack_pair(v.s0, v.s1), pack_pair(v.s2, v.s3), pack_pair(v.s4, v.s5), pack_pair(v.s6, v.s7));         \
    else ST_DST(OFF_DST, n, v);
#else
#define STORE_RESULT ST_DST(OFF_DST, n, v);
#endif
#if EXACT
#define FINISH_SUMS store_32_8(dst, OFF_DST, n, as_uint8(v));
#elif SPLIT
#define FINISH_SUMS                                                                                                      \
    v = AS_SUMS(v);                                                                                                      \
    SCALE_SUMS                                                                                                           \
    ST_PARTIAL((idx)get_group_id(2) * PARTIAL_SIZE + OFF_PARTIAL, n, v);
#else
#define FINISH_SUMS                                                                                                      \
    v = AS_SUMS(v);                                                                                                      \
    SCALE_SUMS                                                                                                           \
    ADD_ITS_BIAS                                                                                                         \
    POST_OPS(v, n)                                                                                                       \
    STORE_RESULT
#endif

#if HALF_RESULT && defined(USES_GELU_ERF)
// max(x, 0) - |x| * tail(|x|), where the logarithm of the normal distribution's tail is a polynomial to 5e-6 up to 6, and beyond that falls
// faster than the tail: the result is right to 4e-6 of itself, far below the last digit of 16 bits. Not a number stays that.
static inline float quick_gelu_erf_1(const float x) {
    float t, tail;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(t) : "f"(fabs(x)), "f"(20.0f));
    float p = fma(t, -1.8346676e-6f, 6.159529e-5f);
    p = fma(t, p, -9.3049987e-4f);
    p = fma(t, p, 8.507785e-3f);
    p = fma(t, p, -5.395983e-2f);
    p = fma(t, p, -4.5846465e-1f);
    p = fma(t, p, -1.151251f);
    p = fma(t, p, -9.999953e-1f);
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(tail) : "f"(p));
    return fma(-t, tail, fmax(x, 0.0f));
}
static inline V quick_gelu_erf(const V x) {
    return (V)(quick_gelu_erf_1(x.s0), quick_gelu_erf_1(x.s1), quick_gelu_erf_1(x.s2), quick_gelu_erf_1(x.s3),
               quick_gelu_erf_1(x.s4), quick_gelu_erf_1(x.s5), quick_gelu_erf_1(x.s6), quick_gelu_erf_1(x.s7));
}
#define eltwise_gelu_erf quick_gelu_erf
#endif

// Stores the sums of blocks of 32 columns: each work-item has eight neighbours of a row at a time.
#define STORE_EIGHT(row, column)                                                                                         \
    {                                                                                                                    \
        const idx at_m = (row) + warp * 16 + lane / 4, at_n = (column) + quad * 8;                                       \
        float2 p = PAIR(0), q = PAIR(1), r = PAIR(2), s = PAIR(3);                                                       \
        EXCHANGE(p, q, 1)                                                                                                \
        EXCHANGE(r, s, 1)                                                                                                \
        EXCHANGE(p, r, 2)                                                                                                \
        EXCHANGE(q, s, 2)                                                                                                \
        if (at_m < M_SIZE && at_n < N_SIZE) {                                                                            \
            DECLARE_M(at_m)                                                                                              \
            DECLARE_N(at_n)                                                                                              \
            DECLARE_K((idx)0)                                                                                            \
            const int n = COUNT(8, at_n, N_SIZE);                                                                        \
            V v = (V)(p, q, r, s);                                                                                       \
            FINISH_SUMS                                                                                                  \
        }                                                                                                                \
    }
#if LEAN
// The next eight come to the registers of the first ones.
#define STORE_BLOCKS(of_batch, of_m, of_n, BLOCKS)                                                                       \
    {                                                                                                                    \
        DECLARE_BATCH(of_batch)                                                                                          \
        const int quad = lane % 4, half_tile = 0, block = 0;                                                             \
        NOT_UNROLLED for (int eight = 0; eight < 2 * (BLOCKS); ++eight) {                                                \
            STORE_EIGHT((of_m) + eight % 2 * 8, (of_n) + eight / 2 * 32)                                                 \
            _Pragma("unroll") for (int i = 0; i + 2 < TILE_N / 2; ++i) {                                                 \
                if (i % 4 < 2) sums[i] = sums[i + 2];                                                                    \
                else if (i + 14 < TILE_N / 2) sums[i] = sums[i + 14];                                                    \
            }                                                                                                            \
        }                                                                                                                \
    }
#else
#define STORE_BLOCKS(of_batch, of_m, of_n, BLOCKS)                                                                       \
    {                                                                                                                    \
        DECLARE_BATCH(of_batch)                                                                                          \
        const int quad = lane % 4;                                                                                       \
        _Pragma("unroll") for (int half_tile = 0; half_tile < 2; ++half_tile)                                            \
            _Pragma("unroll") for (int block = 0; block < (BLOCKS); ++block)                                             \
                STORE_EIGHT((of_m) + half_tile * 8, (of_n) + block * 32)                                                 \
    }
#endif

// The biases of blocks of columns, where a column has one.
#define LOAD_BIAS(of_m, of_n, BLOCKS)                                                                                    \
    _Pragma("unroll") for (int block = 0; block < (BLOCKS); ++block) {                                                   \
        const idx at_n = (of_n) + block * 32 + lane % 4 * 8;                                                             \
        bias_of[block] = (V)(0.0f);                                                                                      \
        if (at_n < N_SIZE) {                                                                                             \
            DECLARE_M(of_m)                                                                                              \
            DECLARE_N(at_n)                                                                                              \
            DECLARE_K((idx)0)                                                                                            \
            ADD_BIAS(bias_of[block], COUNT(8, at_n, N_SIZE))                                                             \
        }                                                                                                                \
    }

// Where tiles begin. Those of some rows of tiles follow one another by columns.
#define PLACE_TILE(tile)                                                                                                 \
    const int own = BATCHES == 1 ? (tile) : (tile) % (TILES_M * TILES_N);                                                \
    const int top = own / (RASTER * TILES_N) * RASTER, height = min((int)TILES_M - top, RASTER);                         \
    const int in_band = own - top * TILES_N;                                                                             \
    const idx batch = BATCHES == 1 ? 0 : (tile) / (TILES_M * TILES_N);                                                   \
    const idx first_m = (idx)(top + in_band % height) * TILE_M, first_n = (idx)(in_band / height) * TILE_N;

#ifdef LAST_PARTS
// A share of a tile's sums lies as work-items hold them, four by four.
#define PART_SUMS(share, four)                                                                                           \
    (partial + ((size_t)(share) * (TILE_M * TILE_N / 4) + (four) * GROUP + item) * sizeof(SUM4))
#define STORE_PART(share)                                                                                                \
    _Pragma("unroll") for (int i = 0; i < TILE_N / 8; ++i) {                                                             \
        const SUM4 x = (SUM4)(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);                           \
        PUT_SUMS(PART_SUMS(share, i), x);                                                                                \
    }
#if ANYDNN_UNALIGNED
#define PUT_SUMS(p, x) vstore16(as_uchar16(x), 0, p)
#define GET_SUMS(p) vload16(0, p)
#else
#define PUT_SUMS(p, x) *(__global SUM4 *)(p) = x
#define GET_SUMS(p) *(const __global SUM4 *)(p)
#endif
#define STORE_SUMS(t, of_batch, of_m, of_n)                                                                              \
    if ((t) < WHOLE_TILES) {                                                                                             \
        STORE_BLOCKS(of_batch, of_m, of_n, TILE_N / 32)                                                                  \
    } else {                                                                                                             \
        STORE_PART((t) - WHOLE_TILES)                                                                                    \
    }
#else
#define STORE_SUMS(t, of_batch, of_m, of_n) STORE_BLOCKS(of_batch, of_m, of_n, TILE_N / 32)
#endif

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void matmul_wgmma(PARAMS) {
#ifdef ANYDNN_UNREAD
    // The driver's assembler need not read what another one assembles (program/ptx.rs).
    asm volatile("/*@unread");
#endif
#ifdef LOCAL_BYTES
    __local uchar declared[1024] __attribute__((aligned(1024)));
    asm volatile("//@local " LOCAL_BYTES ";");
    __local uchar *tiles = declared;
    // The compiler must not know where they end.
    asm volatile("" : "+l"(tiles));
#else
    __local uchar tiles[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
#endif
#ifdef A_TABLE
    __local int2 table[TABLE_SIZE] __attribute__((aligned(16)));
#endif
    ENTER
    asm volatile("//@resident " RESIDENT ";");
    const uint start = (uint)(ulong)tiles;
    const int item = (int)get_local_id(0), lane = item % 32, warp = item / 32;

#ifdef A_TABLE
    {
        DECLARE_BATCH(0)
        FILL_TABLE
    }
#endif

    SUM sums[TILE_N / 2];
#if OVERLAPS
    // The tile whose sums are finished.
    idx done_batch = 0, done_m = 0, done_n = 0;
    int done = -1;
#ifdef BIAS_BY_COLUMN
    V bias_of[TILE_N / 32];
#endif
#endif
    for (int t = (int)get_group_id(0);; t += (int)get_num_groups(0)) {
        const bool is_tile = t < UNITS;
#if !OVERLAPS
        if (!is_tile) break;
#endif
        // Past the last tile all that counts is that the one before is stored.
        const int unit = is_tile ? t : 0, begin = BEGIN_OF(unit), end = min(begin + STEPS_OF(unit), (int)STEPS);
        PLACE_TILE(TILE_OF(unit))
        DECLARE_BATCH(batch)
        ulong a_from[TILE_M * CHUNKS / GROUP], b_from[TILE_N * CHUNKS / GROUP];
        int a_bytes[TILE_M * CHUNKS / GROUP], b_bytes[TILE_N * CHUNKS / GROUP];
#if A_FETCH == BY_TERMS && defined(A_TAPS)
        ulong a_rows[TILE_M * CHUNKS / GROUP];
        uint a_taps[TILE_M * CHUNKS / GROUP];
#endif
        if (is_tile) {
#if A_FETCH == BY_TERMS && defined(A_TAPS)
            PLACE_ROWS
#endif
            UNROLLED_UNLESS_LEAN for (int ahead = 0; ahead < AHEAD; ++ahead) {
                if (begin + ahead < end) {
                    AIM_STEP(begin + ahead)
                    COPY_STEP(begin + ahead, start + ahead * STAGE_BYTES)
                }
                COPIES_COMMIT;
            }
        }
#if OVERLAPS
        if (done >= 0) {
            STORE_SUMS(done, done_batch, done_m, done_n)
        }
#endif
        if (!is_tile) break;

        HOLD_A
        HOLD_B
#pragma unroll
        for (int i = 0; i < TILE_N / 2; ++i) sums[i] = 0;
#if LEAN
        NOT_UNROLLED for (int step = begin; step < min(begin + 2, end); ++step) {
            LOAD_STEP(step)
            if (step == begin) STORE_STEP(step)
        }
#else
        if (begin < end) {
            LOAD_STEP(begin)
            STORE_STEP(begin)
        }
        if (begin + 1 < end) LOAD_STEP(begin + 1)
#endif

        // Where the current slice is, and where the next copies go to.
        uint at = start, free = start + AHEAD * STAGE_BYTES;
        if (begin < end) AIM_STEP(min(begin + AHEAD, end - 1))
        for (int step = begin; step < end; ++step) {
            asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
            // What this item stored and copied must be there for the tensor cores, which see memory in another order: copies of 16 bytes are
            // ordinary writes in that respect, also those that were waited for (PTX ISA, "Async Proxy" of wgmma and of its fence).
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#if LAG
            asm volatile(SM90A "wgmma.wait_group.sync.aligned 1;" ::: "memory");
#else
            WGMMA_WAIT;
#endif
            barrier(CLK_LOCAL_MEM_FENCE);
            const ulong a = DESCRIBE_A(at, warp / 4), b = DESCRIBE_B(at + A_BYTES);
            asm volatile(SM90A "wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int k = 0; k < K_BYTES / 32; ++k) WGMMA(a + k * NEXT_A, b + k * NEXT_B);
            asm volatile(SM90A "wgmma.commit_group.sync.aligned;" ::: "memory");
            if (step + 1 < end) STORE_STEP(step + 1)
            if (step + 2 < end) LOAD_STEP(step + 2)
            // Into the place of the last step that every warpgroup has finished.
            if (step + AHEAD < end) COPY_STEP(step + AHEAD, free)
            COPIES_COMMIT;
            free = NEXT_PLACE(free);
            at = NEXT_PLACE(at);
            TURN(min(step + AHEAD + 1, end - 1))
        }
#ifdef BIAS_BY_COLUMN
#if !OVERLAPS
        V bias_of[TILE_N / 32];
#endif
        // On its way during the last products.
        LOAD_BIAS(first_m, first_n, TILE_N / 32)
#endif
        WGMMA_WAIT;
        // The next tile's copies must not overtake a warpgroup.
        barrier(CLK_LOCAL_MEM_FENCE);
#if OVERLAPS
        done_batch = batch;
        done_m = first_m;
        done_n = first_n;
        done = t;
#else
        STORE_SUMS(t, batch, first_m, first_n)
#endif
    }
}
