use super::{ErrorGrowth, Operation, expect_axis, shape_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::op::primitive_desc::{Operands, PrimitiveDesc};
use crate::op::{BinaryAlgorithm, Eltwise};

/// A program over the elements of a space of indices: element-wise functions of several tensors, with folds along some axes.
///
/// The space has the dimensions [`Expression::dims`]. [`Expression::nodes`] are computed in order for every index; a node refers to
/// earlier ones by position. An operand's element comes from the source `Arg::Src(i)`, which broadcasts to the space by blocks (see
/// [`Dims::broadcasts_by_blocks_to`]). A [`Node::Fold`] joins its operand over all indices along [`Expression::folded`]; it has one value
/// for each index of the other axes. The `i`-th of [`Expression::results`] is the result `Arg::Dst(i)`; where its descriptor has a
/// dimension of one along every folded axis, the node must not vary along them, else it has the dimensions of the space.
///
/// Values are f32 (f64 where an operand or result is f64). Post-operations apply to the first result.
///
/// Softmax of rows, `e^(x - max) / sum`:
///
/// ```
/// use anydnn_backend::op::{BinaryAlgorithm, Eltwise, Expression, Fold, Node, Op};
/// use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc};
/// let mut e = Expression::new([4, 10]).with_folded([1]);
/// let x = e.push(Node::Operand(0));
/// let max = e.push(Node::Fold(Fold::Max, x));
/// let shifted = e.push(Node::Binary(BinaryAlgorithm::Subtract, x, max));
/// let exp = e.push(Node::Eltwise(Eltwise::Exp, shifted));
/// let sum = e.push(Node::Fold(Fold::Sum, exp));
/// let y = e.push(Node::Binary(BinaryAlgorithm::Divide, exp, sum));
/// e.results.push(y);
/// let tensor = MemoryDesc::new([4, 10], DataType::F32);
/// let desc = PrimitiveDesc::builder(Op::Expression(e)).src(tensor.clone()).dst(tensor).build()?;
/// assert_eq!(desc.args().len(), 2);
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    /// The dimensions of the space.
    pub dims: Dims,
    /// The axes along which folds join, ascending.
    pub folded: Dims,
    /// What is computed, each node after those it refers to.
    pub nodes: Vec<Node>,
    /// The node that gives each result.
    pub results: Vec<usize>,
}

/// One value of an [`Expression`]. Numbers of type `usize` are positions of earlier nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Node {
    /// An element of the source `Arg::Src(i)`.
    Operand(u16),
    /// The same number everywhere.
    Constant(f32),
    /// The index along an axis of the space.
    Index(usize),
    /// A function of one value.
    Eltwise(Eltwise, usize),
    /// The derivative of a function times an incoming gradient; see [`Eltwise::gradient`].
    Gradient {
        /// The function whose derivative is taken.
        function: Eltwise,
        /// Whether `at` is the function's value instead of its argument.
        of_result: bool,
        /// Where the derivative is taken.
        at: usize,
        /// The incoming gradient.
        diff: usize,
    },
    /// A function of two values.
    Binary(BinaryAlgorithm, usize, usize),
    /// The second value where the first is not zero, else the third.
    Select(usize, usize, usize),
    /// The value as it would be after a store as this type and a load: rounded half to even, integers saturated, floats infinite or NaN where they
    /// are too large.
    Cast(DataType, usize),
    /// A value joined over all indices along the folded axes; without such axes, the value.
    Fold(Fold, usize),
    /// One where an element is kept, zero where it is dropped, at random; see [`keeps`]. The fields are sources of one element:
    /// seed and offset (s64), probability (f32).
    Keep {
        /// Source of the seed.
        seed: u16,
        /// Source of the offset.
        offset: u16,
        /// Source of the probability to be dropped.
        probability: u16,
    },
    /// A number in `[0, 1)`, at random; see [`random`]. The fields are sources of one element: seed and offset (s32 or s64).
    Random {
        /// Source of the seed.
        seed: u16,
        /// Source of the offset.
        offset: u16,
    },
}

/// How values join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fold {
    /// The sum; zero of none.
    Sum,
    /// The product; one of none.
    Product,
    /// The largest, NaN if there is one; minus infinity of none.
    Max,
    /// The smallest, NaN if there is one; infinity of none.
    Min,
}

impl Fold {
    /// Every fold.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Product, Self::Max, Self::Min];

    /// The value of no elements.
    pub const fn start(self) -> f64 {
        match self {
            Self::Sum => 0.0,
            Self::Product => 1.0,
            Self::Max => f64::NEG_INFINITY,
            Self::Min => f64::INFINITY,
        }
    }

    /// The definition, in f64.
    pub fn join(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => a + b,
            Self::Product => a * b,
            Self::Max => BinaryAlgorithm::Maximum.reference(a, b),
            Self::Min => BinaryAlgorithm::Minimum.reference(a, b),
        }
    }
}

impl Expression {
    /// An expression over a space of these dimensions, without nodes.
    pub fn new(dims: impl Into<Dims>) -> Self {
        Self { dims: dims.into(), folded: Dims::default(), nodes: Vec::new(), results: Vec::new() }
    }

    /// With axes along which folds join.
    pub fn with_folded(mut self, axes: impl Into<Dims>) -> Self {
        self.folded = axes.into();
        self
    }

    /// Adds a node and returns its position.
    pub fn push(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// The dimensions of a result that does not vary along the folded axes.
    pub fn folded_dims(&self) -> Dims {
        self.dims.iter().enumerate().map(|(i, &d)| if self.folded.contains(&i) { 1 } else { d }).collect()
    }

    /// Whether each node may vary along the folded axes, judged by the nodes and by the sources' dimensions.
    pub fn varies(&self, source: impl Fn(u16) -> Option<Dims>) -> Vec<bool> {
        let mut varies = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let v = match *node {
                Node::Operand(i) => source(i).is_none_or(|dims| {
                    let lead = self.dims.len().saturating_sub(dims.len());
                    self.folded.iter().any(|&axis| axis >= lead && dims[axis - lead] != 1)
                }),
                Node::Constant(_) | Node::Fold(..) => false,
                Node::Index(axis) => self.folded.contains(&axis),
                Node::Keep { .. } | Node::Random { .. } => true,
                _ => node.uses().any(|i| varies[i]),
            };
            varies.push(v);
        }
        varies
    }

    /// The number of sources, those that nodes name.
    pub fn sources(&self) -> usize {
        let most = |node: &Node| match *node {
            Node::Operand(i) => Some(i),
            Node::Keep { seed, offset, probability } => Some(seed.max(offset).max(probability)),
            Node::Random { seed, offset } => Some(seed.max(offset)),
            _ => None,
        };
        self.nodes.iter().filter_map(most).max().map_or(0, |i| usize::from(i) + 1)
    }

    /// Checks positions, axes and results by themselves.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        for axis in self.folded.iter() {
            expect_axis(name, *axis, self.dims.len())?;
        }
        if !self.folded.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(shape_error(
                name,
                "folded axes",
                self.folded.to_string(),
                "ascending axes, each once",
            ));
        }
        for (i, node) in self.nodes.iter().enumerate() {
            if let Some(wrong) = node.uses().find(|&used| used >= i) {
                return Err(Error::invalid(
                    name,
                    format!("node {i}"),
                    format!("using node {wrong}"),
                    "earlier nodes",
                ));
            }
            if let Node::Index(axis) = node {
                expect_axis(name, *axis, self.dims.len())?;
            }
        }
        match self.results.iter().find(|&&node| node >= self.nodes.len()) {
            Some(wrong) => Err(Error::invalid(
                name,
                "results",
                format!("node {wrong}"),
                format!("one of the {} nodes", self.nodes.len()),
            )),
            None if self.results.is_empty() => Err(Error::invalid(name, "results", "none", "at least one")),
            None => Ok(()),
        }
    }
}

impl Expression {
    /// What casts to floats inside of it round, as a part of the value.
    pub(super) fn rounding_of_casts(&self) -> f64 {
        let rounded = |node: &Node| match node {
            Node::Cast(data_type, _) => 2.0 * data_type.unit_roundoff(),
            _ => 0.0,
        };
        self.nodes.iter().map(rounded).sum()
    }
}

impl Operation for Expression {
    fn name(&self) -> &'static str {
        "expression"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        self.check(name)?;
        let sources: Vec<Arg> = (0..self.sources()).map(|i| Arg::Src(i as u16)).collect();
        let others: Vec<Arg> = (1..self.results.len()).map(|i| Arg::Dst(i as u16)).collect();
        let required: Vec<Arg> = sources.iter().chain(&others).copied().collect();
        let operands = operands.only(name, &required, &[])?;
        for node in &self.nodes {
            match *node {
                Node::Operand(i) => {
                    let desc = operands.required(Arg::Src(i))?;
                    if !desc.dims().broadcasts_by_blocks_to(&self.dims) {
                        let given = desc.dims().to_string();
                        let expected = format!("dimensions that broadcast by blocks to {}", self.dims);
                        return Err(shape_error(name, format!("src{i} dimensions"), given, expected));
                    }
                }
                Node::Keep { .. } | Node::Random { .. } => {
                    for i in node.scalars() {
                        let desc = operands.required(Arg::Src(i))?;
                        if desc.elements() != 1 {
                            let given = desc.dims().to_string();
                            return Err(shape_error(
                                name,
                                format!("src{i} dimensions"),
                                given,
                                "one element",
                            ));
                        }
                    }
                }
                _ => {}
            }
        }
        let varies = self.varies(|i| operands.find(Arg::Src(i)).map(|desc| desc.dims().clone()));
        let folded = self.folded_dims();
        let mut first = (self.dims.clone(), DataType::F32);
        for (i, &node) in self.results.iter().enumerate() {
            let arg = Arg::Dst(i as u16);
            let Some(desc) = operands.find(arg) else {
                return Err(shape_error(name, arg.to_string(), "missing", "a descriptor of each result"));
            };
            let fits = *desc.dims() == self.dims || (*desc.dims() == folded && !varies[node]);
            if !fits {
                let expected =
                    if varies[node] { self.dims.to_string() } else { format!("{} or {folded}", self.dims) };
                return Err(shape_error(
                    name,
                    format!("{arg} dimensions"),
                    desc.dims().to_string(),
                    expected,
                ));
            }
            if i == 0 {
                first = (desc.dims().clone(), desc.data_type());
            }
        }
        Ok(first)
    }

    /// Several results may be made one after the other.
    fn is_elementwise(&self) -> bool {
        self.folded.is_empty() && self.results.len() == 1
    }

    /// The nodes count as that many functions. Of the folds those behind one another add up, for which their number is enough.
    fn error_growth(&self, _desc: &PrimitiveDesc) -> ErrorGrowth {
        let folds = || {
            self.nodes
                .iter()
                .filter_map(|node| if let Node::Fold(fold, _) = node { Some(fold) } else { None })
        };
        let adds = folds().any(|fold| matches!(fold, Fold::Sum | Fold::Product));
        ErrorGrowth {
            terms: if adds { self.folded.iter().map(|&axis| self.dims[axis]).product() } else { 1 },
            sums: folds().count() as f64,
            functions: self.nodes.len().max(1),
            casts: self.rounding_of_casts(),
            cancels: true,
            ..ErrorGrowth::default()
        }
    }

    /// A result that comes about by choices, comparisons and conversions alone.
    fn is_exact(&self, result: Arg) -> bool {
        let mut exact: Vec<bool> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let own = match node {
                Node::Operand(_)
                | Node::Constant(_)
                | Node::Index(_)
                | Node::Select(..)
                | Node::Cast(..)
                | Node::Keep { .. }
                | Node::Random { .. }
                | Node::Fold(Fold::Max | Fold::Min, _) => true,
                Node::Eltwise(function, _) => function.row().is_exact,
                Node::Binary(algorithm, ..) => {
                    algorithm.is_comparison()
                        || matches!(algorithm, BinaryAlgorithm::Maximum | BinaryAlgorithm::Minimum)
                }
                _ => false,
            };
            exact.push(own && node.uses().all(|i| exact[i]));
        }
        let result = match result {
            Arg::Dst(i) => self.results.get(usize::from(i)),
            _ => self.results.first(),
        };
        result.is_some_and(|&node| exact[node])
    }
}

impl Node {
    /// The nodes that this one uses.
    pub fn uses(&self) -> impl Iterator<Item = usize> + use<> {
        let used = match *self {
            Self::Operand(_)
            | Self::Constant(_)
            | Self::Index(_)
            | Self::Keep { .. }
            | Self::Random { .. } => [None; 3],
            Self::Eltwise(_, a) | Self::Cast(_, a) | Self::Fold(_, a) => [Some(a), None, None],
            Self::Gradient { at, diff, .. } => [Some(at), Some(diff), None],
            Self::Binary(_, a, b) => [Some(a), Some(b), None],
            Self::Select(a, b, c) => [Some(a), Some(b), Some(c)],
        };
        used.into_iter().flatten()
    }

    /// The sources of one element that this one reads beside the space: seeds, offsets and probabilities.
    pub fn scalars(&self) -> impl Iterator<Item = u16> + use<> {
        let read = match *self {
            Self::Keep { seed, offset, probability } => [Some(seed), Some(offset), Some(probability)],
            Self::Random { seed, offset } => [Some(seed), Some(offset), None],
            _ => [None; 3],
        };
        read.into_iter().flatten()
    }
}

/// The random number of an element, in `[0, 1)`: the 24 upper bits of the number that [`keeps`] compares.
pub fn random(seed: i64, offset: i64, index: u64) -> f64 {
    f64::from(random_word(seed, offset, index) >> 8) / 16_777_216.0
}

/// Whether an element is kept by a dropout: its random number is at least `probability` times 2^32.
///
/// The numbers are those of oneDNN's processor library (2026.1), bit for bit, which dropout masks show. They come from Philox-4x32-10
/// (Salmon et al., *Parallel random numbers: as easy as 1, 2, 3*, 2011); `index` is the element's row-major index in the space.
///
/// With an offset other than zero the number is word `index % 4` for the counter `(offset, index - index % 4)`, 64 bits each, low word
/// first, and the key `seed`, low word first. An offset of zero means the generator of oneDNN before there was an offset: with
/// `first = index - index % 4` and `seed` in 32 bits, word 2 for the counter `(first, first + 1, first, first + 3)` and the key
/// `(seed, seed)`, which gives four neighbours the same number.
pub fn keeps(seed: i64, offset: i64, index: u64, probability: f32) -> bool {
    let threshold = f64::from(probability) * 4_294_967_296.0;
    f64::from(random_word(seed, offset, index)) >= threshold
}

fn random_word(seed: i64, offset: i64, index: u64) -> u32 {
    let low = |x: u64| x as u32;
    let high = |x: u64| (x >> 32) as u32;
    let (seed, offset, first) = (seed as u64, offset as u64, index & !3);
    if offset == 0 {
        let first = low(first);
        let counter = [first, first.wrapping_add(1), first, first.wrapping_add(3)];
        return philox(counter, [low(seed), low(seed)])[2];
    }
    let counter = [low(offset), high(offset), low(first), high(first)];
    philox(counter, [low(seed), high(seed)])[(index % 4) as usize]
}

fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(counter[0]) * 0xD251_1F53;
        let b = u64::from(counter[2]) * 0xCD9E_8D57;
        let high = |x: u64| (x >> 32) as u32;
        counter = [high(b) ^ counter[1] ^ key[0], b as u32, high(a) ^ counter[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_meets_its_published_numbers() {
        // The known answers that come with Random123, for zeros and for all ones.
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        let ones = philox([u32::MAX; 4], [u32::MAX; 2]);
        assert_eq!(ones, [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }

    /// The least probability in f32 at which oneDNN 2026.1's processor library drops an element, found by bisection of masks.
    #[test]
    fn masks_are_those_of_onednn() {
        let check = |seed: i64, offset: i64, index: u64, dropped_from: f32| {
            assert!(!keeps(seed, offset, index, dropped_from), "{seed} {offset} {index}");
            assert!(keeps(seed, offset, index, dropped_from.next_down()), "{seed} {offset} {index}");
        };
        for (index, p) in [0.671_998_3, 0.874_111_95, 0.475_593_24, 0.656_103_2, 0.905_659_6, 0.257_552_8]
            .into_iter()
            .enumerate()
        {
            check(1, 1, index as u64, p);
        }
        for (index, p) in [(0, 0.045_531_463), (3, 0.269_553_48), (7, 0.076_903_716)] {
            check((1 << 32) + 2, (3 << 32) + 5, index, p);
        }
        check(-1, -2, 1, 0.112_340_11);
        for (index, p) in [(0, 0.688_966_45), (3, 0.688_966_45), (4, 0.540_322_36), (8, 0.734_444_6)] {
            check(1, 0, index, p);
            // The upper half of the seed does not count.
            check((1 << 32) + 1, 0, index, p);
        }
        check(5, 0, 9, 0.624_721_6);
        assert!(keeps(1, 1, 0, 0.0) && !keeps(1, 1, 0, 1.0));
    }
}
