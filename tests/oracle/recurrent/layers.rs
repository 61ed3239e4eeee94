//! The layers that are asked: their operands and values, and what both sides make of them.

use anydnn::backend::op::{Activation, Cell, Direction, GateOrder, Recurrent, RecurrentBackward as Backward};
use anydnn::backend::{Arg, DataType, MemoryDesc, PrimitiveDesc};

/// A layer with the operands that it has besides the usual ones.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an operand that is there or not")]
pub(super) struct Layer {
    pub(super) op: Recurrent,
    /// `[T, N, I, H]`
    pub(super) sizes: [usize; 4],
    /// Of inputs, states, weights and biases; of an integer layer that of its inputs.
    pub(super) data_type: DataType,
    /// Of states that are given and shown by an integer layer.
    pub(super) shown: DataType,
    pub(super) peepholes: bool,
    /// Whether states are given and asked for.
    pub(super) states: bool,
    pub(super) attention: bool,
    /// Units behind a projection.
    pub(super) units: Option<usize>,
    /// Whether its gradients are asked for.
    pub(super) gradients: bool,
}

/// Which primitive has an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Forward,
    Backward,
}

const CELLS: [Cell; 7] = [
    Cell::Vanilla(Activation::Relu),
    Cell::Vanilla(Activation::LeakyRelu { alpha: 0.25 }),
    Cell::Vanilla(Activation::Tanh),
    Cell::Vanilla(Activation::Logistic),
    LSTM,
    Cell::Gru,
    Cell::GruLinearBeforeReset,
];
const LSTM: Cell = Cell::Lstm(GateOrder::InputForgetCandidateOutput);
const DIRECTIONS: [Direction; 4] =
    [Direction::LeftToRight, Direction::RightToLeft, Direction::Concat, Direction::Sum];
const SIZES: [[usize; 4]; 4] = [[5, 2, 7, 9], [1, 3, 16, 20], [4, 1, 3, 33], [3, 4, 5, 16]];

/// Every cell in every direction: of floats and of half floats, with gradients and without, and of integers.
pub(super) fn layers() -> Vec<Layer> {
    let mut layers = Vec::new();
    for data_type in [DataType::F32, DataType::F16, DataType::BF16] {
        for gradients in [false, true] {
            floats(&mut layers, data_type, gradients);
        }
    }
    integers(&mut layers);
    layers
}

fn floats(layers: &mut Vec<Layer>, data_type: DataType, gradients: bool) {
    for (i, cell) in CELLS.into_iter().enumerate() {
        for (j, direction) in DIRECTIONS.into_iter().enumerate() {
            let layer = Layer {
                op: Recurrent::new(cell, direction),
                sizes: SIZES[(i + j) % 4],
                data_type,
                shown: data_type,
                peepholes: false,
                states: (i + j) % 2 == 0,
                attention: false,
                units: None,
                gradients,
            };
            layers.push(layer);
            if cell.is_lstm() {
                layers.push(Layer { peepholes: true, states: !layer.states, ..layer });
            }
            if cell.is_lstm() && !gradients {
                layers.push(Layer { units: Some(layer.sizes[3] / 2), ..layer });
            }
            // oneDNN's gradients of layers with attention are not those of its own layers, by differences.
            if cell.is_gru() && direction == Direction::LeftToRight && !gradients {
                layers.push(Layer { attention: true, ..layer });
            }
        }
    }
}

fn integers(layers: &mut Vec<Layer>) {
    for cell in [LSTM, Cell::Gru] {
        for (j, direction) in DIRECTIONS.into_iter().enumerate() {
            for (own, shown) in [
                (DataType::U8, DataType::U8),
                (DataType::U8, DataType::F32),
                (DataType::S8, DataType::S8),
                (DataType::S8, DataType::F32),
            ] {
                if own == DataType::S8 && !cell.is_lstm() {
                    continue;
                }
                // Sums of both directions come from oneDNN with the shift once too often, and negative states of s8 are zeros there.
                let plain = own == DataType::S8 || direction == Direction::Sum;
                let layer = Layer {
                    op: Recurrent::new(cell, direction)
                        .with_quantization(50.0, if plain { 0.0 } else { 64.0 }),
                    sizes: SIZES[j],
                    data_type: own,
                    shown,
                    peepholes: false,
                    states: j % 2 == 0,
                    attention: false,
                    units: None,
                    gradients: false,
                };
                layers.push(layer);
                if cell.is_lstm() && own == DataType::U8 {
                    layers.push(Layer { units: Some(layer.sizes[3] / 2), states: !layer.states, ..layer });
                }
            }
        }
    }
}

impl Layer {
    pub(super) fn is_integer(&self) -> bool {
        self.op.quantization.is_some()
    }

    /// The operands and results of the layer, in the order of their dimensions.
    fn forward_operands(&self) -> Vec<(Arg, Vec<usize>)> {
        let [t, n, i, h] = self.sizes;
        let (d, g, p) = (self.op.direction.count(), self.op.cell.gates(), self.units.unwrap_or(h));
        let mut operands = vec![
            (Arg::SRC, vec![t, n, i]),
            (Arg::Weights, vec![d, i, g, h]),
            (Recurrent::STATE_WEIGHTS, vec![d, p, g, h]),
            (Arg::Bias, vec![d, g, h]),
            (Arg::DST, vec![t, n, self.sides(), p]),
        ];
        if self.op.cell == Cell::GruLinearBeforeReset {
            operands.push((Recurrent::STATE_BIAS, vec![d, g, h]));
        }
        if self.peepholes {
            operands.push((Recurrent::PEEPHOLES, vec![d, 3, h]));
        }
        if self.attention {
            operands.push((Recurrent::ATTENTION, vec![t, n, 1]));
        }
        if self.units.is_some() {
            operands.push((Recurrent::PROJECTION, vec![d, h, p]));
        }
        if self.is_integer() {
            operands.push((Recurrent::WEIGHTS_SCALES, vec![1, g, h]));
            operands.extend(self.units.map(|p| (Recurrent::PROJECTION_SCALES, vec![1, p])));
        }
        if self.states {
            operands
                .extend([Recurrent::INITIAL_STATE, Recurrent::LAST_STATE].map(|arg| (arg, vec![d, n, p])));
            if self.op.cell.is_lstm() {
                operands
                    .extend([Recurrent::INITIAL_CELL, Recurrent::LAST_CELL].map(|arg| (arg, vec![d, n, h])));
            }
        }
        if self.gradients {
            operands.push((Recurrent::WORKSPACE, vec![d, t, n, self.op.cell.rows(), h]));
        }
        operands
    }

    /// The operands and results of the gradients.
    fn backward_operands(&self) -> Vec<(Arg, Vec<usize>)> {
        let forward = self.forward_operands();
        let of = |own: Arg, arg: Arg| {
            forward.iter().find(|(other, _)| *other == own).map(|(_, dims)| (arg, dims.clone()))
        };
        let same = [Arg::SRC, Arg::Weights, Recurrent::STATE_WEIGHTS, Recurrent::PEEPHOLES];
        let mut operands: Vec<_> = same.into_iter().filter_map(|arg| of(arg, arg)).collect();
        operands.extend(
            [
                (Recurrent::WORKSPACE, Backward::WORKSPACE),
                (Arg::DST, Backward::DIFF_DST),
                (Recurrent::LAST_STATE, Backward::DIFF_LAST_STATE),
                (Recurrent::LAST_CELL, Backward::DIFF_LAST_CELL),
                (Arg::SRC, Arg::DST),
                (Recurrent::INITIAL_STATE, Backward::DIFF_INITIAL_STATE),
                (Recurrent::INITIAL_CELL, Backward::DIFF_INITIAL_CELL),
                (Arg::Weights, Backward::DIFF_WEIGHTS),
                (Recurrent::STATE_WEIGHTS, Backward::DIFF_STATE_WEIGHTS),
                (Arg::Bias, Backward::DIFF_BIAS),
                (Recurrent::STATE_BIAS, Backward::DIFF_STATE_BIAS),
                (Recurrent::PEEPHOLES, Backward::DIFF_PEEPHOLES),
            ]
            .into_iter()
            .filter_map(|(own, arg)| of(own, arg)),
        );
        operands
    }

    pub(super) fn operands(&self, pass: Pass) -> Vec<(Arg, Vec<usize>)> {
        match pass {
            Pass::Forward => self.forward_operands(),
            Pass::Backward => self.backward_operands(),
        }
    }

    /// What is compared, in an order that both sides keep.
    pub(super) fn results(&self) -> Vec<(Pass, Arg)> {
        let passes: &[Pass] =
            if self.gradients { &[Pass::Forward, Pass::Backward] } else { &[Pass::Forward] };
        let mut results = Vec::new();
        for &pass in passes {
            let operands = self.operands(pass).into_iter();
            let shown = operands.filter(|&(arg, _)| {
                matches!(arg, Arg::Dst(_)) && !(pass == Pass::Forward && arg == Recurrent::WORKSPACE)
            });
            results.extend(shown.map(|(arg, _)| (pass, arg)));
        }
        results
    }

    /// The states that a step shows.
    fn sides(&self) -> usize {
        if self.op.direction == Direction::Sum { 1 } else { self.op.direction.count() }
    }

    /// The type of an operand; gradients are in f32, as are cells, biases and what is kept for gradients where there are narrower types.
    pub(super) fn type_of(&self, pass: Pass, arg: Arg) -> DataType {
        let is_state = matches!(arg, Arg::DST | Recurrent::INITIAL_STATE | Recurrent::LAST_STATE);
        let is_weight = matches!(arg, Arg::Weights | Recurrent::STATE_WEIGHTS | Recurrent::PROJECTION);
        match arg {
            Arg::SRC => self.data_type,
            _ if is_weight && self.is_integer() => DataType::S8,
            _ if is_weight => self.data_type,
            _ if is_state && pass == Pass::Forward => self.shown,
            _ => DataType::F32,
        }
    }

    pub(super) fn desc(&self, pass: Pass) -> PrimitiveDesc {
        let mut builder = match pass {
            Pass::Forward => PrimitiveDesc::builder(self.op),
            Pass::Backward => PrimitiveDesc::builder(Backward::new(self.op)),
        };
        for (arg, dims) in self.operands(pass) {
            builder = builder.arg(arg, MemoryDesc::new(dims, self.type_of(pass, arg)));
        }
        builder.build().unwrap()
    }

    /// Values between -1 and 1, weights smaller, as their type holds them; a state's bias is there for the candidate alone, as oneDNN has no
    /// other. Integers stand around what stands for zero, and scales such that the sums of many products stay small.
    pub(super) fn values(&self, arg: Arg, dims: &[usize], seed: u64) -> Vec<f64> {
        let mut state = (seed * 64 + u64::from(format!("{arg}").bytes().map(u32::from).sum::<u32>())) | 1;
        let (h, own) = (dims[dims.len() - 1], self.type_of(Pass::Forward, arg));
        let terms = (self.sizes[2] + self.units.unwrap_or(self.sizes[3])) as f64;
        let shift = f64::from(self.op.quantization.map_or(0.0, |own| own.shift));
        let is_positive = self.data_type == DataType::S8;
        (0..dims.iter().product::<usize>())
            .map(|at| {
                // Knuth's MMIX generator; its upper bits are the random ones.
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let mut value = f64::from((state >> 40) as f32 / (1 << 23) as f32 - 1.0);
                let is_scale = matches!(arg, Recurrent::WEIGHTS_SCALES | Recurrent::PROJECTION_SCALES);
                if is_positive || is_scale || arg == Recurrent::ATTENTION {
                    value = value.abs();
                }
                let value = match arg {
                    Recurrent::STATE_BIAS if at / h % 3 != 2 => 0.0,
                    _ if is_scale => 40.0 * terms.sqrt() * (1.0 + value),
                    Arg::Weights | Recurrent::STATE_WEIGHTS | Recurrent::PROJECTION if self.is_integer() => {
                        90.0 * value
                    }
                    Arg::Weights | Recurrent::STATE_WEIGHTS | Recurrent::PROJECTION => 0.4 * value,
                    _ if own.is_float() => value,
                    _ => shift + 50.0 * value,
                };
                own.stored(value)
            })
            .collect()
    }
}
