//! The descriptions of layers and their gradients.

use std::ffi::c_int;
use std::ptr::null_mut;

use anydnn::backend::op::Cell;

use super::super::onednn::{Handle, Owned};
use super::api::{
    ATTENTION, BACKWARD, BIAS, DIFF, DST, INFERENCE, INITIAL_CELL, INITIAL_STATE, LAST_CELL, LAST_STATE,
    PEEPHOLES, PROJECTION, SRC, STATE_WEIGHTS, TRAINING, WEIGHTS, function, way,
};
use super::library::{Known, OneDnn};

impl OneDnn {
    pub(super) fn forward(&self, known: &Known<'_>) -> Result<Owned, String> {
        let (api, engine, attr, none) = (&self.api, self.engine.handle, known.attr.handle, null_mut());
        let [src, state, cell, attention] =
            [SRC, INITIAL_STATE, INITIAL_CELL, ATTENTION].map(|arg| known.md(arg));
        let [weights, state_weights, peepholes, projection, bias] =
            [WEIGHTS, STATE_WEIGHTS, PEEPHOLES, PROJECTION, BIAS].map(|arg| known.md(arg));
        let [dst, last, last_cell] = [DST, LAST_STATE, LAST_CELL].map(|arg| known.md(arg));
        let pass = if known.layer.gradients { TRAINING } else { INFERENCE };
        let way = way(known.layer.op.direction);
        // SAFETY: the descriptors live, and those that may be missing are null where they are.
        Owned::new("layer", api.pd_destroy, |pd| unsafe {
            match known.layer.op.cell {
                Cell::Vanilla(activation) => {
                    let (kind, alpha) = function(activation);
                    (api.vanilla)(
                        pd,
                        engine,
                        pass,
                        kind,
                        way,
                        src,
                        state,
                        weights,
                        state_weights,
                        bias,
                        dst,
                        last,
                        0,
                        alpha,
                        0.0,
                        attr,
                    )
                }
                Cell::Lstm(_) => (api.lstm)(
                    pd,
                    engine,
                    pass,
                    way,
                    src,
                    state,
                    cell,
                    weights,
                    state_weights,
                    peepholes,
                    projection,
                    bias,
                    dst,
                    last,
                    last_cell,
                    0,
                    attr,
                ),
                Cell::Gru if attention != none => (api.augru)(
                    pd,
                    engine,
                    pass,
                    way,
                    src,
                    state,
                    attention,
                    weights,
                    state_weights,
                    bias,
                    dst,
                    last,
                    0,
                    attr,
                ),
                Cell::Gru => (api.gru)(
                    pd,
                    engine,
                    pass,
                    way,
                    src,
                    state,
                    weights,
                    state_weights,
                    bias,
                    dst,
                    last,
                    0,
                    attr,
                ),
                Cell::GruLinearBeforeReset if attention != none => (api.lbr_augru)(
                    pd,
                    engine,
                    pass,
                    way,
                    src,
                    state,
                    attention,
                    weights,
                    state_weights,
                    bias,
                    dst,
                    last,
                    0,
                    attr,
                ),
                Cell::GruLinearBeforeReset => (api.lbr_gru)(
                    pd,
                    engine,
                    pass,
                    way,
                    src,
                    state,
                    weights,
                    state_weights,
                    bias,
                    dst,
                    last,
                    0,
                    attr,
                ),
            }
        })
    }

    pub(super) fn backward(&self, known: &Known<'_>, hint: Handle) -> Result<Owned, String> {
        let (api, engine, attr, none) = (&self.api, self.engine.handle, known.attr.handle, null_mut());
        let [src, state, cell, dst, last, last_cell] =
            [SRC, INITIAL_STATE, INITIAL_CELL, DST, LAST_STATE, LAST_CELL].map(|arg| known.md(arg));
        let [weights, state_weights, peepholes, bias] =
            [WEIGHTS, STATE_WEIGHTS, PEEPHOLES, BIAS].map(|arg| known.md(arg));
        let by = |arg: c_int| known.md(DIFF + arg);
        let (by_src, by_state, by_cell) = (by(SRC), by(INITIAL_STATE), by(INITIAL_CELL));
        let (by_weights, by_state_weights) = (by(WEIGHTS), by(STATE_WEIGHTS));
        let (by_peepholes, by_bias) = (by(PEEPHOLES), by(BIAS));
        let (by_dst, by_last, by_last_cell) = (by(DST), by(LAST_STATE), by(LAST_CELL));
        let way = way(known.layer.op.direction);
        // SAFETY: as in the other direction.
        Owned::new("gradients", api.pd_destroy, |pd| unsafe {
            match known.layer.op.cell {
                Cell::Vanilla(activation) => {
                    let (kind, alpha) = function(activation);
                    (api.vanilla_backward)(
                        pd,
                        engine,
                        BACKWARD,
                        kind,
                        way,
                        src,
                        state,
                        weights,
                        state_weights,
                        bias,
                        dst,
                        last,
                        by_src,
                        by_state,
                        by_weights,
                        by_state_weights,
                        by_bias,
                        by_dst,
                        by_last,
                        0,
                        alpha,
                        0.0,
                        hint,
                        attr,
                    )
                }
                Cell::Lstm(_) => (api.lstm_backward)(
                    pd,
                    engine,
                    BACKWARD,
                    way,
                    src,
                    state,
                    cell,
                    weights,
                    state_weights,
                    peepholes,
                    none,
                    bias,
                    dst,
                    last,
                    last_cell,
                    by_src,
                    by_state,
                    by_cell,
                    by_weights,
                    by_state_weights,
                    by_peepholes,
                    none,
                    by_bias,
                    by_dst,
                    by_last,
                    by_last_cell,
                    0,
                    hint,
                    attr,
                ),
                Cell::Gru | Cell::GruLinearBeforeReset => {
                    let create = if known.layer.op.cell == Cell::Gru {
                        api.gru_backward
                    } else {
                        api.lbr_gru_backward
                    };
                    create(
                        pd,
                        engine,
                        BACKWARD,
                        way,
                        src,
                        state,
                        weights,
                        state_weights,
                        bias,
                        dst,
                        last,
                        by_src,
                        by_state,
                        by_weights,
                        by_state_weights,
                        by_bias,
                        by_dst,
                        by_last,
                        0,
                        hint,
                        attr,
                    )
                }
            }
        })
    }
}
