//! A depthwise convolution behind another one, as a post-operation.

use std::ffi::c_int;

use anydnn_backend::op::Convolution;
use anydnn_backend::{Arg, Dims, MemoryDesc};

use crate::attributes::{Attr, QuantParam};
use crate::boundary::Outcome;
use crate::kinds::{arg, query};
use crate::post_ops::{PostOpEntry, known};
use crate::recipe::{Recipe, Tensor, View};
use crate::refusals::Lack;
use crate::types::dnnl_data_type_t;

/// A depthwise convolution among post-operations.
pub(crate) struct Depthwise {
    position: usize,
    /// The types of weights, bias (0 for none) and result.
    types: [dnnl_data_type_t; 3],
    /// The sizes of the kernel, of its steps, and of the padding in front.
    kernel: usize,
    stride: usize,
    padding: usize,
}

impl Depthwise {
    /// The one among the post-operations, if there is one.
    pub(crate) fn find(attr: &Attr) -> Outcome<Option<Self>> {
        let is_depthwise = |post_op: &PostOpEntry| matches!(post_op, PostOpEntry::Depthwise { .. });
        let Some(position) = attr.post_ops().iter().position(is_depthwise) else { return Ok(None) };
        let PostOpEntry::Depthwise { types, sizes } = &attr.post_ops()[position] else { return Ok(None) };
        if attr.post_ops()[position + 1..].iter().any(is_depthwise) {
            return Err(Lack::Depthwise.failure("a second depthwise convolution"));
        }
        let [kernel, stride, padding] = sizes.map(|size| size as usize);
        Ok(Some(Self { position, types: *types, kernel, stride, padding }))
    }

    /// The convolution `first` of one tap into a temporary, with what attributes say of it; then this one into the result, with the rest.
    /// `described` is the first one's result, from which the other's follows.
    pub(crate) fn behind(
        self,
        recipe: &mut Recipe,
        first: Convolution,
        inputs: &[(Arg, &Tensor)],
        described: &MemoryDesc,
        attr: &Attr,
    ) -> Outcome {
        let taps = inputs
            .iter()
            .find(|(to, _)| *to == Arg::Weights)
            .map(|(_, weights)| weights.dims()[2..].to_vec());
        if described.rank() != 4 || taps.is_none_or(|taps| taps.iter().any(|&taps| taps != 1)) {
            return Err(Lack::Depthwise.failure("a depthwise convolution behind this one"));
        }
        let dims = described.dims();
        let channels = dims[1];
        let outer: Vec<usize> = dims[2..].iter().map(|&size| size.div_ceil(self.stride)).collect();
        let mut after = Vec::new();
        for (&size, &count) in dims[2..].iter().zip(&outer) {
            let reach = (count.max(1) - 1) * self.stride + self.kernel;
            after.push(reach.saturating_sub(size + self.padding));
        }
        let between = recipe.temporary(MemoryDesc::any(dims.clone(), described.data_type()));
        let own = |number: c_int| number & arg::POST_OP_DW != 0;
        let [front, behind] = [false, true].map(|wanted| {
            let of = |all: &[(c_int, QuantParam)]| {
                all.iter().filter(|(number, _)| own(*number) == wanted).cloned().collect::<Vec<_>>()
            };
            let post_ops = attr.post_ops();
            let with = if wanted {
                attr.with_post_ops(&post_ops[self.position + 1..], self.position + 1)
            } else {
                attr.with_post_ops(&post_ops[..self.position], 0)
            };
            Attr { scales: of(&attr.scales), zero_points: of(&attr.zero_points), ..with }
        });
        recipe.main_as(first, inputs, &between, arg::DST, &Attr { dropout: None, ..front })?;
        let weights = MemoryDesc::new([channels, 1, 1, self.kernel, self.kernel], known(self.types[0])?);
        let weights = recipe.operand(arg::POST_OP_DW | arg::WEIGHTS, (0, 0), weights);
        let weights = recipe.read(&weights, &[View::Merged(0, 2)])?;
        let bias = match self.types[1] {
            0 => None,
            code => {
                let desc = MemoryDesc::new([channels], known(code)?);
                Some(recipe.operand(arg::POST_OP_DW | arg::BIAS, (0, 0), desc))
            }
        };
        let dims: Dims = [dims[0], channels].into_iter().chain(outer).collect();
        let desc = MemoryDesc::any(dims, known(self.types[2])?);
        let dst = recipe.operand(arg::DST, (query::DST, 0), desc);
        let between = Tensor { desc: recipe.current(&between), ..between };
        // What lies between is read as it was quantized.
        let scales = arg::ATTR_SCALES | arg::DST;
        let scales = recipe.operands.iter().position(|operand| operand.number == scales);
        let (between, weights) = match scales {
            None => (between, weights),
            Some(position) => {
                let scales = recipe.tensor_of(position);
                let plain = recipe.dequantized(&between, Some(scales), None)?;
                let has_scales = behind.scale(arg::POST_OP_DW | arg::WEIGHTS).is_some();
                (plain, if has_scales { weights } else { recipe.dequantized(&weights, None, None)? })
            }
        };
        let mut inputs = vec![(Arg::SRC, &between), (Arg::Weights, &weights)];
        inputs.extend(bias.as_ref().map(|bias| (Arg::Bias, bias)));
        let op = Convolution::new(2)
            .with_strides([self.stride; 2])
            .with_pads([self.padding; 2], after)
            .with_groups(channels);
        recipe.main_as(op, &inputs, &dst, arg::POST_OP_DW | arg::DST, &behind)
    }
}
