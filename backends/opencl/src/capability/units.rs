//! What devices may have beyond OpenCL C 1.2: a row for each feature, with what it needs of a device and how it is probed, and for units
//! that multiply their instructions, tiles and cost.
//!
//! Everything else follows from the rows: the probes and what caches keep of them, the capabilities, what plans know of a device, and the
//! variants that [`Work`] offers. A new unit is a row here, the kernel of its probe, and its instructions in OpenCL C.

use anydnn_backend::{DataType, FpMath};

use crate::capability::instruction::{Instruction, Multiplicand};
use crate::capability::probe::{self, Outcome, Prober};
use crate::driver::platform::OpenClDevice;
use crate::driver::processor;

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// The key in [`Capabilities::features`](anydnn_backend::Capabilities::features).
    pub(crate) name: &'static str,
    /// Says why a device cannot have it, where that takes no program to tell. Asked by every process, whatever an earlier one found.
    pub(crate) needs: fn(&OpenClDevice) -> Result<(), String>,
    /// How to find out whether it works.
    pub(crate) way: Way,
    /// What it multiplies, for a unit.
    pub(crate) unit: Option<Unit>,
}

/// How to find out whether a feature works.
#[derive(Debug)]
pub(crate) enum Way {
    /// By what the driver says.
    Told(fn(&OpenClDevice) -> Outcome),
    /// By commands.
    Commands(fn(&Prober<'_>) -> Outcome),
    /// By a program, whose outcome caches keep.
    Program(fn(&Prober<'_>) -> Outcome),
    /// By a program that computes the product of the unit's first instruction: `probe(in, out)` reads the elements of `A[m, k]`, then those
    /// of `B` by its columns, `[n, k]`, and stores the sums `[m, n]`, by this many work-items of one group.
    Product(&'static str, usize),
}

/// Hardware that multiplies by more than one multiply-add of numbers at a time.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) instructions: &'static [Instruction],
    pub(crate) work: Work,
}

/// How kernels put a unit to use.
#[derive(Debug)]
pub(crate) enum Work {
    /// Blocks of rows by panels of columns (`matmul/packed.cl`, `convolution/packed.cl`), for processors.
    Panels(Panels),
    /// Tiles of work-groups, the kernel's own for the unit.
    Tiles(&'static [Tile]),
    /// Tiles of sub-groups (`matmul/sub_groups.cl`), the instruction behind the macros of the unit's text.
    SubGroups(SubGroupTiles),
    /// By kernels that use it for a part of what they do.
    Part,
}

/// How a unit multiplies panels of columns; its text defines the macros that `matmul/packed.cl` is written against.
#[derive(Debug)]
pub(crate) struct Panels {
    pub(crate) text: &'static str,
    /// The variant of operands in place, and the one that copies the weights first.
    pub(crate) variants: [&'static str; 2],
    pub(crate) reason: &'static str,
    /// Columns of a panel.
    pub(crate) columns: usize,
    /// The most rows of a tile, those of a panel of a single part, and how many tiles are multiplied at once.
    pub(crate) rows: usize,
    pub(crate) narrow_rows: usize,
    pub(crate) tiles: usize,
    /// Whether the text repeats its code for every row, so that tiles have no more rows than there are.
    pub(crate) repeats_rows: bool,
    /// Whether the text does without the instruction where the device lacks it.
    pub(crate) is_optional: bool,
}

/// How a unit multiplies tiles of sub-groups. An instruction has the sums of `m` rows, and of a column for each work-item. Where it takes one
/// term at a time sub-groups may have any width, else they have `n` work-items and each has one of `n` terms.
#[derive(Debug)]
pub(crate) struct SubGroupTiles {
    pub(crate) text: &'static str,
    /// Columns of a work-item.
    pub(crate) columns: usize,
    pub(crate) tiles: &'static [Tile],
}

/// The tile of a work-group and what it costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// The variant of an implementation that computes it.
    pub(crate) variant: &'static str,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Work-groups that a compute unit holds.
    pub(crate) resident: usize,
    /// Clocks that a compute unit takes for a slice of `k` terms, and the least that a work-group takes for it alone.
    pub(crate) clocks: usize,
    pub(crate) latency: usize,
}

/// Tiles of ordinary arithmetic in f32 (`matmul/simt.cl`). Clocks as on a unit of 128 multiply-adds a clock.
pub(crate) const ORDINARY: [Tile; 9] = [
    Tile { variant: "simt-256x128", m: 256, n: 128, k: 8, resident: 1, clocks: 2_600, latency: 2_600 },
    Tile { variant: "simt-128x64", m: 128, n: 64, k: 16, resident: 2, clocks: 1_500, latency: 1_900 },
    Tile { variant: "simt-64x128", m: 64, n: 128, k: 16, resident: 3, clocks: 1_500, latency: 1_900 },
    Tile { variant: "simt-64x64", m: 64, n: 64, k: 16, resident: 4, clocks: 1_080, latency: 1_800 },
    // For few rows or columns.
    Tile { variant: "simt-64x256", m: 64, n: 256, k: 8, resident: 2, clocks: 1_300, latency: 1_600 },
    Tile { variant: "simt-32x256", m: 32, n: 256, k: 16, resident: 3, clocks: 1_350, latency: 1_900 },
    Tile { variant: "simt-256x32", m: 256, n: 32, k: 16, resident: 3, clocks: 1_350, latency: 1_900 },
    Tile { variant: "simt-32x128", m: 32, n: 128, k: 32, resident: 4, clocks: 1_900, latency: 3_000 },
    Tile { variant: "simt-128x32", m: 128, n: 32, k: 32, resident: 4, clocks: 1_900, latency: 3_000 },
];

/// Tiles of `wgmma` whose rings of slices need [`Feature::LargeLocal`], one to a compute unit. Clocks as measured on an H200.
pub(crate) const DEEP: [Tile; 5] = [
    Tile { variant: "wgmma-128x256", m: 128, n: 256, k: 64, resident: 1, clocks: 1_500, latency: 1_500 },
    Tile { variant: "wgmma-256x128", m: 256, n: 128, k: 64, resident: 1, clocks: 1_500, latency: 1_500 },
    Tile { variant: "wgmma-128x192", m: 128, n: 192, k: 64, resident: 1, clocks: 1_180, latency: 1_180 },
    Tile { variant: "wgmma-128x64-deep", m: 128, n: 64, k: 64, resident: 1, clocks: 560, latency: 560 },
    Tile { variant: "wgmma-128x128-deep", m: 128, n: 128, k: 64, resident: 1, clocks: 800, latency: 800 },
];

impl Tile {
    /// Whether it is one of those whose rings of slices are beyond OpenCL's local memory.
    pub(crate) fn is_deep(&self) -> bool {
        DEEP.iter().any(|deep| deep.variant == self.variant)
    }
}

/// Makes an identity of each row, in their order.
macro_rules! table {
    ($($(#[$doc:meta])* $feature:ident: $row:expr,)+) => {
        /// A feature that is probed on the device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Feature {
            $($(#[$doc])* $feature,)+
        }

        impl Feature {
            pub(crate) const ALL: &[Self] = &[$(Self::$feature,)+];

            pub(crate) fn row(self) -> &'static Row {
                static ROWS: &[Row] = &[$($row,)+];
                &ROWS[self as usize]
            }
        }
    };
}

table! {
    /// Arithmetic in f64.
    Fp64: Row { needs: probe::names_fp64, ..plain("fp64", Way::Program(probe::fp64)) },
    /// Arithmetic in f16.
    Fp16: Row { needs: probe::names_fp16, ..plain("fp16", Way::Program(probe::fp16)) },
    /// f16 in memory, arithmetic in f32.
    VloadHalf: plain("vload_half", Way::Program(probe::vload_half)),
    /// Sub-groups (Khronos's or Intel's).
    SubGroups: Row {
        needs: probe::names_sub_groups,
        unit: Some(Unit {
            // Work-items read each other's terms, whatever the width.
            instructions: &[Instruction { factor: Multiplicand::F32, sum: DataType::F32, m: 8, n: 1, k: 1 }],
            work: Work::SubGroups(SubGroupTiles {
                text: anydnn_kernels::text("matmul/broadcast.cl"),
                columns: 2,
                // Clocks of the multiply-adds and of what their operands take to load, counted, not measured.
                tiles: &[
                    Tile { variant: "sub-groups-64x64", m: 64, n: 64, k: 16, resident: 4, clocks: 650, latency: 1_300 },
                    Tile { variant: "sub-groups-32x64", m: 32, n: 64, k: 16, resident: 8, clocks: 340, latency: 1_100 },
                ],
            }),
        }),
        ..plain("sub_groups", Way::Program(probe::sub_groups))
    },
    /// Dot products of four 8-bit integers.
    Int8Dot: Row { needs: probe::names_int8_dot, ..plain("int8_dot", Way::Program(probe::int8_dot)) },
    /// Local memory.
    LocalMemory: plain("local_memory", Way::Told(probe::local_memory)),
    /// Vectors of floats that the device prefers.
    VectorWidth: plain("vector_width", Way::Told(probe::vector_width)),
    /// Out-of-order queues that honour dependencies.
    OutOfOrder: plain("out_of_order", Way::Commands(probe::out_of_order)),
    /// Queues with timestamps.
    Profiling: plain("profiling", Way::Commands(probe::profiling)),
    /// Unified shared memory (`cl_intel_unified_shared_memory`).
    Usm: plain("usm", Way::Told(probe::usm)),
    /// Shared virtual memory.
    Svm: plain("svm", Way::Commands(probe::svm)),
    /// Command buffers (`cl_khr_command_buffer`).
    CommandBuffer: plain("command_buffer", Way::Told(probe::command_buffer)),
    /// NVIDIA's PTX inside of OpenCL C.
    NvidiaPtx: Row { needs: probe::is_nvidia, ..plain("nvidia_ptx", Way::Program(probe::nvidia_ptx)) },
    /// Matrix instructions and asynchronous copies in NVIDIA's PTX (Ampere and newer).
    NvidiaMma: Row {
        name: "nvidia_mma",
        needs: probe::is_nvidia,
        way: Way::Product(anydnn_kernels::text("probe/mma.cl"), 32),
        unit: Some(Unit {
            instructions: &[
                Instruction { factor: Multiplicand::F16, sum: DataType::F32, m: 16, n: 8, k: 16 },
                Instruction { factor: Multiplicand::BF16, sum: DataType::F32, m: 16, n: 8, k: 16 },
            ],
            work: Work::Part,
        }),
    },
    /// NVIDIA's warpgroup matrix instructions inside of OpenCL C (Hopper).
    Wgmma: Row {
        name: "wgmma",
        needs: probe::is_hopper,
        way: Way::Product(anydnn_kernels::text("probe/wgmma.cl"), 128),
        unit: Some(Unit {
            // Columns are those of the tile.
            instructions: &[
                Instruction { factor: Multiplicand::F16, sum: DataType::F32, m: 64, n: 8, k: 16 },
                Instruction { factor: Multiplicand::BF16, sum: DataType::F32, m: 64, n: 8, k: 16 },
                Instruction { factor: Multiplicand::Tf32, sum: DataType::F32, m: 64, n: 8, k: 8 },
                Instruction { factor: Multiplicand::Bytes, sum: DataType::S32, m: 64, n: 8, k: 32 },
                Instruction { factor: Multiplicand::F8, sum: DataType::F32, m: 64, n: 8, k: 32 },
            ],
            // Elements of two bytes; slices of others are as long in bytes. Clocks as measured on an H200.
            work: Work::Tiles(&[
                Tile { variant: "wgmma-128x128", m: 128, n: 128, k: 32, resident: 2, clocks: 460, latency: 980 },
                Tile { variant: "wgmma-128x64", m: 128, n: 64, k: 32, resident: 2, clocks: 330, latency: 600 },
                Tile { variant: "wgmma-64x128", m: 64, n: 128, k: 32, resident: 4, clocks: 320, latency: 600 },
                Tile { variant: "wgmma-64x64", m: 64, n: 64, k: 64, resident: 4, clocks: 400, latency: 450 },
            ]),
        }),
    },
    /// Local memory beyond what NVIDIA's OpenCL grants, by machine code (Hopper).
    LargeLocal: Row {
        needs: probe::is_hopper_with_compiler,
        ..plain("large_local_memory", Way::Program(probe::large_local))
    },
    /// x86's matrix units (AMX) in inline assembly, and the system's permission to use them.
    Amx: Row {
        name: "amx",
        needs: processor::has_tiles,
        way: Way::Product(anydnn_kernels::text("probe/amx.cl"), 1),
        unit: Some(Unit {
            instructions: &[
                Instruction { factor: Multiplicand::Bytes, sum: DataType::S32, m: 16, n: 16, k: 64 },
                Instruction { factor: Multiplicand::BF16, sum: DataType::F32, m: 16, n: 16, k: 32 },
            ],
            work: Work::Panels(Panels {
                text: anydnn_kernels::text("matmul/amx.cl"),
                variants: ["amx", "amx-packing"],
                reason: "matrix units multiply bytes and bf16",
                columns: 32,
                rows: 16,
                narrow_rows: 16,
                tiles: 2,
                repeats_rows: false,
                is_optional: false,
            }),
        }),
    },
    /// x86's products of four bytes that add up (AVX-512 VNNI), in inline assembly that names general registers alone.
    Bytes: Row {
        name: "avx512_vnni_bytes",
        needs: processor::has_wide_bytes,
        way: Way::Product(anydnn_kernels::text("probe/bytes.cl"), 1),
        unit: Some(Unit {
            instructions: &[Instruction { factor: Multiplicand::Bytes, sum: DataType::S32, m: 1, n: 16, k: 4 }],
            work: in_registers(["bytes", "bytes-packing"], "the processor multiplies bytes in fours"),
        }),
    },
    /// x86's products of pairs of bf16 that add up (AVX-512 BF16), in inline assembly that names general registers alone.
    Pairs: Row {
        name: "avx512_bf16",
        needs: processor::has_wide_pairs,
        way: Way::Product(anydnn_kernels::text("probe/pairs.cl"), 1),
        unit: Some(Unit {
            instructions: &[Instruction { factor: Multiplicand::BF16, sum: DataType::F32, m: 1, n: 16, k: 2 }],
            work: in_registers(["pairs", "pairs-packing"], "the processor multiplies bf16 in pairs"),
        }),
    },
    /// x86's products of pairs of words that add up (AVX-512 VNNI), in inline assembly.
    Words: Row {
        name: "avx512_vnni",
        needs: processor::has_wide_words,
        way: Way::Product(anydnn_kernels::text("probe/words.cl"), 1),
        unit: Some(Unit {
            instructions: &[Instruction { factor: Multiplicand::Words, sum: DataType::S32, m: 1, n: 16, k: 2 }],
            work: Work::Panels(Panels {
                text: anydnn_kernels::text("matmul/words.cl"),
                variants: ["words", "words-packing"],
                reason: "bytes are multiplied as pairs of words",
                columns: 64,
                rows: 6,
                narrow_rows: 6,
                tiles: 1,
                repeats_rows: true,
                is_optional: true,
            }),
        }),
    },
}

/// Panels whose sums fill the 512-bit registers that `matmul/wide.cl` names.
const fn in_registers(variants: [&'static str; 2], reason: &'static str) -> Work {
    Work::Panels(Panels {
        text: anydnn_kernels::text("matmul/wide.cl"),
        variants,
        reason,
        columns: 64,
        rows: 6,
        narrow_rows: 12,
        tiles: 1,
        repeats_rows: true,
        is_optional: false,
    })
}

/// A feature that any device may have and that multiplies nothing.
const fn plain(name: &'static str, way: Way) -> Row {
    Row { name, needs: |_| Ok(()), way, unit: None }
}

impl Feature {
    pub(crate) fn name(self) -> &'static str {
        self.row().name
    }

    /// The features that take a program to probe, which caches spare a process.
    pub(crate) fn compiled() -> impl Iterator<Item = Self> {
        let is_compiled = |feature: &Self| matches!(feature.row().way, Way::Program(_) | Way::Product(..));
        Self::ALL.iter().copied().filter(is_compiled)
    }

    /// What plans ask for of a device whose driver compiles one program at a time: probed side by side by other processes.
    pub(crate) const EARLY: [Self; 4] = [Self::Wgmma, Self::NvidiaMma, Self::LargeLocal, Self::NvidiaPtx];

    /// The units that multiply panels, best first.
    pub(crate) fn of_panels() -> impl Iterator<Item = (Self, &'static Panels)> {
        Self::ALL.iter().filter_map(|&feature| match &feature.row().unit.as_ref()?.work {
            Work::Panels(panels) => Some((feature, panels)),
            _ => None,
        })
    }

    /// The units that multiply tiles of sub-groups.
    pub(crate) fn of_sub_groups() -> impl Iterator<Item = (Self, &'static SubGroupTiles)> {
        Self::ALL.iter().filter_map(|&feature| match &feature.row().unit.as_ref()?.work {
            Work::SubGroups(tiles) => Some((feature, tiles)),
            _ => None,
        })
    }

    /// The tiles of work-groups; none for what multiplies otherwise.
    pub(crate) fn tiles(self) -> &'static [Tile] {
        match self.row().unit.as_ref().map(|unit| &unit.work) {
            Some(Work::Tiles(tiles)) => tiles,
            _ => &[],
        }
    }

    /// The instruction for factors of a type.
    pub(crate) fn instruction(self, data_type: DataType, fpmath: FpMath) -> Option<&'static Instruction> {
        let unit = self.row().unit.as_ref()?;
        unit.instructions.iter().find(|instruction| instruction.factor.takes(data_type, fpmath))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn identities_follow_the_rows_and_names_differ() {
        let mut names = HashSet::new();
        for (i, &feature) in Feature::ALL.iter().enumerate() {
            assert_eq!(feature as usize, i);
            assert!(names.insert(feature.name()), "{}", feature.name());
        }
        assert_eq!(Feature::NvidiaMma.name(), "nvidia_mma");
    }

    #[test]
    fn units_tell_what_they_multiply() {
        let instruction = |feature: Feature, data_type, fpmath| {
            feature.instruction(data_type, fpmath).map(|i| (i.factor.name(), i.factor.bytes(), i.k))
        };
        assert_eq!(instruction(Feature::Wgmma, DataType::F16, FpMath::Strict), Some(("f16", 2, 16)));
        assert_eq!(instruction(Feature::Wgmma, DataType::F32, FpMath::Strict), None);
        assert_eq!(instruction(Feature::Wgmma, DataType::F32, FpMath::TF32), Some(("tf32", 4, 8)));
        assert_eq!(instruction(Feature::Amx, DataType::U8, FpMath::Strict), Some(("s8", 1, 64)));
        assert_eq!(instruction(Feature::Words, DataType::BF16, FpMath::Strict), None);
        assert_eq!(instruction(Feature::Fp16, DataType::F16, FpMath::Strict), None);
    }

    /// Panels are offered in the order of rows.
    #[test]
    fn matrix_units_come_before_bytes_and_words() {
        let place = |feature| Feature::of_panels().position(|(own, _)| own == feature).unwrap();
        assert!(place(Feature::Amx) < place(Feature::Bytes));
        assert!(place(Feature::Bytes) < place(Feature::Words));
    }

    /// A tile that an instruction does not divide would be computed in part.
    #[test]
    fn tiles_are_multiples_of_their_instructions() {
        for &feature in Feature::ALL {
            let Some(unit) = &feature.row().unit else { continue };
            for instruction in unit.instructions {
                let deep = if feature == Feature::Wgmma { &DEEP[..] } else { &[] };
                for tile in feature.tiles().iter().chain(deep) {
                    let slice = tile.k * 2 / instruction.factor.bytes();
                    let whole = tile.m % instruction.m == 0 && tile.n % instruction.n == 0;
                    assert!(whole && slice % instruction.k == 0, "{} {instruction:?}", tile.variant);
                }
            }
        }
    }
}
