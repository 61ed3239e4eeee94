use super::{Eltwise, ErrorGrowth, Operation, expect_dims, expect_float, shape_error, type_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::memory_desc::MemoryDesc;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// A layer of a recurrent network over a sequence, in one direction or both.
///
/// Operands, with `T` steps, a batch of `N`, `I` inputs, `H` hidden units, `D` [directions](Direction::count) and `G`
/// [gates](Cell::gates):
///
/// | operand | dimensions | is |
/// |---|---|---|
/// | `src0` | `[T, N, I]` | the layer's input |
/// | `weights` | `[D, I, G, H]` | what multiplies the input |
/// | `src1` | `[D, H, G, H]` | what multiplies the state before a step |
/// | `bias` | `[D, G, H]` | added to the products of the input; optional |
/// | `src2` | `[D, N, H]` | the states before the first step; zeros without it |
/// | `src3` | `[D, N, H]` | the cells before the first step, of an LSTM; zeros without it |
/// | `src4` | `[N]`, s32 | the lengths of the sequences, cut to `0..=T`; `T` without it |
/// | `src5` | `[D, 3, H]` | an LSTM's peepholes, for its gates in their order without the candidate; optional |
/// | `src6` | `[D, G, H]` | added to the products of the state; optional |
/// | `src7` | `[T, N, 1]` | the attention of each step, of gated recurrent units; optional |
/// | `src8` | `[D, H, P]` | what an LSTM's states are multiplied by, with `P` at most `H`; optional |
/// | `src13` | `[D, G, H]` | the factors of [quantised](StateQuantization) weights; a dimension may be one |
/// | `src14` | `[D, P]` | the factors of a quantised projection; a dimension may be one |
/// | `dst0` | `[T, N, D, H]` | the states behind each step, zeros behind a sequence's length; of [`Direction::Sum`] `[T, N, 1, H]` |
/// | `dst1` | `[D, N, H]` | the states behind the last step; optional |
/// | `dst2` | `[D, N, H]` | the cells behind the last step, of an LSTM; optional |
/// | `dst3` | `[D, T, N, K, H]` | what the gradient reads, in [rows](Cell::rows) for each step; optional |
///
/// With `src8`, a projection, states have `P` units: `src1` is `[D, P, G, H]`, `src2` and `dst1` are `[D, N, P]`, and `dst0` is `[T, N, D, P]`.
///
/// Other orders of these dimensions in memory are strides: a batch before the steps, gates before inputs. From right to left the last
/// step of a sequence comes first, and a state stands where the input does that it was computed from. A sequence of length zero leaves
/// its states as they were before the first step. From step to step states are kept in f32 or wider; where the results and the weights have
/// the same type of 16 bits, the products of a step may read them rounded to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recurrent {
    /// What computes a state from an input and the state before.
    pub cell: Cell,
    /// Which way the sequence is read.
    pub direction: Direction,
    /// How inputs and states are stored as integers; none where they are floats.
    pub quantization: Option<StateQuantization>,
}

/// How the inputs and states of a layer are stored as integers: a number `x` is `scale x + shift`, rounded to the nearest integer, to the even one
/// of two, and cut to the type.
///
/// Such a layer is an [LSTM](Cell::Lstm) or a [gated recurrent unit](Cell::Gru) without workspace and attention. `src0` is u8 or s8, `weights`,
/// `src1` and `src8` are s8: numbers times the factors in `src13` and `src14`. Initial states and results are of the type of `src0`, or floats.
/// Everything else is a float: biases, cells and peepholes.
///
/// Products are sums of integers. Each state is rounded before it is shown or the next step reads it, and so is what a reset gate leaves of a
/// state and what a projection reads. States that are added up ([`Direction::Sum`]) are rounded once more. (oneDNN's developer guide, *RNN*:
/// data types u8 and s8; `dnnl_primitive_attr_set_rnn_data_qparams`.)
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StateQuantization {
    /// The factor of a number, positive.
    pub scale: f32,
    /// The integer that stands for zero, or what is between two of them.
    pub shift: f32,
}

impl StateQuantization {
    /// The integer for a number, of a type.
    pub fn quantize(self, x: f64, data_type: DataType) -> f64 {
        data_type.stored(f64::from(self.scale) * x + f64::from(self.shift))
    }

    /// The number that an integer stands for.
    pub fn dequantize(self, integer: f64) -> f64 {
        (integer - f64::from(self.shift)) / f64::from(self.scale)
    }
}

/// What computes the state `h'` from an input `x` and the state `h`. `a_g` is the sum of the products of gate `g` and its biases:
/// `W_g x + b_g + R_g h + s_g`; `s` is the bias of the state's products, and `s(v)` the logistic function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// `h' = f(a)`.
    Vanilla(Activation),
    /// Long short-term memory, with a cell `c` besides: `c' = s(a_f) c + s(a_i) tanh(a_c)`, `h' = s(a_o) tanh(c')`. Peepholes `p` add
    /// `p_i c`, `p_f c` and `p_o c'` to the sums of their gates. (Hochreiter and Schmidhuber, *Long Short-Term Memory*, 1997; Gers and
    /// Schmidhuber, *Recurrent Nets that Time and Count*, 2000.)
    Lstm(GateOrder),
    /// A gated recurrent unit of the gates update `u`, reset `r` and candidate `o`: `o = tanh(W_o x + b_o + R_o (s(a_r) h) + s_o)`,
    /// `h' = s(a_u) h + (1 - s(a_u)) o`. (Cho et al., *Learning Phrase Representations using RNN Encoder-Decoder*, 2014.)
    /// With an attention `a` the update gate is `(1 - a) s(a_u)`. (Zhou et al., *Deep Interest Evolution Network*, 2019.)
    Gru,
    /// The same with `o = tanh(W_o x + b_o + s(a_r) (R_o h + s_o))`: one product for all gates.
    GruLinearBeforeReset,
}

/// The function of a vanilla cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `max(a, 0)`
    Relu,
    /// `a` where it is positive, `alpha a` elsewhere.
    LeakyRelu {
        /// The slope below zero.
        alpha: f32,
    },
    /// `tanh(a)`
    Tanh,
    /// `1 / (1 + e^-a)`
    Logistic,
}

/// In which order the gates of an LSTM lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GateOrder {
    /// Input, forget, candidate, output: oneDNN's.
    InputForgetCandidateOutput,
    /// Input, output, forget, candidate: that of ONNX.
    InputOutputForgetCandidate,
}

/// Which way a sequence is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From its first step to its last.
    LeftToRight,
    /// From its last step to its first.
    RightToLeft,
    /// Both ways, states side by side.
    Concat,
    /// Both ways, states added up.
    Sum,
}

impl Cell {
    /// The number of gates.
    pub const fn gates(self) -> usize {
        match self {
            Self::Vanilla(_) => 1,
            Self::Lstm(_) => 4,
            Self::Gru | Self::GruLinearBeforeReset => 3,
        }
    }

    /// Whether there is a cell besides the state.
    pub const fn is_lstm(self) -> bool {
        matches!(self, Self::Lstm(_))
    }

    /// Whether its states may grow, as no function bounds them.
    #[cfg_attr(not(feature = "conformance"), allow(dead_code, reason = "the suite alone asks"))]
    pub(crate) const fn is_rectifier(self) -> bool {
        matches!(self, Self::Vanilla(Activation::Relu | Activation::LeakyRelu { .. }))
    }

    /// Whether it is a gated recurrent unit.
    pub const fn is_gru(self) -> bool {
        matches!(self, Self::Gru | Self::GruLinearBeforeReset)
    }

    /// The rows that a step of a sequence has in the workspace: the gates in their order, behind their functions; the [state](Cell::state_row)
    /// before the step; of an LSTM the cell before the step, of a linear product before the reset that product with its bias.
    /// Rows of steps behind a sequence's length are zero, as is what a row has behind the units of a state.
    pub const fn rows(self) -> usize {
        match self {
            Self::Vanilla(_) | Self::Gru => self.gates() + 1,
            Self::Lstm(_) | Self::GruLinearBeforeReset => self.gates() + 2,
        }
    }

    /// The row of the state before a step; what follows has the next one.
    pub const fn state_row(self) -> usize {
        self.gates()
    }
}

impl Activation {
    /// The same as a function of elements.
    pub const fn function(self) -> Eltwise {
        match self {
            Self::Relu => Eltwise::Relu,
            Self::LeakyRelu { alpha } => Eltwise::LeakyRelu { alpha },
            Self::Tanh => Eltwise::Tanh,
            Self::Logistic => Eltwise::Sigmoid,
        }
    }
}

impl GateOrder {
    /// The places of input, forget, candidate and output gate.
    pub const fn places(self) -> [usize; 4] {
        match self {
            Self::InputForgetCandidateOutput => [0, 1, 2, 3],
            Self::InputOutputForgetCandidate => [0, 2, 3, 1],
        }
    }

    /// The places of the input's, the forget gate's and the output's peephole.
    pub const fn peepholes(self) -> [usize; 3] {
        match self {
            Self::InputForgetCandidateOutput => [0, 1, 2],
            Self::InputOutputForgetCandidate => [0, 2, 1],
        }
    }
}

impl Direction {
    /// The number of ways.
    pub const fn count(self) -> usize {
        match self {
            Self::LeftToRight | Self::RightToLeft => 1,
            Self::Concat | Self::Sum => 2,
        }
    }

    /// Whether the `i`-th way begins with the last step.
    pub const fn is_backward(self, i: usize) -> bool {
        match self {
            Self::LeftToRight => false,
            Self::RightToLeft => true,
            Self::Concat | Self::Sum => i == 1,
        }
    }
}

impl Recurrent {
    /// The states before the first step.
    pub const INITIAL_STATE: Arg = Arg::Src(2);
    /// The cells before the first step.
    pub const INITIAL_CELL: Arg = Arg::Src(3);
    /// The lengths of the sequences.
    pub const LENGTHS: Arg = Arg::Src(4);
    /// The peepholes.
    pub const PEEPHOLES: Arg = Arg::Src(5);
    /// What is added to the products of the state.
    pub const STATE_BIAS: Arg = Arg::Src(6);
    /// The attention of each step.
    pub const ATTENTION: Arg = Arg::Src(7);
    /// What multiplies the states behind a step.
    pub const PROJECTION: Arg = Arg::Src(8);
    /// What multiplies the state.
    pub const STATE_WEIGHTS: Arg = Arg::Src(1);
    /// The states behind the last step.
    pub const LAST_STATE: Arg = Arg::Dst(1);
    /// The cells behind the last step.
    pub const LAST_CELL: Arg = Arg::Dst(2);
    /// What the gradient reads.
    pub const WORKSPACE: Arg = Arg::Dst(3);
    /// The factors of quantised weights.
    pub const WEIGHTS_SCALES: Arg = Arg::Src(13);
    /// The factors of a quantised projection.
    pub const PROJECTION_SCALES: Arg = Arg::Src(14);

    /// A layer of floats.
    pub const fn new(cell: Cell, direction: Direction) -> Self {
        Self { cell, direction, quantization: None }
    }

    /// The layer with inputs and states that are integers.
    pub const fn with_quantization(mut self, scale: f32, shift: f32) -> Self {
        self.quantization = Some(StateQuantization { scale, shift });
        self
    }

    /// How far a state that is rounded may be off: by one integer where the sums are near the middle of two, by one more where an earlier rounding
    /// was, whose effect on the sums of later steps fades; twice as much where the states of two directions are added up.
    fn neighbours(&self, desc: &PrimitiveDesc) -> usize {
        let is_first =
            desc.src().dims()[0] == 1 && self.cell.is_lstm() && desc.find(Self::PROJECTION).is_none();
        let ways = if self.direction == Direction::Sum { 2 } else { 1 };
        match self.quantization {
            Some(_) => ways * if is_first { 1 } else { 2 },
            None => 1,
        }
    }

    /// Operands beside the required ones.
    fn optional(&self, operands: &Operands) -> Vec<Arg> {
        let mut optional =
            vec![Arg::Bias, Self::INITIAL_STATE, Self::LENGTHS, Self::STATE_BIAS, Self::LAST_STATE];
        if self.cell.is_lstm() {
            optional.extend([Self::INITIAL_CELL, Self::PEEPHOLES, Self::LAST_CELL, Self::PROJECTION]);
        }
        if self.quantization.is_some() {
            optional.extend(operands.find(Self::PROJECTION).map(|_| Self::PROJECTION_SCALES));
            return optional;
        }
        optional.push(Self::WORKSPACE);
        if self.cell.is_gru() {
            optional.push(Self::ATTENTION);
        }
        optional
    }

    /// Checks the type of an operand.
    fn expect_type(&self, arg: Arg, desc: &MemoryDesc, src: DataType) -> Result<()> {
        let (name, own) = (self.name(), desc.data_type());
        if arg == Self::LENGTHS {
            return if own == DataType::S32 {
                Ok(())
            } else {
                Err(type_error(name, format!("{arg} data type"), own, "s32"))
            };
        }
        if self.quantization.is_none() {
            return expect_float(name, arg, desc);
        }
        let (fits, expected) = match arg {
            Arg::SRC => (matches!(own, DataType::U8 | DataType::S8), "u8 or s8".to_owned()),
            Arg::Weights | Self::STATE_WEIGHTS | Self::PROJECTION => (own == DataType::S8, "s8".to_owned()),
            Self::INITIAL_STATE | Arg::DST | Self::LAST_STATE => {
                (own == src || own.is_float(), format!("{src} or a floating-point type"))
            }
            _ => return expect_float(name, arg, desc),
        };
        if fits { Ok(()) } else { Err(type_error(name, format!("{arg} data type"), own, expected)) }
    }

    /// Checks what a quantised layer is.
    fn check_quantization(&self) -> Result<()> {
        let Some(StateQuantization { scale, shift }) = self.quantization else { return Ok(()) };
        let refuse = |subject: &str, given: String, expected: &str| {
            Err(Error::invalid(self.name(), subject, given, expected))
        };
        if !matches!(self.cell, Cell::Lstm(_) | Cell::Gru) {
            let given = format!("{:?}", self.cell);
            return refuse("cell of a quantised layer", given, "an LSTM or a gated recurrent unit");
        }
        if !(scale > 0.0 && scale.is_finite()) {
            return refuse("scale of states", scale.to_string(), "a positive number");
        }
        if !shift.is_finite() {
            return refuse("shift of states", shift.to_string(), "a finite number");
        }
        Ok(())
    }
}

impl Operation for Recurrent {
    fn name(&self) -> &'static str {
        "recurrent"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        self.check_quantization()?;
        let mut required = vec![Arg::SRC, Arg::Weights, Self::STATE_WEIGHTS];
        required.extend(self.quantization.map(|_| Self::WEIGHTS_SCALES));
        let operands = operands.only(name, &required, &self.optional(operands))?;
        let src = operands.required(Arg::SRC)?;
        let sizes = Sizes::of(name, operands)?;
        let Sizes { steps, batch, inputs, hidden, units } = sizes;
        let (directions, gates) = (self.direction.count(), self.cell.gates());
        let (states, cells) = ([directions, batch, units], [directions, batch, hidden]);
        let biases = [directions, gates, hidden];
        for (arg, dims) in [
            (Arg::Weights, &[directions, inputs, gates, hidden][..]),
            (Self::STATE_WEIGHTS, &[directions, units, gates, hidden]),
            (Arg::Bias, &biases),
            (Self::STATE_BIAS, &biases),
            (Self::INITIAL_STATE, &states),
            (Self::INITIAL_CELL, &cells),
            (Self::LAST_STATE, &states),
            (Self::LAST_CELL, &cells),
            (Self::PEEPHOLES, &[directions, 3, hidden]),
            (Self::LENGTHS, &[batch]),
            (Self::ATTENTION, &[steps, batch, 1]),
            (Self::PROJECTION, &[directions, hidden, units]),
            (Self::WORKSPACE, &[directions, steps, batch, self.cell.rows(), hidden]),
        ] {
            let Some(desc) = operands.find(arg) else { continue };
            expect_dims(name, arg, desc, dims)?;
            self.expect_type(arg, desc, src.data_type())?;
        }
        for (arg, dims) in
            [(Self::WEIGHTS_SCALES, &biases[..]), (Self::PROJECTION_SCALES, &[directions, units])]
        {
            let Some(desc) = operands.find(arg) else { continue };
            let fits = |(own, full): (&usize, &usize)| *own == 1 || own == full;
            if desc.dims().len() != dims.len() || !desc.dims().iter().zip(dims).all(fits) {
                let expected = format!("{}, each of them or one", Dims::new(dims));
                return Err(shape_error(
                    name,
                    format!("{arg} dimensions"),
                    desc.dims().to_string(),
                    expected,
                ));
            }
            self.expect_type(arg, desc, src.data_type())?;
        }
        if self.quantization.is_some() && operands.find(Self::PROJECTION).is_some() {
            operands.required(Self::PROJECTION_SCALES)?;
        }
        self.expect_type(Arg::SRC, src, src.data_type())?;
        if let Some(dst) = operands.dst() {
            self.expect_type(Arg::DST, dst, src.data_type())?;
        }
        let shown = if self.direction == Direction::Sum { 1 } else { directions };
        Ok((Dims::from([steps, batch, shown, units]), src.data_type()))
    }

    fn takes_post_ops(&self) -> bool {
        false
    }

    /// An error of a state comes to the next one through its gates, whose derivatives are below one: what is older has faded.
    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        let steps = desc.src().dims()[0].min(FADED);
        ErrorGrowth {
            terms: self.visits(desc),
            sums: steps as f64,
            functions: FUNCTIONS * steps,
            cancels: true,
            magnitude: 1.0,
            neighbours: self.neighbours(desc),
            quantum: self.quantization.map_or(0.0, |own| 1.0 / f64::from(own.scale)),
            ..ErrorGrowth::default()
        }
    }

    fn visits(&self, desc: &PrimitiveDesc) -> usize {
        let hidden = desc.find(Arg::Weights).map_or(0, |weights| weights.dims()[3]);
        (desc.src().dims()[2] + hidden) * self.cell.gates()
    }
}

/// The sizes that the operands of a layer and of its gradient have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) steps: usize,
    pub(super) batch: usize,
    pub(super) inputs: usize,
    pub(super) hidden: usize,
    /// Units of a state: fewer than hidden units with a projection.
    pub(super) units: usize,
}

impl Sizes {
    pub(super) fn of(name: &str, operands: &Operands) -> Result<Self> {
        let (src, state_weights) =
            (operands.required(Arg::SRC)?, operands.required(Recurrent::STATE_WEIGHTS)?);
        let &[steps, batch, inputs] = &src.dims()[..] else {
            return Err(shape_error(name, "src0 dimensions", src.dims().to_string(), "[T, N, I]"));
        };
        if steps == 0 {
            return Err(shape_error(name, "steps of src0", "0", "at least 1"));
        }
        let &[_, _, _, hidden] = &state_weights.dims()[..] else {
            let given = state_weights.dims().to_string();
            return Err(shape_error(name, "src1 dimensions", given, "[D, H, G, H]"));
        };
        if hidden == 0 {
            return Err(shape_error(name, "hidden units of src1", "0", "at least 1"));
        }
        let units = match operands.find(Recurrent::PROJECTION) {
            None => hidden,
            Some(projection) => match &projection.dims()[..] {
                &[_, _, units] if (1..=hidden).contains(&units) => units,
                _ => {
                    let expected = format!("[D, {hidden}, P] with P from 1 to {hidden}");
                    return Err(shape_error(
                        name,
                        "src8 dimensions",
                        projection.dims().to_string(),
                        expected,
                    ));
                }
            },
        };
        Ok(Self { steps, batch, inputs, hidden, units })
    }
}

/// Steps behind which an error of a state no longer shows.
pub(super) const FADED: usize = 32;
/// Functions of a step, one after the other.
const FUNCTIONS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, PrimitiveDescBuilder};

    fn f32(dims: &[usize]) -> MemoryDesc {
        MemoryDesc::new(dims, DataType::F32)
    }

    fn layer(cell: Cell, direction: Direction) -> PrimitiveDescBuilder {
        let (d, g) = (direction.count(), cell.gates());
        PrimitiveDesc::builder(Op::Recurrent(Recurrent::new(cell, direction)))
            .src(f32(&[7, 2, 5]))
            .src(f32(&[d, 3, g, 3]))
            .weights(f32(&[d, 5, g, 3]))
    }

    const LSTM: Cell = Cell::Lstm(GateOrder::InputForgetCandidateOutput);

    #[test]
    fn the_result_follows_from_the_direction() {
        let dims = |direction| layer(LSTM, direction).build().unwrap().dst().dims().to_vec();
        assert_eq!(dims(Direction::LeftToRight), [7, 2, 1, 3]);
        assert_eq!(dims(Direction::RightToLeft), [7, 2, 1, 3]);
        assert_eq!(dims(Direction::Concat), [7, 2, 2, 3]);
        assert_eq!(dims(Direction::Sum), [7, 2, 1, 3]);
        let whole = layer(LSTM, Direction::Concat)
            .bias(f32(&[2, 4, 3]))
            .arg(Recurrent::INITIAL_STATE, f32(&[2, 2, 3]))
            .arg(Recurrent::INITIAL_CELL, f32(&[2, 2, 3]))
            .arg(Recurrent::LENGTHS, MemoryDesc::new([2], DataType::S32))
            .arg(Recurrent::PEEPHOLES, f32(&[2, 3, 3]))
            .arg(Recurrent::STATE_BIAS, f32(&[2, 4, 3]))
            .arg(Recurrent::LAST_STATE, f32(&[2, 2, 3]))
            .arg(Recurrent::LAST_CELL, f32(&[2, 2, 3]));
        assert!(whole.build().is_ok());
    }

    /// With states of so many units, weights of a type and factors of these dimensions.
    fn integers_of(cell: Cell, units: usize, weights: DataType, scales: &[usize]) -> PrimitiveDescBuilder {
        let own = |dims: &[usize], data_type| MemoryDesc::new(dims, data_type);
        let g = cell.gates();
        PrimitiveDesc::builder(Recurrent::new(cell, Direction::Concat).with_quantization(63.0, 64.0))
            .src(own(&[7, 2, 5], DataType::U8))
            .src(own(&[2, units, g, 3], DataType::S8))
            .weights(own(&[2, 5, g, 3], weights))
            .arg(Recurrent::WEIGHTS_SCALES, f32(scales))
    }

    fn integers(cell: Cell) -> PrimitiveDescBuilder {
        integers_of(cell, 3, DataType::S8, &[1, cell.gates(), 3])
    }

    #[test]
    fn a_quantised_layer_has_integers_and_factors() {
        let desc = integers(LSTM).build().unwrap();
        assert_eq!(desc.dst().data_type(), DataType::U8);
        for (dst, scales) in [(DataType::F32, [1, 1, 1]), (DataType::U8, [2, 4, 3])] {
            let builder = integers_of(LSTM, 3, DataType::S8, &scales)
                .dst(MemoryDesc::new([7, 2, 2, 3], dst))
                .arg(Recurrent::INITIAL_STATE, MemoryDesc::new([2, 2, 3], dst));
            assert!(builder.build().is_ok());
        }
        let message = |builder: PrimitiveDescBuilder| builder.build().unwrap_err().to_string();
        let error = message(integers_of(LSTM, 3, DataType::F32, &[1, 1, 1]));
        assert!(error.contains("weights") && error.contains("f32") && error.contains("s8"), "{error}");
        let error = message(integers(LSTM).dst(MemoryDesc::new([7, 2, 2, 3], DataType::S8)));
        assert!(error.contains("dst0") && error.contains("s8") && error.contains("u8 or a float"), "{error}");
        let error = message(integers_of(LSTM, 3, DataType::S8, &[2, 2, 3]));
        assert!(error.contains("src13") && error.contains("2x2x3") && error.contains("2x4x3"), "{error}");
        let error = message(integers(Cell::GruLinearBeforeReset));
        assert!(
            error.contains("cell of a quantised layer") && error.contains("LinearBeforeReset"),
            "{error}"
        );
        let error = message(integers(Cell::Gru).arg(Recurrent::WORKSPACE, f32(&[2, 7, 2, 4, 3])));
        assert!(error.contains("with dst3"), "{error}");
        let projection = MemoryDesc::new([2, 3, 2], DataType::S8);
        let builder = integers_of(LSTM, 2, DataType::S8, &[1, 1, 1]).arg(Recurrent::PROJECTION, projection);
        let error = message(builder);
        assert!(error.contains("without src14"), "{error}");
        let op = Recurrent::new(LSTM, Direction::LeftToRight).with_quantization(-1.0, 0.0);
        let u8 = MemoryDesc::new([7, 2, 5], DataType::U8);
        let error = message(PrimitiveDesc::builder(op).src(u8));
        assert!(error.contains("scale") && error.contains("-1") && error.contains("positive"), "{error}");
        // Factors are of quantised layers alone.
        let error = message(layer(LSTM, Direction::Concat).arg(Recurrent::WEIGHTS_SCALES, f32(&[2, 4, 3])));
        assert!(error.contains("with src13"), "{error}");
    }

    #[test]
    fn integers_stand_for_numbers() {
        let own = StateQuantization { scale: 10.0, shift: 64.0 };
        // Ties go to the even one, and the ends of the type are as far as it goes.
        let quantized = [-100.0, -0.25, 0.0, 0.35, 100.0].map(|x| own.quantize(x, DataType::U8) as u8);
        assert_eq!(quantized, [0, 62, 64, 68, 255]);
        assert!((own.dequantize(69.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_was_expected() {
        let message = |builder: PrimitiveDescBuilder| builder.build().unwrap_err().to_string();
        let gru = || layer(Cell::Gru, Direction::LeftToRight);
        let error = message(gru().arg(Recurrent::INITIAL_STATE, f32(&[1, 3, 3])));
        assert!(error.contains("src2") && error.contains("1x3x3") && error.contains("1x2x3"), "{error}");
        let error = message(gru().bias(f32(&[1, 4, 3])));
        assert!(error.contains("bias") && error.contains("1x4x3") && error.contains("1x3x3"), "{error}");
        let error = message(gru().arg(Recurrent::LENGTHS, f32(&[2])));
        assert!(error.contains("src4") && error.contains("f32") && error.contains("s32"), "{error}");
        let error = message(gru().arg(Recurrent::INITIAL_CELL, f32(&[1, 2, 3])));
        assert!(error.contains("with src3"), "{error}");
        let op = Recurrent::new(Cell::Gru, Direction::LeftToRight);
        let of = |src: &[usize], weights: &[usize]| {
            PrimitiveDesc::builder(op).src(f32(src)).src(f32(&[1, 3, 3, 3])).weights(f32(weights))
        };
        let error = message(of(&[0, 2, 5], &[1, 5, 3, 3]));
        assert!(error.contains("steps") && error.contains("at least 1"), "{error}");
        let error = message(of(&[7, 2, 5], &[1, 6, 3, 3]));
        assert!(
            error.contains("weights") && error.contains("1x6x3x3") && error.contains("1x5x3x3"),
            "{error}"
        );
        let error = message(of(&[7, 5], &[1, 5, 3, 3]));
        assert!(error.contains("src0") && error.contains("[T, N, I]"), "{error}");
    }
}
