//! A mapping after it ended.

use anydnn::backend::Mapping;

fn read(mapping: Box<dyn Mapping>) -> u8 {
    let bytes = mapping.bytes();
    mapping.unmap().unwrap();
    bytes[0]
}

fn main() {}
