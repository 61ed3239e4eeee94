//! Memory of their own for large tensors. It goes back to the system when a tensor is dropped: constants are given up one by one while others
//! take their place on the device, and an allocator would keep what they leave.

use std::sync::Arc;

use anydnn_backend::{MemoryDesc, Result, check_host_memory};
use memmap2::MmapMut;

use crate::model::HostTensor;

/// Bytes from which a tensor has memory of its own.
const LARGE: usize = 1 << 20;

/// A tensor whose bytes, zeros so far, are written by `fill`.
///
/// # Errors
/// As [`HostTensor::zeros`].
pub(super) fn filled(desc: &MemoryDesc, fill: impl FnOnce(&mut [u8])) -> Result<HostTensor> {
    desc.validate()?;
    check_host_memory(desc.size(), || desc.to_string())?;
    if let Some(mut memory) = mapped(desc.size()) {
        make_present(&memory);
        fill(&mut memory);
        return HostTensor::shared(desc.clone(), Arc::new(memory));
    }
    let mut tensor = HostTensor::zeros(desc.dims().clone(), desc.data_type())?;
    fill(tensor.bytes_mut());
    Ok(tensor)
}

/// The same tensor, its bytes in memory of their own where they are many.
pub(super) fn returned_at_once(tensor: HostTensor) -> HostTensor {
    if tensor.is_shared() {
        return tensor;
    }
    let Some(mut memory) = mapped(tensor.bytes().len()) else { return tensor };
    make_present(&memory);
    memory.copy_from_slice(tensor.bytes());
    HostTensor::shared(tensor.desc().clone(), Arc::new(memory)).unwrap_or(tensor)
}

/// Zeros from the system; none for few bytes or where it has none left.
fn mapped(bytes: usize) -> Option<MmapMut> {
    if bytes < LARGE { None } else { MmapMut::map_anon(bytes).ok() }
}

/// Lets the system find memory that is about to be written all at once, in huge pages where it grants them: a fault for each page takes
/// several times as long as writing it. Advice that a system does not know changes nothing.
#[cfg(target_os = "linux")]
fn make_present(memory: &MmapMut) {
    for advice in [memmap2::Advice::HugePage, memmap2::Advice::PopulateWrite] {
        if let Err(error) = memory.advise(advice) {
            tracing::trace!(%error, ?advice, "advice on memory was not taken");
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn make_present(_: &MmapMut) {}

#[cfg(test)]
mod tests {
    use anydnn_backend::{DataType, Error};

    use super::*;

    #[test]
    fn tensors_of_any_size_are_filled_and_moved() {
        for elements in [3, LARGE / 4 - 1, LARGE / 4, LARGE + 7] {
            let desc = MemoryDesc::new([elements], DataType::F32);
            let fill = |bytes: &mut [u8]| {
                assert!(bytes.iter().all(|&byte| byte == 0));
                for (i, element) in bytes.as_chunks_mut().0.iter_mut().enumerate() {
                    *element = (i as f32).to_ne_bytes();
                }
            };
            let tensor = filled(&desc, fill).unwrap();
            let expected: Vec<f32> = (0..elements).map(|i| i as f32).collect();
            assert_eq!((tensor.is_shared(), tensor.to_f32s()), (desc.size() >= LARGE, expected.clone()));
            let own = HostTensor::from_f32([elements], &expected).unwrap();
            let moved = returned_at_once(own.clone());
            assert!(moved == own && moved.is_shared() == (desc.size() >= LARGE), "{elements}");
        }
        let written = |_: &mut [u8]| panic!("nothing is there to be written");
        assert!(filled(&MemoryDesc::new([usize::MAX / 2, 3], DataType::F32), written).is_err());
        // More than any machine has, though addresses for it might be had.
        let error = filled(&MemoryDesc::new([1 << 44], DataType::F32), written).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    }
}
