//! The kinds of objects in the ledger.

use std::fmt;

use crate::code;

/// A kind of object that a program can own references of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A part of a device. Whole devices are not counted.
    SubDevice,
    /// A context.
    Context,
    /// A command queue.
    Queue,
    /// A buffer, sub-buffer, image or pipe.
    Memory,
    /// A sampler.
    Sampler,
    /// A program.
    Program,
    /// A kernel.
    Kernel,
    /// The event of a command or of the user.
    Event,
    /// A command buffer (`cl_khr_command_buffer`).
    CommandBuffer,
    /// Shared virtual memory.
    Svm,
    /// Unified shared memory (`cl_intel_unified_shared_memory`).
    Usm,
    /// A mapped part of a memory object.
    Mapping,
    /// A mapped part of shared virtual memory.
    SvmMapping,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::SubDevice,
        Self::Context,
        Self::Queue,
        Self::Memory,
        Self::Sampler,
        Self::Program,
        Self::Kernel,
        Self::Event,
        Self::CommandBuffer,
        Self::Svm,
        Self::Usm,
        Self::Mapping,
        Self::SvmMapping,
    ];

    /// The kind in words.
    pub fn name(self) -> &'static str {
        self.c_name().trim_end_matches('\0')
    }

    /// The kind in words, with a NUL at the end.
    pub(crate) fn c_name(self) -> &'static str {
        match self {
            Self::SubDevice => "sub-device\0",
            Self::Context => "context\0",
            Self::Queue => "queue\0",
            Self::Memory => "memory object\0",
            Self::Sampler => "sampler\0",
            Self::Program => "program\0",
            Self::Kernel => "kernel\0",
            Self::Event => "event\0",
            Self::CommandBuffer => "command buffer\0",
            Self::Svm => "SVM allocation\0",
            Self::Usm => "USM allocation\0",
            Self::Mapping => "mapped region\0",
            Self::SvmMapping => "mapped SVM region\0",
        }
    }

    /// The code for a handle of this kind that is none.
    pub(crate) fn invalid(self) -> i32 {
        match self {
            Self::SubDevice => code::INVALID_DEVICE,
            Self::Context => code::INVALID_CONTEXT,
            Self::Queue => code::INVALID_COMMAND_QUEUE,
            Self::Memory => code::INVALID_MEM_OBJECT,
            Self::Sampler => code::INVALID_SAMPLER,
            Self::Program => code::INVALID_PROGRAM,
            Self::Kernel => code::INVALID_KERNEL,
            Self::Event => code::INVALID_EVENT,
            Self::CommandBuffer => code::INVALID_COMMAND_BUFFER_KHR,
            Self::Svm | Self::Usm | Self::Mapping | Self::SvmMapping => code::INVALID_VALUE,
        }
    }

    /// Whether OpenCL keeps an object of the other kind alive for as long as one of this kind lives that was made from it.
    pub(crate) fn keeps(self, other: Self) -> bool {
        match self {
            Self::Context => other == Self::SubDevice,
            Self::Queue => matches!(other, Self::Context | Self::SubDevice),
            Self::Memory => matches!(other, Self::Context | Self::Memory),
            Self::Sampler | Self::Program => other == Self::Context,
            Self::Kernel => matches!(other, Self::Program | Self::Kernel),
            Self::Event | Self::CommandBuffer => matches!(other, Self::Queue | Self::Context),
            Self::Mapping => other == Self::Memory,
            Self::SubDevice | Self::Svm | Self::Usm | Self::SvmMapping => false,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Defines a type for each kind, for the table's signatures to name.
macro_rules! markers {
    ($($marker:ident = $kind:ident),* $(,)?) => {$(
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $marker;

        impl Marker for $marker {
            const KIND: Kind = Kind::$kind;
        }
    )*};
}

/// A kind as a type.
pub(crate) trait Marker: Copy {
    const KIND: Kind;
}

markers! {
    Device = SubDevice,
    Context = Context,
    Queue = Queue,
    Mem = Memory,
    Sampler = Sampler,
    Program = Program,
    Kernel = Kernel,
    Event = Event,
    CommandBuffer = CommandBuffer,
    Svm = Svm,
    Usm = Usm,
}
