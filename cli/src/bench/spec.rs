//! What a case computes: one primitive with its sizes.

use std::convert::Infallible;

use anydnn::backend::op::{Cell, Direction, Function, Parameter};
use anydnn::backend::{DataType, Eltwise};

/// A primitive with its sizes, type and post-operations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spec {
    pub(crate) work: Work,
    /// The type of every tensor; products of integers are dequantised to f32.
    pub(crate) data_type: DataType,
    pub(crate) post_ops: Vec<Post>,
    /// Whether factors of f32 may be taken as tf32.
    pub(crate) tf32: bool,
    /// The weights of a product, where they have fewer bits than its source.
    pub(crate) weights: Option<FewBits>,
}

/// Weights of few bits: with a scale for so many terms of a column, or all of them, and where they have no sign a zero point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FewBits {
    pub(crate) data_type: DataType,
    pub(crate) group: Option<usize>,
}

/// The primitive itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Work {
    /// `[.., M, K]` by `[.., K, N]`; a second factor of rank 2 is constant.
    MatMul { src: Vec<usize>, weights: Vec<usize> },
    /// Over `[N, H, W, C]`.
    Convolution { src: [usize; 4], outputs: usize, window: Window, groups: usize },
    /// Over `[N, H, W, C]`.
    Pooling { src: [usize; 4], window: Window, average: bool },
    /// Along the last dimension.
    Softmax { dims: Vec<usize> },
    /// Along the last dimension.
    LayerNorm { dims: Vec<usize>, rms: bool },
    /// `[N, H, W, C]` by given statistics.
    BatchNorm { src: [usize; 4] },
    /// Over the last dimension.
    Reduction { fold: Fold, dims: Vec<usize> },
    /// A function of each element.
    Eltwise { function: Eltwise, dims: Vec<usize> },
    /// Two tensors element by element.
    Binary { function: Pair, dims: Vec<usize> },
    /// Queries `[B, H, S, D]` on keys and values `[B, G, T, D]`.
    Attention {
        batch: usize,
        heads: usize,
        groups: usize,
        queries: usize,
        keys: usize,
        size: usize,
        causal: bool,
    },
    /// A layer over a sequence `[T, N, I]`, with biases of inputs and states.
    Recurrent { cell: Cell, direction: Direction, steps: usize, batch: usize, inputs: usize, hidden: usize },
    /// The same bytes elsewhere.
    Copy { dims: Vec<usize> },
}

/// The window of a convolution or pooling, vertical and horizontal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    pub(crate) pad: [usize; 2],
}

/// What is done to each result element before it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Post {
    /// A vector along the last dimension is added; only as the first.
    Bias,
    Function(Eltwise),
    /// With a second tensor of the result's shape.
    Pair(Pair),
}

macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $($variant:ident $first:literal $(| $other:literal)*,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $type { $($variant,)+ }

        impl $type {
            pub(crate) const ALL: &'static [&'static str] = &[$($first,)+];

            pub(crate) fn parse(name: &str) -> Option<Self> {
                match name {
                    $($first $(| $other)* => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

/// The names of functions of one element: those that are operations of graphs, or a short chain of such.
pub(crate) fn functions() -> Vec<&'static str> {
    let rows = Eltwise::TABLE.iter().filter(|row| row.graph.is_some() || is_swish(row.example));
    rows.flat_map(|row| std::iter::once(&row.name).chain(row.aliases)).copied().collect()
}

/// The function of one element that a name means, with the parameters that its operation has always.
pub(crate) fn function(name: &str) -> Option<Eltwise> {
    let row = functions().contains(&name).then(|| Function::named(name))??;
    if is_swish(row.example) {
        return Some(Eltwise::Swish { alpha: 1.0 });
    }
    let mut spelled = row.graph.into_iter().flat_map(|graph| graph.parameters);
    let mut own = row.example.parameters().into_iter();
    let next = |_: &str| -> Result<f32, Infallible> {
        let example = own.next().unwrap_or_default();
        Ok(match spelled.next() {
            Some(Parameter::Always(number)) => *number,
            _ => example,
        })
    };
    row.example.with_parameters(next).ok()
}

fn is_swish(function: Eltwise) -> bool {
    matches!(function, Eltwise::Swish { .. })
}

named! {
    /// A function of two elements.
    Pair {
        Add "add",
        Multiply "mul",
        Subtract "sub",
        Divide "div",
        Maximum "max",
        Minimum "min",
    }
}

named! {
    /// How elements fold into one.
    Fold {
        Sum "sum",
        Mean "mean",
        Max "max",
        Min "min",
    }
}

impl Window {
    /// The length of the result along one of the two directions.
    pub(crate) fn output(&self, axis: usize, input: usize) -> Option<usize> {
        let reach = (self.kernel[axis] - 1) * self.dilation[axis] + 1;
        let steps = (input + 2 * self.pad[axis]).checked_sub(reach)?;
        Some(steps / self.stride[axis] + 1)
    }
}

impl Spec {
    /// The dimensions of the result.
    pub(crate) fn result(&self) -> Vec<usize> {
        let windowed = |src: &[usize; 4], window: &Window, channels: usize| {
            let side = |axis: usize| window.output(axis, src[1 + axis]).unwrap_or(0);
            vec![src[0], side(0), side(1), channels]
        };
        match &self.work {
            Work::MatMul { src, weights } => {
                let mut dims = src.clone();
                dims[src.len() - 1] = weights[weights.len() - 1];
                dims
            }
            Work::Convolution { src, outputs, window, .. } => windowed(src, window, *outputs),
            Work::Pooling { src, window, .. } => windowed(src, window, src[3]),
            Work::BatchNorm { src } => src.to_vec(),
            Work::Softmax { dims }
            | Work::LayerNorm { dims, .. }
            | Work::Eltwise { dims, .. }
            | Work::Binary { dims, .. }
            | Work::Copy { dims } => dims.clone(),
            Work::Reduction { dims, .. } => {
                let mut dims = dims.clone();
                if let Some(last) = dims.last_mut() {
                    *last = 1;
                }
                dims
            }
            Work::Attention { batch, heads, queries, size, .. } => vec![*batch, *heads, *queries, *size],
            Work::Recurrent { direction, steps, batch, hidden, .. } => {
                vec![*steps, direction.count(), *batch, *hidden]
            }
        }
    }

    /// The type of the result.
    pub(crate) fn result_type(&self) -> DataType {
        match self.data_type {
            integer if integer.is_integer() => DataType::F32,
            DataType::F8E4M3 | DataType::F8E5M2 => DataType::BF16,
            float => float,
        }
    }

    /// Operations of multiplications and additions, as the field counts them: two for each product that is summed; none where memory is
    /// the limit.
    pub(crate) fn flops(&self) -> f64 {
        let result = self.result().iter().product::<usize>() as f64;
        2.0 * match &self.work {
            Work::MatMul { src, .. } => result * src[src.len() - 1] as f64,
            Work::Convolution { src, window, groups, .. } => {
                result * (src[3] / groups * window.kernel[0] * window.kernel[1]) as f64
            }
            Work::Attention { keys, causal, .. } => {
                // Of a causal one the upper triangle is not counted.
                2.0 * result * *keys as f64 * if *causal { 0.5 } else { 1.0 }
            }
            Work::Recurrent { cell, inputs, hidden, .. } => {
                result * (cell.gates() * (inputs + hidden)) as f64
            }
            _ => 0.0,
        }
    }
}
