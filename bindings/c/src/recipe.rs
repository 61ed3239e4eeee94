//! How a primitive runs: primitives of the Rust API one after the other, on the operands and on temporaries between them.

use std::ffi::c_int;
use std::sync::Arc;

use anydnn_backend::op::{Expression, Fold, Node, Reorder};
use anydnn_backend::{
    Arg, Attributes, BinaryAlgorithm, Blocking, DataType, Dims, Eltwise, Engine, Error, Layout, MemoryDesc,
    Op, PrimitiveDesc,
};

use crate::boundary::{Failure, Outcome};
use crate::desc::Md;
use crate::engine::EngineRef;
use crate::grouped::Grouping;
use crate::kinds::arg;
use crate::refusals::Lack;

/// A recipe that is being written, for one engine.
pub(crate) struct Recipe {
    pub(crate) engine: EngineRef,
    /// What the caller binds.
    pub(crate) operands: Vec<Operand>,
    /// What lies between steps.
    pub(crate) temporaries: Vec<MemoryDesc>,
    /// What is known already.
    pub(crate) constants: Vec<Constant>,
    pub(crate) steps: Vec<Step>,
    /// The bytes of working memory that the last step wants beside temporaries.
    pub(crate) scratchpad: usize,
    /// The numbers of arguments that are rounded at random.
    pub(crate) stochastic: Vec<c_int>,
    /// Those of them that steps compute in f32: the number, the value, the operand.
    pub(crate) unrounded: Vec<(c_int, Tensor, usize)>,
    /// What queries tell of arguments that are no dense tensors.
    pub(crate) described: Vec<(c_int, Md)>,
    /// The groups of the result's rows.
    pub(crate) grouping: Option<Grouping>,
    /// The temporaries that are copies of operands, each with its operand.
    copies: Vec<(usize, usize)>,
}

/// What the caller binds by a number.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    /// The number of the argument.
    pub(crate) number: c_int,
    /// The query and index that ask for its descriptor; zero for none.
    pub(crate) query: (c_int, c_int),
    pub(crate) desc: MemoryDesc,
    /// Which of the memory's handles: one but for sparse tensors.
    pub(crate) part: usize,
}

/// Whose bytes a step touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Operand(usize),
    Temporary(usize),
    Constant(usize),
}

/// Numbers that steps read.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) desc: MemoryDesc,
    pub(crate) numbers: Arc<[f32]>,
}

/// A primitive with what its arguments are bound to.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) desc: PrimitiveDesc,
    pub(crate) args: Vec<(Arg, Place)>,
}

/// Bytes as a step sees them.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) place: Place,
    pub(crate) desc: MemoryDesc,
    /// How the view came about, for scales that have to follow it.
    pub(crate) changes: Vec<View>,
}

/// A step from an operand to a view of it.
#[derive(Clone, Debug)]
pub(crate) enum View {
    /// Axes in another order.
    Permuted(Vec<usize>),
    /// Neighbouring axes from the first on become one.
    Merged(usize, usize),
}

impl View {
    /// The view of a descriptor after the change.
    pub(crate) fn of(&self, desc: &MemoryDesc) -> Result<MemoryDesc, Error> {
        match self {
            Self::Permuted(order) => desc.permuted(order),
            Self::Merged(first, count) => {
                let (dims, end) = (desc.dims(), first + count);
                let merged = dims[*first..end].iter().product();
                let dims: Dims =
                    dims[..*first].iter().chain([&merged]).chain(&dims[end..]).copied().collect();
                desc.reshaped(dims)
            }
        }
    }

    /// The descriptor that a view was made of by these changes, where they only turned it.
    fn undone(changes: &[Self], desc: &MemoryDesc) -> Option<MemoryDesc> {
        changes.iter().rev().try_fold(desc.clone(), |desc, change| match change {
            Self::Permuted(order) => {
                let mut inverse = vec![0; order.len()];
                order.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
                desc.permuted(&inverse).ok()
            }
            Self::Merged(..) => None,
        })
    }
}

impl Recipe {
    pub(crate) fn new(engine: EngineRef) -> Self {
        Self {
            engine,
            operands: Vec::new(),
            temporaries: Vec::new(),
            constants: Vec::new(),
            steps: Vec::new(),
            scratchpad: 0,
            stochastic: Vec::new(),
            unrounded: Vec::new(),
            described: Vec::new(),
            grouping: None,
            copies: Vec::new(),
        }
    }

    /// An operand by its number, whose descriptor is asked for by a query with an index. A gradient that is rounded at random is a temporary
    /// in f32 for the steps; [`Recipe::store_rounded`] ends them.
    pub(crate) fn operand(&mut self, number: c_int, query: (c_int, c_int), desc: MemoryDesc) -> Tensor {
        let tensor = self.part(number, query, desc, 0);
        let desc = &tensor.desc;
        let position = self.operands.len() - 1;
        let is_wider = matches!(desc.data_type(), DataType::F32 | DataType::F64);
        let is_gradient = matches!(number, arg::DIFF_SRC | arg::DIFF_WEIGHTS);
        if is_gradient && !is_wider && self.stochastic.contains(&number) {
            let plain = self.temporary(desc.with_data_type(DataType::F32));
            self.unrounded.push((number, plain.clone(), position));
            return plain;
        }
        tensor
    }

    /// What one of an argument's handles holds.
    pub(crate) fn part(
        &mut self,
        number: c_int,
        query: (c_int, c_int),
        desc: MemoryDesc,
        part: usize,
    ) -> Tensor {
        self.operands.push(Operand { number, query, desc, part });
        self.tensor_of(self.operands.len() - 1)
    }

    /// An operand that is there, by its position.
    pub(crate) fn tensor_of(&self, position: usize) -> Tensor {
        let desc = self.operands[position].desc.clone();
        Tensor { place: Place::Operand(position), desc, changes: Vec::new() }
    }

    /// A temporary.
    pub(crate) fn temporary(&mut self, desc: MemoryDesc) -> Tensor {
        self.temporaries.push(desc.clone());
        Tensor { place: Place::Temporary(self.temporaries.len() - 1), desc, changes: Vec::new() }
    }

    /// Numbers that steps read, dense and in f32.
    pub(crate) fn known(&mut self, desc: MemoryDesc, numbers: &[f32]) -> Tensor {
        self.constants.push(Constant { desc: desc.clone(), numbers: numbers.into() });
        Tensor { place: Place::Constant(self.constants.len() - 1), desc, changes: Vec::new() }
    }

    /// One more step. Layouts that are left open become those that the primitive chooses.
    pub(crate) fn step(
        &mut self,
        op: impl Into<Op>,
        args: &[(Arg, &Tensor)],
        attributes: &Attributes,
    ) -> Outcome {
        let mut builder = PrimitiveDesc::builder(op);
        // Operands of post-operations and scales are described by the attributes.
        let described = |arg: Arg| {
            matches!(arg, Arg::PostOp(_) | Arg::PostOpOther(_) | Arg::ScaleOf(_) | Arg::ZeroPointOf(_))
        };
        for &(arg, tensor) in args.iter().filter(|(arg, _)| !described(*arg)) {
            builder = builder.arg(arg, self.current(tensor));
        }
        let desc = builder.attributes(attributes.clone()).build()?;
        // What computes no elements is no step.
        if desc.args().iter().all(|operand| !operand.access.writes() || operand.desc.elements() == 0) {
            for (_, tensor) in args {
                let slot = self.slot(tensor);
                *slot = dense(slot.clone());
            }
            return Ok(());
        }
        let engine = self.engine.value();
        let (desc, scratchpad) =
            engine.cache.resolved(&desc, || Ok(engine.engine.resolve_with_scratchpad(&desc)?))?;
        for &(arg, tensor) in args {
            let Some(resolved) = desc.find(arg) else { continue };
            let slot = self.slot(tensor);
            if slot.is_any() {
                let seen = || Lack::Layout.failure(format_args!("an open layout of {slot} seen otherwise"));
                let own = View::undone(&tensor.changes, resolved).ok_or_else(seen)?;
                if slot.dims() != own.dims() {
                    return Err(seen());
                }
                *slot = own;
            }
        }
        self.scratchpad = scratchpad;
        self.steps.push(Step { desc, args: args.iter().map(|(arg, tensor)| (*arg, tensor.place)).collect() });
        Ok(())
    }

    /// One more step that computes a formula.
    pub(crate) fn formula(&mut self, formula: Formula) -> Outcome {
        let Formula { expression, sources, results } = formula;
        let sources = sources.iter().enumerate().map(|(i, tensor)| (Arg::Src(i as u16), tensor));
        let results = results.iter().enumerate().map(|(i, tensor)| (Arg::Dst(i as u16), tensor));
        let args: Vec<_> = sources.chain(results).collect();
        self.step(Op::Expression(expression), &args, &Attributes::default())
    }

    /// A copy of bytes into another layout or type.
    pub(crate) fn reorder(&mut self, from: &Tensor, to: &Tensor) -> Outcome {
        self.step(Op::Reorder(Reorder), &[(Arg::SRC, from), (Arg::DST, to)], &Attributes::default())
    }

    /// A view to read: of the bytes themselves, or of a dense copy where their layout has none.
    pub(crate) fn read(&mut self, tensor: &Tensor, changes: &[View]) -> Outcome<Tensor> {
        let mut view = tensor.clone();
        for change in changes {
            if change.of(&view.desc).is_err() {
                let copy = self.temporary(view.desc.to_row_major());
                self.reorder(&view, &copy)?;
                if let (Some(from), Place::Temporary(to)) = (self.operand_of(&view), copy.place) {
                    self.copies.push((to, from));
                }
                view = Tensor { changes: view.changes, ..copy };
            }
            view = view.changed(change)?;
        }
        Ok(view)
    }

    /// A view to read under other dimensions; see [`Recipe::read`].
    pub(crate) fn read_as(&mut self, tensor: &Tensor, dims: impl Into<Dims>) -> Outcome<Tensor> {
        let dims = dims.into();
        if let Ok(desc) = tensor.desc.reshaped(dims.clone()) {
            return Ok(Tensor { desc, ..tensor.clone() });
        }
        let copy = self.temporary(tensor.desc.to_row_major());
        self.reorder(tensor, &copy)?;
        Ok(Tensor { desc: copy.desc.reshaped(dims)?, ..copy })
    }

    /// A view to write: of the bytes themselves, or of a dense temporary that [`Pending::store`] copies.
    pub(crate) fn write(&mut self, tensor: &Tensor, changes: &[View]) -> Outcome<(Tensor, Pending)> {
        let (mut view, mut pending) = (tensor.clone(), None);
        for change in changes {
            if pending.is_none() && change.of(&view.desc).is_err() {
                let copy = self.temporary(view.desc.to_row_major());
                pending = Some((copy.clone(), view.clone()));
                view = Tensor { changes: view.changes, ..copy };
            }
            view = view.changed(change)?;
        }
        Ok((view, Pending(pending)))
    }

    /// A view to write under other dimensions; see [`Recipe::write`].
    pub(crate) fn write_as(&mut self, tensor: &Tensor, dims: impl Into<Dims>) -> Outcome<(Tensor, Pending)> {
        let dims = dims.into();
        if let Ok(desc) = tensor.desc.reshaped(dims.clone()) {
            return Ok((Tensor { desc, ..tensor.clone() }, Pending(None)));
        }
        let copy = self.temporary(tensor.desc.to_row_major());
        let view = Tensor { desc: copy.desc.reshaped(dims)?, ..copy.clone() };
        Ok((view, Pending(Some((copy, tensor.clone())))))
    }

    /// The position of the operand that a tensor is a view or a copy of.
    pub(crate) fn operand_of(&self, tensor: &Tensor) -> Option<usize> {
        match tensor.place {
            Place::Operand(i) => Some(i),
            Place::Temporary(i) => self.copies.iter().find(|(to, _)| *to == i).map(|(_, from)| *from),
            Place::Constant(_) => None,
        }
    }

    /// The descriptor of whole bytes.
    pub(crate) fn slot(&mut self, tensor: &Tensor) -> &mut MemoryDesc {
        match tensor.place {
            Place::Operand(i) => &mut self.operands[i].desc,
            Place::Temporary(i) => &mut self.temporaries[i],
            Place::Constant(i) => &mut self.constants[i].desc,
        }
    }

    /// What is known of a tensor's layout by now.
    pub(crate) fn current(&self, tensor: &Tensor) -> MemoryDesc {
        let slot = match tensor.place {
            Place::Operand(i) => &self.operands[i].desc,
            Place::Temporary(i) => &self.temporaries[i],
            Place::Constant(i) => &self.constants[i].desc,
        };
        let known = || tensor.changes.iter().try_fold(slot.clone(), |desc, change| change.of(&desc)).ok();
        let is_open = tensor.desc.is_any() && !slot.is_any();
        let known = is_open.then(known).flatten().filter(|known| known.dims() == tensor.desc.dims());
        known.unwrap_or_else(|| tensor.desc.clone())
    }
}

impl Tensor {
    fn changed(mut self, change: &View) -> Result<Self, Error> {
        self.desc = change.of(&self.desc)?;
        self.changes.push(change.clone());
        Ok(self)
    }

    /// The same bytes under other dimensions, for those that are dense.
    pub(crate) fn dense_as(&self, dims: impl Into<Dims>) -> Outcome<Self> {
        Ok(Self { desc: self.desc.reshaped(dims)?, ..self.clone() })
    }

    pub(crate) fn dims(&self) -> &Dims {
        self.desc.dims()
    }
}

/// A copy that is still to be made of what was written.
#[must_use]
pub(crate) struct Pending(Option<(Tensor, Tensor)>);

impl Pending {
    /// Makes the copy.
    pub(crate) fn store(self, recipe: &mut Recipe) -> Outcome {
        match self.0 {
            Some((from, to)) => recipe.reorder(&from, &to),
            None => Ok(()),
        }
    }
}

/// An expression with its sources and results.
pub(crate) struct Formula {
    expression: Expression,
    sources: Vec<Tensor>,
    results: Vec<Tensor>,
}

impl Formula {
    /// A formula over a space of these dimensions.
    pub(crate) fn new(dims: &Dims) -> Self {
        Self { expression: Expression::new(dims.clone()), sources: Vec::new(), results: Vec::new() }
    }

    /// With axes along which folds join.
    pub(crate) fn folded(mut self, axes: impl IntoIterator<Item = usize>) -> Self {
        self.expression.folded = axes.into_iter().collect();
        self
    }

    pub(crate) fn tensor(&mut self, tensor: &Tensor) -> usize {
        let source = self.source(tensor);
        self.push(Node::Operand(source))
    }

    /// A tensor by its number among the sources.
    pub(crate) fn source(&mut self, tensor: &Tensor) -> u16 {
        self.sources.push(tensor.clone());
        self.sources.len() as u16 - 1
    }

    pub(crate) fn push(&mut self, node: Node) -> usize {
        self.expression.push(node)
    }

    pub(crate) fn index(&mut self, axis: usize) -> usize {
        self.push(Node::Index(axis))
    }

    pub(crate) fn cast(&mut self, data_type: DataType, a: usize) -> usize {
        self.push(Node::Cast(data_type, a))
    }

    pub(crate) fn number(&mut self, number: f32) -> usize {
        self.expression.push(Node::Constant(number))
    }

    pub(crate) fn apply(&mut self, function: Eltwise, a: usize) -> usize {
        self.expression.push(Node::Eltwise(function, a))
    }

    pub(crate) fn gradient(&mut self, function: Eltwise, of_result: bool, at: usize, diff: usize) -> usize {
        self.expression.push(Node::Gradient { function, of_result, at, diff })
    }

    pub(crate) fn binary(&mut self, algorithm: BinaryAlgorithm, a: usize, b: usize) -> usize {
        self.expression.push(Node::Binary(algorithm, a, b))
    }

    pub(crate) fn add(&mut self, a: usize, b: usize) -> usize {
        self.binary(BinaryAlgorithm::Add, a, b)
    }

    pub(crate) fn sub(&mut self, a: usize, b: usize) -> usize {
        self.binary(BinaryAlgorithm::Subtract, a, b)
    }

    pub(crate) fn mul(&mut self, a: usize, b: usize) -> usize {
        self.binary(BinaryAlgorithm::Multiply, a, b)
    }

    pub(crate) fn div(&mut self, a: usize, b: usize) -> usize {
        self.binary(BinaryAlgorithm::Divide, a, b)
    }

    pub(crate) fn times(&mut self, a: usize, factor: f32) -> usize {
        let factor = self.number(factor);
        self.mul(a, factor)
    }

    pub(crate) fn plus(&mut self, a: usize, summand: f32) -> usize {
        let summand = self.number(summand);
        self.add(a, summand)
    }

    pub(crate) fn power(&mut self, a: usize, exponent: f32) -> usize {
        self.apply(Eltwise::Pow { alpha: 1.0, beta: exponent }, a)
    }

    pub(crate) fn select(&mut self, condition: usize, a: usize, b: usize) -> usize {
        self.expression.push(Node::Select(condition, a, b))
    }

    pub(crate) fn is_positive(&mut self, a: usize) -> usize {
        let zero = self.number(0.0);
        self.binary(BinaryAlgorithm::Greater, a, zero)
    }

    pub(crate) fn fold(&mut self, fold: Fold, a: usize) -> usize {
        self.expression.push(Node::Fold(fold, a))
    }

    pub(crate) fn sum(&mut self, a: usize) -> usize {
        self.fold(Fold::Sum, a)
    }

    /// One over the square root of `variance + epsilon`.
    pub(crate) fn inverse_deviation(&mut self, variance: usize, epsilon: f32) -> usize {
        let shifted = self.plus(variance, epsilon);
        let deviation = self.apply(Eltwise::Sqrt, shifted);
        let one = self.number(1.0);
        self.div(one, deviation)
    }

    /// A node gives a result.
    pub(crate) fn result(&mut self, node: usize, tensor: &Tensor) {
        self.expression.results.push(node);
        self.results.push(tensor.clone());
    }
}

/// Another descriptor with the order of axes and the blocks of this one, dense.
pub(crate) fn like(template: &MemoryDesc, dims: &Dims, data_type: DataType) -> Outcome<MemoryDesc> {
    let Some(blocking) = template.blocking().filter(|_| template.rank() == dims.len()) else {
        return Ok(MemoryDesc::new(dims.clone(), data_type));
    };
    let mut order: Vec<usize> = (0..dims.len()).collect();
    // Axes of one element may have any stride: the order of the others decides, and a stable sort keeps theirs.
    order.sort_by_key(|&axis| std::cmp::Reverse(blocking.strides[axis]));
    let mut stride: usize = blocking.inner.iter().map(|&(_, size)| size).product();
    let mut strides: Dims = dims.clone();
    for &axis in order.iter().rev() {
        strides[axis] = stride;
        let outer = dims[axis].div_ceil(blocking.block(axis)).max(1);
        stride = stride.checked_mul(outer).ok_or_else(|| Failure::invalid("the tensor is too large"))?;
    }
    let layout = Layout::Blocked(Blocking { strides, inner: blocking.inner.clone(), offset: 0 });
    Ok(MemoryDesc::with_layout(dims.clone(), data_type, layout)?)
}

/// A descriptor whose open layout becomes the row-major one.
pub(crate) fn dense(desc: MemoryDesc) -> MemoryDesc {
    if desc.is_any() { desc.to_row_major() } else { desc }
}

/// A descriptor whose open layout becomes that of another one.
pub(crate) fn settled(desc: MemoryDesc, template: &MemoryDesc) -> Outcome<MemoryDesc> {
    if desc.is_any() { like(template, desc.dims(), desc.data_type()) } else { Ok(desc) }
}
