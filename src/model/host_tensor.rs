//! Tensors in host memory: weights, inputs, results.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use anydnn_backend::{DataType, Dims, Error, MemoryDesc, Result, check_host_memory};

/// A dense row-major tensor in host memory, in the machine's byte order.
///
/// ```
/// use anydnn::backend::DataType;
/// use anydnn::model::HostTensor;
/// let tensor = HostTensor::from_f32([2, 2], &[1.0, 2.0, 3.0, 4.5])?;
/// assert_eq!(tensor.cast(DataType::S8).to_f32s(), [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), anydnn::backend::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    desc: MemoryDesc,
    bytes: Bytes,
}

/// The bytes of a tensor: its own, or in place of them part of a file that others read, too.
#[derive(Clone, Default)]
struct Bytes {
    own: Vec<u8>,
    shared: Option<Arc<dyn AsRef<[u8]> + Send + Sync>>,
}

impl Bytes {
    /// The bytes as the tensor's own, copied if they are not.
    fn own(&mut self) -> &mut Vec<u8> {
        if let Some(shared) = self.shared.take() {
            self.own = (*shared).as_ref().to_vec();
        }
        &mut self.own
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.shared.as_ref().map_or(&self.own, |shared| (**shared).as_ref())
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(own: Vec<u8>) -> Self {
        Self { own, shared: None }
    }
}

impl HostTensor {
    /// A tensor of bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the layout is not dense row-major or the number of bytes differs.
    pub fn new(desc: MemoryDesc, bytes: Vec<u8>) -> Result<Self> {
        Self::checked(desc, bytes.into())
    }

    /// A tensor of bytes that it shares with others until it is changed: part of a mapped file, an array of another language. They are
    /// copied when [`HostTensor::bytes_mut`] is first called.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use anydnn::backend::{DataType, MemoryDesc};
    /// use anydnn::model::HostTensor;
    /// let bytes = Arc::new(vec![1_u8, 2, 3]);
    /// let tensor = HostTensor::shared(MemoryDesc::new([3], DataType::U8), bytes.clone())?;
    /// assert_eq!(tensor.bytes().as_ptr(), bytes.as_ptr());
    /// # Ok::<(), anydnn::backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`HostTensor::new`].
    pub fn shared(desc: MemoryDesc, bytes: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Result<Self> {
        Self::checked(desc, Bytes { own: Vec::new(), shared: Some(bytes) })
    }

    /// Whether its bytes are also others'.
    #[cfg(feature = "onnx")]
    pub(crate) fn is_shared(&self) -> bool {
        self.bytes.shared.is_some()
    }

    fn checked(desc: MemoryDesc, bytes: Bytes) -> Result<Self> {
        desc.validate()?;
        if !desc.is_row_major() {
            return Err(Error::invalid("host tensor", "layout", desc.to_string(), "dense row-major"));
        }
        if bytes.len() != desc.size() {
            let (given, expected) = (bytes.len().to_string(), format!("{} for {desc}", desc.size()));
            return Err(Error::invalid("host tensor", "number of bytes", given, expected));
        }
        Ok(Self { desc, bytes })
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the host has not as much memory.
    pub fn zeros(dims: impl Into<Dims>, data_type: DataType) -> Result<Self> {
        let desc = MemoryDesc::new(dims, data_type);
        let mut bytes = reserved(&desc)?;
        bytes.resize(desc.size(), 0);
        Ok(Self { desc, bytes: bytes.into() })
    }

    /// A tensor of f32 values.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the number of values differs from the dimensions.
    pub fn from_f32(dims: impl Into<Dims>, values: &[f32]) -> Result<Self> {
        let mut bytes = vec![0; size_of_val(values)];
        for (to, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
            *to = value.to_ne_bytes();
        }
        Self::new(MemoryDesc::new(dims, DataType::F32), bytes)
    }

    /// A tensor of any type from values that are rounded to it and limited to its range.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the number of values differs from the dimensions.
    pub fn from_f64(dims: impl Into<Dims>, data_type: DataType, values: &[f64]) -> Result<Self> {
        let desc = MemoryDesc::new(dims, data_type);
        if values.len() != desc.elements() {
            let expected = format!("{} for {desc}", desc.elements());
            return Err(Error::invalid(
                "host tensor",
                "number of values",
                values.len().to_string(),
                expected,
            ));
        }
        Ok(Self { bytes: encode(data_type, values.iter().copied()).into(), desc })
    }

    /// A tensor of pseudo-random values that depend on the seed alone: floats from -1 to 1, signed integers from -8 to 7, unsigned ones
    /// from 0 to 15, booleans of both kinds.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the host has not as much memory.
    pub fn random(desc: &MemoryDesc, seed: u64) -> Result<Self> {
        Self::random_with(desc, seed, |value| value)
    }

    /// As [`HostTensor::random`], with each value changed before it is rounded to the type.
    ///
    /// # Errors
    /// As [`HostTensor::random`].
    pub fn random_with(desc: &MemoryDesc, seed: u64, change: impl Fn(f64) -> f64) -> Result<Self> {
        let desc = MemoryDesc::new(desc.dims().clone(), desc.data_type());
        let mut bytes = reserved(&desc)?;
        let data_type = desc.data_type();
        let mut state = seed;
        let values = (0..desc.elements()).map(|_| {
            // Sebastiano Vigna's splitmix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            match data_type {
                DataType::Boolean => (z >> 63) as f64,
                DataType::S2 => (z >> 62) as f64 - 2.0,
                DataType::U2 => (z >> 62) as f64,
                DataType::U8 | DataType::U4 | DataType::U16 | DataType::U32 | DataType::U64 => {
                    (z >> 60) as f64
                }
                _ if data_type.is_integer() => (z >> 60) as f64 - 8.0,
                _ => (z >> 40) as f64 / f64::from(1 << 23) - 1.0,
            }
        });
        data_type.write(values.map(change), &mut bytes);
        Ok(Self { desc, bytes: bytes.into() })
    }

    /// The dimensions and type.
    pub fn desc(&self) -> &MemoryDesc {
        &self.desc
    }

    /// The dimensions.
    pub fn dims(&self) -> &Dims {
        self.desc.dims()
    }

    /// The type.
    pub fn data_type(&self) -> DataType {
        self.desc.data_type()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.own()
    }

    /// The bytes, given away.
    pub fn into_bytes(mut self) -> Vec<u8> {
        std::mem::take(self.bytes.own())
    }

    /// The values as f32, rounded where a type holds more.
    pub fn to_f32s(&self) -> Vec<f32> {
        match self.data_type() {
            DataType::F32 => self.bytes.as_chunks().0.iter().copied().map(f32::from_ne_bytes).collect(),
            _ => self.to_f64s().into_iter().map(|value| value as f32).collect(),
        }
    }

    /// The values as f64; only [`DataType::S64`] and [`DataType::U64`] hold more.
    pub fn to_f64s(&self) -> Vec<f64> {
        let mut values = Vec::with_capacity(self.desc.elements());
        // Whatever is not false is true.
        let truth = self.data_type() == DataType::Boolean;
        let value = |value: f64| if truth { f64::from(u8::from(value != 0.0)) } else { value };
        self.data_type().read(&self.bytes, self.desc.elements(), |read| values.push(value(read)));
        values
    }

    /// The value of a tensor that has a single one.
    pub fn number(&self) -> Option<f64> {
        let mut number = None;
        if self.desc.elements() == 1 {
            self.data_type().read(&self.bytes, 1, |read| number = Some(read));
        }
        let is_truth = self.data_type() == DataType::Boolean;
        number.map(|number| if is_truth { f64::from(u8::from(number != 0.0)) } else { number })
    }

    /// The values converted to another type: rounded to the nearest, halves to even, and limited to the range of integers.
    pub fn cast(&self, data_type: DataType) -> Self {
        if data_type == self.data_type() {
            return self.clone();
        }
        let desc = MemoryDesc::new(self.dims().clone(), data_type);
        Self { desc, bytes: encode(data_type, self.to_f64s().into_iter()).into() }
    }

    /// The same values under other dimensions.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the number of elements differs.
    pub fn reshaped(self, dims: impl Into<Dims>) -> Result<Self> {
        Ok(Self { desc: self.desc.reshaped(dims)?, bytes: self.bytes })
    }

    /// The same tensor with a label for messages.
    pub fn labelled(self, label: &str) -> Self {
        Self { desc: self.desc.labelled(label), ..self }
    }

    /// Some of the rows: a range of indices along the first dimension.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the range is not within the first dimension; [`Error::Unsupported`] when a row of a 4-bit type does not
    /// begin with a byte.
    pub fn rows(&self, rows: Range<usize>) -> Result<Self> {
        let count = self.dims().first().copied().unwrap_or(0);
        if rows.start > rows.end || rows.end > count {
            let expected = format!("within 0..{count}");
            return Err(Error::invalid("rows of a host tensor", "range", format!("{rows:?}"), expected));
        }
        if self.dims().is_empty() {
            let expected = "at least one dimension";
            return Err(Error::invalid("rows of a host tensor", "tensor", self.desc.to_string(), expected));
        }
        let elements = Dims::new(&self.dims()[1..]).elements();
        if !(elements % 8 * self.data_type().bits()).is_multiple_of(8) {
            let why = format!("rows of {elements} elements of {} bits", self.data_type().bits());
            return Err(Error::unsupported("rows of a host tensor", why));
        }
        // Without any row there may be no bytes, however long a row is.
        let row = if rows.is_empty() { 0 } else { self.data_type().bytes_for(elements) };
        let bytes = self.bytes[rows.start * row..rows.end * row].to_vec();
        let mut dims = self.dims().clone();
        dims[0] = rows.len();
        Self::new(MemoryDesc::new(dims, self.data_type()), bytes)
    }
}

/// Room for a tensor's bytes.
fn reserved(desc: &MemoryDesc) -> Result<Vec<u8>> {
    desc.validate()?;
    let out_of_memory = |_| Error::OutOfMemory { what: desc.to_string(), bytes: desc.size() };
    check_host_memory(desc.size(), || desc.to_string())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(desc.size()).map_err(out_of_memory)?;
    Ok(bytes)
}

fn encode(data_type: DataType, values: impl Iterator<Item = f64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    data_type.write(values, &mut bytes);
    bytes
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "conversions are exact")]
mod tests {
    use super::*;

    #[test]
    fn casts_round_and_saturate() {
        let tensor = HostTensor::from_f32([5], &[-300.0, -0.5, 1.5, 2.5, 300.0]).unwrap();
        let cast = |data_type| tensor.cast(data_type).to_f32s();
        assert_eq!(cast(DataType::S8), [-128.0, 0.0, 2.0, 2.0, 127.0]);
        assert_eq!(cast(DataType::U8), [0.0, 0.0, 2.0, 2.0, 255.0]);
        assert_eq!(cast(DataType::S4), [-8.0, 0.0, 2.0, 2.0, 7.0]);
        assert_eq!(cast(DataType::U4), [0.0, 0.0, 2.0, 2.0, 15.0]);
        assert_eq!(cast(DataType::Boolean), [1.0; 5]);
        assert_eq!(cast(DataType::S2), [-2.0, 0.0, 1.0, 1.0, 1.0]);
        assert_eq!(cast(DataType::U2), [0.0, 0.0, 2.0, 2.0, 3.0]);
        assert_eq!(cast(DataType::U16), [0.0, 0.0, 2.0, 2.0, 300.0]);
        assert_eq!(cast(DataType::S16), [-300.0, 0.0, 2.0, 2.0, 300.0]);
        assert_eq!(cast(DataType::U64), cast(DataType::U32));
        assert_eq!(cast(DataType::F4E2M1), [-6.0, -0.5, 1.5, 2.0, 6.0]);
        assert_eq!(cast(DataType::F8E5M2Fnuz), [-320.0, -0.5, 1.5, 2.5, 320.0]);
        assert!(cast(DataType::F8E4M3Fnuz)[4].is_nan());
        assert_eq!(cast(DataType::E8M0)[2..], [2.0, 2.0, 256.0]);
        assert_eq!(tensor.cast(DataType::U2).bytes(), [0b1010_0000, 0b11]);
        for exact in [DataType::F64, DataType::F16, DataType::BF16] {
            assert_eq!(cast(exact), [-300.0, -0.5, 1.5, 2.5, 300.0]);
        }
        assert_eq!(tensor.cast(DataType::S4).bytes(), [0x08, 0x22, 0x07]);
        let nan = HostTensor::from_f32([], &[f32::NAN]).unwrap();
        assert_eq!(nan.cast(DataType::S32).to_f32s(), [0.0]);
    }

    #[test]
    fn every_small_value_survives_every_wide_enough_type() {
        let values = [0.0, 1.0, 2.0, 4.0, 6.0];
        let narrow = [DataType::Boolean, DataType::S2, DataType::U2, DataType::E8M0];
        for data_type in DataType::ALL.into_iter().chain(DataType::HOST_ONLY) {
            if narrow.contains(&data_type) {
                continue;
            }
            let tensor = HostTensor::from_f64([5], data_type, &values).unwrap();
            assert_eq!(tensor.bytes().len(), data_type.bytes_for(5));
            assert_eq!(tensor.to_f64s(), values, "{data_type}");
        }
    }

    #[test]
    fn random_depends_on_the_seed_alone() {
        let desc = MemoryDesc::new([100], DataType::F32);
        let tensor = HostTensor::random(&desc, 7).unwrap();
        assert_eq!(tensor, HostTensor::random(&desc, 7).unwrap());
        assert_ne!(tensor, HostTensor::random(&desc, 8).unwrap());
        let values = tensor.to_f32s();
        assert!(values.iter().all(|v| (-1.0..1.0).contains(v)));
        assert!(values.iter().any(|v| *v < -0.5) && values.iter().any(|v| *v > 0.5));
        let integers = HostTensor::random(&MemoryDesc::new([99], DataType::S4), 1).unwrap().to_f32s();
        assert!(integers.iter().any(|v| *v < 0.0) && integers.iter().any(|v| *v > 0.0));
    }

    #[test]
    fn rows_are_taken_along_the_first_dimension() {
        let tensor = HostTensor::from_f32([3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let rows = tensor.rows(1..3).unwrap();
        assert_eq!((rows.dims().to_vec(), rows.to_f32s()), (vec![2, 2], vec![2.0, 3.0, 4.0, 5.0]));
        let message = tensor.rows(2..4).unwrap_err().to_string();
        assert!(message.contains("2..4") && message.contains("0..3"), "{message}");
    }

    #[test]
    fn rows_of_odd_tensors_are_refused_or_empty() {
        let scalar = HostTensor::from_f32([], &[1.0]).unwrap();
        assert!(scalar.rows(0..0).unwrap_err().to_string().contains("at least one dimension"));
        let empty = HostTensor::zeros([0, 1 << 40], DataType::F32).unwrap();
        assert_eq!(empty.rows(0..0).unwrap().dims().to_vec(), [0, 1 << 40]);
        let nibbles = HostTensor::zeros([2, 3], DataType::S4).unwrap();
        assert!(matches!(nibbles.rows(0..1), Err(Error::Unsupported { .. })));
    }

    #[test]
    fn shared_bytes_are_copied_when_they_are_changed() {
        let file = Arc::new(vec![1_u8, 2, 3]);
        let desc = MemoryDesc::new([3], DataType::U8);
        let tensor = HostTensor::shared(desc.clone(), file.clone()).unwrap();
        let mut changed = tensor.clone();
        assert_eq!((Arc::strong_count(&file), tensor.bytes().as_ptr()), (3, file.as_ptr()));
        changed.bytes_mut()[0] = 7;
        assert_eq!(
            (changed.bytes(), tensor.bytes(), &file[..]),
            (&[7, 2, 3][..], &[1, 2, 3][..], &[1, 2, 3][..])
        );
        assert_eq!((Arc::strong_count(&file), tensor.clone().into_bytes()), (2, vec![1, 2, 3]));
        assert!(HostTensor::shared(MemoryDesc::new([4], DataType::U8), file).is_err());
    }

    #[test]
    fn absurd_sizes_are_refused() {
        for dims in [vec![1 << 50], vec![1 << 61], vec![usize::MAX, 2], vec![1 << 31, 1 << 31, 1 << 31]] {
            let desc = MemoryDesc::new(dims.clone(), DataType::F64);
            assert!(HostTensor::zeros(dims, DataType::F64).is_err(), "{desc}");
            assert!(HostTensor::random(&desc, 0).is_err(), "{desc}");
            assert!(HostTensor::new(desc.clone(), Vec::new()).is_err(), "{desc}");
        }
        assert!(HostTensor::zeros(vec![1; 13], DataType::F32).is_err());
    }

    #[test]
    fn wrong_sizes_are_told() {
        let message = HostTensor::from_f32([3], &[1.0]).unwrap_err().to_string();
        assert!(message.contains("is 4") && message.contains("12"), "{message}");
        let nhwc = MemoryDesc::with_tag([1, 2, 3, 3], DataType::F32, "acdb").unwrap();
        assert!(HostTensor::new(nhwc, vec![0; 72]).unwrap_err().to_string().contains("row-major"));
    }
}
