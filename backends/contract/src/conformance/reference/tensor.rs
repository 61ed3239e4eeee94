use crate::{Dims, Error, Result};

/// Values in logical row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The dimensions in elements.
    pub dims: Dims,
    /// One value for each element.
    pub values: Vec<f64>,
}

impl Tensor {
    /// A tensor of these values.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are not as many values as elements.
    pub fn new(dims: impl Into<Dims>, values: Vec<f64>) -> Result<Self> {
        let dims = dims.into();
        if dims.elements() != values.len() {
            return Err(Error::invalid(
                "tensor",
                "values",
                values.len().to_string(),
                format!("{} for {dims}", dims.elements()),
            ));
        }
        Ok(Self { dims, values })
    }

    /// A tensor with the value that `f` gives for each index.
    pub fn from_fn(dims: &Dims, f: impl FnMut(&[usize]) -> f64) -> Self {
        let mut f = f;
        Self { dims: dims.clone(), values: dims.indices().map(|index| f(&index)).collect() }
    }

    /// The element at an index.
    pub(super) fn at(&self, index: &[usize]) -> f64 {
        self.values[self.place(index)]
    }

    /// Adds to the element at an index.
    pub(super) fn add(&mut self, index: &[usize], value: f64) {
        let place = self.place(index);
        self.values[place] += value;
    }

    fn place(&self, index: &[usize]) -> usize {
        index.iter().zip(self.dims.iter()).fold(0, |place, (i, dim)| place * dim + i)
    }

    /// The element that numpy's broadcasting puts at an index of a larger shape.
    pub(super) fn broadcast_at(&self, index: &[usize]) -> f64 {
        self.values[self.broadcast_place(index)]
    }

    /// Where that element is.
    pub(super) fn broadcast_place(&self, index: &[usize]) -> usize {
        let own = &index[index.len() - self.dims.len()..];
        let step = |place: usize, (&i, &dim): (&usize, &usize)| place * dim + if dim == 1 { 0 } else { i };
        own.iter().zip(self.dims.iter()).fold(0, step)
    }
}
