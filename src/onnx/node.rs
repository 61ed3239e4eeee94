//! A node of a file: typed attributes, inputs, and errors that say which node it was.

use std::any::Any;
use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use anydnn_backend::{Error, InvalidKind, Result};

use super::proto::{AttributeProto, NodeProto, TensorProto};
use super::value::Value;

/// What the host reads from a node's attributes once, where that takes longer than an execution.
#[derive(Debug, Default)]
pub(super) struct Prepared(OnceLock<Arc<dyn Any + Send + Sync>>);

/// A node with the values of its inputs.
#[derive(Debug)]
pub(super) struct Node<'a> {
    proto: &'a NodeProto,
    opset: i64,
    inputs: Vec<Option<Value>>,
    /// A bit for each of the first inputs that nobody else reads.
    sole: u32,
    /// Where what is read from the node stays.
    prepared: Option<&'a Prepared>,
}

impl<'a> Node<'a> {
    pub(super) fn new(proto: &'a NodeProto, opset: i64, inputs: Vec<Option<Value>>) -> Self {
        Self { proto, opset, inputs, sole: 0, prepared: None }
    }

    /// The same node, which alone reads the inputs for which `is_sole`.
    pub(super) fn reading_alone(mut self, is_sole: impl Fn(usize) -> bool) -> Self {
        let count = self.inputs.len().min(u32::BITS as usize);
        self.sole = (0..count).filter(|&index| is_sole(index)).fold(0, |bits, index| bits | 1 << index);
        self
    }

    /// The same node, whose attributes are read once.
    pub(super) fn prepared_at(self, prepared: &'a Prepared) -> Self {
        Self { prepared: Some(prepared), ..self }
    }

    /// What `make` reads from the attributes, or has read before. It must depend on nothing else.
    pub(super) fn prepared<T: Send + Sync + 'static>(
        &self,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let kept = self.prepared.and_then(|prepared| prepared.0.get());
        if let Some(made) = kept.and_then(|kept| Arc::clone(kept).downcast().ok()) {
            return Ok(made);
        }
        let made = Arc::new(make()?);
        if let Some(prepared) = self.prepared {
            let kept: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(&made);
            let _ = prepared.0.set(kept);
        }
        Ok(made)
    }

    /// Whether nobody else is known to read an input.
    pub(super) fn reads_alone(&self, index: usize) -> bool {
        index < u32::BITS as usize && self.sole >> index & 1 == 1
    }

    /// The same node with other values of its inputs.
    pub(super) fn given(&self, inputs: Vec<Option<Value>>) -> Self {
        Self::new(self.proto, self.opset, inputs)
    }

    /// The operator, the name and the opset, for messages.
    pub(super) fn label(&self) -> String {
        format!("{} {:?} (opset {})", self.operator(), self.name(), self.opset)
    }

    pub(super) fn operator(&self) -> &'a str {
        self.proto.op_type.as_deref().unwrap_or("")
    }

    /// The node's name, or else that of what it makes.
    pub(super) fn name(&self) -> &'a str {
        let own = self.proto.name.as_deref().filter(|name| !name.is_empty());
        own.or_else(|| self.proto.output.first().map(String::as_str)).unwrap_or("")
    }

    /// The number of outputs that the node lists.
    pub(super) fn output_count(&self) -> usize {
        self.proto.output.len()
    }

    pub(super) fn domain(&self) -> Option<&'a str> {
        self.proto.domain.as_deref()
    }

    pub(super) fn opset(&self) -> i64 {
        self.opset
    }

    /// How many outputs the file names, up to the last that has a name.
    pub(super) fn outputs(&self) -> usize {
        self.proto.output.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1)
    }

    /// Whether the file names an output.
    pub(super) fn names_output(&self, index: usize) -> bool {
        self.proto.output.get(index).is_some_and(|name| !name.is_empty())
    }

    /// The inputs in order; none where one is left out.
    pub(super) fn inputs(&self) -> &[Option<Value>] {
        &self.inputs
    }

    pub(super) fn input(&self, index: usize) -> Result<&Value> {
        self.optional(index)
            .ok_or_else(|| self.invalid(&format!("input {index}"), "missing", "a value for it"))
    }

    pub(super) fn optional(&self, index: usize) -> Option<&Value> {
        self.inputs.get(index)?.as_ref()
    }

    /// All inputs of an operator that takes any number of them.
    pub(super) fn all_inputs(&self) -> Result<Vec<Value>> {
        if self.inputs.is_empty() {
            return Err(self.invalid("inputs", "none", "at least one"));
        }
        (0..self.inputs.len()).map(|index| self.input(index).cloned()).collect()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    pub(super) fn int(&self, name: &str, absent: i64) -> Result<i64> {
        self.typed(name, 2, "an integer", |a| a.i).map(|value| value.unwrap_or(absent))
    }

    pub(super) fn float(&self, name: &str, absent: f32) -> Result<f32> {
        self.typed(name, 1, "a float", |a| a.f).map(|value| value.unwrap_or(absent))
    }

    pub(super) fn flag(&self, name: &str, absent: bool) -> Result<bool> {
        Ok(self.int(name, i64::from(absent))? != 0)
    }

    pub(super) fn ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        self.typed(name, 7, "a list of integers", |a| Some(a.ints.clone()))
    }

    pub(super) fn floats(&self, name: &str) -> Result<Option<Vec<f32>>> {
        self.typed(name, 6, "a list of floats", |a| Some(a.floats.clone()))
    }

    pub(super) fn words(&self, name: &str) -> Result<Option<Vec<String>>> {
        let texts = |a: &AttributeProto| {
            Some(a.strings.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
        };
        self.typed(name, 8, "a list of strings", texts)
    }

    pub(super) fn tensor(&self, name: &str) -> Result<Option<&'a TensorProto>> {
        self.typed(name, 4, "a tensor", |a| a.t.as_ref())
    }

    pub(super) fn word(&self, name: &str, absent: &str) -> Result<String> {
        let text = |a: &AttributeProto| Some(String::from_utf8_lossy(a.s.as_ref()?).into_owned());
        self.typed(name, 3, "a string", text).map(|word| word.unwrap_or_else(|| absent.to_owned()))
    }

    /// Refuses a node of an opset before 7, in which an attribute says whether it is for inference, that is for training.
    pub(super) fn check_inference(&self) -> Result<()> {
        if self.opset < 7 && !self.flag("is_test", false)? {
            return Err(self.unsupported("only inference is read, which is_test of 1 says"));
        }
        Ok(())
    }

    /// An error with the node in front, unless it is an error of the node itself.
    pub(super) fn place(&self, error: Error) -> Error {
        let label = self.label();
        match &error {
            Error::Unsupported { what, .. } if *what == label => error,
            Error::Invalid(invalid) if invalid.operation == label => error,
            _ => error.at(label),
        }
    }

    /// An error for what is valid but not read here.
    pub(super) fn unsupported(&self, why: impl Into<String>) -> Error {
        Error::unsupported(self.label(), why)
    }

    /// An error for what is not valid.
    pub(super) fn invalid(&self, subject: &str, given: impl Display, expected: impl Into<String>) -> Error {
        Error::invalid_kind(InvalidKind::GraphOp, self.label(), subject, given.to_string(), expected)
    }

    fn attribute(&self, name: &str) -> Option<&'a AttributeProto> {
        self.proto.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name))
    }

    /// An attribute's value. Its type's number is optional in old files, and then the field that is there tells.
    fn typed<T>(
        &self,
        name: &str,
        number: i32,
        expected: &str,
        value: impl FnOnce(&'a AttributeProto) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(attribute) = self.attribute(name) else { return Ok(None) };
        let wrong = |given: String| self.invalid(&format!("attribute {name}"), given, expected);
        match attribute.r#type {
            Some(given) if given != number && given != 0 => Err(wrong(format!("type {given}"))),
            // Zero and empty are not written in some encodings.
            _ => value(attribute).map(Some).ok_or_else(|| wrong("no such value".into())),
        }
    }
}
