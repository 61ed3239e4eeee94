// Products of a few rows with weights that are each read once, a vector of LANES at a time. With ALONG_K vectors lie along K: LINE
// work-items share COLUMNS columns. Else they lie along N: LINE work-items have a vector of columns each, and DEPTH of them share those
// along K; BLOCK terms of the source, in rooms of ROOM rows, are in local memory at a time, and AHEAD loads of weights under way. Work-groups
// take K_SLICE of K (SPLITS in all); FINISH(x) takes the sum `x` of an element of the result, or of its part. There are registers for up to
// MOST_ROWS rows, where programs serve every number of them.
#define DEPTH (GROUP / LINE)
#ifdef KNOWN_SHAPE
#define ROWS M_SIZE
#else
#define ROWS MOST_ROWS
#endif

#if ALONG_K

// Sums that wait in local memory for their total at a time.
#define WAITING 8
#if LANES == 8
#define DOT(sum, a, b)                                                                                                   \
    sum += (a).s0 * (b).s0; sum += (a).s1 * (b).s1; sum += (a).s2 * (b).s2; sum += (a).s3 * (b).s3;                      \
    sum += (a).s4 * (b).s4; sum += (a).s5 * (b).s5; sum += (a).s6 * (b).s6; sum += (a).s7 * (b).s7;
#else
#define DOT(sum, a, b)                                                                                                   \
    sum += (a).s0 * (b).s0; sum += (a).s1 * (b).s1; sum += (a).s2 * (b).s2; sum += (a).s3 * (b).s3;
#endif
// Steps along K whose loads are under way together.
#if COLUMNS == 1
#define TOGETHER _Pragma("unroll 4")
#else
#define TOGETHER
#endif
#define SUM_UP                                                                                                           \
    TOGETHER for (idx k = first_k + in_line * LANES; k < last_k; k += LINE * LANES) {                                    \
        const int n = LANES;                                                                                             \
        V b[COLUMNS];                                                                                                    \
        _Pragma("unroll") for (int c = 0; c < COLUMNS; ++c) {                                                            \
            const idx col = min(first_col + c, (idx)(N_SIZE - 1));                                                       \
            b[c] = DEQ_WEIGHTS(LD_WEIGHTS(OFF_WEIGHTS, n), n);                                                           \
        }                                                                                                                \
        _Pragma("unroll") for (int row = 0; row < ROWS; ++row) {                                                         \
            const idx m = min((idx)row, (idx)(M_SIZE - 1));                                                              \
            const V a = DEQ_SRC0(LD_SRC0(OFF_SRC0, n), n);                                                               \
            _Pragma("unroll") for (int c = 0; c < COLUMNS; ++c) { DOT(sums[row * COLUMNS + c], a, b[c]) }                \
        }                                                                                                                \
    }

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void matmul_skinny(PARAMS) {
    ENTER
    __local R waiting[WAITING][GROUP];
    const int item = (int)get_local_id(0), in_line = item % LINE, line = item / LINE;
    DECLARE_BATCH((idx)get_group_id(1))
    const int split = (int)get_group_id(2);
    const idx first_k = (idx)split * K_SLICE, last_k = min(first_k + K_SLICE, (idx)K_SIZE);
    const idx first_col = ((idx)get_group_id(0) * DEPTH + line) * COLUMNS;
    R sums[ROWS * COLUMNS];
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS; ++i) sums[i] = 0;
    if (ARE_WHOLE) {
        SUM_UP
    } else {
        SUM_UP
    }
#pragma unroll
    for (int first = 0; first < ROWS * COLUMNS; first += WAITING) {
        if (first >= M_SIZE * COLUMNS) break;
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int i = 0; i < WAITING; ++i)
            if (first + i < ROWS * COLUMNS) waiting[i][item] = sums[first + i];
        barrier(CLK_LOCAL_MEM_FENCE);
        const int own = first + item / DEPTH;
        const idx m = own / COLUMNS, col = ((idx)get_group_id(0) * DEPTH + item % DEPTH) * COLUMNS + own % COLUMNS;
        if (item < WAITING * DEPTH && m < M_SIZE && col < N_SIZE) {
            R x = 0;
            // Every work-item starts elsewhere, at another memory bank.
            for (int i = 0; i < LINE; ++i) x += waiting[item / DEPTH][item % DEPTH * LINE + (i + item) % LINE];
            FINISH(x)
        }
    }
}

#else

// Whether loads have no branches between them, so that all of them are under way at once.
#if HAS_WHOLE
#define HAS_STEADY_LOADS (n == LANES && ARE_WHOLE)
#else
#define HAS_STEADY_LOADS (n == LANES)
#endif
// Columns of a group, and work-items that share the sums of one.
#define WIDTH (LINE * LANES)
#define SHARES (GROUP / WIDTH)
// A number in programs for one shape, so that loads of several steps come together.
#define END (K_SIZE % BLOCK == 0 && K_SLICE % BLOCK == 0 ? BLOCK : count)
#define SUM_UP                                                                                                           \
    for (int first = depth; first < END; first += AHEAD * DEPTH) {                                                       \
        V b[AHEAD];                                                                                                      \
        _Pragma("unroll") for (int i = 0; i < AHEAD; ++i) {                                                              \
            const idx k = block_k + first + i * DEPTH;                                                                   \
            b[i] = (V)(0);                                                                                               \
            if (K_SIZE % (AHEAD * DEPTH) == 0 || k < last_k) b[i] = DEQ_WEIGHTS(LD_WEIGHTS(OFF_WEIGHTS, n), n);          \
        }                                                                                                                \
        _Pragma("unroll") for (int i = 0; i < AHEAD; ++i)                                                                \
            _Pragma("unroll") for (int row = 0; row < ROWS; ++row) sums[row] += block[first + i * DEPTH][row] * b[i];    \
    }

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void matmul_skinny(PARAMS) {
    ENTER
    // Rows side by side, in whole vectors.
    __local R block[BLOCK][ROOM] __attribute__((aligned(16)));
    __local R waiting[DEPTH * WIDTH];
    const int item = (int)get_local_id(0), in_line = item % LINE, depth = item / LINE;
    DECLARE_BATCH((idx)get_group_id(1))
    const int split = (int)get_group_id(2);
    const idx first_k = (idx)split * K_SLICE, last_k = min(first_k + K_SLICE, (idx)K_SIZE);
    const idx group_col = (idx)get_group_id(0) * WIDTH, col = min(group_col + in_line * LANES, (idx)(N_SIZE - 1));
    const int n = (int)min((idx)LANES, N_SIZE - col);
    V sums[ROWS];
#pragma unroll
    for (int row = 0; row < ROWS; ++row) sums[row] = (V)(0);
    for (idx block_k = first_k; block_k < last_k; block_k += BLOCK) {
        const int count = (int)min((idx)BLOCK, last_k - block_k);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int x = item; x < BLOCK * ROWS; x += GROUP) {
            const idx k = block_k + x % BLOCK, m = x / BLOCK;
            block[x % BLOCK][x / BLOCK] = k < last_k && m < M_SIZE ? DEQ1_SRC0(LD1_SRC0(OFF_SRC0)) : 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (HAS_STEADY_LOADS) {
            const int n = LANES;
            SUM_UP
        } else {
            SUM_UP
        }
    }
    const int column = item % WIDTH, share = item / WIDTH;
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
        if (row >= M_SIZE) break;
        barrier(CLK_LOCAL_MEM_FENCE);
        PASTE(vstore, LANES)(sums[row], 0, &waiting[depth * WIDTH + in_line * LANES]);
        barrier(CLK_LOCAL_MEM_FENCE);
#if DEPTH > 16
        R part = 0;
        for (int i = share; i < DEPTH; i += SHARES) part += waiting[i * WIDTH + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        waiting[item] = part;
        barrier(CLK_LOCAL_MEM_FENCE);
#define WAITING_PARTS SHARES
#else
#define WAITING_PARTS DEPTH
#endif
        const idx m = row, col = group_col + column;
        if (share == 0 && col < N_SIZE) {
            R x = 0;
            for (int i = 0; i < WAITING_PARTS; ++i) x += waiting[i * WIDTH + column];
            FINISH(x)
        }
    }
}

#endif
