//! Loops of few elements beside a device: launching their rounds, and waiting for what decides on the next one, takes it longer than the host
//! computes them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use anydnn_backend::{Backend, DataType, DeviceKind, Dims, Engine, Error, Result, Stream};
use anydnn_host::{Host, HostEngine};

use super::ahead::Ahead;
use super::direct::Direct;
use super::run::{LoopInputs, Run};
use super::scope::Scope;
use super::slot::Slot;
use super::startup::Fallback;
use super::{Inner, Precision, SessionOptions, Startup, lock};
use crate::onnx::node::Node;

/// Bytes that a loop reads for each element that takes a device as long as a launch.
const LAUNCH_BYTES: usize = 16;
/// Bytes up to which a processor computes rounds as fast without its driver: beyond, memory counts and not who waits for it.
const PROCESSOR_BYTES: usize = 8 << 20;
/// What a loop was given when it turned out to be the device's, so many at most.
const REFUSED: usize = 64;

/// What loops on the host have in common.
#[derive(Debug, Default)]
pub(super) struct Hosted(OnceLock<Box<Inner<Host>>>);

impl Hosted {
    fn inner<B: Backend>(&self, device: &Inner<B>) -> &Inner<Host> {
        self.0.get_or_init(|| {
            let engine = HostEngine::new();
            // The host is no faster in narrower types.
            let options = SessionOptions {
                startup: Some(Startup::Device),
                precision: Precision::Model,
                progress: None,
                ..device.options.clone()
            };
            Box::new(Inner {
                own: Weak::new(),
                ahead: Ahead::default(),
                scope: Scope::new(Arc::clone(&device.scope.program), ""),
                model: device.model.clone(),
                direct: Direct::of(&engine).map(Arc::new),
                engine,
                options,
                inputs: Vec::new(),
                outputs: Vec::new(),
                fallback: Fallback::default(),
                hosted: Self::default(),
                streams: Mutex::default(),
                profiling: Mutex::default(),
            })
        })
    }
}

/// The shapes and types of what a loop reads.
type Given = Vec<(Dims, DataType)>;

/// A loop's body on the host.
#[derive(Debug)]
pub(super) struct HostedBody {
    scope: Scope<Host>,
    /// What the device is left for.
    refused: Mutex<VecDeque<Given>>,
}

impl HostedBody {
    pub(super) fn of<B: Backend>(body: &Scope<B>) -> Self {
        Self { scope: Scope::new(Arc::clone(&body.program), &body.path), refused: Mutex::default() }
    }

    /// Bytes of the weights that the host has for it.
    pub(super) fn weight_bytes(&self) -> usize {
        let (own, prepared, host) = self.scope.weight_bytes();
        own + prepared + host
    }
}

impl<B: Backend> Run<'_, B> {
    /// Runs a loop on the host; none where it computes with too much, or fails, and the device is to run it.
    pub(super) fn repeat_on_host(
        &mut self,
        node: &Node,
        body: &Scope<B>,
        loop_inputs: &LoopInputs<B>,
    ) -> Result<Option<Vec<Arc<Slot<B>>>>> {
        let engine = &self.inner.engine;
        let most = match engine.launch_elements() {
            0 => return Ok(None),
            _ if engine.device().kind == DeviceKind::Cpu => PROCESSOR_BYTES,
            elements => elements.saturating_mul(LAUNCH_BYTES),
        };
        if !self.inner.options.host_loops {
            return Ok(None);
        }
        let each =
            || loop_inputs.captures.iter().map(|(_, slot)| slot).chain(loop_inputs.inputs.iter().flatten());
        let read: usize = each().map(|slot| slot.desc.size()).sum();
        if read.saturating_add(body.program.weight_bytes()) > most {
            return Ok(None);
        }
        let given: Given = each().map(|slot| (slot.desc.dims().clone(), slot.desc.data_type())).collect();
        let hosted = body.hosted();
        if lock(&hosted.refused).contains(&given) {
            return Ok(None);
        }
        let captures = loop_inputs.captures.iter().map(|(value, slot)| Ok((*value, self.moved(slot)?)));
        let captures = captures.collect::<Result<_>>()?;
        let inputs =
            loop_inputs.inputs.iter().map(|slot| slot.as_ref().map(|slot| self.moved(slot)).transpose());
        let loop_inputs = LoopInputs { captures, inputs: inputs.collect::<Result<_>>()? };

        let inner = self.inner.hosted.inner(self.inner);
        let made = inner.with_stream(|stream| {
            let mut run = Run::new(inner, stream, &[], self.dims.clone());
            run.cancel = self.cancel.clone();
            run.most_bytes = Some(most);
            let made = run.rounds(node, &hosted.scope, loop_inputs);
            if made.is_err() {
                let _ = stream.wait();
            }
            made?.iter().map(|slot| run.host(slot)).collect::<Result<Vec<_>>>()
        });
        match made {
            Ok(tensors) => {
                Ok(Some(tensors.into_iter().map(|tensor| Arc::new(Slot::of_host(tensor))).collect()))
            }
            Err(error) if matches!(error.root(), Error::Cancelled { .. }) => Err(error),
            Err(error) => {
                // The device tells what is wrong where something is.
                tracing::debug!(%error, "a loop is left to the device");
                let mut refused = lock(&hosted.refused);
                if refused.len() >= REFUSED {
                    refused.pop_front();
                }
                refused.push_back(given);
                Ok(None)
            }
        }
    }

    /// A value of the device's as one of the host's, in the model's type.
    fn moved(&mut self, slot: &Slot<B>) -> Result<Arc<Slot<Host>>> {
        let moved = Slot::of_host(self.wide(slot)?);
        if slot.is_open() {
            moved.open();
        }
        Ok(Arc::new(moved))
    }
}
