//! What goes in and out of a session.

use anydnn_backend::{DataType, Error, InvalidKind, MemoryDesc, Result};

use super::super::{Dim, Input};

/// An output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The name.
    pub name: String,
    /// The type, where the file says it.
    pub data_type: Option<DataType>,
    /// The dimensions, where the file says them.
    pub dims: Option<Vec<Dim>>,
}

/// Finds each declared input among the given ones and the values of the open dimensions, sorted by name.
#[expect(clippy::type_complexity, reason = "places, and names with values")]
pub(super) fn fit(
    inputs: &[Input],
    given: &[(&str, &MemoryDesc)],
) -> Result<(Vec<usize>, Vec<(String, usize)>)> {
    let names = || match inputs {
        [] => "none, since the model has no inputs".to_owned(),
        inputs => inputs.iter().map(declared).collect::<Vec<_>>().join(", "),
    };
    let wrong = |subject: String, given: String, expected: String| {
        Err(Error::invalid_kind(InvalidKind::Shape, "session", subject, given, expected))
    };
    for (at, (name, _)) in given.iter().enumerate() {
        if !inputs.iter().any(|input| input.name == *name) {
            return wrong("inputs".into(), format!("{name:?}, which the model has not"), names());
        }
        if given[..at].iter().any(|(other, _)| other == name) {
            return wrong("inputs".into(), format!("{name:?} twice"), "each input once".into());
        }
    }
    let mut order = Vec::with_capacity(inputs.len());
    let mut dims: Vec<(String, usize)> = Vec::new();
    for input in inputs {
        let Some(at) = given.iter().position(|(name, _)| *name == input.name) else {
            return wrong(format!("input {:?}", input.name), "missing".into(), declared(input));
        };
        let desc = given[at].1;
        let mut fits = desc.data_type() == input.data_type && desc.dims().len() == input.dims.len();
        for (&extent, dim) in desc.dims().iter().zip(&input.dims) {
            match dim {
                Dim::Fixed(wanted) => fits &= extent == *wanted,
                Dim::Open(name) => match dims.iter().find(|(known, _)| known == name) {
                    None => dims.push((name.clone(), extent)),
                    Some((_, other)) if *other == extent => {}
                    Some((_, other)) if fits => {
                        let expected = format!("{other}, as elsewhere, in {}", declared(input));
                        return wrong(format!("dimension {name:?}"), extent.to_string(), expected);
                    }
                    Some(_) => {}
                },
            }
        }
        if !fits {
            let kind =
                if desc.data_type() == input.data_type { InvalidKind::Shape } else { InvalidKind::DataType };
            let (subject, given) =
                (format!("input {:?}", input.name), format!("{} of {}", desc.dims(), desc.data_type()));
            return Err(Error::invalid_kind(kind, "session", subject, given, declared(input)));
        }
        order.push(at);
    }
    dims.sort();
    Ok((order, dims))
}

/// An input as `x: f32 [batch, 3]`.
fn declared(input: &Input) -> String {
    let dims: Vec<_> = input
        .dims
        .iter()
        .map(|dim| match dim {
            Dim::Fixed(extent) => extent.to_string(),
            Dim::Open(name) => name.clone(),
        })
        .collect();
    format!("{}: {} [{}]", input.name, input.data_type, dims.join(", "))
}
