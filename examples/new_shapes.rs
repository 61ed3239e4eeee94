//! What a shape that was never met before costs: runs an ONNX model over shapes drawn at random, each a few times, and compares its first time
//! with its own steady time.
//!
//! ```sh
//! cargo run --release --example new_shapes -- MODEL DIM=FROM..TO COUNT [DIM=N ...]
//! ```
//!
//! The device is what `ANYDNN_BACKEND` names. Inputs are zeros: it is time that counts here. Programs are counted on OpenCL devices.

mod support;

use std::error::Error;
use std::time::Instant;

use anydnn::backend::Engine;
use anydnn::onnx::Model;
use anydnn::select::{AnyBackend, AnyEngine, Selector};

use self::support::{programs, zeros};

/// Runs of a shape behind its first one, of which the fastest counts.
const STEADY: usize = 3;
/// Shapes at the start that may compile.
const WARMING: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, varied, count, others @ ..] = args.as_slice() else {
        return Err("expected MODEL DIM=FROM..TO COUNT [DIM=N ...]".into());
    };
    let count: usize = count.parse()?;
    let (name, range) = varied.split_once('=').ok_or("expected DIM=FROM..TO")?;
    let (from, to) = range.split_once("..").ok_or("expected DIM=FROM..TO")?;
    let (from, to): (usize, usize) = (from.parse()?, to.parse()?);
    let fixed = |other: &String| -> Result<(String, usize), Box<dyn Error>> {
        let (name, extent) = other.split_once('=').ok_or("expected DIM=N")?;
        Ok((name.to_owned(), extent.parse()?))
    };
    let fixed = others.iter().map(fixed).collect::<Result<Vec<_>, _>>()?;

    let selection = Selector::from_env()?.select()?;
    let session = Model::load(model)?.compile::<AnyEngine, AnyBackend>(&selection.engine, &[])?;
    println!("{}: {count} extents of {name} from {from} to {to}", selection.chosen);
    let (mut ratios, mut seed, mut at_first, mut warm) = (Vec::new(), 1_u64, None, None);
    for number in 0..count {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let extent = from + (seed >> 33) as usize % (to + 1 - from);
        let inputs = zeros(&session, |open| {
            let given = || fixed.iter().find(|(known, _)| known == open);
            if open == name { Some(extent) } else { given().map(|(_, extent)| *extent) }
        })?;
        let built = programs(&selection.engine);
        let run = || -> Result<f64, Box<dyn Error>> {
            let start = Instant::now();
            session.run(&inputs)?;
            Ok(start.elapsed().as_secs_f64() * 1e3)
        };
        let first = run()?;
        // The host answers first where the device has yet to compile.
        session.wait_for_device();
        let made = programs(&selection.engine) - built;
        let steady = (0..STEADY).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
        let steady = steady.into_iter().fold(f64::INFINITY, f64::min);
        at_first.get_or_insert(first);
        println!("  {extent:6}: first {first:9.2} ms, then {steady:8.2} ms, {made} programs");
        if number >= WARMING {
            warm.get_or_insert((built, resident()));
            ratios.push(first / steady);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios.get(((ratios.len().max(1) - 1) as f64 * share) as usize).copied();
    if let (Some(median), Some(high), Some(most), Some((built, bytes))) = (at(0.5), at(0.9), at(1.0), warm) {
        println!(
            "first by steady, behind the first {WARMING}: median {median:.2}, 90 % {high:.2}, most {most:.2}; {} programs, {:+.1} MiB",
            programs(&selection.engine) - built,
            resident() - bytes,
        );
        let held = session.memory();
        let temporaries = selection.engine.allocator().stats().parked_bytes;
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        println!(
            "held by {} plans: {:.1} MiB of constants, {:.1} MiB of what was prepared from them, {:.1} MiB on the host, {:.1} MiB that wait \
             for the next temporaries",
            held.plans.len(),
            mib(held.weights),
            mib(held.prepared),
            mib(held.host),
            mib(temporaries)
        );
    }
    Ok(())
}

/// MiB of memory that the process holds, where the system tells.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).map_or(0.0, |kib: f64| kib / 1024.0)
}
