//! Sums of products over named indices.

use anydnn_backend::{Dims, Result};

use super::call::Call;
use super::numbers::{product, walk};
use crate::model::HostTensor;
use crate::onnx::node::Node;

/// The dimensions of inputs and of the result by their labels.
pub(in crate::onnx) struct Terms {
    /// A label for each dimension of each input. Dimensions under an ellipsis have digits, counted from the last.
    pub(in crate::onnx) inputs: Vec<Vec<char>>,
    /// Every label once, and how many indices it has.
    pub(in crate::onnx) labels: Vec<char>,
    pub(in crate::onnx) extents: Vec<usize>,
    /// The labels of the result.
    pub(in crate::onnx) result: Vec<char>,
}

impl Terms {
    /// What the equation of a node says of inputs with these dimensions.
    pub(in crate::onnx) fn of(node: &Node, dims: &[&Dims]) -> Result<Self> {
        let equation = node.word("equation", "")?;
        let wrong = |why: &str| node.invalid("attribute equation", &equation, why);
        let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
        let (terms, result) = match text.split_once("->") {
            Some((terms, result)) => (terms, Some(result)),
            None => (text.as_str(), None),
        };
        let terms: Vec<&str> = terms.split(',').collect();
        if terms.len() != dims.len() {
            return Err(wrong("a term for each input"));
        }
        let (mut labels, mut extents): (Vec<char>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut inputs = Vec::new();
        for (term, dims) in terms.iter().zip(dims) {
            let spelling = spelled(term, dims.len()).filter(|spelling| spelling.len() == dims.len());
            let spelling = spelling.ok_or_else(|| wrong("a label for each dimension"))?;
            for (&label, &extent) in spelling.iter().zip(dims.iter()) {
                match labels.iter().position(|known| *known == label) {
                    None => {
                        labels.push(label);
                        extents.push(extent);
                    }
                    Some(at) if extents[at] == extent || extent == 1 => {}
                    Some(at) if extents[at] == 1 => extents[at] = extent,
                    Some(_) => return Err(wrong("one extent for each label")),
                }
            }
            inputs.push(spelling);
        }
        let mut hidden: Vec<char> = labels.iter().copied().filter(char::is_ascii_digit).collect();
        hidden.sort_unstable_by(|a, b| b.cmp(a));
        let result: Vec<char> = if let Some(result) = result {
            match result.split_once("...") {
                Some((before, after)) => before.chars().chain(hidden).chain(after.chars()).collect(),
                None => result.chars().collect(),
            }
        } else {
            // What is named once, in the order of the alphabet.
            let named = |label: &char| inputs.iter().flatten().filter(|other| *other == label).count();
            let is_once = |label: &char| !label.is_ascii_digit() && named(label) == 1;
            let mut once: Vec<char> = labels.iter().copied().filter(is_once).collect();
            once.sort_unstable();
            hidden.into_iter().chain(once).collect()
        };
        if !result.iter().all(|label| labels.contains(label)) {
            return Err(wrong("a result of labels of the terms"));
        }
        Ok(Self { inputs, labels, extents, result })
    }

    /// How many indices a label has.
    pub(in crate::onnx) fn extent(&self, label: char) -> usize {
        self.labels.iter().position(|known| *known == label).map_or(1, |at| self.extents[at])
    }
}

/// A term's labels, those under an ellipsis too.
fn spelled(term: &str, rank: usize) -> Option<Vec<char>> {
    let Some((before, after)) = term.split_once("...") else { return Some(term.chars().collect()) };
    let hidden = rank.checked_sub(before.chars().count() + after.chars().count())?;
    let digits = (0..hidden).rev().filter_map(|i| char::from_digit(i as u32, 16));
    Some(before.chars().chain(digits).chain(after.chars()).collect())
}

pub(in crate::onnx) fn einsum(call: &mut Call) -> Result<Vec<HostTensor>> {
    let inputs = call.all()?;
    let terms = Terms::of(call.node, &inputs.iter().map(|input| input.dims()).collect::<Vec<_>>())?;
    let at = |label: &char| terms.labels.iter().position(|known| known == label);
    let order: Vec<usize> = terms.result.iter().filter_map(at).collect();
    let dims: Dims = order.iter().map(|&at| terms.extents[at]).collect();
    let data_type = inputs[0].data_type();
    call.take(&dims, data_type)?;
    let summed: Vec<usize> = (0..terms.labels.len()).filter(|at| !order.contains(at)).collect();
    let all: Vec<usize> = order.iter().chain(&summed).map(|&at| terms.extents[at]).collect();
    let mut factors: Vec<f64> = vec![1.0; product(&all)];
    for (input, spelling) in inputs.iter().zip(&terms.inputs) {
        let strides = input.dims().row_major_strides();
        let step = |at: usize| -> i64 {
            let parts = spelling
                .iter()
                .enumerate()
                .filter(|(d, label)| **label == terms.labels[at] && input.dims()[*d] > 1);
            parts.map(|(d, _)| strides[d] as i64).sum()
        };
        let steps: Vec<i64> = order.iter().chain(&summed).map(|&at| step(at)).collect();
        let values = input.to_f64s();
        let places = walk(&all, &steps, 0);
        factors.iter_mut().zip(places).for_each(|(factor, place)| *factor *= values[place]);
    }
    let run = factors.len().checked_div(dims.elements()).unwrap_or(0).max(1);
    let mut made: Vec<f64> = factors.chunks(run).map(|part| part.iter().sum()).collect();
    made.resize(dims.elements(), 0.0);
    call.output(dims, data_type, &made)
}
