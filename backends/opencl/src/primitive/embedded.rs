//! Primitives within others: their launches, and the working memory that they share.

use anydnn_backend::{Arg, PrimitiveDesc};

use crate::plan::{DeviceTraits, Launch, LaunchArg};

/// Bytes of a line of the cache: pieces of working memory start at multiples of it.
const LINE: usize = 64;

/// Working memory, in the order in which it is handed out.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) bytes: usize,
}

impl Scratch {
    pub(super) fn take(&mut self, bytes: usize) -> usize {
        let start = self.bytes;
        self.bytes = start.saturating_add(bytes).saturating_add(LINE - 1) / LINE * LINE;
        start
    }
}

/// The launches of another primitive, with its arguments where they are in this one.
pub(super) fn embedded(
    desc: &PrimitiveDesc,
    device: &DeviceTraits,
    scratch: &mut Scratch,
    place: impl Fn(Arg) -> LaunchArg,
) -> Option<Vec<Launch>> {
    let plan = super::plan(desc, device).ok()?;
    let own = scratch.take(plan.scratchpad);
    let mut launches = plan.launches;
    for arg in launches.iter_mut().flat_map(|launch| &mut launch.args) {
        *arg = match *arg {
            LaunchArg::Memory(arg) => place(arg),
            LaunchArg::Scratchpad { offset } => LaunchArg::Scratchpad { offset: own + offset },
        };
    }
    Some(launches)
}
