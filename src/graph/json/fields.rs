//! Fields of JSON objects, read with the place kept for messages.

use std::fmt::Write;

use anydnn_backend::{Error, InvalidKind, Result};
use serde_json::{Map, Value};

/// A value and where it stands: `graph[3] "conv1"`, then `inputs[1].dtype`.
#[derive(Clone)]
pub(super) struct Field<'a> {
    pub(super) value: &'a Value,
    place: String,
    path: String,
}

impl<'a> Field<'a> {
    pub(super) fn document(value: &'a Value) -> Self {
        Self { value, place: "graph JSON".into(), path: String::new() }
    }

    /// The same value as a place of its own.
    pub(super) fn rooted(value: &'a Value, place: String) -> Self {
        Self { value, place, path: String::new() }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// The error that this value is not as expected.
    pub(super) fn wrong(&self, expected: impl Into<String>) -> Error {
        self.wrong_given(shown(self.value), expected)
    }

    pub(super) fn wrong_given(&self, given: impl Into<String>, expected: impl Into<String>) -> Error {
        let subject = if self.path.is_empty() { "value" } else { &self.path };
        Error::invalid_kind(InvalidKind::Graph, &self.place, subject, given, expected)
    }

    pub(super) fn object(&self) -> Result<&'a Map<String, Value>> {
        self.value.as_object().ok_or_else(|| self.wrong("an object"))
    }

    /// A member that may be absent; `null` counts as absent.
    pub(super) fn find(&self, name: &str) -> Result<Option<Self>> {
        let member = self.object()?.get(name).filter(|value| !value.is_null());
        Ok(member.map(|value| self.member(name, value)))
    }

    pub(super) fn get(&self, name: &str, expected: &str) -> Result<Self> {
        self.find(name)?.ok_or_else(|| self.member(name, self.value).wrong_given("missing", expected))
    }

    pub(super) fn member(&self, name: &str, value: &'a Value) -> Self {
        let mut path = self.path.clone();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&clipped(name));
        Self { value, place: self.place.clone(), path }
    }

    pub(super) fn items(&self) -> Result<Vec<Self>> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("an array"))?;
        Ok(items.iter().enumerate().map(|(i, value)| self.item(i, value)).collect())
    }

    /// The items of a list that some writers shorten to its one item, or to nothing at all.
    pub(super) fn items_or_one(&self) -> Result<Vec<Self>> {
        match self.value {
            Value::String(text) if text.trim().is_empty() => Ok(Vec::new()),
            Value::Number(_) | Value::String(_) => Ok(vec![self.clone()]),
            _ => self.items(),
        }
    }

    fn item(&self, i: usize, value: &'a Value) -> Self {
        let mut path = self.path.clone();
        // Writing to a string does not fail.
        let _ = write!(path, "[{i}]");
        Self { value, place: self.place.clone(), path }
    }

    pub(super) fn text(&self) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.wrong("a string"))
    }

    pub(super) fn id(&self) -> Result<u64> {
        let from_text = || self.value.as_str()?.trim().parse().ok();
        self.value.as_u64().or_else(from_text).ok_or_else(|| self.wrong("an id: a whole number from 0"))
    }

    pub(super) fn integer(&self) -> Result<i64> {
        let whole =
            |number: f64| (number.fract() == 0.0 && number.abs() < 2_f64.powi(53)).then_some(number as i64);
        let read = match self.value {
            Value::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        read.ok_or_else(|| self.wrong("a whole number of 64 bits"))
    }

    pub(super) fn float(&self) -> Result<f32> {
        let read = match self.value {
            Value::Number(number) => number.as_f64().map(|number| number as f32),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        read.ok_or_else(|| self.wrong("a number"))
    }

    pub(super) fn truth(&self) -> Result<bool> {
        match self.value {
            Value::Bool(truth) => Ok(*truth),
            Value::Number(number) if number.as_f64() == Some(0.0) => Ok(false),
            Value::Number(number) if number.as_f64() == Some(1.0) => Ok(true),
            Value::String(text) if text == "0" || text.eq_ignore_ascii_case("false") => Ok(false),
            Value::String(text) if text == "1" || text.eq_ignore_ascii_case("true") => Ok(true),
            _ => Err(self.wrong("true, false, 1 or 0")),
        }
    }
}

/// A value as a message shows it: short.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) if items.len() > 16 => format!("an array of {} items", items.len()),
        Value::Object(members) => format!("an object of {} members", members.len()),
        other => clipped(&other.to_string()),
    }
}

pub(super) fn clipped(text: &str) -> String {
    const MOST: usize = 80;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain("...".chars()).collect()
}
