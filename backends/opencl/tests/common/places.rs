//! Every way in which bytes can come to lie behind memory.

use anydnn_backend::{DataType, Engine, Memory, MemoryDesc, MemoryKind};
use anydnn_opencl::{OpenClEngine, OpenClMemory};
use cl3::memory as cl;
use cl3::types::cl_mem;

use super::pointers::{UserMemory, pointer_kinds};

/// Who made the bytes, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The library.
    Library(MemoryKind),
    /// The user's buffer object.
    UserBuffer,
    /// A buffer object that the user made over host memory at an odd address.
    UserHostBuffer,
    /// A part of the user's buffer object.
    UserSubBuffer,
    /// The user's pointer.
    UserPointer(MemoryKind),
}

impl Origin {
    /// Every way that works on a device.
    pub fn all(engine: &OpenClEngine) -> Vec<Self> {
        let mut all: Vec<Self> =
            engine.capabilities().memory_kinds.iter().map(|&kind| Self::Library(kind)).collect();
        all.extend([Self::UserBuffer, Self::UserHostBuffer, Self::UserSubBuffer]);
        all.extend(pointer_kinds(engine).into_iter().map(Self::UserPointer));
        all
    }

    /// The kind that memory of this origin reports. Of the user's shared virtual memory the grain is not known.
    pub fn kind(self) -> MemoryKind {
        match self {
            Self::UserPointer(MemoryKind::SvmFine) => MemoryKind::Svm,
            Self::Library(kind) | Self::UserPointer(kind) => kind,
            Self::UserBuffer | Self::UserHostBuffer | Self::UserSubBuffer => MemoryKind::Buffer,
        }
    }
}

/// Bytes of some origin, with memory over a part of them.
#[derive(Debug)]
pub struct Place {
    pub origin: Origin,
    /// All bytes.
    pub whole: OpenClMemory,
    /// The part.
    pub memory: OpenClMemory,
    own: Vec<Own>,
}

/// What the test made itself, and frees.
#[derive(Debug)]
enum Own {
    Mem(cl_mem),
    #[expect(dead_code, reason = "kept for its bytes")]
    Pointer(UserMemory),
    #[expect(dead_code, reason = "kept for its bytes")]
    Host(Vec<u8>),
}

impl Place {
    /// Memory for a descriptor `offset` bytes into its origin's bytes, with `guard` bytes behind it. For a user's pointer the
    /// library is given the inner address itself; otherwise it makes a view.
    pub fn new(
        engine: &OpenClEngine,
        origin: Origin,
        desc: &MemoryDesc,
        offset: usize,
        guard: usize,
    ) -> Self {
        let total = offset + desc.size() + guard;
        let all = MemoryDesc::new([total], DataType::U8);
        let adopt = |raw: cl_mem| unsafe { OpenClMemory::from_raw(engine, &all, raw) }.unwrap();
        let mut own = Vec::new();
        let whole = match origin {
            Origin::Library(kind) => engine.create_memory(&all, kind).unwrap(),
            Origin::UserBuffer => {
                let raw = super::buffer(engine.raw_context(), total.max(1));
                own.push(Own::Mem(raw));
                adopt(raw)
            }
            Origin::UserHostBuffer => {
                let mut host = vec![0_u8; total + 64];
                // The vector's start is at least word-aligned, so this address is odd.
                let start = host.as_mut_ptr().wrapping_add(1).cast();
                let flags = cl::CL_MEM_READ_WRITE | cl::CL_MEM_USE_HOST_PTR;
                let raw =
                    unsafe { cl::create_buffer(engine.raw_context(), flags, total.max(1), start) }.unwrap();
                own.extend([Own::Mem(raw), Own::Host(host)]);
                adopt(raw)
            }
            Origin::UserSubBuffer => {
                let origin = base_alignment(engine);
                let raw = super::buffer(engine.raw_context(), origin + total.max(1));
                let part = super::sub_buffer(raw, origin, total.max(1));
                own.extend([Own::Mem(part), Own::Mem(raw)]);
                adopt(part)
            }
            Origin::UserPointer(kind) => {
                let user = UserMemory::new(engine, kind, total.max(1));
                let (whole, memory) = (user.wrap(&all, 0), user.wrap(desc, offset));
                own.push(Own::Pointer(user));
                return Self { origin, whole, memory, own };
            }
        };
        let memory = whole.view(desc, offset).unwrap();
        Self { origin, whole, memory, own }
    }

    /// Plain memory for a descriptor.
    pub fn plain(engine: &OpenClEngine, origin: Origin, desc: &MemoryDesc) -> Self {
        Self::new(engine, origin, desc, 0, 0)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Self::Mem(raw) = self {
            unsafe { cl::release_mem_object(*raw) }.unwrap();
        }
    }
}

/// What the origin of a sub-buffer is a multiple of, in bytes.
pub fn base_alignment(engine: &OpenClEngine) -> usize {
    let info = cl3::device::CL_DEVICE_MEM_BASE_ADDR_ALIGN;
    let bits = cl3::device::get_device_data(engine.raw_device(), info).unwrap();
    (u32::from_ne_bytes(bits.try_into().unwrap()) / 8) as usize
}
