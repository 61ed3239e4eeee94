//! The layouts of inputs, constants and outputs, where they are not plain strides.
//!
//! Lowering takes views of everything, which blocked and opaque layouts do not allow. So an input in such a layout is unpacked first,
//! and an output packed last; a primitive that likes the layout as it is reads the input itself, and the unpacking goes.

use anydnn_backend::op::Reorder;
use anydnn_backend::{Access, Arg, MemoryDesc, Op, PrimitiveDesc, Result, ScratchpadMode};
use indexmap::IndexMap;

use super::program::{Program, ProtoStep, Storage, Value, declared};
use crate::graph::{TensorId, TensorLayout};

/// What is known of the layouts of ports.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports {
    /// Temporaries that hold an input or constant unpacked, with its packed value.
    packed: IndexMap<usize, Value>,
    /// Ports whose layout a primitive chooses, and the choice once it is made.
    open: IndexMap<Storage, Option<MemoryDesc>>,
}

impl Ports {
    /// The layout that a primitive chose for a port.
    pub(super) fn chosen(&self, port: Storage) -> Option<&MemoryDesc> {
        self.open.get(&port)?.as_ref()
    }
}

/// Adds the steps that unpack inputs and constants in blocked or opaque layouts.
pub(super) fn unpack_inputs(program: &mut Program<'_>) -> Result<()> {
    let constants = program.constants.clone();
    for &id in program.graph.inputs().iter().chain(&constants) {
        let packed = program.value(id)?;
        if packed.desc.strides().is_some() {
            continue;
        }
        let plain = program.temp(packed.desc.to_row_major());
        let desc = PrimitiveDesc::builder(Op::Reorder(Reorder))
            .src(packed.desc.clone())
            .dst(plain.desc.clone())
            .label(format!("unpack {}", program.graph.label(id)))
            .build()?
            .with_scratchpad(ScratchpadMode::User);
        program.emit(desc, vec![(Arg::SRC, packed.clone()), (Arg::DST, plain.clone())], Vec::new());
        if let Storage::Temp(temp) = plain.storage {
            program.ports.packed.insert(temp, packed);
        }
        program.alias(id, plain);
    }
    Ok(())
}

/// Opens the arguments that stand for ports declared with [`TensorLayout::Any`], and weights that have been unpacked: their
/// primitives choose.
///
/// A port is open when one argument alone uses it, whole. Copies have nothing to choose.
pub(super) fn open(program: &mut Program<'_>) {
    let is_any = |id: TensorId| program.graph.tensor(id).is_some_and(|t| t.layout == TensorLayout::Any);
    let port = |storage: Storage| match storage {
        Storage::Input(i) => program.graph.inputs().get(i),
        Storage::Constant(i) => program.constants.get(i),
        Storage::Output(i) => program.graph.outputs().get(i),
        Storage::Temp(_) | Storage::Literal(_) => None,
    };
    let mut opened = Vec::new();
    for (at, step) in program.steps.iter().enumerate() {
        for (i, (arg, value)) in step.args.iter().enumerate() {
            let whole = match value.storage {
                // Others read what is unpacked as well as anything.
                Storage::Temp(t) => {
                    let packed = program.ports.packed.get(&t).filter(|_| *arg == Arg::Weights);
                    packed.map(|packed| packed.desc.to_row_major())
                }
                storage => port(storage)
                    .filter(|id| is_any(**id) && users(&program.steps, storage) == 1)
                    .and_then(|id| declared(program.graph, *id).ok()),
            };
            let is_free = step.desc.access(*arg) != Some(Access::ReadWrite)
                && !matches!(step.desc.op(), Op::Reorder(_));
            if is_free && whole.is_some_and(|whole| whole.same_bytes(&value.desc)) {
                opened.push((at, i));
            }
        }
    }
    for (at, i) in opened {
        let step = &mut program.steps[at];
        let (arg, storage) = (step.args[i].0, step.args[i].1.storage);
        // Transformed weights cannot be unpacked again.
        step.desc = step.desc.clone().with_winograd(false).opened(arg);
        if !matches!(storage, Storage::Temp(_)) {
            program.ports.open.insert(storage, None);
        }
    }
}

/// The value in the layout that a primitive chose, where no reorder is needed for it: an open port takes the layout, and an unpacked
/// input is read as it was given.
pub(super) fn direct(program: &mut Program<'_>, value: &Value, wanted: &MemoryDesc) -> Option<Value> {
    if let Storage::Temp(temp) = value.storage {
        return program.ports.packed.get(&temp).filter(|packed| packed.desc.same_bytes(wanted)).cloned();
    }
    let chosen = program.ports.open.get_mut(&value.storage)?;
    *chosen = Some(wanted.clone());
    Some(value.with_desc(wanted.clone()))
}

/// Drops the unpacking of inputs that every reader takes as they are.
pub(super) fn drop_unread<P>(program: &mut Program<'_>, primitives: &mut Vec<P>) {
    let unread = |step: &ProtoStep| {
        let made = step.args.iter().find(|(arg, _)| *arg == Arg::DST).map(|(_, value)| value.storage);
        made.is_some_and(|made| match made {
            Storage::Temp(t) => program.ports.packed.contains_key(&t) && users(&program.steps, made) == 1,
            _ => false,
        })
    };
    let keep: Vec<bool> = program.steps.iter().map(|step| !unread(step)).collect();
    let mut kept = keep.iter();
    program.steps.retain(|_| *kept.next().unwrap_or(&true));
    let mut kept = keep.iter();
    primitives.retain(|_| *kept.next().unwrap_or(&true));
}

/// How many arguments of steps stand for bytes of a storage.
fn users(steps: &[ProtoStep], storage: Storage) -> usize {
    steps.iter().flat_map(|step| &step.args).filter(|(_, value)| value.storage == storage).count()
}
