//! Tells when somebody speaks in a WAV file; without one, in a sound that it makes itself.
//!
//! `cargo run --release --features onnx --example voice_activity -- sound.wav`

use std::path::PathBuf;
use std::time::Instant;

use anydnn_examples::voice_activity::{Detector, RATE, example, read_wav, voices};
use anyhow::Result;

fn main() -> Result<()> {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut sounds = Vec::new();
    for file in &files {
        sounds.push((file.display().to_string(), read_wav(file)?));
    }
    if sounds.is_empty() {
        sounds.push(("a made-up sound".to_owned(), example()?));
    }
    let detector = Detector::load(&anydnn_examples::engine()?)?;
    for (name, sound) in sounds {
        let start = Instant::now();
        let probabilities = detector.probabilities(&sound)?;
        let seconds = sound.len() as f64 / RATE as f64;
        println!("{name}: {seconds:.1} s, looked at in {:.2} s", start.elapsed().as_secs_f64());
        // A character stands for a tenth of a second.
        let mark = |certain: f32| [' ', '.', ':', '|', '#'][((certain * 5.0) as usize).min(4)];
        let bar: String =
            probabilities.chunks(3).map(|part| mark(part.iter().copied().fold(0.0, f32::max))).collect();
        println!("  [{bar}]");
        for (begin, end) in voices(&probabilities) {
            println!("  a voice from {begin:.2} to {end:.2} s");
        }
    }
    Ok(())
}
