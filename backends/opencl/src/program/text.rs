//! Program text in pieces: the library's kernel files, which every program shares, and what was generated around them. Primitives keep it
//! for as long as they live, because memory that starts at an odd byte, or a shape that is met often, takes a second build; primitives of
//! the same program [share](Texts) one text.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rustc_hash::{FxHashMap, FxHasher};

/// The text of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    /// What stands before the body, for this text alone.
    head: Arc<str>,
    body: Arc<Body>,
}

/// What texts share.
#[derive(Debug, Default)]
struct Body {
    pieces: Box<[Cow<'static, str>]>,
    hash: OnceLock<blake3::Hash>,
}

impl Text {
    /// The pieces in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.head).chain(self.body.pieces.iter().map(|piece| &**piece))
    }

    /// The same with definitions before it.
    pub(crate) fn behind(&self, head: impl Into<Arc<str>>) -> Self {
        Self { head: head.into(), body: Arc::clone(&self.body) }
    }

    /// What no other text has.
    pub(crate) fn hash(&self) -> blake3::Hash {
        let body = *self.body.hash.get_or_init(|| {
            let mut hasher = blake3::Hasher::new();
            self.body.pieces.iter().for_each(|piece| _ = hasher.update(piece.as_bytes()));
            hasher.finalize()
        });
        if self.head.is_empty() {
            return body;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.head.as_bytes()).update(body.as_bytes());
        hasher.finalize()
    }
}

impl FromIterator<Cow<'static, str>> for Text {
    fn from_iter<T: IntoIterator<Item = Cow<'static, str>>>(pieces: T) -> Self {
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        Self { body: Arc::new(Body { pieces, hash: OnceLock::new() }), ..Self::default() }
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

/// The texts of an engine's primitives, each there once as long as one of these has it.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// By a hash of what was generated of them.
    bodies: Mutex<FxHashMap<u64, Vec<Weak<Body>>>>,
}

impl Texts {
    /// Lets a text share what others have of it.
    pub(crate) fn share(&self, text: &mut Text) {
        let key = text.body.generated();
        let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = bodies.get(&key).into_iter().flatten().filter_map(Weak::upgrade);
        if let Some(known) = known.find(|known| known.is_same(&text.body)) {
            text.body = known;
            return;
        }
        bodies.retain(|_, bodies| {
            bodies.retain(|body| body.strong_count() > 0);
            !bodies.is_empty()
        });
        bodies.entry(key).or_default().push(Arc::downgrade(&text.body));
    }
}

impl Body {
    /// A hash that is soon made: files of the library by where they lie, and the rest by content.
    fn generated(&self) -> u64 {
        let mut hasher = FxHasher::default();
        for piece in &self.pieces {
            match piece {
                Cow::Borrowed(file) => file.as_ptr().hash(&mut hasher),
                Cow::Owned(text) => text.hash(&mut hasher),
            }
        }
        hasher.finish()
    }

    fn is_same(&self, other: &Self) -> bool {
        let same = |(one, other): (&Cow<'_, str>, &Cow<'_, str>)| {
            let (one, other): (&str, &str) = (one, other);
            std::ptr::eq(one, other) || one == other
        };
        self.pieces.len() == other.pieces.len() && self.pieces.iter().zip(&other.pieces).all(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_there_once_and_other_ones_have_other_hashes() {
        let texts = Texts::default();
        let make = || Text::from_iter(["a ".into(), String::from("b").into()]);
        let (mut first, mut second, mut other) = (make(), make(), Text::from("c"));
        for text in [&mut first, &mut second, &mut other] {
            texts.share(text);
        }
        assert!(Arc::ptr_eq(&first.body, &second.body) && !Arc::ptr_eq(&first.body, &other.body));
        let mut behind = make().behind("x ");
        texts.share(&mut behind);
        assert!(Arc::ptr_eq(&first.body, &behind.body));
        assert_eq!((behind.to_string().as_str(), second.to_string().as_str()), ("x a b", "a b"));
        assert_eq!(first.hash(), second.hash());
        assert!(first.hash() != other.hash() && first.hash() != behind.hash());
        // Files that begin at one place have one hash.
        let whole = "cd";
        let (mut part, mut all) = (Text::from(&whole[..1]), Text::from(whole));
        assert_eq!(part.body.generated(), all.body.generated());
        for text in [&mut part, &mut all] {
            texts.share(text);
        }
        assert_eq!((part.to_string().as_str(), all.to_string().as_str()), ("c", "cd"));
        drop((first, second, behind));
        texts.share(&mut Text::from("d"));
        assert!(!texts.bodies.lock().unwrap().contains_key(&make().body.generated()));
    }
}
