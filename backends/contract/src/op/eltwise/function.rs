//! What a row of the table says.

use super::Eltwise;

/// What is known of a function beside its formulas.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Function {
    /// The name in this project's notations, in `snake_case`.
    pub name: &'static str,
    /// Other names that notations take.
    pub aliases: &'static [&'static str],
    /// The function with parameters that tests use.
    pub example: Eltwise,
    /// The names of the parameters, in oneDNN's order of alpha and beta.
    pub parameters: &'static [&'static str],
    /// Arguments that tests draw.
    pub domain: Domain,
    /// More arguments, at which implementations must meet the definition's limits.
    pub specials: &'static [f64],
    /// Whether results are the same on every device.
    pub is_exact: bool,
    /// Whether it takes the difference of numbers that may be nearly equal.
    pub cancels: bool,
    /// As an operation of oneDNN's graph API; the gradient's name ends in `Backward`.
    pub graph: Option<Spelling>,
    /// As an operator of ONNX.
    pub onnx: Option<Spelling>,
    /// The numbers of oneDNN's algorithm kinds; their parameters are this function's, in order.
    pub onednn: &'static [i32],
}

/// Arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Domain {
    /// Any from the first to the second.
    Between(f64, f64),
    /// With a magnitude from the first to the second.
    AwayFromZero(f64, f64),
    /// Multiples of a quarter, for functions with steps.
    Quarters,
}

/// An operation of another vocabulary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spelling {
    /// Its name.
    pub operation: &'static str,
    /// The attribute that tells this function from others of the operation, and its value.
    pub chosen_by: Option<(&'static str, &'static str)>,
    /// Where the function's parameters come from.
    pub parameters: &'static [Parameter],
}

/// Where a parameter comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parameter {
    /// An attribute, with the value that stands for an absent one; without, it must be there.
    Attribute(&'static str, Option<f32>),
    /// It is the same always.
    Always(f32),
}

impl Function {
    /// What rows need not say.
    pub(super) const fn new(
        name: &'static str,
        example: Eltwise,
        parameters: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            aliases: &[],
            example,
            parameters,
            domain: Domain::Between(-8.0, 8.0),
            specials: &[],
            is_exact: false,
            cancels: false,
            graph: None,
            onnx: None,
            onednn: &[],
        }
    }

    /// The row that a notation names.
    pub fn named(name: &str) -> Option<&'static Self> {
        Eltwise::TABLE.iter().find(|row| row.name == name || row.aliases.contains(&name))
    }

    /// The row of an algorithm kind of oneDNN; of several the one with most parameters, which comprises the others.
    pub fn of_onednn(algorithm: i32) -> Option<&'static Self> {
        let rows = Eltwise::TABLE.iter().filter(|row| row.onednn.contains(&algorithm));
        rows.max_by_key(|row| row.parameters.len())
    }

    /// The function that an operation of oneDNN's graph API computes; none where it computes no function of one element.
    ///
    /// # Errors
    /// That of `number` for an attribute.
    pub fn of_graph<E>(operation: &str, attributes: &impl Attributes<E>) -> Result<Option<Eltwise>, E> {
        spelled(operation, |row| row.graph, attributes)
    }

    /// The function that an operator of ONNX computes; none where it computes no function of one element.
    ///
    /// # Errors
    /// That of `number` for an attribute.
    pub fn of_onnx<E>(operator: &str, attributes: &impl Attributes<E>) -> Result<Option<Eltwise>, E> {
        spelled(operator, |row| row.onnx, attributes)
    }

    /// Whether an operation of oneDNN's graph API computes a function of one element.
    pub fn is_graph(operation: &str) -> bool {
        Eltwise::TABLE.iter().any(|row| row.graph.is_some_and(|graph| graph.operation == operation))
    }
}

/// The attributes of an operation.
pub trait Attributes<E> {
    /// A number, or what stands for an absent one.
    ///
    /// # Errors
    /// It is missing and nothing stands for it, or is no number.
    fn number(&self, name: &str, absent: Option<f32>) -> Result<f32, E>;

    /// Whether a word is the one given.
    fn is(&self, name: &str, word: &str) -> bool;
}

fn spelled<E>(
    operation: &str,
    spelling: impl Fn(&Function) -> Option<Spelling>,
    attributes: &impl Attributes<E>,
) -> Result<Option<Eltwise>, E> {
    let of = |row: &'static Function| Some((row, spelling(row).filter(|it| it.operation == operation)?));
    let rows = || Eltwise::TABLE.iter().filter_map(of);
    let is_chosen =
        |spelling: &Spelling| spelling.chosen_by.is_none_or(|(name, word)| attributes.is(name, word));
    // The first one is meant where none is chosen.
    let Some((row, spelling)) = rows().find(|(_, spelling)| is_chosen(spelling)).or_else(|| rows().next())
    else {
        return Ok(None);
    };
    let mut parameters = spelling.parameters.iter();
    let next = |_: &str| match parameters.next() {
        Some(Parameter::Attribute(name, absent)) => attributes.number(name, *absent),
        Some(Parameter::Always(number)) => Ok(*number),
        // A row's test sees to it that there is one for each.
        None => Ok(0.0),
    };
    row.example.with_parameters(next).map(Some)
}

/// An operation without parameters.
pub(super) const fn named(operation: &'static str) -> Spelling {
    with(operation, &[])
}

/// An operation with parameters.
pub(super) const fn with(operation: &'static str, parameters: &'static [Parameter]) -> Spelling {
    Spelling { operation, chosen_by: None, parameters }
}

/// An operation that is several functions, one of which an attribute chooses.
pub(super) const fn chosen(operation: &'static str, name: &'static str, word: &'static str) -> Spelling {
    Spelling { operation, chosen_by: Some((name, word)), parameters: &[] }
}
