//! Program text in pieces: the library's kernel files, which every program shares, and what was generated around them. Primitives keep it
//! for as long as they live, because memory that starts at an odd byte takes a second build.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The text of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    pieces: Arc<[Cow<'static, str>]>,
}

impl Text {
    /// The pieces in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().map(|piece| &**piece)
    }
}

impl FromIterator<Cow<'static, str>> for Text {
    fn from_iter<T: IntoIterator<Item = Cow<'static, str>>>(pieces: T) -> Self {
        Self { pieces: pieces.into_iter().filter(|piece| !piece.is_empty()).collect() }
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for Text {
    fn from(text: T) -> Self {
        Self::from_iter([text.into()])
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces().try_for_each(|piece| f.write_str(piece))
    }
}
