use super::{ErrorGrowth, Operation, expect_dims, expect_spatial, shape_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// Transposed convolution, the gradient of a [`Convolution`](super::Convolution) for its source: `src` `[N, O, spatial..]` (the
/// convolution's result), `weights` `[O, C / groups, kernel..]` (the convolution's own), optional `bias` `[C]`, result
/// `[N, C, spatial..]` (the convolution's source).
///
/// `dst[n, c, x*stride - pad + k*dilation] += src[n, o, x] * weights[o, c, k]` for all `o` of the group of `c`; positions outside the
/// result are dropped. Where `dst` is not given, its spatial dimensions are
/// `(X - 1) * stride + (K - 1) * dilation + 1 - pads + output_padding`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Deconvolution {
    /// Steps between windows, one for each spatial dimension.
    pub strides: Dims,
    /// Steps between a window's taps; one is dense.
    pub dilations: Dims,
    /// Padding before each spatial dimension of the result.
    pub pads_begin: Dims,
    /// Padding after each spatial dimension of the result.
    pub pads_end: Dims,
    /// Elements added behind each spatial dimension of the result.
    pub output_padding: Dims,
    /// Groups of channels that do not mix.
    pub groups: usize,
}

impl Deconvolution {
    /// Unit strides, no padding, one group, for `spatial` dimensions.
    pub fn new(spatial: usize) -> Self {
        let all = |value: usize| -> Dims { std::iter::repeat_n(value, spatial).collect() };
        Self {
            strides: all(1),
            dilations: all(1),
            pads_begin: all(0),
            pads_end: all(0),
            output_padding: all(0),
            groups: 1,
        }
    }

    /// With steps between windows.
    pub fn with_strides(mut self, strides: impl Into<Dims>) -> Self {
        self.strides = strides.into();
        self
    }

    /// With steps between taps.
    pub fn with_dilations(mut self, dilations: impl Into<Dims>) -> Self {
        self.dilations = dilations.into();
        self
    }

    /// With padding before and after the result.
    pub fn with_pads(mut self, begin: impl Into<Dims>, end: impl Into<Dims>) -> Self {
        (self.pads_begin, self.pads_end) = (begin.into(), end.into());
        self
    }

    /// With elements behind the result.
    pub fn with_output_padding(mut self, output_padding: impl Into<Dims>) -> Self {
        self.output_padding = output_padding.into();
        self
    }

    /// With groups.
    pub fn with_groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }
}

impl Operation for Deconvolution {
    fn name(&self) -> &'static str {
        "deconvolution"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let operands = operands.only(name, &[Arg::SRC, Arg::Weights], &[Arg::Bias])?;
        let (src, weights) = (operands.required(Arg::SRC)?, operands.required(Arg::Weights)?);
        let rank = src.rank();
        if !(3..=5).contains(&rank) || weights.rank() != rank {
            let given = format!("{rank} and {}", weights.rank());
            return Err(shape_error(
                name,
                "ranks of src and weights",
                given,
                "equal, 3 to 5 ([N, O, spatial..])",
            ));
        }
        for (subject, entries) in [
            ("strides", &self.strides),
            ("dilations", &self.dilations),
            ("pads_begin", &self.pads_begin),
            ("pads_end", &self.pads_end),
            ("output_padding", &self.output_padding),
        ] {
            expect_spatial(name, subject, entries, rank - 2)?;
        }
        let (outputs, per_group) = (weights.dims()[0], weights.dims()[1]);
        if src.dims()[1] != outputs {
            let expected = format!("{outputs}, the first dimension of weights {}", weights.dims());
            return Err(shape_error(name, "channels of src", src.dims()[1].to_string(), expected));
        }
        if self.groups == 0 || self.groups > outputs.max(1) || !outputs.is_multiple_of(self.groups) {
            let expected = format!("a divisor of {outputs} channels");
            return Err(shape_error(name, "groups", self.groups.to_string(), expected));
        }
        let mut dims = vec![src.dims()[0], per_group.saturating_mul(self.groups)];
        for i in 0..rank - 2 {
            let window = Window {
                stride: self.strides[i],
                dilation: self.dilations[i],
                pads: (self.pads_begin[i], self.pads_end[i]),
                kernel: weights.dims()[i + 2],
            };
            let (input, more) = (src.dims()[i + 2], self.output_padding[i]);
            let given = operands.dst().filter(|dst| dst.rank() == rank).map(|dst| dst.dims()[i + 2]);
            dims.push(window.output(name, i, input, more, given)?);
        }
        let dims = Dims::from(dims);
        if let Some(bias) = operands.find(Arg::Bias) {
            expect_dims(name, Arg::Bias, bias, &[dims[1]])?;
        }
        let integer = src.data_type().is_integer() && weights.data_type().is_integer();
        Ok((dims, if integer { DataType::S32 } else { src.data_type() }))
    }

    fn dequantizes(&self, arg: Arg) -> bool {
        matches!(arg, Arg::Src(0) | Arg::Weights)
    }

    /// A window's place in the result is met by the taps of every output channel of a group.
    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        ErrorGrowth::of_sum(
            desc.find(Arg::Weights)
                .map_or(1, |w| w.dims()[0] / self.groups.max(1) * w.dims()[2..].iter().product::<usize>()),
        )
    }
}

/// How a window slides over one dimension of the larger tensor.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) stride: usize,
    pub(super) dilation: usize,
    pub(super) pads: (usize, usize),
    pub(super) kernel: usize,
}

impl Window {
    /// The size of the larger tensor for `input` windows: the given one when the windows fit it, else the smallest with `more` behind.
    pub(super) fn output(
        self,
        name: &str,
        axis: usize,
        input: usize,
        more: usize,
        given: Option<usize>,
    ) -> Result<usize> {
        let Self { stride, dilation, pads, kernel } = self;
        if stride == 0 || dilation == 0 || kernel == 0 {
            let given = format!("{stride}, {dilation} and {kernel}");
            let subject = format!("stride, dilation and kernel of spatial dimension {axis}");
            return Err(shape_error(name, subject, given, "positive numbers"));
        }
        let reach = (kernel - 1).checked_mul(dilation).and_then(|r| r.checked_add(1));
        let span = input.saturating_sub(1).checked_mul(stride).zip(reach).and_then(|(a, b)| a.checked_add(b));
        let smallest = span.and_then(|s| s.checked_sub(pads.0.checked_add(pads.1)?));
        let (Some(span), Some(smallest)) = (span.filter(|&s| isize::try_from(s).is_ok()), smallest) else {
            let given = format!("{input} windows of {kernel} with padding {} and {}", pads.0, pads.1);
            return Err(shape_error(
                name,
                format!("spatial dimension {axis}"),
                given,
                "a positive, countable size",
            ));
        };
        match given {
            // Several sizes have this many windows: the last one may leave up to a stride unseen.
            Some(given)
                if given + pads.0 + pads.1 >= span
                    && given + pads.0 + pads.1 - span < stride.max(more + 1) =>
            {
                Ok(given)
            }
            Some(given) => {
                let expected = format!("{smallest} to {}", smallest + stride - 1);
                Err(shape_error(name, format!("dst spatial dimension {axis}"), given.to_string(), expected))
            }
            None => Ok(smallest.saturating_add(more)),
        }
    }
}
