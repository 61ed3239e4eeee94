//! `anydnn devices`.

use std::fmt::Write;

use anydnn::backend::{Capabilities, DeviceInfo, Engine, Error};
use anydnn::select::{AnyEngine, Candidate, HOW_TO_GET_A_DEVICE, Selection, Selector};
use serde_json::{Value, json};

use crate::failure::Outcome;
use crate::output::{Style, bytes, print, print_json};

/// The arguments of `anydnn devices`.
#[derive(Debug, clap::Args)]
pub(crate) struct DevicesArgs {
    /// Prints one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Prints no colours.
    #[arg(long)]
    pub(crate) no_color: bool,
}

/// Lists every candidate, probes it, and says which one would be chosen.
pub(crate) fn devices(args: &DevicesArgs) -> Outcome {
    let selector = Selector::from_env()?;
    let selection = selector.select();
    let found: Vec<Found> =
        selector.candidates().into_iter().map(|c| Found::new(c, selection.as_ref().ok())).collect();
    if args.json {
        print_json(&json(&found, &selection))?;
    } else {
        print(&text(Style::new(args.no_color), &found, &selection))?;
    }
    selection.map(drop).map_err(Into::into)
}

/// A candidate with its engine, or why there is none.
struct Found {
    candidate: Candidate,
    engine: Result<AnyEngine, Error>,
}

impl Found {
    fn new(candidate: Candidate, selection: Option<&Selection>) -> Self {
        let engine = match selection {
            Some(selection) if selection.chosen == candidate.name() => Ok(selection.engine.clone()),
            _ => candidate.create(),
        };
        Self { candidate, engine }
    }
}

fn text(style: Style, found: &[Found], selection: &Result<Selection, Error>) -> String {
    let mut text = String::new();
    for Found { candidate, engine } in found {
        match engine {
            Ok(engine) => {
                let device = engine.device();
                let _ = writeln!(text, "{}  {}", style.bold(candidate.name()), device.name);
                describe(&mut text, device, engine.capabilities());
            }
            Err(error) => {
                let _ = writeln!(text, "{}  {}", style.bold(candidate.name()), style.bad("unavailable"));
                let _ = writeln!(text, "    {}", error.to_string().replace('\n', "\n    "));
            }
        }
        text.push('\n');
    }
    match selection {
        Ok(selection) => {
            let how = std::env::var(Selector::VARIABLE).ok().filter(|v| !v.is_empty());
            let how = how.map_or_else(
                || format!("by default; set {} to choose another", Selector::VARIABLE),
                |value| format!("{}={value}", Selector::VARIABLE),
            );
            let _ = writeln!(text, "chosen: {} ({how})", style.good(&selection.chosen));
            for rejected in &selection.rejected {
                let _ = writeln!(text, "not {rejected}");
            }
            let no_device = !found.iter().any(|f| f.candidate.backend() == "opencl" && f.engine.is_ok());
            if no_device {
                let _ = writeln!(text, "for an OpenCL device, {HOW_TO_GET_A_DEVICE}");
            }
        }
        Err(_) => {
            let _ = writeln!(text, "chosen: {}", style.bad("none"));
        }
    }
    text
}

fn describe(text: &mut String, device: &DeviceInfo, capabilities: &Capabilities) {
    let names = |list: Vec<String>| if list.is_empty() { "none".into() } else { list.join(", ") };
    let yes = |value: bool| if value { "yes" } else { "no" };
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "    {name:<16} {value}");
    };
    line("kind", device.kind.to_string());
    line("platform", format!("{} (driver {})", device.platform, device.driver));
    line("vendor", device.vendor.clone());
    line("compute units", capabilities.compute_units.to_string());
    let most = bytes(capabilities.max_allocation_bytes);
    line("memory", format!("{} (at most {most} at once)", bytes(capabilities.memory_bytes)));
    if capabilities.local_memory_bytes > 0 {
        let most = capabilities.max_work_group;
        line(
            "local memory",
            format!("{} for up to {most} work-items", bytes(capabilities.local_memory_bytes)),
        );
    }
    line("memory kinds", names(capabilities.memory_kinds.iter().map(ToString::to_string).collect()));
    line("storage types", names(capabilities.storage_types.iter().map(ToString::to_string).collect()));
    line("out-of-order", yes(capabilities.out_of_order).into());
    line("profiling", yes(capabilities.profiling).into());
    for (name, probe) in &capabilities.features {
        line(name, format!("{:<4} {}", yes(probe.works), probe.detail));
    }
}

fn json(found: &[Found], selection: &Result<Selection, Error>) -> Value {
    let candidates: Vec<Value> = found
        .iter()
        .map(|Found { candidate, engine }| {
            json!({
                "name": candidate.name(),
                "backend": candidate.backend(),
                "device": engine.as_ref().ok().map(Engine::device).or(candidate.device()).map(device_json),
                "capabilities": engine.as_ref().ok().map(|engine| capabilities_json(engine.capabilities())),
                "unavailable": engine.as_ref().err().map(ToString::to_string),
            })
        })
        .collect();
    let rejected: Vec<Value> = selection.iter().flat_map(rejected_json).collect();
    json!({
        "candidates": candidates,
        "chosen": selection.as_ref().ok().map(|selection| &selection.chosen),
        "rejected": rejected,
        "error": selection.as_ref().err().map(ToString::to_string),
    })
}

/// The candidates that a selection rejected.
pub(crate) fn rejected_json(selection: &Selection) -> Vec<Value> {
    selection.rejected.iter().map(|r| json!({ "candidate": r.candidate, "reason": r.reason })).collect()
}

/// A device's names and kind.
pub(crate) fn device_json(device: &DeviceInfo) -> Value {
    json!({
        "backend": device.backend,
        "platform": device.platform,
        "name": device.name,
        "vendor": device.vendor,
        "driver": device.driver,
        "kind": device.kind.to_string(),
    })
}

fn capabilities_json(capabilities: &Capabilities) -> Value {
    let features: serde_json::Map<String, Value> = capabilities
        .features
        .iter()
        .map(|(name, probe)| (name.clone(), json!({ "works": probe.works, "detail": probe.detail })))
        .collect();
    json!({
        "memory_kinds": capabilities.memory_kinds.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "storage_types": capabilities.storage_types.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "out_of_order": capabilities.out_of_order,
        "profiling": capabilities.profiling,
        "compute_units": capabilities.compute_units,
        "memory_bytes": capabilities.memory_bytes,
        "max_allocation_bytes": capabilities.max_allocation_bytes,
        "local_memory_bytes": capabilities.local_memory_bytes,
        "max_work_group": capabilities.max_work_group,
        "features": features,
    })
}
