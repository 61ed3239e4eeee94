//! Peers that are Python packages.

use std::process::{Command, Stdio};

use super::{cache, environment};
use crate::failure::Failure;

/// What runs a case with each library; `common.py` comes first.
const SCRIPTS: [(&str, &str, &str); 2] = [
    ("onnxruntime", include_str!("onnxruntime.py"), include_str!("packages/onnxruntime.txt")),
    ("torch", include_str!("torch_peer.py"), include_str!("packages/torch.txt")),
];

/// A Python that has the package, with the script. For a GPU it is the one of the system: its packages fit its drivers.
pub(super) fn command(package: &str, gpu: bool) -> Result<Command, Failure> {
    let (_, script, packages) = SCRIPTS.iter().find(|(name, ..)| *name == package).unwrap_or(&SCRIPTS[0]);
    let script = [include_str!("common.py"), script].join("\n");
    let has = |python: &str| {
        let mut test = Command::new(python);
        test.args(["-c", &format!("import {package}, numpy")]).stdout(Stdio::null()).stderr(Stdio::null());
        test.status().is_ok_and(|status| status.success())
    };
    if let Some(python) = std::env::var("ANYDNN_PEER_PYTHON").ok().filter(|python| has(python)) {
        return Ok(started(&python, &script));
    }
    if (gpu || package == "torch") && has("python3") {
        return Ok(started("python3", &script));
    }
    let folder = cache()?.join("peers").join(package);
    environment(&folder, packages, &[])?;
    Ok(started(&folder.join("bin/python").display().to_string(), &script))
}

fn started(python: &str, script: &str) -> Command {
    let mut command = Command::new(python);
    command.args(["-u", "-c", script]);
    command
}
