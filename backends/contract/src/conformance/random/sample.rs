//! A described primitive, run and judged.

use std::fmt;

use crate::conformance::reference::{Tensor, Tensors};
use crate::conformance::trial::{Trial, read_as};
use crate::conformance::{Failure, Outcome, Subject, caught, data};
use crate::op::Op;
use crate::op::Operation;
use crate::{Access, Backend, Event, MemoryDesc, Primitive, PrimitiveDesc, ScratchpadMode, Stream};

/// A primitive with its operands' values.
#[derive(Clone, Debug)]
pub struct Sample(Trial);

/// Tells what results should be.
pub trait Oracle {
    /// Every result of a primitive as stored, by argument; the inputs are rounded to their types.
    ///
    /// # Errors
    /// Why there are none.
    fn results(&self, desc: &PrimitiveDesc, inputs: &Tensors) -> Result<Tensors, Failure>;
}

/// The products that the reference sums in a moment.
const MOMENT: usize = 1 << 19;

impl Sample {
    pub(super) fn new(trial: Trial) -> Self {
        Self(trial.may_be_refused())
    }

    pub(in crate::conformance) fn into_trial(self) -> Trial {
        self.0
    }

    /// The description.
    pub fn desc(&self) -> &PrimitiveDesc {
        self.0.desc()
    }

    /// The terms of all sums, or the elements that are touched where there are no sums.
    pub fn work(&self) -> usize {
        let desc = self.0.desc();
        let results = desc.dst().elements();
        let terms = desc.op().visits(desc);
        results.saturating_mul(terms.max(1))
    }

    /// Runs the primitive and compares its results: with those of the contract's reference where that takes a moment, else with what an
    /// oracle says. Bytes that are no result must stay as they were.
    ///
    /// # Errors
    /// What the backend did and what was expected instead; a panic of the backend is a failure too.
    pub fn run<B: Backend>(
        &self,
        subject: &Subject<B>,
        oracle: Option<&dyn Oracle>,
    ) -> Result<Outcome, Failure> {
        caught(|| match oracle.filter(|_| self.work() > MOMENT) {
            None => self.0.run(subject),
            Some(oracle) => self.0.judge(subject, &|desc, inputs| oracle.results(desc, inputs)),
        })
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let desc = self.0.desc();
        write!(f, "{desc}")?;
        let attributes = desc.attributes();
        match desc.op() {
            Op::MatMul(_) | Op::Reorder(_) | Op::Select(_) => {}
            op => write!(f, " {op:?}")?,
        }
        for post_op in &attributes.post_ops {
            write!(f, " +{post_op:?}")?;
        }
        for (name, on) in [
            ("deterministic", attributes.deterministic),
            ("once", attributes.once),
            ("winograd", attributes.winograd),
            ("native", attributes.native),
            ("scratchpad of the user", attributes.scratchpad == ScratchpadMode::User),
            ("both forms", self.0.has_both_forms()),
        ] {
            if on {
                write!(f, " {name}")?;
            }
        }
        if attributes.fpmath != crate::FpMath::Strict {
            write!(f, " {:?}", attributes.fpmath)?;
        }
        self.0.in_place_of().map_or(Ok(()), |arg| write!(f, " in place of {arg}"))
    }
}

/// A backend that is trusted, on dense operands.
impl<B: Backend> Oracle for Subject<B> {
    fn results(&self, desc: &PrimitiveDesc, inputs: &Tensors) -> Result<Tensors, Failure> {
        let place = |failure: Failure| failure.at("the other backend");
        by_backend(self, desc, inputs).map_err(place)
    }
}

fn by_backend<B: Backend>(
    subject: &Subject<B>,
    desc: &PrimitiveDesc,
    inputs: &Tensors,
) -> Result<Tensors, Failure> {
    let dense = desc.clone().to_row_major().with_scratchpad(ScratchpadMode::Library);
    let primitive = subject.primitive(Ok(dense))?;
    let stream = subject.stream()?;
    let mut args = Vec::new();
    for operand in primitive.desc().args() {
        let memory = match inputs.get(&operand.arg).filter(|_| operand.access.reads()) {
            Some(Tensor { values, .. }) => {
                let typed = operand.desc.with_data_type(read_as(desc, operand));
                let memory = subject.memory(&operand.desc)?;
                stream.write(&memory, 0, &data::encode(&typed, values)?, &[])?;
                memory
            }
            None => subject.memory(&operand.desc)?,
        };
        args.push((operand.arg, memory));
    }
    stream.execute(&primitive, &args, &[])?.wait()?;
    let written = |arg| desc.access(arg).is_some_and(Access::writes);
    let mut results = Tensors::new();
    for (arg, memory) in args.into_iter().filter(|(arg, _)| written(*arg)) {
        let dims = desc.find(arg).map(MemoryDesc::dims).cloned().unwrap_or_default();
        results.insert(arg, Tensor::new(dims, subject.download(&stream, &memory)?)?);
    }
    Ok(results)
}
