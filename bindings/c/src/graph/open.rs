//! Graphs in the making.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anydnn::fusion::Policy;
use anydnn::partition::{Dump, OpenGraph, Partition};
use anydnn_backend::{DeviceKind, FpMath};

use super::partition::PartitionObject;
use super::types::*;
use crate::boundary::{self, Failure, Outcome};
use crate::handle::{self, Handle};
use crate::object_types::{dnnl_cpu, dnnl_engine_kind_t, dnnl_gpu};
use crate::settings;
use crate::types::{dnnl_fpmath_mode_t, dnnl_invalid_graph, dnnl_status_t};

/// Makes an empty graph for engines of a kind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_graph_create(
    graph: *mut dnnl_graph_graph_t,
    engine_kind: dnnl_engine_kind_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_graph_create", || {
        // SAFETY: the caller passes null or a handle to write.
        unsafe { create(graph, engine_kind, settings::default_fpmath()) }
    })
}

/// Makes an empty graph that may use narrower arithmetic.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_graph_create_with_fpmath_mode(
    graph: *mut dnnl_graph_graph_t,
    engine_kind: dnnl_engine_kind_t,
    mode: dnnl_fpmath_mode_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_graph_create_with_fpmath_mode", || {
        // SAFETY: the caller passes null or a handle to write.
        unsafe { create(graph, engine_kind, fpmath(mode)?) }
    })
}

/// Ends a graph; null is none. Its partitions live on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_graph_destroy(graph: dnnl_graph_graph_t) -> dnnl_status_t {
    boundary::status("dnnl_graph_graph_destroy", || {
        // SAFETY: the caller passes null or a graph that lives, and gives it up.
        unsafe { handle::destroy(graph) }
    })
}

/// Sets which narrower arithmetic the graph may use, and whether integer work may use it too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_graph_set_fpmath_mode(
    graph: dnnl_graph_graph_t,
    mode: dnnl_fpmath_mode_t,
    apply_to_int: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_graph_set_fpmath_mode", || {
        // SAFETY: the caller passes null or a graph that lives.
        let graph = unsafe { handle::borrow(graph) }?;
        let mode = fpmath(mode)?;
        Ok(graph.lock().graph.set_fpmath(mode, apply_to_int != 0)?)
    })
}

/// Tells which narrower arithmetic the graph may use. Either result may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_graph_get_fpmath_mode(
    graph: dnnl_graph_graph_t,
    mode: *mut dnnl_fpmath_mode_t,
    apply_to_int: *mut c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_graph_get_fpmath_mode", || {
        // SAFETY: the caller passes null or a graph that lives.
        let (fpmath, to_int) = unsafe { handle::borrow(graph) }?.lock().graph.fpmath();
        if mode.is_null() && apply_to_int.is_null() {
            return Err(Failure::null("mode and apply_to_int"));
        }
        if !mode.is_null() {
            // SAFETY: not null, so the caller vouches for it.
            unsafe { mode.write_unaligned(settings::fpmath_number(fpmath)) };
        }
        if !apply_to_int.is_null() {
            // SAFETY: not null, so the caller vouches for it.
            unsafe { apply_to_int.write_unaligned(c_int::from(to_int)) };
        }
        Ok(())
    })
}

/// Adds an operation, which is checked. One whose identity is there already is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_add_op(graph: dnnl_graph_graph_t, op: dnnl_graph_op_t) -> dnnl_status_t {
    boundary::status("dnnl_graph_add_op", || {
        // SAFETY: the caller passes null or objects that live.
        let (graph, op) = unsafe { (handle::borrow(graph)?, handle::borrow(op)?) };
        let described = op.lock().clone();
        Ok(graph.lock().graph.add_op(described.op, &described.tensors)?)
    })
}

/// Ends the adding of operations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_graph_finalize(graph: dnnl_graph_graph_t) -> dnnl_status_t {
    boundary::status("dnnl_graph_graph_finalize", || {
        // SAFETY: the caller passes null or a graph that lives.
        Ok(unsafe { handle::borrow(graph) }?.lock().graph.finalize()?)
    })
}

/// Tells whether a graph is finalised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_graph_is_finalized(
    graph: dnnl_graph_graph_t,
    finalized: *mut u8,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_graph_is_finalized", || {
        // SAFETY: the caller passes null or a graph that lives.
        let is = unsafe { handle::borrow(graph) }?.lock().graph.is_finalized();
        // SAFETY: the caller passes null or a truth value to write.
        unsafe { handle::write(finalized, "finalized", u8::from(is)) }
    })
}

/// Cuts a finalised graph into partitions, in place of those of an earlier call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_graph_filter(
    graph: dnnl_graph_graph_t,
    policy: dnnl_graph_partition_policy_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_graph_filter", || {
        // SAFETY: the caller passes null or a graph that lives.
        let graph = unsafe { handle::borrow(graph) }?;
        let policy = match policy {
            dnnl_graph_partition_policy_fusion => Policy::Fusion,
            dnnl_graph_partition_policy_debug => Policy::Debug,
            other => return Err(Failure::invalid(format!("{other} is no partition policy"))),
        };
        let mut state = graph.lock();
        state.partitions = state.graph.partitions(policy)?;
        Ok(())
    })
}

/// Tells the number of partitions that the last filter gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_graph_get_partition_num(
    graph: const_dnnl_graph_graph_t,
    num: *mut usize,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_graph_get_partition_num", || {
        // SAFETY: the caller passes null or a graph that lives.
        let count = unsafe { handle::borrow(graph) }?.lock().partitions.len();
        // SAFETY: the caller passes null or a number to write.
        unsafe { handle::write(num, "num", count) }
    })
}

/// Gives handles of the partitions, every one after those it depends on. Handles beyond the number of partitions become null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_graph_get_partitions(
    graph: dnnl_graph_graph_t,
    num: usize,
    partitions: *mut dnnl_graph_partition_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_graph_get_partitions", || {
        let invalid = |message: &str| Err(Failure::Status(dnnl_invalid_graph, message.to_owned()));
        if graph.is_null() || partitions.is_null() || num == 0 {
            return invalid("graph or partitions is null, or num is zero");
        }
        // SAFETY: the caller passes a graph that lives.
        let graph = unsafe { handle::borrow(graph) }?;
        let state = graph.lock();
        for i in 0..num {
            let made = state.partitions.get(i).map_or(ptr::null_mut(), |partition| {
                handle::create(PartitionObject { partition: partition.clone(), kind: state.kind })
            });
            // SAFETY: the caller passes room for so many handles.
            unsafe { partitions.add(i).write_unaligned(made) };
        }
        Ok(())
    })
}

/// Sets what new graphs write to files, in place of what `ONEDNN_GRAPH_DUMP` says.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_graph_set_dump_mode(modes: dnnl_graph_dump_mode_t) -> dnnl_status_t {
    boundary::status("dnnl_graph_set_dump_mode", || {
        if modes & !(dnnl_graph_dump_mode_graph | dnnl_graph_dump_mode_subgraph) != 0 {
            return Err(Failure::invalid(format!("{modes:#x} is no dump mode")));
        }
        DUMP.store(modes, Ordering::Relaxed);
        Ok(())
    })
}

/// What is behind a graph's handle.
#[derive(Debug)]
pub(crate) struct GraphObject(Mutex<State>);

#[derive(Debug)]
struct State {
    graph: OpenGraph,
    kind: dnnl_engine_kind_t,
    partitions: Vec<Partition>,
}

impl Handle for dnnl_graph_graph {
    type Value = GraphObject;
    const TAG: u64 = u64::from_le_bytes(*b"any-grph");
    const NAME: &'static str = "graph";
}

impl GraphObject {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The library's word for a kind of engine.
pub(super) fn device_kind(kind: dnnl_engine_kind_t) -> Outcome<DeviceKind> {
    match kind {
        dnnl_gpu => Ok(DeviceKind::Gpu),
        dnnl_cpu => Ok(DeviceKind::Cpu),
        other => Err(Failure::invalid(format!("{other} is no kind of engine for graphs"))),
    }
}

const AS_THE_ENVIRONMENT_SAYS: u32 = u32::MAX;
static DUMP: AtomicU32 = AtomicU32::new(AS_THE_ENVIRONMENT_SAYS);

fn fpmath(mode: dnnl_fpmath_mode_t) -> Outcome<FpMath> {
    settings::fpmath(mode).ok_or_else(|| Failure::invalid(format!("mode is {mode}, expected 0 to 4")))
}

/// # Safety
/// `out` is null or a handle to write.
unsafe fn create(out: *mut dnnl_graph_graph_t, kind: dnnl_engine_kind_t, fpmath: FpMath) -> Outcome {
    let make = || {
        let mut graph = OpenGraph::new().with_engine_kind(device_kind(kind)?);
        graph.set_fpmath(fpmath, false)?;
        let modes = DUMP.load(Ordering::Relaxed);
        if modes != AS_THE_ENVIRONMENT_SAYS {
            let dump = Dump {
                graphs: modes & dnnl_graph_dump_mode_graph != 0,
                subgraphs: modes & dnnl_graph_dump_mode_subgraph != 0,
                ..Dump::from_env()
            };
            graph = graph.with_dump(dump);
        }
        Ok(GraphObject(Mutex::new(State { graph, kind, partitions: Vec::new() })))
    };
    // SAFETY: by contract.
    unsafe { handle::create_at(out, make) }
}
