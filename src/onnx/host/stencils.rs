//! Results that are weighted sums of few elements, the same ones for every channel of an image.

use std::ops::Range;

use anydnn_backend::{DataType, Dims, Result};

use crate::model::HostTensor;

/// Planes that are read at once, if their elements are read as often as it takes to put them side by side, and how many are too few for it.
const LANES: usize = 16;
const FEW: usize = 4;
/// The most elements of a plane of which so many stay in a cache.
const NEAR: usize = 1 << 17;

/// For each result of a plane its elements and their weights.
#[derive(Debug, Default)]
pub(super) struct Stencils {
    /// Where the elements of each result end.
    ends: Vec<usize>,
    places: Vec<usize>,
    weights: Vec<f64>,
    /// Whether the greatest weighed element is the result in place of their sum.
    takes_greatest: bool,
}

impl Stencils {
    /// Of which the greatest weighed elements are the results.
    pub(super) fn greatest() -> Self {
        Self { takes_greatest: true, ..Self::default() }
    }

    /// One more element of the result that is open.
    pub(super) fn add(&mut self, place: usize, weight: f64) {
        self.places.push(place);
        self.weights.push(weight);
    }

    /// Ends a result.
    pub(super) fn end(&mut self) {
        self.ends.push(self.places.len());
    }

    /// How many elements all results have.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The results of planes of so many elements one behind the other.
    fn of_planes<T: Real>(&self, planes: &[T], size: usize, made: &mut Vec<T>) {
        let weights: Vec<T> = self.weights.iter().map(|&weight| T::of(weight)).collect();
        let results = self.ends.len();
        // Several planes side by side are read at once.
        let pays = self.places.len() >= size && size <= NEAR;
        let mut lines = vec![[T::of(0.0); LANES]; if pays { size } else { 0 }];
        for part in planes.chunks(size * LANES) {
            let count = part.len() / size;
            if count < FEW || !pays {
                part.chunks_exact(size).for_each(|plane| {
                    made.extend(self.each(&weights, |place| [plane[place]]).map(|[result]| result));
                });
                continue;
            }
            for (lane, plane) in part.chunks_exact(size).enumerate() {
                lines.iter_mut().zip(plane).for_each(|(line, &element)| line[lane] = element);
            }
            let base = made.len();
            made.resize(base + count * results, T::of(0.0));
            for (at, line) in self.each(&weights, |place| lines[place]).enumerate() {
                for (lane, &result) in line[..count].iter().enumerate() {
                    made[base + lane * results + at] = result;
                }
            }
        }
    }

    /// The results one after the other, each of as many planes as `read` gives elements at a place.
    fn each<T: Real, const N: usize>(
        &self,
        weights: &[T],
        read: impl Fn(usize) -> [T; N],
    ) -> impl Iterator<Item = [T; N]> {
        let mut first = 0;
        self.ends.iter().map(move |&end| {
            let taps = self.places[first..end].iter().zip(&weights[first..end]);
            first = end;
            let start = T::of(if self.takes_greatest { f64::NEG_INFINITY } else { 0.0 });
            taps.fold([start; N], |mut results, (&place, &weight)| {
                for (result, element) in results.iter_mut().zip(read(place)) {
                    *result = if self.takes_greatest {
                        result.larger(weight.times(element, T::of(0.0)))
                    } else {
                        weight.times(element, *result)
                    };
                }
                results
            })
        })
    }
}

/// Planes in the type that their sums are made in: f32, or f64 where that does not hold all elements.
pub(super) enum Planes {
    Single(Vec<f32>),
    Double(Vec<f64>),
}

impl Planes {
    pub(super) fn of(src: &HostTensor) -> Self {
        match src.data_type() {
            DataType::F32 | DataType::F16 | DataType::BF16 => Self::Single(src.to_f32s()),
            _ => Self::Double(src.to_f64s()),
        }
    }

    /// Nothing yet, with room for so many results.
    pub(super) fn like(&self, results: usize) -> Self {
        match self {
            Self::Single(_) => Self::Single(Vec::with_capacity(results)),
            Self::Double(_) => Self::Double(Vec::with_capacity(results)),
        }
    }

    /// Adds the results of some planes, of `size` elements each, to `made`.
    pub(super) fn apply(&self, planes: Range<usize>, size: usize, stencils: &Stencils, made: &mut Self) {
        let range = planes.start * size..planes.end * size;
        let results = planes.len() * stencils.ends.len();
        match (self, made) {
            // Of planes without elements there is nothing.
            (_, Self::Single(to)) if size == 0 => to.resize(to.len() + results, 0.0),
            (_, Self::Double(to)) if size == 0 => to.resize(to.len() + results, 0.0),
            (Self::Single(from), Self::Single(to)) => stencils.of_planes(&from[range], size, to),
            (Self::Double(from), Self::Double(to)) => stencils.of_planes(&from[range], size, to),
            _ => {}
        }
    }

    /// Zeros of the same type.
    pub(super) fn zeros(&self, count: usize) -> Self {
        match self {
            Self::Single(_) => Self::Single(vec![0.0; count]),
            Self::Double(_) => Self::Double(vec![0.0; count]),
        }
    }

    /// Takes so many of another one's elements from a place on, to a place.
    pub(super) fn put(&mut self, at: usize, other: &Self, from: usize, count: usize) {
        match (self, other) {
            (Self::Single(to), Self::Single(other)) => {
                to[at..at + count].copy_from_slice(&other[from..from + count]);
            }
            (Self::Double(to), Self::Double(other)) => {
                to[at..at + count].copy_from_slice(&other[from..from + count]);
            }
            _ => {}
        }
    }

    /// The results as a tensor of a type.
    pub(super) fn tensor(self, dims: Dims, data_type: DataType) -> Result<HostTensor> {
        match self {
            Self::Single(made) if data_type == DataType::F32 => HostTensor::from_f32(dims, &made),
            Self::Single(made) => {
                let made: Vec<f64> = made.into_iter().map(f64::from).collect();
                HostTensor::from_f64(dims, data_type, &made)
            }
            Self::Double(made) => HostTensor::from_f64(dims, data_type, &made),
        }
    }
}

/// What sums are made in.
trait Real: Copy {
    fn of(value: f64) -> Self;
    /// A weight times an element, added to a sum.
    fn times(self, element: Self, sum: Self) -> Self;
    fn larger(self, other: Self) -> Self;
}

impl Real for f32 {
    fn of(value: f64) -> Self {
        value as Self
    }
    fn times(self, element: Self, sum: Self) -> Self {
        self * element + sum
    }
    fn larger(self, other: Self) -> Self {
        self.max(other)
    }
}

impl Real for f64 {
    fn of(value: f64) -> Self {
        value
    }
    fn times(self, element: Self, sum: Self) -> Self {
        self * element + sum
    }
    fn larger(self, other: Self) -> Self {
        self.max(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planes that are read side by side give what each of them gives by itself, whatever their number is.
    #[test]
    fn planes_side_by_side_give_what_each_gives() {
        let size = 7;
        for mut stencils in [Stencils::default(), Stencils::greatest()] {
            for result in 0..9_usize {
                // The last one has no elements.
                (0..8 - result).for_each(|tap| stencils.add((3 * result + tap) % size, 0.5 - tap as f64));
                stencils.end();
            }
            for count in [1, 4, 16, 37] {
                let planes: Vec<f32> = (0..count * size).map(|i| (i * i % 11) as f32 - 5.0).collect();
                let planes = Planes::Single(planes);
                let (mut together, mut apart) = (planes.like(0), planes.like(0));
                planes.apply(0..count, size, &stencils, &mut together);
                (0..count).for_each(|plane| planes.apply(plane..plane + 1, size, &stencils, &mut apart));
                let dims = Dims::from([count, 9]);
                let [together, apart] =
                    [together, apart].map(|made| made.tensor(dims.clone(), DataType::F32));
                assert_eq!(together.unwrap().to_f32s(), apart.unwrap().to_f32s());
            }
        }
    }

    #[test]
    fn planes_without_elements_give_zeros() {
        let mut stencils = Stencils::default();
        stencils.end();
        stencils.end();
        let planes = Planes::Double(Vec::new());
        let mut made = planes.like(0);
        planes.apply(0..3, 0, &stencils, &mut made);
        assert_eq!(made.tensor(Dims::from([3, 2]), DataType::F64).unwrap().to_f64s(), [0.0; 6]);
    }
}
