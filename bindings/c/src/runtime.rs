//! Primitives whose dimensions or strides are known at execution only. Their description is checked with stand-ins for what is unknown; an
//! execution makes the primitive for the descriptors of its memories, and keeps it for others of the same descriptors.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use anydnn_backend::ScratchpadMode;

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::desc::{Format, Md};
use crate::engine::EngineRef;
use crate::kinds::arg;
use crate::post_ops::PostOpEntry;
use crate::primitive::{Described, Facts, PrimitiveObject};
use crate::recipe::Recipe;
use crate::types::DNNL_RUNTIME_DIM_VAL;

/// An operand as the caller describes it.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// The number of the argument.
    pub(crate) number: c_int,
    pub(crate) md: Md,
    /// The name in messages.
    pub(crate) what: &'static str,
}

/// Writes the recipe for descriptors that are known, in the order of the operands.
type Make = Arc<dyn Fn(&mut Recipe, &Attr, &[Md]) -> Outcome<Facts> + Send + Sync>;

/// What makes the primitive once everything is known.
pub(crate) struct Deferred {
    engine: EngineRef,
    elsewhere: Option<(c_int, EngineRef)>,
    attr: Attr,
    given: Vec<Given>,
    make: Make,
}

impl Deferred {
    /// The descriptor of an operand as it was given.
    pub(crate) fn md(&self, number: c_int) -> Option<&Md> {
        self.given.iter().find(|given| given.number == number).map(|given| &given.md)
    }

    /// The description for the descriptors of memories.
    fn describe(&self, mds: &[Md]) -> Outcome<Described> {
        let mut recipe = Recipe::new(Arc::clone(&self.engine));
        let facts = (self.make)(&mut recipe, &self.attr, mds)?;
        let described = Described::new(facts, recipe, &self.attr)?;
        Ok(Described { elsewhere: self.elsewhere.clone(), ..described })
    }
}

/// Describes a primitive for descriptors some of which may not be known yet. `axes` tells what the dimensions of the operands have to do
/// with each other: a letter for each axis of each, equal letters for equal sizes; an upper-case letter may also be one.
pub(crate) fn describe(
    engine: &EngineRef,
    elsewhere: Option<(c_int, EngineRef)>,
    attr: &Attr,
    given: Vec<Given>,
    axes: &[Vec<char>],
    make: impl Fn(&mut Recipe, &Attr, &[Md]) -> Outcome<Facts> + Send + Sync + 'static,
) -> Outcome<Described> {
    let mds: Vec<Md> = given.iter().map(|given| given.md.clone()).collect();
    let deferred =
        |attr: Attr| Deferred { engine: Arc::clone(engine), elsewhere, attr, given, make: Arc::new(make) };
    if !mds.iter().any(Md::is_runtime) {
        return deferred(attr.clone()).describe(&mds);
    }
    // The size of working memory is not known, so that the library gives it.
    let deferred = deferred(Attr { scratchpad: ScratchpadMode::Library, ..attr.clone() });
    let stand_ins = stand_ins(&deferred, axes)?;
    let described = deferred.describe(&stand_ins)?;
    described.deferred(deferred)
}

/// Sizes for those that are unknown: the one that another operand knows, or one that all groups divide.
fn stand_ins(deferred: &Deferred, axes: &[Vec<char>]) -> Outcome<Vec<Md>> {
    let groups = deferred.attr.scales.iter().chain(&deferred.attr.zero_points);
    let groups = groups.map(|(_, factor)| factor).chain(&deferred.attr.reductions);
    let groups = groups.flat_map(|factor| factor.groups.iter().copied());
    let any = 2 * groups.fold(1, lcm) as i64;
    // Operands of post-operations broadcast to the result, whose unknown sizes are theirs then.
    let result = deferred.given.iter().position(|given| given.number == arg::DST);
    let hint = |letter: char| {
        let letters = &axes[result?];
        let mds = deferred.attr.post_ops().iter().filter_map(|post_op| match post_op {
            PostOpEntry::Binary { src1, .. } => Some(src1.value()),
            _ => None,
        });
        let mut sizes = mds.flat_map(|md| md.dims.iter().zip(letters));
        let found = sizes.find(|(dim, own)| **dim > 1 && own.to_ascii_lowercase() == letter);
        found.map(|(dim, _)| *dim)
    };
    let of_letter = |letter: char| {
        let mut known: Option<i64> = None;
        let mut unknown: Option<&str> = None;
        for (given, letters) in deferred.given.iter().zip(axes) {
            for (&dim, &own) in given.md.dims.iter().zip(letters) {
                if own.to_ascii_lowercase() != letter {
                    continue;
                }
                match dim {
                    DNNL_RUNTIME_DIM_VAL if own == letter => unknown = Some(given.what),
                    DNNL_RUNTIME_DIM_VAL | 1 if own != letter => {}
                    dim => known = Some(known.unwrap_or(dim)),
                }
            }
        }
        // A size that one operand knows and another one does not is a contradiction by the documentation.
        match (known, unknown) {
            (Some(dim), Some(what)) => Err(Failure::invalid(format!(
                "{what} leaves a dimension to the execution that is {dim} elsewhere"
            ))),
            (known, _) => Ok(known.or_else(|| hint(letter)).unwrap_or(any)),
        }
    };
    let stand_in = |(given, letters): (&Given, &Vec<char>)| {
        if !given.md.is_runtime() {
            return Ok(given.md.clone());
        }
        let mut dims = given.md.dims;
        for (dim, &letter) in dims.iter_mut().zip(letters) {
            if *dim == DNNL_RUNTIME_DIM_VAL {
                *dim = of_letter(letter.to_ascii_lowercase())?;
            } else {
                of_letter(letter.to_ascii_lowercase())?;
            }
        }
        let data_type = match given.md.data_type {
            Some(code) => code.value(),
            None => 0,
        };
        Md::with_strides(&dims[..given.md.rank], data_type, None)
    };
    deferred.given.iter().zip(axes).map(stand_in).collect()
}

fn lcm(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x.max(1) * b
}

/// The primitives that executions have made, the latest last.
#[derive(Default)]
pub(crate) struct Made(Mutex<Vec<(Vec<Md>, Arc<PrimitiveObject>)>>);

/// How many of them a primitive keeps.
const MOST: usize = 64;

impl Made {
    /// The primitive for the descriptors of memories.
    pub(crate) fn primitive<'a>(
        &self,
        deferred: &Deferred,
        memory: impl Fn(c_int) -> Option<&'a Md>,
    ) -> Outcome<Arc<PrimitiveObject>> {
        let mds = deferred.given.iter().map(|given| {
            let md = memory(given.number).ok_or_else(|| {
                Failure::invalid(format!("argument {} is missing: {}", given.number, given.what))
            })?;
            check_fits(given, md)?;
            Ok(md.clone())
        });
        let mds = mds.collect::<Outcome<Vec<Md>>>()?;
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut made = lock();
            if let Some(i) = made.iter().position(|(own, _)| *own == mds) {
                let found = made.remove(i);
                let primitive = Arc::clone(&found.1);
                made.push(found);
                return Ok(primitive);
            }
        }
        let primitive = Arc::new(PrimitiveObject::new(&deferred.describe(&mds)?)?);
        let mut made = lock();
        if made.len() >= MOST {
            made.remove(0);
        }
        made.push((mds, Arc::clone(&primitive)));
        Ok(primitive)
    }
}

/// Whether memory has what was known of an operand.
fn check_fits(given: &Given, md: &Md) -> Outcome {
    let agrees = |known: i64, actual: i64| known == DNNL_RUNTIME_DIM_VAL || known == actual;
    let (wanted, rank) = (&given.md, given.md.rank);
    let dims = md.rank == rank && wanted.dims[..rank].iter().zip(&md.dims).all(|(&a, &b)| agrees(a, b));
    let layout = match (&wanted.format, &md.format) {
        // Its layout was the library's to choose, and any will do.
        (Format::Any, Format::Blocked(_)) => true,
        (Format::Blocked(a), Format::Blocked(b)) => {
            let stride = |axis: usize| md.dims[axis] <= 1 || agrees(a.strides[axis], b.strides[axis]);
            a.inner().eq(b.inner()) && (!dims || (0..rank).all(stride))
        }
        _ => false,
    };
    if dims && layout && md.data_type == wanted.data_type && !md.is_runtime() {
        return Ok(());
    }
    Err(Failure::invalid(format!("the memory of {} is not what the primitive was described for", given.what)))
}
