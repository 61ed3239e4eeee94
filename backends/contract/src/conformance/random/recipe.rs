//! A family of operations with the choices that describe one of its primitives.

use std::fmt;
use std::str::FromStr;

use super::choices::{Choices, Limits};
use super::sample::Sample;
use super::{
    elementwise, expression, folds, matmul, movement, recurrent, recurrent_quantized, recurrent_training,
    windows,
};
use crate::conformance::trial::Trial;
use crate::{DataType, Error, Result};

/// Operations that one generator describes.
#[derive(Clone, Copy)]
pub struct Family {
    name: &'static str,
    /// How often it has its turn among the others: those with many implementations more often.
    turns: usize,
    describe: fn(&mut Choices) -> Result<Trial>,
}

/// Every family. New ones come last: the seeds of the suite's sweep follow the number of the row.
const FAMILIES: &[Family] = &[
    Family { name: "matmul", turns: 6, describe: matmul::matmul },
    Family { name: "convolution", turns: 4, describe: windows::convolution },
    Family { name: "pooling", turns: 1, describe: windows::pooling },
    Family { name: "eltwise", turns: 1, describe: elementwise::eltwise },
    Family { name: "gradient", turns: 1, describe: elementwise::gradient },
    Family { name: "binary", turns: 2, describe: elementwise::binary },
    Family { name: "select", turns: 1, describe: elementwise::select },
    Family { name: "softmax", turns: 1, describe: folds::softmax },
    Family { name: "layer_normalization", turns: 1, describe: folds::layer_normalization },
    Family { name: "batch_normalization", turns: 1, describe: folds::batch_normalization },
    Family { name: "group_normalization", turns: 1, describe: folds::group_normalization },
    Family { name: "reduction", turns: 2, describe: folds::reduction },
    Family { name: "concat", turns: 1, describe: movement::concat },
    Family { name: "reorder", turns: 2, describe: movement::reorder },
    Family { name: "expression", turns: 2, describe: expression::expression },
    Family { name: "attention", turns: 2, describe: expression::attention },
    Family { name: "gated_matmul", turns: 2, describe: matmul::gated },
    Family { name: "deconvolution", turns: 2, describe: windows::deconvolution },
    Family { name: "convolution_weights", turns: 2, describe: windows::convolution_weights },
    Family { name: "pooling_backward", turns: 1, describe: windows::pooling_backward },
    Family { name: "resampling", turns: 1, describe: movement::resampling },
    Family { name: "resampling_backward", turns: 1, describe: movement::resampling_backward },
    Family { name: "remap", turns: 1, describe: movement::remap },
    Family { name: "gather", turns: 1, describe: movement::gather },
    Family { name: "recurrent", turns: 2, describe: recurrent::recurrent },
    Family { name: "recurrent_training", turns: 1, describe: recurrent_training::forward },
    Family { name: "recurrent_backward", turns: 1, describe: recurrent_training::backward },
    Family { name: "local_response_normalization", turns: 1, describe: folds::local_response },
    Family { name: "grouped_matmul", turns: 1, describe: matmul::grouped },
    Family { name: "recurrent_quantized", turns: 1, describe: recurrent_quantized::quantized },
];

impl Family {
    /// Every family.
    pub fn all() -> &'static [Self] {
        FAMILIES
    }

    /// Every family as often as it has its turn.
    pub fn turns() -> Vec<Self> {
        FAMILIES.iter().flat_map(|&family| std::iter::repeat_n(family, family.turns)).collect()
    }

    /// The family of a name.
    pub fn named(name: &str) -> Option<Self> {
        FAMILIES.iter().copied().find(|family| family.name == name)
    }

    /// Its name, that of its operation unless one operation has several families.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Family").field(&self.name).finish()
    }
}

impl PartialEq for Family {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Family {}

/// What a description follows from. Its text, `matmul:11,399,1199`, can be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The generator.
    pub family: Family,
    /// What it chooses, one after the other; then zeros.
    pub choices: Vec<u64>,
}

impl Recipe {
    /// A recipe at random; equal seeds give equal ones. A wanted type is taken wherever it may be.
    ///
    /// # Errors
    /// What the description's checks say; that is a defect of the generator.
    pub fn draw(
        family: Family,
        seed: u64,
        limits: Limits,
        wanted: Option<DataType>,
    ) -> Result<(Self, Sample)> {
        let mut choices = Choices::random(seed, limits).with_type(wanted);
        let trial = describe(family, &mut choices);
        let recipe = Self { family, choices: choices.into_record() };
        let trial = trial.map_err(|error| error.at(recipe.to_string()))?;
        Ok((recipe, Sample::new(trial)))
    }

    /// The description; what is larger than the limits is cut.
    ///
    /// # Errors
    /// As [`Recipe::draw`].
    pub fn sample(&self, limits: Limits) -> Result<Sample> {
        Ok(self.normalized(limits)?.1)
    }

    /// The same description by the choices that the generator really takes.
    ///
    /// # Errors
    /// As [`Recipe::draw`].
    pub fn normalized(&self, limits: Limits) -> Result<(Self, Sample)> {
        let mut choices = Choices::replay(self.choices.clone(), limits);
        let trial = describe(self.family, &mut choices).map_err(|error| error.at(self.to_string()))?;
        Ok((Self { family: self.family, choices: choices.into_record() }, Sample::new(trial)))
    }

    /// Whether it counts as simpler: fewer choices, then lower ones.
    pub(super) fn is_simpler_than(&self, other: &Self) -> bool {
        (self.choices.len(), &self.choices) < (other.choices.len(), &other.choices)
    }
}

/// A primitive of a family, now and then to be run by programs for its shape, too.
fn describe(family: Family, choices: &mut Choices) -> Result<Trial> {
    let trial = (family.describe)(choices)?;
    Ok(trial.both_forms(choices.one_in(12)))
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.family.name)?;
        for (i, choice) in self.choices.iter().enumerate() {
            write!(f, "{}{choice}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for Recipe {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |expected: String| Error::invalid("replay", "text", format!("{text:?}"), expected);
        let Some((name, list)) = text.trim().split_once(':') else {
            return Err(wrong("a family and its choices such as matmul:11,399,1199".into()));
        };
        let Some(family) = Family::named(name) else {
            let known: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
            return Err(wrong(format!("a family among {}", known.join(", "))));
        };
        let numbers = list.split(',').filter(|part| !part.is_empty()).map(str::parse);
        match numbers.collect::<std::result::Result<_, _>>() {
            Ok(choices) => Ok(Self { family, choices }),
            Err(_) => Err(wrong("whole numbers with commas between them".into())),
        }
    }
}
