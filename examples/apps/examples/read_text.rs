//! Reads the text in pictures, and draws what it found into `NAME.read.png` in the current folder.
//!
//! `cargo run --release --features onnx --example read_text -- picture.jpg`

use std::path::{Path, PathBuf};

use anydnn_examples::read_text::{Reader, annotated};
use anyhow::{Context, Result};

const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/pictures/notice.png");

fn main() -> Result<()> {
    let mut files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if files.is_empty() {
        files.push(PICTURE.into());
    }
    let reader = Reader::load(&anydnn_examples::engine()?)?;
    for file in files {
        let picture = image::open(&file).with_context(|| file.display().to_string())?.into_rgb8();
        let lines = reader.read(&picture)?;
        println!("{}", file.display());
        for (index, line) in lines.iter().enumerate() {
            let [x, y] = line.outline.corners()[0].map(f32::round);
            let turned = if line.turned { "  upside down" } else { "" };
            println!("{:3}  {:4.0} %  at {x}, {y}  {}{turned}", index + 1, line.score * 100.0, line.text);
        }
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let drawn = Path::new(".").join(format!("{name}.read.png"));
        annotated(&picture, &lines).save(&drawn).with_context(|| drawn.display().to_string())?;
        println!("     {}", drawn.display());
    }
    Ok(())
}
