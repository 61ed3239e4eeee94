// What the warpgroup of wgmma.cl that copies does: a block of keys or values comes into the next place of local memory, in rows of 128 bytes
// that are swizzled as the tensor cores read them.

// The producers copy TILE rows of an operand with the loop variables ROW and COLUMN into the place at `to`, swizzled by rows. Where their
// work-items have whole rows, the next ones are a constant apart.
#define FETCH(SOURCE, NAME, ROW, COLUMN, COLUMNS)                                                                        \
    if (!ANYDNN_UNALIGNED && 128 % ((COLUMNS) / 8) == 0 && (T_SIZE % TILE == 0 || first_t + TILE <= T_SIZE)) {           \
        const int row = thread / ((COLUMNS) / 8), chunk = thread % ((COLUMNS) / 8);                                      \
        const idx ROW = first_t + row, COLUMN = 8 * chunk;                                                               \
        const ulong from = (ulong)(SOURCE + (size_t)(OFF_##NAME) * 2);                                                   \
        const uint at = to + PLACE(row, chunk);                                                                          \
        _Pragma("unroll") for (int i = 0; i < TILE * (COLUMNS) / 1024; ++i)                                              \
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"                                                     \
                         :                                                                                               \
                         : "r"(at + i * (1024 / (COLUMNS)) * 128),                                                       \
                           "l"(from + (ulong)(i * (1024 / (COLUMNS))) * (NAME##_ROW * 2UL))                              \
                         : "memory");                                                                                    \
    } else {                                                                                                             \
        NOT_UNROLLED for (int x = thread; x < TILE * ((COLUMNS) / 8); x += 128) {                                        \
            const int row = x / ((COLUMNS) / 8), chunk = x % ((COLUMNS) / 8);                                            \
            const idx ROW = first_t + row, COLUMN = 8 * chunk;                                                           \
            const bool there = T_SIZE % TILE == 0 || ROW < T_SIZE;                                                       \
            fetch(SOURCE, OFF_##NAME, there, true, to + PLACE(row, chunk));                                                    \
        }                                                                                                                \
    }
#define PLACE(row, chunk) ((chunk) / 8 * BOX_BYTES + (row) * 128 + ((((chunk) ^ (row)) & 7) << 4))
// What the producers do with the block that comes next. It is told to be there when the one behind it is on its way.
#define PRODUCE(COPY)                                                                                                    \
    {                                                                                                                    \
        if (turns >= SLOTS) SYNC(EMPTY(slot), GROUP);                                                                    \
        const uint to = (uint)(ulong)memory + slot * SLOT_BYTES;                                                         \
        COPY                                                                                                             \
        asm volatile("cp.async.commit_group;" ::: "memory");                                                             \
        if (turns > 0) PUBLISH(1, slot == 0 ? SLOTS - 1 : slot - 1);                                                     \
        slot = slot == SLOTS - 1 ? 0 : slot + 1;                                                                         \
        ++turns;                                                                                                         \
    }
#define PUBLISH(left, of)                                                                                                \
    {                                                                                                                    \
        asm volatile("cp.async.wait_group " #left ";" ::: "memory");                                                     \
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");                                                     \
        const int full = of;                                                                                             \
        _Pragma("unroll") for (int g = 0; g < CONSUMERS; ++g) ARRIVE(FULL(full, g), 256);                                \
    }
#define FETCH_KEYS FETCH(src1, SRC1, t, d, D_SIZE)
#define FETCH_VALUES FETCH(src2, SRC2, t, e, E_SIZE)
