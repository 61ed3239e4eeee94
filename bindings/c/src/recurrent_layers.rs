//! Layers of recurrent networks as steps: one for each layer, forward or backward.

use std::ffi::{c_int, c_uint};

use anydnn_backend::op::{Cell, Direction, Recurrent, RecurrentBackward as Backward, Reorder};
use anydnn_backend::{Arg, Attributes, Blocking, DataType, Dims, Layout, MemoryDesc, PostOp};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::kinds::{VANILLA_GRU, VANILLA_LSTM, arg, dnnl_backward, kind, query};
use crate::object_types::{dnnl_alg_kind_t, dnnl_prop_kind_t};
use crate::primitive::{Described, Facts, is_training, open, optional};
use crate::recipe::{Formula, Recipe, Tensor, dense};
use crate::recurrent_attributes::Factors;
use crate::refusals::Lack;
use crate::types::{const_dnnl_memory_desc_t, dnnl_unimplemented};

/// Parameters that all cells have.
pub(crate) struct Layers {
    pub(crate) cell: Cell,
    pub(crate) kind: dnnl_alg_kind_t,
    pub(crate) prop_kind: dnnl_prop_kind_t,
    pub(crate) direction: c_int,
    pub(crate) flags: c_uint,
}

/// Gradients of weights take the place of what was there.
const OVERWRITE: c_uint = 1;

/// What the caller describes, in the order of these numbers: `[T, N, I]`, `[L, D, N, P]`, `[L, D, N, H]`, `[T, N, 1]`, `[L, D, I, G, H]`,
/// `[L, D, P, G, H]`, `[L, D, 3, H]`, `[L, D, H, P]`, `[L, D, G, H]`, `[T, N, D * P]`, `[L, D, N, P]`, `[L, D, N, H]`.
pub(crate) const SRC: usize = 0;
pub(crate) const STATES: usize = 1;
pub(crate) const CELLS: usize = 2;
pub(crate) const ATTENTION: usize = 3;
pub(crate) const WEIGHTS: usize = 4;
pub(crate) const STATE_WEIGHTS: usize = 5;
pub(crate) const PEEPHOLES: usize = 6;
pub(crate) const PROJECTION: usize = 7;
pub(crate) const BIAS: usize = 8;
pub(crate) const DST: usize = 9;
pub(crate) const LAST_STATES: usize = 10;
pub(crate) const LAST_CELLS: usize = 11;
const COUNT: usize = 12;

/// Without these there is no layer.
const REQUIRED: [usize; 4] = [SRC, WEIGHTS, STATE_WEIGHTS, DST];

/// The name of each, its argument and the argument of its gradient, and the query for it with an index.
const NAMED: [(&str, c_int, c_int, c_int, c_int); COUNT] = [
    ("src_layer_desc", arg::SRC, arg::DIFF_SRC, query::SRC, 0),
    ("src_iter_desc", arg::SRC_1, arg::DIFF_SRC_1, query::SRC, 1),
    ("src_iter_c_desc", arg::SRC_2, arg::DIFF_SRC_2, query::SRC, 2),
    ("attention_desc", arg::SRC_3, arg::DIFF_SRC_3, query::SRC, 3),
    ("weights_layer_desc", arg::WEIGHTS, arg::DIFF_WEIGHTS, query::WEIGHTS, 0),
    ("weights_iter_desc", arg::WEIGHTS_1, arg::DIFF_WEIGHTS_1, query::WEIGHTS, 1),
    ("weights_peephole_desc", arg::WEIGHTS_2, arg::DIFF_WEIGHTS_2, query::WEIGHTS, 3),
    ("weights_projection_desc", arg::WEIGHTS_3, arg::DIFF_WEIGHTS_3, query::WEIGHTS, 4),
    ("bias_desc", arg::BIAS, arg::DIFF_BIAS, query::WEIGHTS, 2),
    ("dst_layer_desc", arg::DST, arg::DIFF_DST, query::DST, 0),
    ("dst_iter_desc", arg::DST_1, arg::DIFF_DST_1, query::DST, 1),
    ("dst_iter_c_desc", arg::DST_2, arg::DIFF_DST_2, query::DST, 2),
];

/// Descriptors by their numbers; without a layout of their own they are dense.
pub(crate) struct Given([Option<MemoryDesc>; COUNT]);

/// Tensors by the same numbers.
struct Bound([Option<Tensor>; COUNT]);

impl Given {
    /// Reads what the caller passes, each with its number.
    ///
    /// # Safety
    /// The descriptors are null or live.
    pub(crate) unsafe fn read(all: &[(usize, const_dnnl_memory_desc_t)]) -> Outcome<Self> {
        let mut given = [const { None }; COUNT];
        for &(what, desc) in all {
            let name = NAMED[what].0;
            // SAFETY: by contract.
            given[what] = unsafe {
                if REQUIRED.contains(&what) {
                    Some(settled(what, open(desc, name)?)?)
                } else {
                    optional(desc, name)?.map(|desc| settled(what, desc)).transpose()?
                }
            };
        }
        Ok(Self(given))
    }

    /// The same after checking that one is there.
    pub(crate) fn with(self, what: usize) -> Outcome<Self> {
        self.get(what)?;
        Ok(self)
    }

    fn get(&self, what: usize) -> Outcome<&MemoryDesc> {
        self.0[what].as_ref().ok_or_else(|| Failure::invalid(format!("{} is missing", NAMED[what].0)))
    }

    /// The operands of the primitive.
    fn bound(&self, recipe: &mut Recipe) -> Bound {
        self.each(|(_, number, _, query, index), desc| recipe.operand(number, (query, index), desc))
    }

    /// The gradients of the primitive.
    fn bound_gradients(&self, recipe: &mut Recipe) -> Bound {
        self.each(|(_, _, number, what, index), desc| {
            let what = match what {
                query::SRC => query::DIFF_SRC,
                query::WEIGHTS => query::DIFF_WEIGHTS,
                _ => query::DIFF_DST,
            };
            recipe.operand(number, (what, index), desc)
        })
    }

    fn each(&self, mut make: impl FnMut((&str, c_int, c_int, c_int, c_int), MemoryDesc) -> Tensor) -> Bound {
        Bound(std::array::from_fn(|what| self.0[what].clone().map(|desc| make(NAMED[what], desc))))
    }
}

impl Bound {
    fn get(&self, what: usize) -> Outcome<&Tensor> {
        self.0[what].as_ref().ok_or_else(|| Failure::invalid(format!("{} is missing", NAMED[what].0)))
    }

    fn find(&self, what: usize) -> Option<&Tensor> {
        self.0[what].as_ref()
    }
}

/// The sizes of the layers.
struct Shape {
    op: Recurrent,
    layers: usize,
    steps: usize,
    batch: usize,
    hidden: usize,
    /// Units of a state.
    units: usize,
    /// Directions whose states lie side by side.
    side: usize,
}

impl Shape {
    fn gates(&self) -> usize {
        self.op.cell.gates()
    }

    fn is_linear(&self) -> bool {
        self.op.cell == Cell::GruLinearBeforeReset
    }

    /// The layers' result, directions apart.
    fn apart(&self) -> Dims {
        [self.steps, self.batch, self.side, self.units].into()
    }

    /// What the gradient of a layer reads.
    fn kept(&self) -> Dims {
        [self.op.direction.count(), self.steps, self.batch, self.op.cell.rows(), self.hidden].into()
    }

    /// The result of a layer that another one reads, in one direction.
    fn between(&self) -> Dims {
        [self.steps, self.batch, self.units].into()
    }

    /// A layer alone runs in all its directions at once; a stack of layers runs in each by itself.
    fn passes(&self) -> Vec<Pass> {
        let direction = |backward| if backward { Direction::RightToLeft } else { Direction::LeftToRight };
        let count = self.op.direction.count();
        if self.layers == 1 || count == 1 {
            return vec![Pass { op: self.op, way: None }];
        }
        let own = |way| Recurrent { direction: direction(self.op.direction.is_backward(way)), ..self.op };
        (0..count).map(|way| Pass { op: own(way), way: Some(way) }).collect()
    }

    /// The elements of the workspace: what gradients read of each layer, and the results of all layers but the last.
    fn workspace(&self) -> Outcome<MemoryDesc> {
        let kept = self.layers.checked_mul(self.kept().elements());
        let between = self.between().elements().checked_mul(self.op.direction.count());
        let results = between.and_then(|between| between.checked_mul(self.layers - 1));
        let all = kept.zip(results).and_then(|(kept, results)| kept.checked_add(results));
        let all = all.ok_or_else(|| Failure::invalid("the workspace is too large"))?;
        Ok(MemoryDesc::new([all], DataType::F32))
    }

    fn kept_of(&self, workspace: &Tensor, layer: usize, pass: &Pass) -> Outcome<Tensor> {
        pass.own(&piece(workspace, layer * self.kept().elements(), self.kept())?)
    }

    fn result_of(&self, workspace: &Tensor, layer: usize, pass: &Pass) -> Outcome<Tensor> {
        let place = layer * self.op.direction.count() + pass.way.unwrap_or(0);
        let from = self.layers * self.kept().elements() + place * self.between().elements();
        piece(workspace, from, self.between())
    }
}

/// What one stack of layers computes: all directions, or one of several.
struct Pass {
    op: Recurrent,
    way: Option<usize>,
}

impl Pass {
    /// What it has of a tensor whose first axis are the directions.
    fn own(&self, tensor: &Tensor) -> Outcome<Tensor> {
        self.way.map_or_else(|| Ok(tensor.clone()), |way| part(tensor, 0, way, 1))
    }

    /// What it has of a layer's part of a tensor.
    fn of_layer(&self, tensor: &Tensor, layer: usize) -> Outcome<Tensor> {
        self.own(&layer_of(tensor, layer)?)
    }

    /// What it has of results `[T, N, D, H]`, or of their sum.
    fn shown(&self, result: &Tensor) -> Outcome<Tensor> {
        match self.way {
            Some(way) if result.dims()[2] > 1 => part(result, 2, way, 1),
            _ => Ok(result.clone()),
        }
    }
}

impl Layers {
    pub(crate) fn forward(&self, recipe: &mut Recipe, attr: &Attr, given: &Given) -> Outcome<Facts> {
        let training = is_training(self.prop_kind)?;
        let mut shape = self.shape(given)?;
        if self.is_quantized(given, training)? {
            attr.without_recurrent().check_plain()?;
            let (scale, shift) = attr.recurrent.data();
            shape.op = shape.op.with_quantization(scale, shift);
        } else {
            attr.check_plain()?;
        }
        let bound = given.bound(recipe);
        let factors = Factored::new(recipe, &shape, attr, given)?;
        let workspace = if training {
            Some(recipe.operand(arg::WORKSPACE, (query::WORKSPACE, 0), shape.workspace()?))
        } else {
            None
        };
        let (result, pending) = recipe.write_as(bound.get(DST)?, shape.apart())?;
        let mut sums = Vec::new();
        for pass in shape.passes() {
            let mut input = bound.get(SRC)?.clone();
            for layer in 0..shape.layers {
                let mut own = vec![(Arg::SRC, input.clone())];
                own.extend(weights(recipe, &shape, &bound, layer, &pass)?);
                own.extend(factors.of_layer(layer, &pass)?);
                if let Some(bias) = bound.find(BIAS) {
                    let bias = pass.of_layer(bias, layer)?;
                    own.push((Arg::Bias, part(&bias, 1, 0, shape.gates())?));
                    if shape.is_linear() {
                        own.push((Recurrent::STATE_BIAS, candidate_bias(recipe, &bias, shape.gates())?));
                    }
                }
                for (what, to) in [
                    (STATES, Recurrent::INITIAL_STATE),
                    (CELLS, Recurrent::INITIAL_CELL),
                    (LAST_STATES, Recurrent::LAST_STATE),
                    (LAST_CELLS, Recurrent::LAST_CELL),
                ] {
                    if let Some(tensor) = bound.find(what) {
                        own.push((to, pass.of_layer(tensor, layer)?));
                    }
                }
                if let Some(workspace) = &workspace {
                    own.push((Recurrent::WORKSPACE, shape.kept_of(workspace, layer, &pass)?));
                }
                let is_last = layer + 1 == shape.layers;
                let is_sum = pass.way.is_some() && shape.side == 1;
                let own_result = if is_last && !is_sum {
                    pass.shown(&result)?
                } else {
                    let kept = if training || is_last { DataType::F32 } else { input.desc.data_type() };
                    let dims = [shape.steps, shape.batch, 1, shape.units];
                    recipe.temporary(MemoryDesc::new(dims, kept))
                };
                own.push((Arg::DST, own_result.clone()));
                step(recipe, pass.op, &own)?;
                if is_last {
                    sums.extend(is_sum.then_some(own_result));
                    continue;
                }
                input = own_result.dense_as(shape.between())?;
                if let Some(workspace) = &workspace {
                    recipe.reorder(&input, &shape.result_of(workspace, layer, &pass)?)?;
                }
            }
        }
        if let [first, second] = &sums[..] {
            let mut f = Formula::new(result.dims());
            let (a, b) = (f.tensor(first), f.tensor(second));
            let mut sum = f.add(a, b);
            if let Some(own) = shape.op.quantization.filter(|_| !result.desc.data_type().is_float()) {
                sum = f.times(sum, own.scale);
                sum = f.plus(sum, own.shift);
            }
            f.result(sum, &result);
            recipe.formula(f)?;
        }
        pending.store(recipe)?;
        Ok(self.facts())
    }

    /// Whether the layers are of integers, which few are.
    fn is_quantized(&self, given: &Given, training: bool) -> Outcome<bool> {
        let own = given.get(SRC)?.data_type();
        let is_integer = |desc: &&MemoryDesc| !desc.data_type().is_float();
        let Some(integers) = given.0.iter().flatten().find(is_integer) else { return Ok(false) };
        let refuse = |what: String| Err(Lack::Recurrent.failure(what));
        if own.is_float() {
            return refuse(format!("{integers} beside a source in {own}"));
        }
        if training || !matches!(self.kind, VANILLA_LSTM | VANILLA_GRU) {
            return refuse("integers of this cell or for training".to_owned());
        }
        for (what, (name, ..)) in NAMED.iter().enumerate() {
            let Some(desc) = &given.0[what] else { continue };
            let given = desc.data_type();
            let fits = match what {
                SRC => matches!(given, DataType::U8 | DataType::S8),
                WEIGHTS | STATE_WEIGHTS | PROJECTION => given == DataType::S8,
                STATES | DST | LAST_STATES => given == own || given.is_float(),
                _ => given.is_float(),
            };
            if !fits {
                return refuse(format!("{name} in {given} of a layer in {own}"));
            }
        }
        Ok(true)
    }

    /// The gradients of all layers, from the last to the first.
    pub(crate) fn backward(
        &self,
        recipe: &mut Recipe,
        attr: &Attr,
        (given, gradients): (&Given, &Given),
        hint: &Described,
    ) -> Outcome<Facts> {
        if self.prop_kind != dnnl_backward {
            return Err(Failure::invalid(format!("{} is not the backward propagation kind", self.prop_kind)));
        }
        attr.check_plain()?;
        let shape = self.shape(given)?;
        for (what, (name, ..)) in NAMED.iter().enumerate() {
            let (of, by) = (&given.0[what], &gradients.0[what]);
            if let Some(by) = by
                && of.as_ref().map(MemoryDesc::dims) != Some(by.dims())
            {
                let of = of.as_ref().map_or("absent".to_owned(), |of| of.dims().to_string());
                return Err(Failure::invalid(format!("diff_{name} is {}, {name} is {of}", by.dims())));
            }
        }
        let workspace = hint.operands.iter().find(|operand| operand.number == arg::WORKSPACE);
        let workspace = workspace.ok_or_else(|| Failure::invalid("the hint has no workspace"))?.desc.clone();
        let same_cell = hint.facts.integers.contains(&(query::CELL_KIND, i64::from(self.kind)));
        if !workspace.same_bytes(&shape.workspace()?) || !same_cell {
            return Err(Failure::invalid("the hint is of other layers"));
        }
        let (bound, by) = (given.bound(recipe), gradients.bound_gradients(recipe));
        let workspace = recipe.operand(arg::WORKSPACE, (query::WORKSPACE, 0), workspace);
        let of_results = recipe.read_as(by.get(DST)?, shape.apart())?;
        for (i, pass) in shape.passes().iter().enumerate() {
            let mut of_result = pass.shown(&of_results)?;
            for layer in (0..shape.layers).rev() {
                let input = match layer.checked_sub(1) {
                    None => bound.get(SRC)?.clone(),
                    Some(before) => shape.result_of(&workspace, before, pass)?,
                };
                let mut own = vec![(Arg::SRC, input.clone())];
                own.extend(weights(recipe, &shape, &bound, layer, pass)?);
                own.push((Backward::DIFF_DST, of_result.clone()));
                own.push((Backward::WORKSPACE, shape.kept_of(&workspace, layer, pass)?));
                for (what, to) in [
                    (LAST_STATES, Backward::DIFF_LAST_STATE),
                    (LAST_CELLS, Backward::DIFF_LAST_CELL),
                    (STATES, Backward::DIFF_INITIAL_STATE),
                    (CELLS, Backward::DIFF_INITIAL_CELL),
                ] {
                    if let Some(tensor) = by.find(what) {
                        own.push((to, pass.of_layer(tensor, layer)?));
                    }
                }
                // What several passes and layers read has the sum of their gradients.
                let is_first = i == 0 && layer + 1 == shape.layers;
                let mut added = self.weight_gradients(recipe, &shape, &by, layer, pass, &mut own)?;
                if let Some(attention) = by.find(ATTENTION) {
                    shared(recipe, Backward::DIFF_ATTENTION, attention, is_first, &mut own, &mut added);
                }
                if layer == 0 {
                    shared(recipe, Arg::DST, by.get(SRC)?, i == 0, &mut own, &mut added);
                } else {
                    let of_input = recipe.temporary(MemoryDesc::new(shape.between(), DataType::F32));
                    of_result = of_input.dense_as([shape.steps, shape.batch, 1, shape.units])?;
                    own.push((Arg::DST, of_input));
                }
                step(recipe, Backward::new(pass.op), &own)?;
                for (from, to, adds) in added {
                    if adds {
                        add(recipe, &from, &to)?;
                    } else {
                        recipe.reorder(&from, &to)?;
                    }
                }
            }
        }
        Ok(self.facts())
    }

    /// Gradients by what is not an input: written where they belong, or to temporaries that are added to what is there.
    fn weight_gradients(
        &self,
        recipe: &mut Recipe,
        shape: &Shape,
        by: &Bound,
        layer: usize,
        pass: &Pass,
        own: &mut Vec<(Arg, Tensor)>,
    ) -> Outcome<Vec<(Tensor, Tensor, bool)>> {
        let overwrite = self.flags & OVERWRITE != 0;
        let mut parts = Vec::new();
        for (what, to) in [
            (WEIGHTS, Backward::DIFF_WEIGHTS),
            (STATE_WEIGHTS, Backward::DIFF_STATE_WEIGHTS),
            (PEEPHOLES, Backward::DIFF_PEEPHOLES),
            (PROJECTION, Backward::DIFF_PROJECTION),
        ] {
            if let Some(tensor) = by.find(what) {
                parts.push((to, pass.of_layer(tensor, layer)?, !overwrite));
            }
        }
        let mut added = Vec::new();
        if let Some(bias) = by.find(BIAS) {
            let bias = pass.of_layer(bias, layer)?;
            parts.push((Backward::DIFF_BIAS, part(&bias, 1, 0, shape.gates())?, !overwrite));
            if shape.is_linear() {
                // The gates before the candidate have one bias for both products.
                let dims = [bias.dims()[0], shape.gates(), shape.hidden];
                let all = recipe.temporary(MemoryDesc::new(dims, DataType::F32));
                let candidate = part(&all, 1, shape.gates() - 1, 1)?;
                added.push((candidate, part(&bias, 1, shape.gates(), 1)?, !overwrite));
                own.push((Backward::DIFF_STATE_BIAS, all));
            }
        }
        for (to, tensor, adds) in parts {
            shared(recipe, to, &tensor, !adds, own, &mut added);
        }
        Ok(added)
    }

    fn facts(&self) -> Facts {
        let facts = Facts::new(kind::RNN, self.prop_kind).integer(query::CELL_KIND, self.kind);
        facts.integer(query::DIRECTION, self.direction).integer(query::FLAGS, i64::from(self.flags))
    }

    /// The sizes, after all descriptors have been checked against each other.
    fn shape(&self, given: &Given) -> Outcome<Shape> {
        let direction = match self.direction {
            1 => Direction::LeftToRight,
            2 => Direction::RightToLeft,
            3 => Direction::Concat,
            4 => Direction::Sum,
            other => return Err(Failure::invalid(format!("{other} is no direction of a recurrent layer"))),
        };
        let (weights, src) = (given.get(WEIGHTS)?.dims(), given.get(SRC)?.dims());
        let (&[layers, ways, inputs, gates, hidden], &[steps, batch, _]) = (&weights[..], &src[..]) else {
            let expected = "[layers, directions, inputs, gates, hidden units] and [steps, batch, inputs]";
            return Err(Failure::invalid(format!("weights {weights} and source {src}, expected {expected}")));
        };
        if layers == 0 || ways != direction.count() || gates != self.cell.gates() {
            let (own, cell) = (direction.count(), self.cell.gates());
            let message =
                format!("{layers} layers, {ways} directions, {gates} gates: expected {own} and {cell}");
            return Err(Failure::invalid(message));
        }
        let units = match &given.0[PROJECTION] {
            None => hidden,
            Some(projection) => projection.dims().get(3).copied().unwrap_or_default(),
        };
        let side = if direction == Direction::Concat { 2 } else { 1 };
        let is_linear = self.cell == Cell::GruLinearBeforeReset;
        let (states, cells) = ([layers, ways, batch, units], [layers, ways, batch, hidden]);
        for (what, dims) in [
            (SRC, &[steps, batch, inputs][..]),
            (STATES, &states),
            (CELLS, &cells),
            (ATTENTION, &[steps, batch, 1]),
            (STATE_WEIGHTS, &[layers, ways, units, gates, hidden]),
            (PEEPHOLES, &[layers, ways, 3, hidden]),
            (PROJECTION, &[layers, ways, hidden, units]),
            (BIAS, &[layers, ways, gates + usize::from(is_linear), hidden]),
            (DST, &[steps, batch, side * units]),
            (LAST_STATES, &states),
            (LAST_CELLS, &cells),
        ] {
            let Some(desc) = &given.0[what] else { continue };
            if **desc.dims() != *dims {
                let (name, expected) = (NAMED[what].0, Dims::new(dims));
                return Err(Failure::invalid(format!("{name} is {}, expected {expected}", desc.dims())));
            }
        }
        if layers > 1 && inputs != units {
            let message = format!("{inputs} inputs of a layer, {units} results of the one before");
            return Err(Failure::invalid(message));
        }
        let op = Recurrent::new(self.cell, direction);
        Ok(Shape { op, layers, steps, batch, hidden, units, side })
    }
}

/// What the weights of quantised layers were multiplied by, under their dimensions but for what is summed: each is whole or one.
struct Factored(Vec<(Arg, Tensor)>);

impl Factored {
    fn new(recipe: &mut Recipe, shape: &Shape, attr: &Attr, given: &Given) -> Outcome<Self> {
        if shape.op.quantization.is_none() {
            return Ok(Self(Vec::new()));
        }
        let own = &attr.recurrent;
        let mut all = Vec::new();
        for (what, to, factors) in [
            (WEIGHTS, Recurrent::WEIGHTS_SCALES, &own.weights),
            (PROJECTION, Recurrent::PROJECTION_SCALES, &own.projection),
        ] {
            let Some(weights) = &given.0[what] else { continue };
            let made = Factors::tensor(factors.as_ref(), recipe, weights, TERMS)?;
            let dims: Dims =
                made.dims().iter().enumerate().filter(|(i, _)| *i != TERMS).map(|(_, &dim)| dim).collect();
            all.push((to, made.dense_as(dims)?));
        }
        Ok(Self(all))
    }

    fn of_layer(&self, layer: usize, pass: &Pass) -> Outcome<Vec<(Arg, Tensor)>> {
        let own = |(to, all): &(Arg, Tensor)| {
            let of_layer = layer_of(all, layer.min(all.dims()[0] - 1))?;
            let is_shared = of_layer.dims()[0] == 1;
            Ok((*to, if is_shared { of_layer } else { pass.own(&of_layer)? }))
        };
        self.0.iter().map(own).collect()
    }
}

/// The dimension of weights along which products are summed.
pub(crate) const TERMS: usize = 2;

/// A descriptor with a layout. A quantised projection that is left open lies by its results, by which a reorder knows it from states.
fn settled(what: usize, desc: MemoryDesc) -> Outcome<MemoryDesc> {
    if what == PROJECTION && desc.is_any() && desc.data_type() == DataType::S8 && desc.rank() == 4 {
        return Ok(MemoryDesc::with_tag(desc.dims().clone(), DataType::S8, "abdc")?);
    }
    Ok(dense(desc))
}

/// What forward and backward passes read of a layer beside its inputs.
fn weights(
    recipe: &mut Recipe,
    shape: &Shape,
    bound: &Bound,
    layer: usize,
    pass: &Pass,
) -> Outcome<Vec<(Arg, Tensor)>> {
    let mut own = Vec::new();
    for (what, to) in [
        (WEIGHTS, Arg::Weights),
        (STATE_WEIGHTS, Recurrent::STATE_WEIGHTS),
        (PEEPHOLES, Recurrent::PEEPHOLES),
        (PROJECTION, Recurrent::PROJECTION),
    ] {
        if let Some(tensor) = bound.find(what) {
            own.push((to, pass.of_layer(tensor, layer)?));
        }
    }
    if let Some(attention) = bound.find(ATTENTION) {
        own.push((Recurrent::ATTENTION, recipe.read_as(attention, [shape.steps, shape.batch, 1])?));
    }
    Ok(own)
}

/// A gradient written where it belongs, or to a temporary that is added to what is there.
fn shared(
    recipe: &mut Recipe,
    arg: Arg,
    tensor: &Tensor,
    is_first: bool,
    own: &mut Vec<(Arg, Tensor)>,
    added: &mut Vec<(Tensor, Tensor, bool)>,
) {
    if is_first {
        own.push((arg, tensor.clone()));
    } else {
        let made = recipe.temporary(MemoryDesc::new(tensor.dims().clone(), DataType::F32));
        added.push((made.clone(), tensor.clone(), true));
        own.push((arg, made));
    }
}

fn step(recipe: &mut Recipe, op: impl Into<anydnn_backend::Op>, own: &[(Arg, Tensor)]) -> Outcome {
    let args: Vec<(Arg, &Tensor)> = own.iter().map(|(arg, tensor)| (*arg, tensor)).collect();
    recipe.step(op, &args, &Attributes::default())
}

/// Adds to what is there.
fn add(recipe: &mut Recipe, from: &Tensor, to: &Tensor) -> Outcome {
    let adds = Attributes::default().with_post_op(PostOp::sum(1.0));
    recipe.step(Reorder, &[(Arg::SRC, from), (Arg::DST, to)], &adds)
}

/// Some elements of a dense tensor under other dimensions.
fn piece(tensor: &Tensor, from: usize, dims: Dims) -> Outcome<Tensor> {
    let row_major = MemoryDesc::new(dims.clone(), tensor.desc.data_type());
    let own = row_major.blocking().ok_or_else(|| missing("a workspace without strides"))?;
    let layout = Layout::Blocked(Blocking { offset: from, ..own.clone() });
    let desc = MemoryDesc::with_layout(dims, tensor.desc.data_type(), layout)?;
    Ok(Tensor { desc, ..tensor.clone() })
}

/// What a layer has of a tensor whose first axis are the layers.
fn layer_of(tensor: &Tensor, layer: usize) -> Outcome<Tensor> {
    let tensor = part(tensor, 0, layer, 1)?;
    let dims: Dims = tensor.dims()[1..].iter().copied().collect();
    Ok(Tensor { desc: tensor.desc.reshaped(dims)?, ..tensor })
}

/// Some of a tensor's elements along an axis without blocks.
fn part(tensor: &Tensor, axis: usize, from: usize, count: usize) -> Outcome<Tensor> {
    let desc = &tensor.desc;
    let plain = desc.blocking().filter(|blocking| blocking.inner.iter().all(|&(other, _)| other != axis));
    let blocking = plain.ok_or_else(|| missing("blocks of layers, directions or gates"))?;
    let mut dims = desc.dims().to_vec();
    dims[axis] = count;
    let offset = blocking.offset + from * blocking.strides[axis];
    let layout = Layout::Blocked(Blocking { offset, ..blocking.clone() });
    let desc = MemoryDesc::with_layout(dims, desc.data_type(), layout)?;
    Ok(Tensor { desc, ..tensor.clone() })
}

/// A bias of the state's products that is zero but for the candidate's, which is the row behind those of the gates.
fn candidate_bias(recipe: &mut Recipe, bias: &Tensor, gates: usize) -> Outcome<Tensor> {
    let (ways, hidden) = (bias.dims()[0], bias.dims()[2]);
    let all = recipe.temporary(MemoryDesc::new([ways, gates, hidden], DataType::F32));
    let others = part(&all, 1, 0, gates - 1)?;
    let mut f = Formula::new(others.dims());
    let zero = f.number(0.0);
    f.result(zero, &others);
    recipe.formula(f)?;
    let (row, own) = (part(bias, 1, gates, 1)?, part(&all, 1, gates - 1, 1)?);
    recipe.reorder(&row, &own)?;
    Ok(all)
}

pub(crate) fn missing(what: &str) -> Failure {
    Failure::Status(dnnl_unimplemented, format!("{what} of recurrent layers"))
}
