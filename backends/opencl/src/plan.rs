//! What a primitive compiles to: a pure value between choosing kernels and launching them.

mod device;

use anydnn_backend::{Arg, PrimitiveDesc};

pub(crate) use device::{DeviceTraits, KnownFeatures};

use crate::program::text::Text;

/// What a primitive compiles to, still without a device: a pure value that tests can print.
#[derive(Clone, Debug)]
pub(crate) struct KernelPlan {
    /// The implementation's name, such as `ocl:gemm:tiled`.
    pub(crate) implementation: String,
    /// The description with every layout resolved.
    pub(crate) desc: PrimitiveDesc,
    /// Bytes of working memory for one execution.
    pub(crate) scratchpad: usize,
    /// The launches in order; each sees the results of the ones before it.
    pub(crate) launches: Vec<Launch>,
}

/// One launch of one kernel.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The program that the kernel is in.
    pub(crate) program: ProgramSource,
    /// The kernel's name in the program.
    pub(crate) kernel: String,
    /// The arguments in order.
    pub(crate) args: Vec<LaunchArg>,
    /// The bytes of a structure of numbers behind them, for programs that serve every shape; no argument if empty.
    pub(crate) table: Vec<u8>,
    /// Whether the kernel is told a number behind its memories that no other execution has, and no memory but by an execution.
    pub(crate) numbered: bool,
    /// The program with these numbers in its text, where the kernel is faster by them. Both give the same results.
    pub(crate) special: Option<SpecialProgram>,
    /// Work-items per dimension; a launch with a zero does nothing.
    pub(crate) global: [usize; 3],
    /// Work-items of a work-group per dimension; the driver's choice if none.
    pub(crate) local: Option<[usize; 3]>,
    /// Work-items of the sub-groups that the kernel is written for; none where it needs no sub-groups.
    pub(crate) sub_group: Option<usize>,
    /// Bytes to which each memory must be aligned besides its element's size; else the program for unaligned memory runs.
    pub(crate) alignment: usize,
}

/// A program for one shape, whose kernel has the same name and no table.
#[derive(Clone, Debug)]
pub(crate) struct SpecialProgram {
    pub(crate) text: SpecialText,
    /// The operations of an execution, weighted by how slow they are beside those of a product.
    pub(crate) operations: u64,
    /// What of its time a kernel gains by it, as the number that its time is divided by.
    pub(crate) share: u64,
}

/// The text of a [`SpecialProgram`]. Most are never needed, so that plans have as little of them as can be.
#[derive(Clone, Debug)]
pub(crate) enum SpecialText {
    /// That of the launch, with the numbers of its table, of 64 bits each if they are wide.
    Launched { wide: bool },
    /// Another one, which only those plans have that [ask](DeviceTraits::special) for it.
    Asked,
    /// This one.
    Own(ProgramSource),
}

/// The source of a program with its build options.
#[derive(Clone, Debug)]
pub(crate) struct ProgramSource {
    /// The name that messages and logs use.
    pub(crate) name: String,
    /// OpenCL C.
    pub(crate) source: Text,
    /// Build options; `-cl-std=CL1.2` is added unless they carry a `-cl-std`.
    pub(crate) options: String,
}

/// One argument of a launch. Numbers are compiled into the program, but for those of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LaunchArg {
    /// Binds two kernel parameters: the pointer, then a `const ulong` with the byte offset of the first byte.
    Memory(Arg),
    /// Binds two parameters likewise.
    Scratchpad {
        /// Bytes into the scratchpad.
        offset: usize,
    },
}
