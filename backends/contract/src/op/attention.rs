use super::{ErrorGrowth, Expression, Operation, shape_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// Scaled dot-product attention without its scores in memory: `softmax(scores(query * key^T)) * value`.
///
/// Operands, all of one rank of at least 2: `src0` the query `[.., S, D]`, `src1` the key `[.., T, D]` (a transposed key is one with
/// permuted strides), `src2` the value `[.., T, E]`; the result `dst0` is `[.., S, E]`. The batch dimensions of key and value broadcast to
/// those of the query by blocks: with `g` key heads for `h` query heads each key head serves `h / g` neighbours (grouped-query attention).
///
/// [`Attention::scores`] turns a product into a score: an expression without folds over the space `[.., S, T]` with one result, in which
/// `Node::Operand(0)` is the product and `Node::Operand(i)` for `i >= 1` is the source `Arg::Src(i + 2)`: scales, masks, limits. The
/// softmax runs along `T`. [`Attention::weights`], if there, is the same for what becomes of a weight (operand 0) before it meets the
/// value: dropout, quantisation; its further operands are numbered on: `Node::Operand(i)` is `Arg::Src(i + 2)` too.
///
/// `dst1`, if given, is `[.., S, 1]`: the logarithm of the sum of the exponentials of a row's scores, minus infinity for a row of
/// only negative infinities.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// From products to scores.
    pub scores: Expression,
    /// From softmax weights to what multiplies the value; none leaves them.
    pub weights: Option<Expression>,
    /// Whether a row of only negative infinities gives zeros instead of NaN.
    pub inf_as_zero: bool,
}

impl Attention {
    /// Attention with these scores.
    pub fn new(scores: Expression) -> Self {
        Self { scores, weights: None, inf_as_zero: false }
    }

    /// The number of sources: query, key, value and those of the expressions.
    pub fn sources(&self) -> usize {
        let of = |e: &Expression| e.sources().max(1) + 2;
        of(&self.scores).max(self.weights.as_ref().map_or(0, of))
    }
}

impl Operation for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let sources: Vec<Arg> = (0..self.sources()).map(|i| Arg::Src(i as u16)).collect();
        let operands = operands.only(name, &sources, &[Arg::Dst(1)])?;
        let (query, key, value) = (
            operands.required(Arg::Src(0))?,
            operands.required(Arg::Src(1))?,
            operands.required(Arg::Src(2))?,
        );
        let rank = query.rank();
        if rank < 2 || key.rank() != rank || value.rank() != rank {
            let given = format!("{rank}, {} and {}", key.rank(), value.rank());
            return Err(shape_error(name, "ranks of query, key and value", given, "equal and at least 2"));
        }
        let (q, k, v) = (query.dims(), key.dims(), value.dims());
        if q[rank - 1] != k[rank - 1] || k[rank - 2] != v[rank - 2] {
            let given = format!("{q}, {k} and {v}");
            return Err(shape_error(name, "dimensions", given, "[.., S, D], [.., T, D] and [.., T, E]"));
        }
        for (arg, dims) in [(Arg::Src(1), k), (Arg::Src(2), v)] {
            let batch = Dims::new(&dims[..rank - 2]);
            if !batch.broadcasts_by_blocks_to(&q[..rank - 2]) {
                let expected = format!("divisors of {}", Dims::new(&q[..rank - 2]));
                return Err(shape_error(
                    name,
                    format!("batch dimensions of {arg}"),
                    batch.to_string(),
                    expected,
                ));
            }
        }
        let mut space = Dims::new(q);
        space[rank - 1] = k[rank - 2];
        for expression in std::iter::once(&self.scores).chain(&self.weights) {
            expression.check(name)?;
            if expression.dims != space || !expression.folded.is_empty() || expression.results.len() != 1 {
                let given = format!("over {}, {} results", expression.dims, expression.results.len());
                let expected = format!("one result over {space}, without folds");
                return Err(shape_error(name, "expression", given, expected));
            }
        }
        for i in 3..self.sources() {
            let desc = operands.required(Arg::Src(i as u16))?;
            if !desc.dims().broadcasts_by_blocks_to(&space) {
                let expected = format!("dimensions that broadcast by blocks to {space}");
                return Err(shape_error(
                    name,
                    format!("src{i} dimensions"),
                    desc.dims().to_string(),
                    expected,
                ));
            }
        }
        if let Some(stats) = operands.find(Arg::Dst(1)) {
            let mut expected = Dims::new(q);
            expected[rank - 1] = 1;
            super::expect_dims(name, Arg::Dst(1), stats, &expected)?;
        }
        let mut dst = Dims::new(q);
        dst[rank - 1] = v[rank - 1];
        Ok((dst, query.data_type()))
    }

    fn dequantizes(&self, arg: Arg) -> bool {
        matches!(arg, Arg::Src(0..=2))
    }

    /// The sums over the keys, and those inside of the scores.
    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        let expressions = || std::iter::once(&self.scores).chain(&self.weights);
        ErrorGrowth {
            terms: desc.find(Arg::Src(1)).map_or(1, |key| key.dims()[key.rank() - 2]),
            inner_terms: desc.src().dims().last().copied().unwrap_or(1),
            // The maximum, the exponential and the quotient.
            functions: expressions().map(|e| e.nodes.len()).sum::<usize>() + 3,
            casts: expressions().map(Expression::rounding_of_casts).sum(),
            cancels: true,
            ..ErrorGrowth::default()
        }
    }

    fn visits(&self, desc: &PrimitiveDesc) -> usize {
        let ErrorGrowth { terms, inner_terms, .. } = self.error_growth(desc);
        terms * inner_terms.max(1)
    }
}
