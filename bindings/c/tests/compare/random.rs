//! Choices that follow from a seed, and cases in the making.

use std::fmt::{self, Display};

use anydnn_backend::DataType;

use super::recurrent::with_states;

/// A stream of choices.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A dimension, one of two around the width of blocks now and then.
    pub(crate) fn dim(&mut self) -> usize {
        self.of(&[1, 2, 3, 4, 5, 7, 8, 16, 17, 19])
    }

    /// Dimensions whose product stays small.
    pub(crate) fn dims_of(&mut self, least: usize, most: usize) -> Vec<usize> {
        let rank = least + self.below(most - least + 1);
        let mut dims: Vec<usize> = (0..rank).map(|_| self.dim()).collect();
        while dims.iter().product::<usize>() > 2000 {
            let largest = (0..rank).max_by_key(|&i| dims[i]).unwrap_or_default();
            dims[largest] = dims[largest] / 2 + 1;
        }
        dims
    }

    /// Some of the dimensions become one.
    pub(crate) fn broadcast(&mut self, dims: &[usize]) -> Vec<usize> {
        let keep = self.below(4);
        let one = |(i, &dim): (usize, &usize)| match keep {
            0 => dim,
            1 if i == 1 => dim,
            2 if self.one_in(2) => dim,
            _ => 1,
        };
        dims.iter().enumerate().map(one).collect()
    }

    /// A dense layout by its letters.
    pub(crate) fn plain(&mut self, rank: usize) -> String {
        let all: &[&str] = match rank {
            1 => &["a"],
            2 => &["ab", "ab", "ba"],
            3 => &["abc", "abc", "acb"],
            4 => &["abcd", "abcd", "acdb"],
            5 => &["abcde", "abcde", "acdeb"],
            _ => &["abcdef"],
        };
        self.of(all).to_owned()
    }

    /// A layout of a product's operand, its rows or its columns dense.
    pub(crate) fn product(&mut self, rank: usize) -> String {
        let all: &[&str] = match rank {
            2 => &["ab", "ab", "ba"],
            3 => &["abc", "abc", "acb"],
            _ => &["abcd", "abcd", "abdc"],
        };
        self.of(all).to_owned()
    }

    /// A dense, blocked or strided layout.
    pub(crate) fn layout(&mut self, dims: &[usize]) -> String {
        let rank = dims.len();
        match self.below(6) {
            0 if (3..6).contains(&rank) => {
                let blocked = ["aBc", "aBcd", "aBcde"][rank - 3];
                format!("{blocked}{}b", self.of(&[4, 8, 16]))
            }
            1 => {
                let mut strides = vec![0; rank];
                let mut stride = 1 + self.below(2);
                for i in (0..rank).rev() {
                    strides[i] = stride;
                    stride *= dims[i] + self.below(2);
                }
                strides.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
            _ => self.plain(rank),
        }
    }
}

/// A case: the primitive, then words with values.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    primitive: String,
    words: Vec<(String, String)>,
}

impl Words {
    pub(crate) fn new(primitive: &str) -> Self {
        Self { primitive: primitive.to_owned(), words: Vec::new() }
    }

    /// Reads what [`Display`] writes.
    pub(crate) fn parse(text: &str) -> Self {
        let mut words = text.split_whitespace();
        let mut made = Self::new(words.next().unwrap_or_default());
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            made.add(key, value);
        }
        made
    }

    pub(crate) fn primitive(&self) -> &str {
        &self.primitive
    }

    /// Sets the one value of a key.
    pub(crate) fn set(&mut self, key: &str, value: impl Display) -> &mut Self {
        self.words.retain(|(own, _)| own != key);
        self.add(key, value)
    }

    /// Adds one more value of a key.
    pub(crate) fn add(&mut self, key: &str, value: impl Display) -> &mut Self {
        self.words.push((key.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.words.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str())
    }

    /// Whether one of the values of a key begins so.
    pub(crate) fn has(&self, key: &str, begin: &str) -> bool {
        self.words.iter().any(|(own, value)| own == key && value.starts_with(begin))
    }

    pub(crate) fn count(&self, key: &str) -> usize {
        self.words.iter().filter(|(own, _)| own == key).count()
    }

    pub(crate) fn number(&self, key: &str) -> Option<usize> {
        self.get(key)?.parse().ok()
    }

    /// The case with its half floats as f32; none where it has no half floats.
    pub(crate) fn widened(&self) -> Option<Self> {
        let mut other = self.clone();
        for (_, value) in &mut other.words {
            *value = value.replace("bf16", "f32").replace("f16", "f32");
        }
        (other.to_string() != self.to_string()).then_some(other)
    }

    /// The same tensors in f32 instead of half floats, row by row, of dimensions that are known, and with all that recurrent layers may leave
    /// out; none where they are so.
    pub(crate) fn plain(&self) -> Option<Self> {
        let other = self.widened().unwrap_or_else(|| self.clone());
        let mut other = if self.primitive == "rnn" { with_states(&other) } else { other };
        other.words.retain(|(key, _)| key != "unknown");
        for (_, value) in &mut other.words {
            let parts: Vec<&str> = value.split(':').collect();
            if let [data_type, dims, layout] = parts[..]
                && (layout != "any" || self.primitive != "rnn")
                && data_type.parse::<DataType>().is_ok()
            {
                let letters: String = ('a'..).take(dims.split('x').count()).collect();
                *value = format!("{data_type}:{dims}:{letters}");
            }
        }
        (other.to_string() != self.to_string()).then_some(other)
    }
}

impl Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.primitive)?;
        self.words.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}

/// A descriptor.
pub(crate) fn md(data_type: &str, dims: &[usize], layout: &str) -> String {
    format!("{data_type}:{}:{layout}", shape(dims))
}

/// Numbers with `x` between them.
pub(crate) fn shape(dims: &[usize]) -> String {
    dims.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}
