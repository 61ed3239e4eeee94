//! Random descriptions of primitives, for whatever runs many of them: this suite, the sweep, benchmarks.
//!
//! A [`Recipe`] is a family of operations with a list of integers, the [`Choices`] that its generator takes one after the other; the
//! same list gives the same description. It is written `matmul:11,399,1199`, which [`Recipe`] also parses. [`shrink()`] makes
//! a recipe that fails a small one that fails alike.
//!
//! ```
//! use anydnn_backend::conformance::random::{Family, Limits, Recipe};
//! let family = Family::named("matmul").ok_or("no such family")?;
//! let (recipe, sample) = Recipe::draw(family, 7, Limits::QUICK, None)?;
//! assert_eq!(recipe.to_string().parse::<Recipe>()?.sample(Limits::WIDE)?.desc(), sample.desc());
//! let plain: Recipe = "matmul:11,399,1199".parse()?;
//! assert_eq!(plain.sample(Limits::WIDE)?.desc().to_string(), "matmul src0=f32:12x400 weights=f32:400x1200 dst0=f32:12x1200");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod choices;
mod elementwise;
mod expression;
mod folds;
mod matmul;
mod movement;
mod operand;
mod recipe;
mod recurrent;
mod recurrent_quantized;
mod recurrent_training;
mod regressions;
mod sample;
mod shrink;
mod windows;

#[cfg(test)]
mod tests;

pub use choices::{Choices, Lean, Limits};
pub use recipe::{Family, Recipe};
pub use regressions::regressions;
pub use sample::{Oracle, Sample};
pub use shrink::shrink;
