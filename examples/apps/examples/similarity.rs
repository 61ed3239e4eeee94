//! How alike sentences are in meaning.
//!
//! `cargo run --release --features onnx --example similarity -- "A first sentence." "A second one."`

use anydnn_examples::similarity::{Encoder, cosine};
use anyhow::Result;

const SENTENCES: [&str; 5] = [
    "A cat sleeps on the warm window sill.",
    "The kitten is napping in the sun.",
    "Shares fell sharply after the report.",
    "The stock market dropped on bad news.",
    "How do I bake bread at home?",
];

fn main() -> Result<()> {
    let mut sentences: Vec<String> = std::env::args().skip(1).collect();
    if sentences.is_empty() {
        sentences = SENTENCES.map(str::to_owned).to_vec();
    }
    let encoder = Encoder::load(&anydnn_examples::engine()?)?;
    let vectors = encoder.encode(&sentences)?;
    for (index, sentence) in sentences.iter().enumerate() {
        println!("{:3}  {sentence}", index + 1);
    }
    print!("\n     ");
    (1..=sentences.len()).for_each(|index| print!("{index:7}"));
    println!();
    for (index, vector) in vectors.iter().enumerate() {
        print!("{:3}  ", index + 1);
        for other in &vectors {
            print!("{:7.3}", cosine(vector, other));
        }
        println!();
    }
    Ok(())
}
