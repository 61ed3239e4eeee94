//! What the bytes of a tensor mean: dimensions, element type and layout.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::data_type::DataType;
use crate::dims::{Dims, MAX_DIMS};
use crate::error::{Error, Result};

/// Dimensions, element type and layout of a tensor, with an optional label for messages.
///
/// ```
/// use anydnn_backend::{DataType, MemoryDesc};
/// let nhwc = MemoryDesc::with_tag([1, 64, 7, 7], DataType::F16, "acdb").unwrap();
/// assert_eq!(nhwc.strides().unwrap(), [64 * 7 * 7, 1, 7 * 64, 64]);
/// assert_eq!(nhwc.size(), 64 * 7 * 7 * 2);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct MemoryDesc {
    dims: Dims,
    data_type: DataType,
    layout: Layout,
    label: Label,
}

/// How logical indices become element offsets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// Left to the implementation, which resolves it when the primitive is created.
    Any,
    /// Strides, with inner blocks for blocked layouts.
    Blocked(Blocking),
    /// Known to the engine that made it alone.
    Opaque {
        /// Which of the engine's layouts.
        id: u64,
        /// The size in bytes.
        bytes: usize,
    },
}

/// Strides in elements plus inner blocks: index `i` of a blocked dimension becomes outer index `i / block`, inner `i % block`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Blocking {
    /// Distance in elements between neighbours of each (outer) dimension; zero repeats one element.
    pub strides: Dims,
    /// `(dimension, block)` from the outermost block to the innermost; empty for a plain strided layout.
    pub inner: SmallVec<[(usize, usize); 2]>,
    /// Elements before the first element.
    pub offset: usize,
}

impl MemoryDesc {
    /// A dense row-major tensor.
    pub fn new(dims: impl Into<Dims>, data_type: DataType) -> Self {
        let dims = dims.into();
        let strides = dims.row_major_strides();
        Self { dims, data_type, layout: Layout::strided(strides), label: Label::default() }
    }

    /// A tensor whose layout the implementation chooses.
    pub fn any(dims: impl Into<Dims>, data_type: DataType) -> Self {
        Self { dims: dims.into(), data_type, layout: Layout::Any, label: Label::default() }
    }

    /// A tensor with strides in elements, one per dimension.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the counts differ or the size does not fit the address space.
    pub fn with_strides(
        dims: impl Into<Dims>,
        data_type: DataType,
        strides: impl Into<Dims>,
    ) -> Result<Self> {
        Self::with_layout(dims, data_type, Layout::strided(strides.into()))
    }

    /// A tensor with any layout.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the layout does not fit the dimensions, or the size does not fit the address space.
    pub fn with_layout(dims: impl Into<Dims>, data_type: DataType, layout: Layout) -> Result<Self> {
        let desc = Self { dims: dims.into(), data_type, layout, label: Label::default() };
        desc.validate()?;
        Ok(desc)
    }

    /// A tensor with a layout in letters: `a` is dimension 0; the order is from the outermost to the innermost; a capital letter is
    /// split into blocks, named at the end with their sizes (`aBcd16b`, `ABcd8b8a`).
    ///
    /// # Errors
    /// [`Error::Invalid`] when the tag is malformed or does not name every dimension once.
    pub fn with_tag(dims: impl Into<Dims>, data_type: DataType, tag: &str) -> Result<Self> {
        let dims = dims.into();
        let bad = || {
            Error::invalid(
                "memory descriptor",
                "layout tag",
                format!("{tag:?}"),
                format!("each of {} dimensions once, then blocks such as 16b", dims.len()),
            )
        };
        let outer_len = tag.find(|c: char| c.is_ascii_digit()).unwrap_or(tag.len());
        let (outer, mut rest) = tag.split_at(outer_len);
        let mut inner: SmallVec<[(usize, usize); 2]> = SmallVec::new();
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
            let block: usize = rest[..digits].parse().map_err(|_| bad())?;
            let letter = rest.as_bytes()[digits];
            let axis = usize::from(letter.wrapping_sub(b'a'));
            if axis >= dims.len() || block == 0 {
                return Err(bad());
            }
            inner.push((axis, block));
            rest = &rest[digits + 1..];
        }
        let order: Option<Vec<usize>> = outer
            .bytes()
            .map(|c| {
                Some(usize::from(c.to_ascii_lowercase().checked_sub(b'a')?)).filter(|&axis| axis < dims.len())
            })
            .collect();
        let order = order.ok_or_else(bad)?;
        let mut seen = vec![false; dims.len()];
        for &axis in &order {
            seen[axis] = true;
        }
        let blocked = |axis: usize| inner.iter().any(|&(a, _)| a == axis);
        let case_fits = outer.bytes().zip(&order).all(|(c, &axis)| c.is_ascii_uppercase() == blocked(axis));
        if order.len() != dims.len() || !seen.iter().all(|&s| s) || !case_fits {
            return Err(bad());
        }
        let mut blocking = Blocking { strides: dims.clone(), inner, offset: 0 };
        let mut stride = saturating_product(blocking.inner.iter().map(|&(_, block)| block));
        for &axis in order.iter().rev() {
            blocking.strides[axis] = stride;
            stride = stride.saturating_mul(dims[axis].div_ceil(blocking.block(axis)).max(1));
        }
        Self::with_layout(dims, data_type, Layout::Blocked(blocking))
    }

    /// The same descriptor with a label that appears in messages and logs.
    pub fn labelled(self, label: impl AsRef<str>) -> Self {
        self.sharing_label(Arc::from(label.as_ref()))
    }

    /// As [`MemoryDesc::labelled`], with a label that others have too.
    pub fn sharing_label(mut self, label: Arc<str>) -> Self {
        self.label = Label(Some(label));
        self
    }

    /// The dimensions in elements.
    pub fn dims(&self) -> &Dims {
        &self.dims
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The number of logical elements.
    pub fn elements(&self) -> usize {
        self.dims.elements()
    }

    /// The element type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The label, if one was given.
    pub fn label(&self) -> Option<&str> {
        self.label.0.as_deref()
    }

    /// The strides in elements of a plain strided layout; none for blocked, opaque and open layouts.
    pub fn strides(&self) -> Option<&[usize]> {
        match &self.layout {
            Layout::Blocked(blocking) if blocking.inner.is_empty() => Some(&blocking.strides),
            _ => None,
        }
    }

    /// The strides and blocks; none for opaque and open layouts.
    pub fn blocking(&self) -> Option<&Blocking> {
        match &self.layout {
            Layout::Blocked(blocking) => Some(blocking),
            _ => None,
        }
    }

    /// Whether the layout is left to the implementation.
    pub fn is_any(&self) -> bool {
        self.layout == Layout::Any
    }

    /// Whether the elements lie densely in row-major order from the first byte.
    pub fn is_row_major(&self) -> bool {
        let Some(strides) = self.strides() else { return false };
        let wanted = self.dims.row_major_strides();
        self.blocking().is_some_and(|b| b.offset == 0)
            && (self.elements() == 0
                || self.dims.iter().zip(strides).zip(wanted.iter()).all(|((&dim, s), w)| dim == 1 || s == w))
    }

    /// The dimensions rounded up to whole blocks.
    pub fn padded_dims(&self) -> Dims {
        let mut padded = self.dims.clone();
        if let Layout::Blocked(blocking) = &self.layout {
            for (axis, dim) in padded.iter_mut().enumerate() {
                *dim = dim.checked_next_multiple_of(blocking.block(axis)).unwrap_or(usize::MAX);
            }
        }
        padded
    }

    /// The size in bytes, offset and padding included; zero for an open layout or without elements.
    pub fn size(&self) -> usize {
        match &self.layout {
            Layout::Any => 0,
            Layout::Opaque { bytes, .. } => *bytes,
            Layout::Blocked(blocking) => {
                span(&self.dims, blocking).map_or(usize::MAX, |n| self.data_type.bytes_for(n))
            }
        }
    }

    /// The offset in elements of the element at `index`; none for opaque and open layouts, or an index of another rank.
    pub fn offset_of(&self, index: &[usize]) -> Option<usize> {
        let blocking = self.blocking().filter(|_| index.len() == self.rank())?;
        Some(blocking.offset_of(index))
    }

    /// The same bytes with the dimensions in another order: dimension `i` of the result is dimension `order[i]` of this one.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `order` is not a permutation; [`Error::Unsupported`] for an opaque layout.
    pub fn permuted(&self, order: &[usize]) -> Result<Self> {
        let mut inverse = vec![usize::MAX; self.rank()];
        for (to, &from) in order.iter().enumerate() {
            if from < inverse.len() {
                inverse[from] = to;
            }
        }
        if order.len() != self.rank() || inverse.contains(&usize::MAX) {
            return Err(Error::invalid(
                "permute",
                "order",
                format!("{order:?}"),
                format!("a permutation of {} dimensions", self.rank()),
            ));
        }
        let dims: Dims = order.iter().map(|&axis| self.dims[axis]).collect();
        let layout = match &self.layout {
            Layout::Any => Layout::Any,
            Layout::Blocked(blocking) => Layout::Blocked(Blocking {
                strides: order.iter().map(|&axis| blocking.strides[axis]).collect(),
                inner: blocking.inner.iter().map(|&(axis, block)| (inverse[axis], block)).collect(),
                offset: blocking.offset,
            }),
            Layout::Opaque { .. } => return Err(Error::unsupported("permute", "an opaque layout")),
        };
        Ok(Self { dims, layout, ..self.clone() })
    }

    /// The same bytes under other dimensions with as many elements. Dimensions of one come and go freely; dense neighbours merge
    /// and split.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the element counts differ or there are too many dimensions; [`Error::Unsupported`] when the strides
    /// allow no such view.
    pub fn reshaped(&self, dims: impl Into<Dims>) -> Result<Self> {
        let dims = dims.into();
        check_dims(&dims)?;
        if dims.elements() != self.elements() {
            return Err(Error::invalid(
                "reshape",
                "dimensions",
                format!("{dims} for {}", self.dims),
                format!("{} elements", self.elements()),
            ));
        }
        if self.is_any() {
            return Ok(Self { dims, ..self.clone() });
        }
        let no_view = || Error::unsupported("reshape", format!("{self} has no view as {dims}"));
        let strides = self.strides().ok_or_else(no_view)?;
        let offset = self.blocking().map_or(0, |b| b.offset);
        let new_strides = if self.elements() == 0 {
            dims.row_major_strides()
        } else {
            view_strides(&self.dims, strides, &dims).ok_or_else(no_view)?
        };
        let layout = Layout::Blocked(Blocking { strides: new_strides, inner: SmallVec::new(), offset });
        Ok(Self { dims, layout, ..self.clone() })
    }

    /// The same bytes stretched to `dims` by numpy's rule, with stride zero where a one repeats.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the dimensions do not broadcast or are too many; [`Error::Unsupported`] for blocked, opaque and open
    /// layouts.
    pub fn broadcast_to(&self, dims: impl Into<Dims>) -> Result<Self> {
        let dims = dims.into();
        check_dims(&dims)?;
        if !self.dims.broadcasts_to(&dims) {
            return Err(Error::invalid(
                "broadcast",
                "dimensions",
                format!("{} to {dims}", self.dims),
                "equal dimensions or ones",
            ));
        }
        let strides =
            self.strides().ok_or_else(|| Error::unsupported("broadcast", format!("the layout of {self}")))?;
        let lead = dims.len() - self.rank();
        let stretched = dims
            .iter()
            .enumerate()
            .map(|(i, &dim)| if i < lead || self.dims[i - lead] != dim { 0 } else { strides[i - lead] })
            .collect();
        let offset = self.blocking().map_or(0, |b| b.offset);
        Ok(Self {
            layout: Layout::Blocked(Blocking { strides: stretched, inner: SmallVec::new(), offset }),
            dims,
            ..self.clone()
        })
    }

    /// The same dimensions and layout with another element type.
    pub fn with_data_type(&self, data_type: DataType) -> Self {
        Self { data_type, ..self.clone() }
    }

    /// The same dimensions and element type, dense and row-major.
    pub fn to_row_major(&self) -> Self {
        Self { label: self.label.clone(), ..Self::new(self.dims.clone(), self.data_type) }
    }

    /// The same dimensions and element type with an open layout.
    pub fn to_any(&self) -> Self {
        Self { layout: Layout::Any, ..self.clone() }
    }

    /// Whether two descriptors mean the same bytes; labels and the strides of dimensions of one do not count.
    pub fn same_bytes(&self, other: &Self) -> bool {
        if self.dims != other.dims || self.data_type != other.data_type {
            return false;
        }
        match (&self.layout, &other.layout) {
            (Layout::Blocked(a), Layout::Blocked(b)) => {
                let steps = |axis: usize| self.dims[axis].div_ceil(a.block(axis)) > 1;
                let same_strides =
                    || (0..self.rank()).all(|axis| a.strides[axis] == b.strides[axis] || !steps(axis));
                a.inner == b.inner && a.offset == b.offset && (self.elements() == 0 || same_strides())
            }
            (a, b) => a == b,
        }
    }

    /// Whether two different indices share an element (a stride of zero, or overlapping rows): such a tensor cannot be written.
    pub fn overlaps_itself(&self) -> bool {
        let Some(blocking) = self.blocking() else { return false };
        if self.elements() == 0 {
            return false;
        }
        let inner = saturating_product(blocking.inner.iter().map(|&(_, block)| block));
        let mut steps: Vec<(usize, usize)> = (0..self.rank())
            .map(|axis| (blocking.strides[axis], self.dims[axis].div_ceil(blocking.block(axis))))
            .filter(|&(_, count)| count > 1)
            .collect();
        steps.sort_unstable();
        // Sufficient and, for layouts in use, exact: each stride must clear everything the smaller ones span.
        let mut reach = inner.saturating_sub(1);
        steps.into_iter().any(|(stride, count)| {
            let clash = stride <= reach;
            reach = reach.saturating_add(stride.saturating_mul(count - 1));
            clash
        })
    }

    /// Checks rank, layout and size.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming what is wrong.
    pub fn validate(&self) -> Result<()> {
        let bad = |subject: &str, given: String, expected: String| {
            Err(Error::invalid("memory descriptor", subject, given, expected))
        };
        check_dims(&self.dims)?;
        if let Layout::Blocked(blocking) = &self.layout {
            if blocking.strides.len() != self.rank() {
                return bad(
                    "strides",
                    format!("{} for {}", blocking.strides.len(), self.dims),
                    format!("{} strides", self.rank()),
                );
            }
            if let Some((axis, block)) =
                blocking.inner.iter().find(|&&(axis, block)| axis >= self.rank() || block == 0)
            {
                return bad(
                    "blocks",
                    format!("block of {block} on dimension {axis}"),
                    format!("positive blocks of {} dimensions", self.rank()),
                );
            }
            // A tensor without elements has countable strides and blocks all the same.
            let filled: Dims = self.dims.iter().map(|&dim| dim.max(1)).collect();
            let bits = span(&filled, blocking).and_then(|n| n.checked_mul(self.data_type.bits()));
            if bits.is_none_or(|bits| bits > MAX_BITS) {
                return bad("size", format!("{self}"), format!("at most {} bytes", MAX_BITS / 8));
            }
        }
        Ok(())
    }
}

/// The most bits of a tensor: offsets in bits, bytes and elements are countable with a sign.
const MAX_BITS: usize = isize::MAX as usize;

/// Checks the rank and the number of elements, whatever the layout.
fn check_dims(dims: &Dims) -> Result<()> {
    let bad = |subject: &str, given: String, expected: String| {
        Err(Error::invalid("memory descriptor", subject, given, expected))
    };
    if dims.len() > MAX_DIMS {
        return bad("rank", dims.len().to_string(), format!("at most {MAX_DIMS}"));
    }
    // Zeros do not make the other dimensions harmless: strides are products of them.
    if saturating_product(dims.iter().map(|&dim| dim.max(1))) > MAX_BITS / 8 {
        return bad("size", dims.to_string(), format!("at most {} elements", MAX_BITS / 8));
    }
    Ok(())
}

fn saturating_product(factors: impl Iterator<Item = usize>) -> usize {
    factors.fold(1, usize::saturating_mul)
}

/// Elements from the start of the memory to one past the last element (padding included); none on overflow.
fn span(dims: &Dims, blocking: &Blocking) -> Option<usize> {
    if dims.contains(&0) {
        return Some(0);
    }
    let mut last = blocking.offset;
    for (axis, &dim) in dims.iter().enumerate() {
        let count = dim.div_ceil(blocking.block(axis));
        last = last.checked_add(blocking.strides[axis].checked_mul(count - 1)?)?;
    }
    let inner = blocking.inner.iter().try_fold(1_usize, |n, &(_, block)| n.checked_mul(block))?;
    last.checked_add(inner)
}

impl Layout {
    /// A plain strided layout.
    pub fn strided(strides: Dims) -> Self {
        Self::Blocked(Blocking { strides, inner: SmallVec::new(), offset: 0 })
    }
}

impl Blocking {
    /// The product of the blocks of a dimension, which saturates; one without blocks.
    pub fn block(&self, axis: usize) -> usize {
        saturating_product(self.inner.iter().filter(|&&(a, _)| a == axis).map(|&(_, block)| block))
    }

    /// The offset in elements of the element at `index`.
    pub fn offset_of(&self, index: &[usize]) -> usize {
        if self.inner.is_empty() {
            return self.offset + index.iter().zip(self.strides.iter()).map(|(i, s)| i * s).sum::<usize>();
        }
        let mut rest: SmallVec<[usize; 12]> = SmallVec::from_slice(index);
        let mut offset = self.offset;
        let mut stride = 1;
        for &(axis, block) in self.inner.iter().rev() {
            offset += rest[axis] % block * stride;
            rest[axis] /= block;
            stride *= block;
        }
        offset + rest.iter().zip(self.strides.iter()).map(|(i, s)| i * s).sum::<usize>()
    }
}

/// Strides of `to` over the elements of `from`, or none where a merged dimension is not dense.
fn view_strides(from: &[usize], strides: &[usize], to: &[usize]) -> Option<Dims> {
    let old: Vec<(usize, usize)> =
        from.iter().copied().zip(strides.iter().copied()).filter(|&(dim, _)| dim != 1).collect();
    let mut result = Dims::new(to);
    let (mut i, mut j) = (0, 0);
    while j < to.len() {
        if to[j] == 1 {
            result[j] = 1;
            j += 1;
            continue;
        }
        // Take the shortest runs of old and new dimensions with the same product.
        let (first_old, first_new) = (i, j);
        let mut old_product = old.get(i)?.0;
        let mut new_product = to[j];
        while old_product != new_product {
            if old_product < new_product {
                i += 1;
                old_product *= old.get(i)?.0;
            } else {
                j += 1;
                new_product *= *to.get(j)?;
            }
        }
        if !old[first_old..=i].windows(2).all(|pair| pair[0].1 == pair[1].1 * pair[1].0) {
            return None;
        }
        let mut stride = old[i].1;
        for k in (first_new..=j).rev() {
            result[k] = stride;
            stride *= to[k];
        }
        i += 1;
        j += 1;
    }
    Some(result)
}

/// A label or none; they never make descriptors differ.
#[derive(Clone, Debug, Default)]
struct Label(Option<Arc<str>>);

impl PartialEq for Label {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Label {}

impl std::hash::Hash for Label {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl fmt::Display for MemoryDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(label) = self.label() {
            write!(f, "{label}:")?;
        }
        write!(f, "{}:{}", self.data_type, self.dims)?;
        match &self.layout {
            Layout::Any => f.write_str(":any"),
            Layout::Opaque { id, bytes } => write!(f, ":opaque#{id}({bytes} bytes)"),
            Layout::Blocked(_) if self.is_row_major() => Ok(()),
            Layout::Blocked(blocking) => {
                write!(f, ":{:?}", blocking.strides)?;
                for (axis, block) in &blocking.inner {
                    write!(f, "{block}{}", char::from(b'a' + *axis as u8))?;
                }
                if blocking.offset > 0 { write!(f, "+{}", blocking.offset) } else { Ok(()) }
            }
        }
    }
}

impl fmt::Debug for MemoryDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_tag_pads_and_indexes() {
        let desc = MemoryDesc::with_tag([1, 20, 2, 2], DataType::F32, "aBcd16b").unwrap();
        assert_eq!(desc.padded_dims(), Dims::from([1, 32, 2, 2]));
        assert_eq!(desc.size(), 32 * 4 * 4);
        assert_eq!(desc.offset_of(&[0, 17, 1, 0]), Some(64 + 32 + 1));
        assert!(!desc.overlaps_itself() && !desc.is_row_major());
    }

    #[test]
    fn nested_blocks_index_every_element_once() {
        let desc = MemoryDesc::with_tag([9, 7], DataType::S8, "BA4b2a2b").unwrap();
        let mut seen = std::collections::HashSet::new();
        for index in desc.dims().indices() {
            let offset = desc.offset_of(&index).unwrap();
            assert!(offset < desc.size() && seen.insert(offset));
        }
    }

    #[test]
    fn malformed_tags_are_refused() {
        for tag in ["", "a", "abb", "ac", "aB", "ab16b", "aB16", "aB0b", "ab!"] {
            assert!(MemoryDesc::with_tag([2, 2], DataType::F32, tag).is_err(), "{tag}");
        }
    }

    #[test]
    fn reshape_makes_views_where_strides_allow() {
        let nhwc = MemoryDesc::with_tag([2, 3, 4, 5], DataType::F32, "acdb").unwrap();
        let merged = nhwc.reshaped([2, 3, 20]).unwrap();
        assert_eq!(merged.strides().unwrap(), [60, 1, 3]);
        assert!(nhwc.reshaped([2, 60]).is_err());
        assert_eq!(
            MemoryDesc::new([6], DataType::F32).reshaped([1, 2, 1, 3]).unwrap().strides().unwrap()[1],
            3
        );
        assert!(MemoryDesc::new([6], DataType::F32).reshaped([7]).is_err());
        assert_eq!(MemoryDesc::new([1], DataType::F32).reshaped([]).unwrap().rank(), 0);
    }

    #[test]
    fn overlap_is_found() {
        let with = |strides: [usize; 2]| MemoryDesc::with_strides([3, 4], DataType::F32, strides).unwrap();
        assert!(with([0, 1]).overlaps_itself());
        assert!(with([2, 1]).overlaps_itself());
        assert!(!with([4, 1]).overlaps_itself() && !with([1, 3]).overlaps_itself());
    }

    #[test]
    fn a_size_beyond_the_address_space_is_refused() {
        assert!(MemoryDesc::with_strides([2, 2], DataType::F32, [usize::MAX, 1]).is_err());
        assert!(MemoryDesc::new([usize::MAX, 4], DataType::F32).validate().is_err());
        // Not even without elements, nor where every element is the same one.
        assert!(MemoryDesc::new([0, 1 << 40, 1 << 40], DataType::F32).validate().is_err());
        assert!(MemoryDesc::new([1], DataType::F32).broadcast_to([1 << 40, 1 << 40]).is_err());
        assert!(MemoryDesc::new([1], DataType::F32).broadcast_to(vec![1; 13]).is_err());
        assert!(MemoryDesc::new([1], DataType::F32).reshaped(vec![1; 13]).is_err());
        let huge = MemoryDesc::new([usize::MAX, 2], DataType::F32);
        assert!(huge.reshaped([usize::MAX, 3]).is_err() && huge.size() == usize::MAX);
    }

    #[test]
    fn blocks_beyond_the_address_space_are_refused() {
        let half = 1_usize << 33;
        for tag in [format!("Ab{half}a{half}a"), format!("AB{half}a{half}b"), format!("Ab{}a", usize::MAX)] {
            for dims in [[2, 2], [0, 2]] {
                assert!(MemoryDesc::with_tag(dims, DataType::S8, &tag).is_err(), "{tag} {dims:?}");
            }
        }
    }

    #[test]
    fn descriptors_of_other_ranks_compare_and_index() {
        let (small, large) = (MemoryDesc::new([2], DataType::F32), MemoryDesc::new([2, 2, 2], DataType::F32));
        assert!(!small.same_bytes(&large) && !large.same_bytes(&small));
        assert_eq!((large.offset_of(&[1]), small.offset_of(&[0, 1])), (None, None));
        let blocked = MemoryDesc::with_tag([4, 4], DataType::F32, "aB2b").unwrap();
        assert_eq!(blocked.offset_of(&[1]), None);
    }

    #[test]
    fn labels_do_not_make_descriptors_differ() {
        let plain = MemoryDesc::new([2], DataType::F32);
        assert!(plain.same_bytes(&plain.clone().labelled("x")));
        assert_eq!(plain.clone().labelled("x").to_string(), "x:f32:2");
        let hasher = std::hash::RandomState::new();
        for (a, b) in [(plain.clone(), plain.clone().labelled("x")), (plain.clone().labelled("y"), plain)] {
            assert_eq!(a, b);
            assert_eq!(
                std::hash::BuildHasher::hash_one(&hasher, &a),
                std::hash::BuildHasher::hash_one(&hasher, &b)
            );
        }
    }

    #[test]
    fn strides_of_single_elements_do_not_count() {
        let with = |strides: [usize; 3]| MemoryDesc::with_strides([4, 1, 8], DataType::F32, strides).unwrap();
        assert!(with([8, 8, 1]).same_bytes(&with([8, 64, 1])));
        assert!(!with([8, 8, 1]).same_bytes(&with([16, 8, 1])));
    }

    #[test]
    fn permuting_moves_strides_and_blocks() {
        let desc = MemoryDesc::with_tag([2, 16], DataType::F32, "aB8b").unwrap().permuted(&[1, 0]).unwrap();
        assert_eq!(desc.dims(), &Dims::from([16, 2]));
        assert_eq!(desc.offset_of(&[9, 1]), Some(16 + 8 + 1));
        assert!(desc.permuted(&[0, 0]).is_err());
    }
}
