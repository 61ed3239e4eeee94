//! Tells what kind of content files have, whatever their names say.
//!
//! `cargo run --release --features onnx --example file_type -- FILE..`

use std::path::PathBuf;

use anydnn_examples::file_type::Detector;
use anyhow::Result;

const FILES: [&str; 4] = ["Cargo.toml", "examples/file_type.rs", "pictures/notice.png", "tests/expected.py"];

fn main() -> Result<()> {
    let mut files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if files.is_empty() {
        files = FILES.map(|file| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file)).to_vec();
    }
    let detector = Detector::load(&anydnn_examples::engine()?)?;
    for file in files {
        match detector.file(&file) {
            Ok(found) => {
                let (label, percent) = (&found.label, found.score * 100.0);
                println!("{label:>14}  {percent:5.1} %  {} ({})", file.display(), found.description);
            }
            Err(error) => println!("{:>14}           {} ({error})", "-", file.display()),
        }
    }
    Ok(())
}
