//! What is done to finished results behind everything else: functions of registers whose factors come with the launch.

use anydnn_backend::{BinaryAlgorithm, Eltwise, PostOp, PrimitiveDesc};

use super::{bits, each_operand};
use crate::primitive::numbers::{always, float};
use crate::primitive::source::{Source, eltwise_of_launch};
use crate::primitive::space::{Address, Space};
use crate::primitive::value::Value;

/// Functions of a result alone: `bounds(after(function(before(x))))`, of which all but the function are numbers of the launch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last {
    before: Option<Linear>,
    function: Option<Eltwise>,
    after: Option<Linear>,
    bounds: Option<[f32; 2]>,
}

/// `x * scale + shift`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Linear {
    scale: Multiplicand,
    shift: Multiplicand,
}

/// A number, times the only element of an operand if there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Multiplicand {
    number: f32,
    post_op: Option<usize>,
    /// Of the operand: its place among those of the kernel, and its element.
    operand: Option<(usize, isize)>,
}

impl Multiplicand {
    const ONE: Self = Self::of(1.0);
    /// What leaves every number as it is where it is added, -0 as well.
    const NOTHING: Self = Self::of(-0.0);

    const fn of(number: f32) -> Self {
        Self { number, post_op: None, operand: None }
    }

    const fn times(number: f32, post_op: usize) -> Self {
        Self { number, post_op: Some(post_op), operand: None }
    }
}

impl Linear {
    const SAME: Self = Self { scale: Multiplicand::ONE, shift: Multiplicand::NOTHING };

    /// A multiplication and an addition behind it are one.
    fn then(self, next: Self) -> Option<Self> {
        let joins = self.shift == Multiplicand::NOTHING && next.scale == Multiplicand::ONE;
        joins.then_some(Self { scale: self.scale, shift: next.shift })
    }
}

impl Last {
    /// As many of the last post-operations as this form has, and the number of those in front. `is_scalar` tells whether the operand of a
    /// post-operation is one number.
    pub(super) fn of(desc: &PrimitiveDesc, is_scalar: &dyn Fn(usize) -> bool) -> (usize, Self) {
        let post_ops = &desc.attributes().post_ops;
        let from = |first: usize| {
            post_ops.iter().enumerate().skip(first).try_fold(Self::default(), |last, (i, post_op)| {
                match post_op {
                    PostOp::Eltwise(function) => last.then(*function),
                    PostOp::Binary { algorithm, reversed, .. } if is_scalar(i) => {
                        last.then_linear(with_scalar(*algorithm, *reversed, i)?)
                    }
                    _ => None,
                }
            })
        };
        let found = (0..post_ops.len()).find_map(|first| Some((first, from(first)?)));
        found.unwrap_or((post_ops.len(), Self::default()))
    }

    /// The function and what is behind it, where it is such a one.
    pub(super) fn behind(&self, is_wanted: impl Fn(Eltwise) -> bool) -> Option<(Eltwise, Self)> {
        let rest = Self { before: self.after, function: None, after: None, bounds: self.bounds };
        self.function.filter(|function| is_wanted(*function)).map(|function| (function, rest))
    }

    /// These functions and one more behind them, where the form has a place for it.
    fn then(self, next: Eltwise) -> Option<Self> {
        match (next, self.bounds) {
            (Eltwise::Linear { alpha, beta }, _) => {
                self.then_linear(Linear { scale: Multiplicand::of(alpha), shift: Multiplicand::of(beta) })
            }
            (Eltwise::Relu, None) => Some(Self { bounds: Some([0.0, f32::INFINITY]), ..self }),
            (Eltwise::Clamp { min, max }, None) => Some(Self { bounds: Some([min, max]), ..self }),
            (Eltwise::HardSigmoid { alpha, beta }, None) => {
                self.then(Eltwise::Linear { alpha, beta })?.then(Eltwise::Clamp { min: 0.0, max: 1.0 })
            }
            (_, None) if self.function.is_none() && self.after.is_none() => {
                Some(Self { function: Some(next), ..self })
            }
            _ => None,
        }
    }

    fn then_linear(self, next: Linear) -> Option<Self> {
        if let Some([min, max]) = self.bounds {
            // The bounds become the function.
            let is_free = self.function.is_none() && self.after.is_none();
            let function = Some(Eltwise::Clamp { min, max });
            return is_free.then_some(Self { function, after: Some(next), bounds: None, ..self });
        }
        match (self.before, self.after) {
            (before, Some(after)) => Some(Self { before, after: Some(after.then(next)?), ..self }),
            (None, None) if self.function.is_none() => Some(Self { before: Some(next), ..self }),
            (Some(before), None) if self.function.is_none() => Some(match before.then(next) {
                Some(joint) => Self { before: Some(joint), ..self },
                None => Self { after: Some(next), ..self },
            }),
            (_, None) => Some(Self { after: Some(next), ..self }),
        }
    }

    /// Whether it leaves every number as it is.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self { before: None, function: None, after: None, bounds: None })
    }

    /// Whether it takes so few instructions that a kernel may have them once for each of its registers.
    pub(super) fn is_short(&self) -> bool {
        let short = |function| {
            matches!(
                function,
                Eltwise::Clamp { .. } | Eltwise::HardSwish { .. } | Eltwise::LeakyRelu { .. } | Eltwise::Abs
            )
        };
        self.function.is_none_or(short)
    }

    /// The number of factors from memory.
    pub(super) fn operands(&self) -> usize {
        self.factors().iter().filter(|factor| factor.post_op.is_some()).count()
    }

    /// Adds the operands of the factors, as positions in the space, to those that a kernel reads as `EXTRA0` and following.
    pub(super) fn take_operands(&mut self, space: &Space, operands: &mut Vec<usize>) {
        let mut take = |factor: &mut Multiplicand| {
            let Some(post_op) = factor.post_op else { return };
            let name = format!("POST{post_op}");
            let Some(found) = space.operands.iter().position(|operand| operand.name == name) else { return };
            let base = match &space.operands[found].address {
                Address::Linear { base, .. } => *base,
                Address::General { .. } => 0,
            };
            factor.operand = Some((operands.len(), base));
            operands.push(found);
        };
        for linear in [&mut self.before, &mut self.after].into_iter().flatten() {
            take(&mut linear.scale);
            take(&mut linear.shift);
        }
    }

    /// Defines `FINAL(v)`, and whether register tiles have it, by numbers alone.
    pub(super) fn define(&self, source: &mut Source) {
        let numbers = self.factors().map(|factor| float(factor.number));
        self.define_final(source, &numbers.each_ref().map(String::as_str));
    }

    /// `LAST(v)`, whether register tiles have it, and `FIRST(v)` in front of it, where `HAS_FIRST` is not zero; `FINAL(v)` is both. Programs
    /// are the same with and without [`Eltwise::HardSwish`].
    pub(super) fn define_in_two(&self, source: &mut Source) {
        let (parameters, last) = match (self.function, self.after) {
            (Some(Eltwise::HardSwish { alpha, beta }), _) => (Some([alpha, beta]), *self),
            (None, None) => (None, Self { before: None, after: self.before, ..*self }),
            _ => {
                self.define_with_operands(source);
                source.define("HAS_FIRST", 0).define("FIRST(v)", "(v)").define("LAST(v)", "FINAL(v)");
                return;
            }
        };
        last.define_factors(source);
        let [alpha, beta] = parameters.unwrap_or_default().map(float);
        let [low, high] = last.limits();
        source
            .number_of("HAS_FIRST", i64::from(parameters.is_some()))
            .define(
                "FIRST(v)",
                format!("eltwise_hard_swish(eltwise_linear(v, factors.s0, factors.s1), {alpha}, {beta})"),
            )
            .define(
                "LAST(v)",
                format!("eltwise_clamp(eltwise_linear(v, factors.s2, factors.s3), {low}, {high})"),
            )
            .define("FINAL(v)", "LAST(HAS_FIRST ? FIRST(v) : (v))")
            .define("FINAL_IN_TILES", 1);
    }

    /// The same by `factors`, which `DECLARE_FACTORS` declares from numbers and operands.
    pub(super) fn define_with_operands(&self, source: &mut Source) {
        self.define_factors(source);
        self.define_final(source, &["factors.s0", "factors.s1", "factors.s2", "factors.s3"]);
    }

    fn define_factors(&self, source: &mut Source) {
        let factors = self.factors().map(|Multiplicand { number, operand, .. }| {
            let (operand, element) = operand.map_or((-1, 0), |(operand, element)| (operand as i64, element));
            format!("FACTOR({}, {}, {})", always(bits(number)), always(operand), always(element))
        });
        source.define("EXTRAS", each_operand(&|i| format!("extra{i}"))).define("FACTORS", factors.join(", "));
    }

    fn factors(&self) -> [Multiplicand; 4] {
        let [before, after] = [self.before, self.after].map(|linear| linear.unwrap_or(Linear::SAME));
        [before.scale, before.shift, after.scale, after.shift]
    }

    fn limits(&self) -> [String; 2] {
        self.bounds.unwrap_or([f32::NEG_INFINITY, f32::INFINITY]).map(float)
    }

    /// Texts differ by the function, and whether there is something behind it.
    fn define_final(&self, source: &mut Source, [scale, shift, scale_after, shift_after]: &[&str; 4]) {
        let mut text = format!("eltwise_linear(v, {scale}, {shift})");
        if let Some(function) = self.function {
            text = eltwise_of_launch(Value::F32, function, &text);
        }
        if self.function.is_some() || self.after.is_some() {
            text = format!("eltwise_linear({text}, {scale_after}, {shift_after})");
        }
        let [low, high] = self.limits();
        source
            .define("FINAL(v)", format_args!("eltwise_clamp({text}, {low}, {high})"))
            .define("FINAL_IN_TILES", i32::from(self.is_short()));
    }
}

/// A post-operation with one number.
fn with_scalar(algorithm: BinaryAlgorithm, reversed: bool, i: usize) -> Option<Linear> {
    let [own, other] = if reversed { [-1.0, 1.0] } else { [1.0, -1.0] };
    Some(match algorithm {
        BinaryAlgorithm::Multiply => {
            Linear { scale: Multiplicand::times(1.0, i), shift: Multiplicand::NOTHING }
        }
        BinaryAlgorithm::Add => Linear { scale: Multiplicand::ONE, shift: Multiplicand::times(1.0, i) },
        BinaryAlgorithm::Subtract => {
            Linear { scale: Multiplicand::of(own), shift: Multiplicand::times(other, i) }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELU: Eltwise = Eltwise::Relu;
    const HARD_SWISH: Eltwise = Eltwise::HardSwish { alpha: 0.2, beta: 0.5 };
    const LINEAR: Eltwise = Eltwise::Linear { alpha: 2.0, beta: 1.0 };

    fn form(functions: &[Eltwise]) -> Option<Last> {
        functions.iter().try_fold(Last::default(), |last, function| last.then(*function))
    }

    #[test]
    fn functions_find_their_places() {
        let linear = Some(Linear { scale: Multiplicand::of(2.0), shift: Multiplicand::of(1.0) });
        let last = form(&[LINEAR, HARD_SWISH, LINEAR, RELU]).unwrap();
        assert_eq!((last.before, last.after), (linear, linear));
        assert_eq!((last.function, last.bounds), (Some(HARD_SWISH), Some([0.0, f32::INFINITY])));
        let bounded = form(&[RELU, LINEAR]).unwrap();
        assert_eq!(bounded.function, Some(Eltwise::Clamp { min: 0.0, max: f32::INFINITY }));
        assert_eq!((bounded.before, bounded.after, bounded.bounds), (None, linear, None));
        let twice = form(&[LINEAR, LINEAR, RELU]).unwrap();
        assert_eq!((twice.before, twice.after), (linear, linear));
    }

    #[test]
    fn multiplications_take_additions_behind_them() {
        let scalars = |functions: &[(BinaryAlgorithm, bool)]| {
            let mut all = functions.iter().enumerate();
            all.try_fold(Last::default(), |last, (i, &(algorithm, reversed))| {
                last.then_linear(with_scalar(algorithm, reversed, i)?)
            })
        };
        let both = scalars(&[(BinaryAlgorithm::Multiply, false), (BinaryAlgorithm::Add, false)]).unwrap();
        let joint = Linear { scale: Multiplicand::times(1.0, 0), shift: Multiplicand::times(1.0, 1) };
        assert_eq!((both.before, both.after, both.operands()), (Some(joint), None, 2));
        let other =
            scalars(&[(BinaryAlgorithm::Subtract, true), (BinaryAlgorithm::Multiply, false)]).unwrap();
        let reversed = Linear { scale: Multiplicand::of(-1.0), shift: Multiplicand::times(1.0, 0) };
        assert_eq!(
            (other.before, other.after.map(|after| after.scale)),
            (Some(reversed), Some(Multiplicand::times(1.0, 1)))
        );
        assert!(scalars(&[(BinaryAlgorithm::Divide, false)]).is_none());
    }

    #[test]
    fn what_has_no_place_is_left_to_others() {
        for functions in [
            vec![HARD_SWISH, Eltwise::Tanh],
            vec![RELU, RELU],
            vec![RELU, HARD_SWISH],
            vec![LINEAR, LINEAR, HARD_SWISH],
            vec![HARD_SWISH, RELU, LINEAR],
            vec![LINEAR, LINEAR, LINEAR],
        ] {
            assert!(form(&functions).is_none(), "{functions:?}");
        }
    }

    #[test]
    fn texts_differ_by_functions_alone() {
        let text = |functions: &[Eltwise]| {
            let mut source = Source::new(&Space::default(), Value::F32, (1, None), false, true);
            form(functions).unwrap().define(source.general());
            source.launch("kernel", &[""], [1; 3], None).program.source.to_string()
        };
        assert_eq!(text(&[]), text(&[RELU]));
        assert_eq!(text(&[LINEAR, RELU]), text(&[Eltwise::Clamp { min: -1.0, max: 6.0 }]));
        assert_eq!(text(&[LINEAR, HARD_SWISH]), text(&[Eltwise::HardSwish { alpha: 0.1, beta: 0.3 }, RELU]));
        assert_ne!(text(&[HARD_SWISH]), text(&[Eltwise::Tanh]));
    }

    #[test]
    fn register_tiles_share_a_text_with_and_without_hard_swish() {
        let text = |functions: &[Eltwise]| {
            let mut source = Source::new(&Space::default(), Value::F32, (1, None), false, true);
            form(functions).unwrap().define_in_two(source.general());
            source.launch("kernel", &[""], [1; 3], None).program.source.to_string()
        };
        assert_eq!(text(&[]), text(&[LINEAR, HARD_SWISH, LINEAR, RELU]));
        assert_eq!(text(&[LINEAR, RELU]), text(&[HARD_SWISH]));
        for function in [Eltwise::Tanh, Eltwise::Abs] {
            assert_ne!(text(&[]), text(&[function]));
        }
    }

    #[test]
    fn what_is_behind_a_function_stays() {
        let last = form(&[LINEAR, Eltwise::Sigmoid, LINEAR, RELU]).unwrap();
        assert!(last.behind(|function| function == Eltwise::Tanh).is_none());
        let (function, rest) = last.behind(|function| function == Eltwise::Sigmoid).unwrap();
        assert_eq!(function, Eltwise::Sigmoid);
        assert_eq!((rest.before, rest.function, rest.after), (last.after, None, None));
        assert_eq!(rest.bounds, last.bounds);
    }
}
