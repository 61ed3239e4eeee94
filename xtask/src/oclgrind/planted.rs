//! Kernels with faults that the simulator must find, so that its silence about others means something.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{log, options};

const SOURCE: &str = "\
kernel void beyond(global int *x) { x[get_global_id(0) + 1] = 1; }
kernel void race(global int *x) { x[0] = (int)get_global_id(0); }
kernel void unset(global int *x) { local int y[4]; if (y[get_local_id(0)] > 3) x[get_global_id(0)] = 1; }
";

/// Fails unless the simulator finds one fault in each kernel of the source, and tells the line.
pub(super) fn are_found(folder: &Path) -> Result<()> {
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).with_context(|| format!("writing {name} in {}", folder.display()))
    };
    write("planted.cl", SOURCE)?;
    for (i, (kernel, what)) in
        [("beyond", "Invalid write"), ("race", "data race"), ("unset", "uninitialized")]
            .into_iter()
            .enumerate()
    {
        // The program, the kernel, the work-items, those of a group, and a buffer.
        let run = format!("planted.cl\n{kernel}\n4 1 1\n4 1 1\n<size=16 fill=0>\n");
        write("planted.sim", &run)?;
        let log_file = folder.join("planted.txt");
        fs::write(&log_file, "").with_context(|| format!("writing {}", log_file.display()))?;
        let mut command = Command::new("oclgrind-kernel");
        command.arg("planted.sim").current_dir(folder).envs(options(&log_file));
        command.output().context("`oclgrind-kernel` does not start")?;
        let found = log::findings(&fs::read_to_string(&log_file)?);
        let line = format!("line {}:", i + 1);
        let is_found = found.keys().any(|finding| {
            finding.what.contains(what)
                && finding.kernel == kernel
                && finding.places.iter().any(|place| place.starts_with(&line))
        });
        if !is_found {
            bail!("the simulator does not tell {what:?} of the kernel {kernel:?}, which has it: {found:?}");
        }
    }
    Ok(())
}
