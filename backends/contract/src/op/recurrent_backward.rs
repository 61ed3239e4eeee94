use super::recurrent::{FADED, Sizes};
use super::{ErrorGrowth, Operation, Recurrent, expect_dims, expect_float, type_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::op::primitive_desc::{Operands, PrimitiveDesc};
use crate::op::{Activation, Cell, Direction};

/// The gradients of a recurrent layer, by back-propagation through time: of each operand of a [`Recurrent`] from those of its results.
/// (Werbos, *Backpropagation Through Time: What It Does and How to Do It*, 1990.)
///
/// Operands that the layer has, too, have its numbers: `src0`, `weights`, `src1`, and where the layer had them `src4` (lengths), `src5`
/// (peepholes), `src7` (attention) and `src8` (projection). Biases and initial states are not asked for. A slope of a rectifier is not negative, since
/// the signs of its results tell those of its sums. Besides:
///
/// | operand | dimensions | is |
/// |---|---|---|
/// | `src9` | `[T, N, D, H]` | the gradient by the states behind each step; of [`Direction::Sum`] `[T, N, 1, H]` |
/// | `src10` | `[D, T, N, K, H]` | the layer's [workspace](Recurrent::WORKSPACE) |
/// | `src11` | `[D, N, H]` | the gradient by the states behind the last step; zeros without it |
/// | `src12` | `[D, N, H]` | the gradient by the cells behind the last step; zeros without it |
/// | `dst0` | `[T, N, I]` | the gradient by `src0` |
/// | `dst1`, `dst2` | `[D, N, H]` | those by the states and the cells before the first step; optional |
/// | `dst3`, `dst4` | as `weights`, `src1` | those by the weights; optional |
/// | `dst5`, `dst6` | `[D, G, H]` | those by the biases; optional |
/// | `dst7` | as `src5` | that by the peepholes; optional |
/// | `dst8` | as `src7` | that by the attention; optional |
/// | `dst9` | as `src8` | that by the projection; optional |
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecurrentBackward {
    /// The layer.
    pub forward: Recurrent,
}

impl RecurrentBackward {
    /// The gradient by the states behind each step.
    pub const DIFF_DST: Arg = Arg::Src(9);
    /// The layer's workspace.
    pub const WORKSPACE: Arg = Arg::Src(10);
    /// The gradient by the states behind the last step.
    pub const DIFF_LAST_STATE: Arg = Arg::Src(11);
    /// The gradient by the cells behind the last step.
    pub const DIFF_LAST_CELL: Arg = Arg::Src(12);
    /// The gradient by the states before the first step.
    pub const DIFF_INITIAL_STATE: Arg = Arg::Dst(1);
    /// The gradient by the cells before the first step.
    pub const DIFF_INITIAL_CELL: Arg = Arg::Dst(2);
    /// The gradient by what multiplies the input.
    pub const DIFF_WEIGHTS: Arg = Arg::Dst(3);
    /// The gradient by what multiplies the state.
    pub const DIFF_STATE_WEIGHTS: Arg = Arg::Dst(4);
    /// The gradient by the bias of the input's products.
    pub const DIFF_BIAS: Arg = Arg::Dst(5);
    /// The gradient by the bias of the state's products.
    pub const DIFF_STATE_BIAS: Arg = Arg::Dst(6);
    /// The gradient by the peepholes.
    pub const DIFF_PEEPHOLES: Arg = Arg::Dst(7);
    /// The gradient by the attention.
    pub const DIFF_ATTENTION: Arg = Arg::Dst(8);
    /// The gradient by the projection.
    pub const DIFF_PROJECTION: Arg = Arg::Dst(9);

    /// The gradients of a layer.
    pub const fn new(forward: Recurrent) -> Self {
        Self { forward }
    }
}

impl Operation for RecurrentBackward {
    fn name(&self) -> &'static str {
        "recurrent_backward"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let (name, Recurrent { cell, direction, quantization }) = (self.name(), self.forward);
        if quantization.is_some() {
            return Err(Error::invalid(
                name,
                "layer",
                "quantised",
                "one of floats, which alone has gradients",
            ));
        }
        if let Cell::Vanilla(Activation::LeakyRelu { alpha }) = cell
            && (alpha.is_nan() || alpha < 0.0)
        {
            return Err(Error::invalid(name, "alpha of the cell", alpha.to_string(), "at least 0"));
        }
        let mut optional = vec![
            Recurrent::LENGTHS,
            Self::DIFF_LAST_STATE,
            Self::DIFF_INITIAL_STATE,
            Self::DIFF_WEIGHTS,
            Self::DIFF_STATE_WEIGHTS,
            Self::DIFF_BIAS,
            Self::DIFF_STATE_BIAS,
        ];
        let with = |arg| operands.find(arg).is_some();
        if cell.is_lstm() {
            optional.extend([Self::DIFF_LAST_CELL, Self::DIFF_INITIAL_CELL]);
            optional.extend([Recurrent::PEEPHOLES, Recurrent::PROJECTION]);
            optional.extend(with(Recurrent::PEEPHOLES).then_some(Self::DIFF_PEEPHOLES));
            optional.extend(with(Recurrent::PROJECTION).then_some(Self::DIFF_PROJECTION));
        }
        if cell.is_gru() {
            optional.push(Recurrent::ATTENTION);
            optional.extend(with(Recurrent::ATTENTION).then_some(Self::DIFF_ATTENTION));
        }
        let required = [Arg::SRC, Arg::Weights, Recurrent::STATE_WEIGHTS, Self::DIFF_DST, Self::WORKSPACE];
        let operands = operands.only(name, &required, &optional)?;
        let src = operands.required(Arg::SRC)?;
        let Sizes { steps, batch, inputs, hidden, units } = Sizes::of(name, operands)?;
        let (directions, gates) = (direction.count(), cell.gates());
        let shown = if direction == Direction::Sum { 1 } else { directions };
        let (states, cells) = ([directions, batch, units], [directions, batch, hidden]);
        let weights = [directions, inputs, gates, hidden];
        let state_weights = [directions, units, gates, hidden];
        let (biases, peepholes) = ([directions, gates, hidden], [directions, 3, hidden]);
        let projection = [directions, hidden, units];
        for (arg, dims) in [
            (Arg::Weights, &weights[..]),
            (Recurrent::STATE_WEIGHTS, &state_weights),
            (Recurrent::LENGTHS, &[batch]),
            (Recurrent::PEEPHOLES, &peepholes),
            (Recurrent::ATTENTION, &[steps, batch, 1]),
            (Recurrent::PROJECTION, &projection),
            (Self::DIFF_DST, &[steps, batch, shown, units]),
            (Self::WORKSPACE, &[directions, steps, batch, cell.rows(), hidden]),
            (Self::DIFF_LAST_STATE, &states),
            (Self::DIFF_LAST_CELL, &cells),
            (Self::DIFF_INITIAL_STATE, &states),
            (Self::DIFF_INITIAL_CELL, &cells),
            (Self::DIFF_WEIGHTS, &weights),
            (Self::DIFF_STATE_WEIGHTS, &state_weights),
            (Self::DIFF_BIAS, &biases),
            (Self::DIFF_STATE_BIAS, &biases),
            (Self::DIFF_PEEPHOLES, &peepholes),
            (Self::DIFF_ATTENTION, &[steps, batch, 1]),
            (Self::DIFF_PROJECTION, &projection),
        ] {
            let Some(desc) = operands.find(arg) else { continue };
            expect_dims(name, arg, desc, dims)?;
            if arg != Recurrent::LENGTHS {
                expect_float(name, arg, desc)?;
            } else if desc.data_type() != DataType::S32 {
                return Err(type_error(name, format!("{arg} data type"), desc.data_type(), "s32"));
            }
        }
        expect_float(name, Arg::SRC, src)?;
        if let Some(dst) = operands.dst() {
            expect_float(name, Arg::DST, dst)?;
        }
        Ok((src.dims().clone(), src.data_type()))
    }

    fn takes_post_ops(&self) -> bool {
        false
    }

    /// Sums over steps and sequences of what sums over the gates' units have made, step after step.
    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        let steps = desc.src().dims()[0].min(FADED);
        let rows = desc.src().dims()[0].saturating_mul(desc.src().dims()[1]);
        ErrorGrowth {
            terms: rows.max(self.visits(desc)),
            sums: steps as f64,
            functions: FUNCTIONS * steps,
            cancels: true,
            magnitude: 1.0,
            ..ErrorGrowth::default()
        }
    }

    fn visits(&self, desc: &PrimitiveDesc) -> usize {
        let hidden = desc.find(Arg::Weights).map_or(0, |weights| weights.dims()[3]);
        let own =
            self.forward.cell.gates().saturating_mul(hidden).saturating_mul(self.forward.direction.count());
        // Each step visits all weights twice, for two gradients.
        4 * own.saturating_add(hidden)
    }
}

/// Products of a step, one after the other.
const FUNCTIONS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::GateOrder;
    use crate::{MemoryDesc, PrimitiveDescBuilder};

    fn f32(dims: &[usize]) -> MemoryDesc {
        MemoryDesc::new(dims, DataType::F32)
    }

    fn gradients(cell: Cell) -> PrimitiveDescBuilder {
        let g = cell.gates();
        PrimitiveDesc::builder(RecurrentBackward::new(Recurrent::new(cell, Direction::Concat)))
            .src(f32(&[7, 2, 5]))
            .src(f32(&[2, 3, g, 3]))
            .weights(f32(&[2, 5, g, 3]))
            .arg(RecurrentBackward::DIFF_DST, f32(&[7, 2, 2, 3]))
            .arg(RecurrentBackward::WORKSPACE, f32(&[2, 7, 2, cell.rows(), 3]))
    }

    #[test]
    fn the_first_gradient_is_that_by_the_source() {
        let desc = gradients(Cell::Lstm(GateOrder::InputForgetCandidateOutput)).build().unwrap();
        assert_eq!(**desc.dst().dims(), [7, 2, 5]);
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_was_expected() {
        let message = |builder: PrimitiveDescBuilder| builder.build().unwrap_err().to_string();
        let error = message(gradients(Cell::Gru).arg(RecurrentBackward::DIFF_BIAS, f32(&[2, 4, 3])));
        assert!(error.contains("dst5") && error.contains("2x4x3") && error.contains("2x3x3"), "{error}");
        let error = message(gradients(Cell::Gru).arg(RecurrentBackward::DIFF_LAST_CELL, f32(&[2, 2, 3])));
        assert!(error.contains("with src12"), "{error}");
        // A gradient by what the layer does not have.
        let error = message(gradients(Cell::Gru).arg(RecurrentBackward::DIFF_ATTENTION, f32(&[7, 2, 1])));
        assert!(error.contains("with dst8"), "{error}");
        let leaky = |alpha| Cell::Vanilla(Activation::LeakyRelu { alpha });
        let error = message(gradients(leaky(-0.5)));
        assert!(error.contains("alpha") && error.contains("-0.5") && error.contains("at least 0"), "{error}");
        assert!(gradients(leaky(f32::NAN)).build().is_err());
        assert!(gradients(leaky(0.5)).build().is_ok());
        let lstm = Cell::Lstm(GateOrder::InputForgetCandidateOutput);
        let error = message(gradients(lstm).arg(Recurrent::PROJECTION, f32(&[2, 3, 4])));
        assert!(error.contains("src8") && error.contains("from 1 to 3"), "{error}");
    }
}
