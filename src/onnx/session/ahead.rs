//! Plans for shapes that are about to come. Executions often go on by the same step, as those of a decoder do whose keys grow by one: the next
//! plan is then made while the device computes.

use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::thread;

use anydnn_backend::{Backend, Engine, Result, Work};

use super::scope::{Plan, Signature};
use super::{Inner, lock};
use crate::onnx::import::Have;

/// Plans that are made ahead at least and at most where there are several cores, and the cores for one of them: planning takes one or two of
/// them for a while, and with fewer it takes longer than executions do.
const LEAST: usize = 2;
const MOST: usize = 4;
const CORES: usize = 4;

/// The shapes that executions have had, and plans that are being made for the next ones.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    course: Mutex<Course>,
    making: Mutex<Vec<Arc<Making>>>,
}

/// A plan on its way, its lock held while it is made.
#[derive(Debug)]
struct Making {
    signature: Signature,
    /// Whether it is there, or nobody is to begin it any more.
    is_over: Mutex<bool>,
}

/// Takes what is no longer on its way out of the list, also where making it panicked.
struct Listed<'a>(&'a Ahead, &'a Arc<Making>);

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        lock(&self.0.making).retain(|making| !Arc::ptr_eq(making, self.1));
    }
}

/// The shapes of an execution's inputs, with the model's open dimensions.
#[derive(Clone, Debug)]
struct Shapes {
    signature: Signature,
    dims: Vec<(String, usize)>,
}

impl Shapes {
    fn extents(&self) -> impl Iterator<Item = usize> {
        let extents = self.signature.iter().flat_map(|(_, dims, ..)| dims.iter().copied());
        extents.chain(self.dims.iter().map(|(_, extent)| *extent))
    }

    /// Whether only extents differ.
    fn is_like(&self, signature: &Signature, dims: &[(String, usize)]) -> bool {
        let mut values = self.signature.iter().zip(signature);
        let mut names = self.dims.iter().zip(dims);
        self.signature.len() == signature.len()
            && self.dims.len() == dims.len()
            && values.all(|((value, dims, data_type, is_known), (other, its, its_type, its_known))| {
                (value, dims.len(), data_type, is_known) == (other, its.len(), its_type, its_known)
            })
            && names.all(|((name, _), (other, _))| name == other)
    }

    /// The same so many steps later; None where an extent would vanish.
    fn later(&self, steps: &[isize], times: isize) -> Option<Self> {
        let mut later = self.clone();
        let mut steps = steps.iter();
        let mut advance = |extent: usize| {
            let by = steps.next()?.checked_mul(times)?;
            extent.checked_add_signed(by).filter(|later| by == 0 || *later > 0)
        };
        for (_, dims, ..) in &mut later.signature {
            *dims = dims.iter().map(|extent| advance(*extent)).collect::<Option<_>>()?;
        }
        for (_, extent) in &mut later.dims {
            *extent = advance(*extent)?;
        }
        Some(later)
    }
}

/// How shapes went on.
#[derive(Debug, Default)]
struct Course {
    last: Option<Shapes>,
    steps: Vec<isize>,
}

impl Course {
    /// So many shapes that come next, where two steps in a row were the same. An execution with the last shapes again is no step.
    fn advance(&mut self, signature: &Signature, dims: &[(String, usize)], count: usize) -> Vec<Shapes> {
        if self.last.as_ref().is_some_and(|last| last.signature == *signature) {
            return Vec::new();
        }
        let now = Shapes { signature: signature.clone(), dims: dims.to_vec() };
        let Some(last) = self.last.as_ref().filter(|last| last.is_like(signature, dims)) else {
            *self = Self { last: Some(now), steps: Vec::new() };
            return Vec::new();
        };
        let steps = now.extents().zip(last.extents()).map(|(now, last)| now.wrapping_sub(last) as isize);
        let steps: Vec<_> = steps.collect();
        let goes_on = steps == self.steps;
        let next = (1..=count).map_while(|times| now.later(&steps, times.try_into().ok()?));
        let next = if goes_on { next.collect() } else { Vec::new() };
        *self = Self { last: Some(now), steps };
        next
    }
}

impl Ahead {
    /// Waits for a plan if it is being made at the moment. One that nobody has begun is left to the caller.
    pub(super) fn wait(&self, signature: &Signature) {
        let found = lock(&self.making).iter().find(|making| making.signature == *signature).cloned();
        if let Some(making) = found {
            let _listed = Listed(self, &making);
            *lock(&making.is_over) = true;
        }
    }

    /// Puts a plan into the list; None where it is there already.
    fn list(&self, signature: &Signature) -> Option<Arc<Making>> {
        let mut all = lock(&self.making);
        if all.iter().any(|making| making.signature == *signature) {
            return None;
        }
        let making = Arc::new(Making { signature: signature.clone(), is_over: Mutex::default() });
        all.push(Arc::clone(&making));
        Some(making)
    }
}

/// How many plans are made ahead where nobody says it.
fn by_cores() -> usize {
    static COUNT: LazyLock<usize> =
        LazyLock::new(|| match thread::available_parallelism().map_or(1, usize::from) {
            1 => 0,
            cores => (cores / CORES).clamp(LEAST, MOST),
        });
    *COUNT
}

impl<B: Backend> Inner<B> {
    /// Begins plans for the shapes that come behind this one's, where they are foreseen and do not depend on elements.
    pub(super) fn plan_ahead(&self, plan: &Plan<B>) {
        let is_free = plan.signature.iter().all(|(.., is_known)| !is_known);
        let depends = !plan.stage.demanded.is_empty() || !plan.stage.stretches.is_empty();
        // Half of those that are kept are for what has been there.
        let count = self.options.plans_ahead.unwrap_or_else(by_cores).min(self.options.plans / 2);
        if count == 0 || !is_free || depends {
            return;
        }
        let next = lock(&self.ahead.course).advance(&plan.signature, &plan.dims, count);
        for shapes in next.into_iter().filter(|shapes| !self.scope.has_plan(&shapes.signature)) {
            let Some(making) = self.ahead.list(&shapes.signature) else { continue };
            let (own, begun) = (Weak::clone(&self.own), Arc::clone(&making));
            let make = move || {
                let Some(inner) = own.upgrade() else { return };
                let _listed = Listed(&inner.ahead, &begun);
                let mut is_over = lock(&begun.is_over);
                if *is_over {
                    return;
                }
                // Whoever has such shapes meets it again.
                if let Err(error) = inner.make_ahead(shapes) {
                    tracing::debug!(%error, "no plan for what may come");
                }
                *is_over = true;
            };
            if self.engine.in_background(Work::new(make)).is_some() {
                drop(Listed(&self.ahead, &making));
                return;
            }
        }
    }

    fn make_ahead(&self, shapes: Shapes) -> Result<()> {
        let mut have = Vec::new();
        have.resize_with(self.scope.program.names.len(), || None);
        for (value, dims, data_type, _) in &shapes.signature {
            have[*value] = Some(Have { dims: dims.clone(), data_type: *data_type, tensor: None });
        }
        self.scope.make(self, shapes.signature, &have, true, &shapes.dims).map(|_| ())
    }
}
