//! Recurrent layers, whose weights oneDNN has in an order of its own.

use std::ffi::c_int;
use std::ptr::null_mut;

use anydnn::backend::DataType;
use anydnn::backend::op::{Cell, Direction, GateOrder};
use anydnn::model::HostTensor;

use super::super::server::Refusal;
use super::api::Handle;
use super::library::{Lib, Owned};
use super::primitive::{INFERENCE, function};

/// A layer's kind and sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer {
    pub(super) cell: Cell,
    pub(super) direction: Direction,
    pub(super) steps: usize,
    pub(super) batch: usize,
    pub(super) inputs: usize,
    pub(super) hidden: usize,
}

/// The descriptors of a layer's operands.
pub(super) struct Descs {
    pub(super) src: Owned,
    pub(super) weights: Owned,
    pub(super) state_weights: Owned,
    pub(super) bias: Owned,
    pub(super) dst: Owned,
}

impl Layer {
    /// The dimensions of weights for so many terms: `[L, D, terms, G, H]`.
    pub(super) fn weights(&self, terms: usize) -> [usize; 5] {
        [1, self.direction.count(), terms, self.cell.gates(), self.hidden]
    }

    /// `[L, D, B, H]`, with a bias of its own for a product of states that the reset gate multiplies.
    pub(super) fn biases(&self) -> [usize; 4] {
        let gates = self.cell.gates() + usize::from(self.cell == Cell::GruLinearBeforeReset);
        [1, self.direction.count(), gates, self.hidden]
    }

    /// `[T, N, D * H]`
    pub(super) fn result(&self) -> [usize; 3] {
        [self.steps, self.batch, self.direction.count() * self.hidden]
    }

    /// The result as `[T, D, N, H]`.
    pub(super) fn turned(&self, result: &[f32]) -> Vec<f32> {
        let (d, hidden) = (self.direction.count(), self.hidden);
        let mut turned = vec![0.0; result.len()];
        for (i, units) in result.chunks_exact(hidden).enumerate() {
            let (row, way) = (i / d, i % d);
            let (step, n) = (row / self.batch, row % self.batch);
            turned[((step * d + way) * self.batch + n) * hidden..][..hidden].copy_from_slice(units);
        }
        turned
    }

    /// Constants as oneDNN has them: of weights `[D, G * H, terms]`, of biases `[D, 2 * G * H]`, the first of which are those of the input.
    pub(super) fn ordered(&self, name: &str, given: &HostTensor) -> Result<HostTensor, Refusal> {
        let (d, gates, hidden) = (self.direction.count(), self.cell.gates(), self.hidden);
        let values = given.to_f64s();
        // Where each of oneDNN's gates lies here.
        let places: Vec<usize> = match self.cell {
            Cell::Lstm(GateOrder::InputOutputForgetCandidate) => vec![0, 2, 3, 1],
            _ => (0..gates).collect(),
        };
        let failed = |error: anydnn::backend::Error| Refusal::Failed(error.to_string());
        if name == "bias" {
            let mut biases = Vec::with_capacity(self.biases().iter().product());
            for way in values.chunks_exact(2 * gates * hidden) {
                let (of_input, of_state) = way.split_at(gates * hidden);
                for (i, &gate) in places.iter().enumerate() {
                    let apart = self.cell == Cell::GruLinearBeforeReset && i == 2;
                    let at = gate * hidden..(gate + 1) * hidden;
                    let both = of_input[at.clone()].iter().zip(&of_state[at]);
                    biases.extend(both.map(|(x, h)| if apart { *x } else { x + h }));
                }
                if self.cell == Cell::GruLinearBeforeReset {
                    biases.extend(&of_state[2 * hidden..]);
                }
            }
            return HostTensor::from_f64(self.biases(), DataType::F32, &biases).map_err(failed);
        }
        let terms = values.len() / (d * gates * hidden).max(1);
        let mut ordered = Vec::with_capacity(values.len());
        for way in 0..d {
            for term in 0..terms {
                for &gate in &places {
                    let row = (way * gates + gate) * hidden;
                    ordered.extend((row..row + hidden).map(|row| values[row * terms + term]));
                }
            }
        }
        HostTensor::from_f64(self.weights(terms), given.desc().data_type(), &ordered).map_err(failed)
    }

    /// Describes the primitive; states begin with zeros, and those behind the last step are not asked for.
    pub(super) fn describe(
        &self,
        library: &Lib,
        descs: &Descs,
        attributes: Handle,
    ) -> Result<Owned, Refusal> {
        let (api, engine) = (&library.api, library.engine);
        let Descs { src, weights, state_weights, bias, dst } = descs;
        let (src, weights, state_weights) = (src.handle, weights.handle, state_weights.handle);
        let (bias, dst, none) = (bias.handle, dst.handle, null_mut());
        let direction: c_int = match self.direction {
            Direction::LeftToRight => 1,
            Direction::RightToLeft => 2,
            Direction::Concat => 3,
            Direction::Sum => 4,
        };
        let what = "this layer";
        match self.cell {
            Cell::Vanilla(activation) => {
                let (algorithm, alpha, beta) = function(activation.function())?;
                // SAFETY: the descriptors live, and those that may be missing are.
                library.make(what, api.pd_destroy, |pd| unsafe {
                    (api.vanilla_rnn)(
                        pd,
                        engine,
                        INFERENCE,
                        algorithm,
                        direction,
                        src,
                        none,
                        weights,
                        state_weights,
                        bias,
                        dst,
                        none,
                        0,
                        alpha,
                        beta,
                        attributes,
                    )
                })
            }
            // SAFETY: as before.
            Cell::Lstm(_) => library.make(what, api.pd_destroy, |pd| unsafe {
                (api.lstm)(
                    pd,
                    engine,
                    INFERENCE,
                    direction,
                    src,
                    none,
                    none,
                    weights,
                    state_weights,
                    none,
                    none,
                    bias,
                    dst,
                    none,
                    none,
                    0,
                    attributes,
                )
            }),
            Cell::Gru | Cell::GruLinearBeforeReset => {
                let create = if self.cell == Cell::Gru { api.gru } else { api.lbr_gru };
                // SAFETY: as before.
                library.make(what, api.pd_destroy, |pd| unsafe {
                    create(
                        pd,
                        engine,
                        INFERENCE,
                        direction,
                        src,
                        none,
                        weights,
                        state_weights,
                        bias,
                        dst,
                        none,
                        0,
                        attributes,
                    )
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_terms_and_biases_are_put_in_order() {
        let order = GateOrder::InputOutputForgetCandidate;
        let layer = Layer {
            cell: Cell::Lstm(order),
            direction: Direction::LeftToRight,
            steps: 1,
            batch: 1,
            inputs: 2,
            hidden: 1,
        };
        let given: Vec<f64> = (0..8).map(f64::from).collect();
        let tensor =
            |dims: &[usize]| HostTensor::from_f64(dims.to_vec(), DataType::F32, &given).expect("a tensor");
        let ordered = layer.ordered("weights", &tensor(&[1, 4, 2])).expect("weights");
        assert_eq!(ordered.to_f64s(), [0.0, 4.0, 6.0, 2.0, 1.0, 5.0, 7.0, 3.0]);
        let ordered = layer.ordered("bias", &tensor(&[1, 8])).expect("biases");
        assert_eq!(ordered.to_f64s(), [4.0, 8.0, 10.0, 6.0]);
        let gru = Layer { cell: Cell::GruLinearBeforeReset, ..layer };
        let given = HostTensor::from_f64([1, 6], DataType::F32, &given[..6]).expect("a tensor");
        assert_eq!(gru.ordered("bias", &given).expect("biases").to_f64s(), [3.0, 5.0, 2.0, 5.0]);
        let both = Layer { direction: Direction::Concat, steps: 1, batch: 2, ..layer };
        assert_eq!(both.turned(&[1.0, 2.0, 3.0, 4.0]), [1.0, 3.0, 2.0, 4.0]);
    }
}
