//! Sparse tensors of host memory.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use anydnn_backend::{
    DataType, Engine, Error, MemoryDesc, MemoryKind, SparseDesc, SparseEncoding, SparseMemory,
};
use anydnn_host::{Host, HostEngine, HostMemory};

fn desc() -> SparseDesc {
    let encoding = SparseEncoding::Coo { nnz: 3, indices: DataType::S32 };
    SparseDesc::new([4, 5], DataType::F32, encoding).unwrap()
}

fn parts(engine: &HostEngine, descs: &[MemoryDesc]) -> Vec<HostMemory> {
    descs.iter().map(|desc| engine.create_memory(desc, MemoryKind::Host).unwrap()).collect()
}

#[test]
fn parts_are_kept_in_the_components_order() {
    let memory = SparseMemory::<Host>::new(desc(), parts(&HostEngine::new(), &desc().components())).unwrap();
    let copy = memory.clone();
    assert_eq!(copy.desc(), &desc());
    let sizes: Vec<_> = copy.parts().iter().map(|part| anydnn_backend::Memory::desc(part).size()).collect();
    assert_eq!(sizes, [12, 12, 12]);
}

#[test]
fn wrong_parts_are_refused_by_name() {
    let engine = HostEngine::new();
    let refused = |parts| SparseMemory::<Host>::new(desc(), parts).unwrap_err();
    let components = desc().components();
    assert!(refused(parts(&engine, &components[..2])).to_string().contains("parts is 2, expected 3"));
    let other = MemoryDesc::new([3], DataType::S64);
    let wrong = [components[0].clone(), other, components[2].clone()];
    assert!(refused(parts(&engine, &wrong)).to_string().contains("part 1"));
    let mut mixed = parts(&engine, &components);
    mixed[2] = parts(&HostEngine::new(), &components)[2].clone();
    assert!(matches!(refused(mixed), Error::Mismatch { .. }));
}
