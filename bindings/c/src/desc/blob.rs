//! Descriptors as bytes: a mark, then numbers of 64 bits with the least significant byte first, then a sum that tells whether they are whole.
//! All blobs have one size.

use crate::boundary::{Failure, Outcome};
use crate::desc::build::type_code;
use crate::desc::types::{Blocks, Format, Md, TypeCode};
use crate::types::{DNNL_MAX_NDIMS, dnnl_dims_t};

/// What a blob begins with; the last byte is the version.
const MARK: [u8; 8] = *b"anymdsc1";
/// Rank, data type, offset, three arrays; the format with three numbers, the number of blocks and three arrays.
const NUMBERS: usize = 3 + 3 * DNNL_MAX_NDIMS + 5 + 3 * DNNL_MAX_NDIMS;
const SIZE: usize = MARK.len() + 8 * (NUMBERS + 1);

impl Md {
    /// The descriptor as bytes.
    pub(crate) fn to_blob(&self) -> Vec<u8> {
        let none = Blocks::none();
        let code = |code: TypeCode| i64::from(code.value());
        let mut blocks = &none;
        let (kind, details) = match &self.format {
            Format::Undef => (0, [0; 3]),
            Format::Any => (1, [0; 3]),
            Format::Blocked(own) => {
                blocks = own;
                (2, [0; 3])
            }
            Format::Coo { nnz, indices } => (3, [*nnz, code(*indices), 0]),
            Format::Csr { nnz, indices, pointers } => (4, [*nnz, code(*indices), code(*pointers)]),
            Format::Packed { nnz } => (5, [*nnz, 0, 0]),
            Format::Grouped { axis, count, offsets } => (6, [*axis as i64, *count, code(*offsets)]),
            Format::HostScalar => (7, [0; 3]),
        };
        let mut numbers = vec![self.rank as i64, self.data_type.map_or(0, code), self.offset];
        for array in [&self.dims, &self.padded_dims, &self.padded_offsets] {
            numbers.extend_from_slice(array);
        }
        numbers.push(kind);
        numbers.extend(details);
        numbers.push(blocks.count as i64);
        for array in [&blocks.strides, &blocks.sizes, &blocks.axes] {
            numbers.extend_from_slice(array);
        }
        numbers.push(sum(&numbers));
        MARK.into_iter().chain(numbers.into_iter().flat_map(i64::to_le_bytes)).collect()
    }

    /// The descriptor that was written as bytes.
    ///
    /// # Safety
    /// `blob` holds at least the bytes of the mark, and all bytes of a blob where it begins with the mark.
    pub(crate) unsafe fn from_blob(blob: *const u8) -> Outcome<Self> {
        // SAFETY: by contract.
        if unsafe { std::slice::from_raw_parts(blob, MARK.len()) } != MARK {
            return Err(wrong());
        }
        // SAFETY: by contract, as it begins with the mark.
        let bytes = unsafe { std::slice::from_raw_parts(blob, SIZE) };
        let numbers = bytes[MARK.len()..].chunks_exact(8).map(|word| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            i64::from_le_bytes(bytes)
        });
        let numbers: Vec<i64> = numbers.collect();
        if sum(&numbers[..NUMBERS]) != numbers[NUMBERS] {
            return Err(wrong());
        }
        let mut rest = numbers.into_iter();
        let mut next = || rest.next().unwrap_or_default();
        let array = |next: &mut dyn FnMut() -> i64| -> dnnl_dims_t { std::array::from_fn(|_| next()) };
        let (rank, data_type, offset) = (next(), next(), next());
        let [dims, padded_dims, padded_offsets] = std::array::from_fn(|_| array(&mut next));
        let (kind, details, count) = (next(), [next(), next(), next()], next());
        let [strides, sizes, axes] = std::array::from_fn(|_| array(&mut next));
        let rank = usize::try_from(rank).ok().filter(|&rank| rank <= DNNL_MAX_NDIMS).ok_or_else(wrong)?;
        let count = usize::try_from(count).ok().filter(|&count| count <= DNNL_MAX_NDIMS).ok_or_else(wrong)?;
        let is_axis = |&axis: &i64| usize::try_from(axis).is_ok_and(|axis| axis < rank);
        if !axes[..count].iter().all(is_axis) || sizes[..count].iter().any(|&size| size <= 0) {
            return Err(wrong());
        }
        let code = |number: i64| type_code(i32::try_from(number).unwrap_or(0));
        let format = match kind {
            0 => Format::Undef,
            1 => Format::Any,
            2 => Format::Blocked(Blocks { strides, count, sizes, axes }),
            3 => Format::Coo { nnz: details[0], indices: code(details[1])? },
            4 => Format::Csr { nnz: details[0], indices: code(details[1])?, pointers: code(details[2])? },
            5 => Format::Packed { nnz: details[0] },
            6 => Format::Grouped {
                axis: usize::try_from(details[0]).ok().filter(|&axis| axis < rank).ok_or_else(wrong)?,
                count: details[1],
                offsets: code(details[2])?,
            },
            7 => Format::HostScalar,
            _ => return Err(wrong()),
        };
        let data_type = if data_type == 0 { None } else { Some(code(data_type)?) };
        Self { rank, dims, data_type, padded_dims, padded_offsets, offset, format }.checked()
    }
}

fn wrong() -> Failure {
    Failure::invalid("the bytes are no memory descriptor of this library")
}

/// Tells changed numbers apart; 64-bit FNV-1a over words.
fn sum(numbers: &[i64]) -> i64 {
    let step = |hash: u64, &number: &i64| (hash ^ number.cast_unsigned()).wrapping_mul(0x0000_0100_0000_01b3);
    numbers.iter().fold(0xcbf2_9ce4_8422_2325, step).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desc::tags;
    use crate::types::{DNNL_RUNTIME_DIM_VAL, dnnl_f16, dnnl_f32, dnnl_s32, dnnl_s64};

    #[test]
    fn descriptors_come_back_from_their_bytes() {
        let tagged =
            |dims: &[i64], letters| Md::with_tag(dims, dnnl_f32, tags::number(letters).unwrap()).unwrap();
        let all = [
            Md::empty(),
            tagged(&[2, 17, 3, 5], "aBcd16b"),
            tagged(&[4, DNNL_RUNTIME_DIM_VAL], "ab"),
            tagged(&[4, 32], "ab").part(&[2, 8], &[1, 8]).unwrap(),
            Md::with_tag(&[3, 4], dnnl_f16, crate::types::dnnl_format_tag_any).unwrap(),
            Md::with_coordinates(&[4, 5], dnnl_f32, 7, dnnl_s64).unwrap(),
            Md::with_rows(&[4, 5], dnnl_f32, 7, dnnl_s32, dnnl_s64).unwrap(),
            Md::packed(&[4, 5], dnnl_f16, 3).unwrap(),
            Md::grouped(&[9, 5], dnnl_f32, 0, 3, dnnl_s32).unwrap(),
            Md::host_scalar(dnnl_f32).unwrap(),
        ];
        for md in &all {
            let blob = md.to_blob();
            assert_eq!(blob.len(), SIZE);
            // SAFETY: these are all bytes of a blob.
            let back = unsafe { Md::from_blob(blob.as_ptr()) }.unwrap();
            assert!(back == *md, "{md:?}");
            for at in [0, 7, 8, 100, SIZE - 1] {
                let mut other = blob.clone();
                other[at] ^= 1;
                // SAFETY: as above.
                assert!(unsafe { Md::from_blob(other.as_ptr()) }.is_err(), "{at}");
            }
        }
    }
}
