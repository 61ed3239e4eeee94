//! Commands: what was enqueued and how it runs on the heap.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use anydnn_backend::{Access, Arg, Error, PrimitiveDesc, Region, Result, ScratchpadMode, Timestamps};

use crate::heap::Heap;
use crate::kernel::MockKernel;
use crate::past::Past;
use crate::race::Touch;

/// The place of a command, or of a user event, in the order of things. Events, dependants and streams share it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) key: Key,
    /// `#3 relu`, or `user event u0`.
    pub(crate) name: String,
    /// What happens before it ends, itself included.
    pub(crate) past: Past,
    pub(crate) profiling: bool,
    pub(crate) queued: u64,
    /// When it was flushed.
    pub(crate) submitted: OnceLock<u64>,
    /// How it ended.
    pub(crate) outcome: OnceLock<Outcome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Key {
    Command(u64),
    User(u64),
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) error: Option<Error>,
    pub(crate) timestamps: Timestamps,
}

impl Node {
    pub(crate) fn is_done(&self) -> bool {
        self.outcome.get().is_some()
    }

    pub(crate) fn error(&self) -> Option<&Error> {
        self.outcome.get().and_then(|outcome| outcome.error.as_ref())
    }
}

/// What a command does.
#[derive(Debug)]
pub(crate) enum Work {
    Execute { compiled: Arc<Compiled>, args: Vec<(Arg, Region)> },
    Copy { from: Region, to: Region },
    Write { to: Region, bytes: Vec<u8> },
    Read { from: Region, into: Arc<OnceLock<Vec<u8>>> },
    Marker,
    Kernel { kernel: MockKernel, args: Vec<(Access, Region)> },
}

/// A primitive as commands keep it.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) desc: PrimitiveDesc,
    pub(crate) scratchpad: usize,
}

impl Compiled {
    /// The bytes of an argument that the primitive touches.
    pub(crate) fn touched(&self, arg: Arg, region: Region) -> Region {
        let bytes = match self.desc.find(arg) {
            Some(desc) => desc.size(),
            None => self.scratchpad,
        };
        Region { bytes: bytes.min(region.bytes), ..region }
    }

    pub(crate) fn scratchpad_size(desc: &PrimitiveDesc) -> usize {
        match desc.attributes().scratchpad {
            ScratchpadMode::Library => 0,
            // The reference needs none; asking for one shows who forgets to provide it, or shares it between unordered commands.
            ScratchpadMode::User => desc.dst().size().max(64),
        }
    }
}

impl Work {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Execute { compiled, .. } => compiled.desc.name(),
            Self::Copy { .. } => "copy",
            Self::Write { .. } => "write",
            Self::Read { .. } => "read",
            Self::Marker => "marker",
            Self::Kernel { kernel, .. } => kernel.name(),
        }
    }

    /// Every argument with its access and its bytes.
    pub(crate) fn args(&self) -> Vec<(String, Access, Region)> {
        match self {
            Self::Execute { compiled, args } => args
                .iter()
                .map(|&(arg, region)| {
                    (arg.to_string(), compiled.desc.access(arg).unwrap_or(Access::ReadWrite), region)
                })
                .collect(),
            Self::Copy { from, to } => {
                vec![("from".into(), Access::Read, *from), ("to".into(), Access::Write, *to)]
            }
            Self::Write { to, .. } => vec![("to".into(), Access::Write, *to)],
            Self::Read { from, .. } => vec![("from".into(), Access::Read, *from)],
            Self::Marker => Vec::new(),
            Self::Kernel { args, .. } => args
                .iter()
                .enumerate()
                .map(|(i, &(access, region))| (format!("arg{i}"), access, region))
                .collect(),
        }
    }

    pub(crate) fn touches(&self, command: &str) -> Vec<(u64, Touch)> {
        self.args()
            .into_iter()
            .map(|(arg, access, region)| (region.allocation, Touch::new(command, arg, access, region)))
            .collect()
    }

    /// The arguments for the log: ` src0=m0[0..8] dst0=m1[0..8]`.
    pub(crate) fn describe(&self, heap: &Heap) -> String {
        self.args().into_iter().fold(String::new(), |mut text, (arg, _, region)| {
            let _ = write!(text, " {arg}={}", heap.name(region));
            text
        })
    }

    /// Virtual nanoseconds: one for each element of the result or byte moved.
    pub(crate) fn cost(&self) -> u64 {
        let cost = match self {
            Self::Execute { compiled, .. } => compiled.desc.dst().elements(),
            Self::Copy { to, .. } | Self::Write { to, .. } => to.bytes,
            Self::Read { from, .. } => from.bytes,
            Self::Marker => 0,
            Self::Kernel { args, .. } => args.iter().map(|(_, region)| region.bytes).max().unwrap_or(0),
        };
        cost as u64
    }

    pub(crate) fn run(&self, heap: &mut Heap) -> Result<()> {
        match self {
            Self::Execute { compiled, args } => execute(compiled, args, heap),
            Self::Copy { from, to } => {
                let bytes = heap.bytes(*from)?.to_vec();
                heap.write(*to, &bytes)
            }
            Self::Write { to, bytes } => heap.write(*to, bytes),
            Self::Read { from, into } => {
                into.get_or_init(|| heap.bytes(*from).map(<[u8]>::to_vec).unwrap_or_default());
                Ok(())
            }
            Self::Marker => Ok(()),
            Self::Kernel { kernel, args } => launch(kernel, args, heap),
        }
    }

    /// Poisons what the command was to write: it failed, so nobody may count on that.
    pub(crate) fn spoil(&self, heap: &mut Heap) -> Result<()> {
        match self {
            Self::Execute { compiled, args } => {
                args.iter().try_for_each(|&(arg, region)| match compiled.desc.access(arg) {
                    Some(access) if access.writes() => heap.poison(region, compiled.desc.find(arg)),
                    _ => Ok(()),
                })
            }
            Self::Copy { to, .. } | Self::Write { to, .. } => heap.poison(*to, None),
            Self::Kernel { args, .. } => args
                .iter()
                .filter(|(access, _)| access.writes())
                .try_for_each(|&(_, region)| heap.poison(region, None)),
            Self::Read { .. } | Self::Marker => Ok(()),
        }
    }
}

fn launch(kernel: &MockKernel, args: &[(Access, Region)], heap: &mut Heap) -> Result<()> {
    for &(access, region) in args {
        if access == Access::Write {
            heap.poison(region, None)?;
        }
    }
    let mut bytes = args
        .iter()
        .map(|&(access, region)| Ok((access, heap.bytes(region)?.to_vec())))
        .collect::<Result<Vec<_>>>()?;
    kernel.run(&mut bytes)?;
    let mut written = args.iter().zip(&bytes).filter(|((access, _), _)| access.writes());
    written.try_for_each(|(&(_, region), (_, bytes))| heap.write(region, bytes))
}

fn execute(compiled: &Compiled, args: &[(Arg, Region)], heap: &mut Heap) -> Result<()> {
    let desc = &compiled.desc;
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for &(arg, region) in args {
        if desc.access(arg) == Some(Access::Read) {
            inputs.push((arg, heap.bytes(region)?.to_vec()));
        }
    }
    for &(arg, region) in args {
        match desc.access(arg) {
            Some(Access::Write) => heap.poison(region, desc.find(arg))?,
            Some(Access::ReadWrite) => {}
            _ => continue,
        }
        if arg != Arg::Scratchpad {
            outputs.push((arg, region, heap.bytes(region)?.to_vec()));
        }
    }
    let sources: Vec<(Arg, &[u8])> = inputs.iter().map(|(arg, bytes)| (*arg, &**bytes)).collect();
    let mut results: Vec<(Arg, &mut [u8])> =
        outputs.iter_mut().map(|(arg, _, bytes)| (*arg, &mut **bytes)).collect();
    anydnn_host::compute(desc, &sources, &mut results)?;
    outputs.iter().try_for_each(|(_, region, bytes)| heap.write(*region, bytes))
}
