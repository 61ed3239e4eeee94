//! Tensors of f64 values in row-major order, for references.

/// Dimensions and values.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub dims: Vec<usize>,
    pub values: Vec<f64>,
}

impl Tensor {
    pub fn new(dims: &[usize], values: Vec<f64>) -> Self {
        assert_eq!(values.len(), dims.iter().product::<usize>(), "values of {dims:?}");
        Self { dims: dims.to_vec(), values }
    }

    /// A tensor whose value at each index is given.
    pub fn of(dims: &[usize], mut value: impl FnMut(&[usize]) -> f64) -> Self {
        let values = indices(dims).iter().map(|index| value(index)).collect();
        Self::new(dims, values)
    }

    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    pub fn at(&self, index: &[usize]) -> f64 {
        self.values[position(&self.dims, index)]
    }

    /// The value at an index of a shape that this one stretches to (numpy): aligned at the last dimension, ones repeat.
    pub fn stretched(&self, index: &[usize]) -> f64 {
        let tail = &index[index.len() - self.rank()..];
        let own: Vec<usize> =
            tail.iter().zip(&self.dims).map(|(&i, &dim)| if dim == 1 { 0 } else { i }).collect();
        self.at(&own)
    }

    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { dims: self.dims.clone(), values: self.values.iter().map(|&v| f(v)).collect() }
    }
}

/// All indices of a shape in row-major order.
pub fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    let count = dims.iter().product();
    let mut index = vec![0; dims.len()];
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(index.clone());
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    all
}

/// The shape that two shapes stretch to (numpy).
pub fn stretch(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let dim = |dims: &[usize], i: usize| (i + dims.len()).checked_sub(rank).map_or(1, |at| dims[at]);
    (0..rank)
        .map(|i| match (dim(a, i), dim(b, i)) {
            (1, other) => other,
            (own, _) => own,
        })
        .collect()
}

fn position(dims: &[usize], index: &[usize]) -> usize {
    assert!(index.len() == dims.len() && index.iter().zip(dims).all(|(i, d)| i < d), "{index:?} of {dims:?}");
    index.iter().zip(dims).fold(0, |at, (i, dim)| at * dim + i)
}
