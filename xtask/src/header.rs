//! The C header of the C ABI, made from its source.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::command::root;

/// Writes the header.
pub(crate) fn write() -> Result<()> {
    let header = made()?;
    fs::write(path(), header).with_context(|| format!("writing {}", path().display()))?;
    println!("wrote {}", path().display());
    Ok(())
}

/// Where the header is.
pub(crate) fn path() -> PathBuf {
    root().join("bindings/c/include/anydnn.h")
}

fn made() -> Result<String> {
    let package = root().join("bindings/c");
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml")).map_err(anyhow::Error::msg)?;
    let bindings = cbindgen::Builder::new()
        .with_crate(&package)
        .with_config(config)
        .generate()
        .context("reading the source of the C ABI")?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).context("the header is no text")?;
    if !text.contains("dnnl_version(void)") {
        bail!("the header lacks functions");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_that_of_the_source() {
        let kept = fs::read_to_string(path()).unwrap();
        assert!(kept == made().unwrap(), "{} is out of date: run `cargo xtask header`", path().display());
    }

    #[test]
    fn the_header_declares_every_exported_function() {
        let header = made().unwrap();
        let names = fs::read_to_string(root().join("bindings/c/tests/exports.txt")).unwrap();
        for name in
            names.lines().filter(|line| !line.is_empty() && !line.starts_with('#') && !line.contains(' '))
        {
            assert!(header.contains(&format!("{name}(")), "{name} is not declared");
        }
    }
}
