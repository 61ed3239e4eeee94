//! Numbers in a program's text: compiled into it, or members of a structure that comes with each launch.
//!
//! Texts are written with [marks](mark) around the numbers that a shape gives. [`compiled`] leaves the numbers; [`launched`] puts members of a
//! structure there, so that all shapes of a kind share one text. [`mark`] leaves zero and one as they are: what they leave out of a text
//! is a kind of its own.

use std::fmt::{self, Display};

const OPEN: char = '\u{ab}';
const CLOSE: char = '\u{bb}';
/// The first byte of both, and how many bytes each has.
const MARK: u8 = 0xc2;
const MARK_BYTES: usize = 2;
/// The most bytes of a number of 64 bits between marks.
const LONGEST: usize = 20 + 2 * MARK_BYTES;
/// The numbers that few texts have more of.
const USUAL: usize = 264;

/// A number that a launch may bring, but for zero and one.
pub(super) fn mark(number: impl Number) -> impl Display + Copy {
    Marked { number, is_marked: !number.is_few() }
}

/// A number that a launch may bring, whatever it is.
pub(super) fn always(number: impl Number) -> impl Display + Copy {
    Marked { number, is_marked: true }
}

/// A number in a text, which is written where it stands: a plan has thousands of them.
#[derive(Clone, Copy)]
struct Marked<N> {
    number: N,
    is_marked: bool,
}

impl<N: Number> Display for Marked<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(self.number);
        if !self.is_marked {
            return f.write_str(digits);
        }
        // In one piece, as writing a piece takes longer than making it.
        let (mut text, len) = ([0; LONGEST], digits.len());
        OPEN.encode_utf8(&mut text);
        text[MARK_BYTES..][..len].copy_from_slice(digits.as_bytes());
        CLOSE.encode_utf8(&mut text[MARK_BYTES + len..]);
        f.write_str(str::from_utf8(&text[..2 * MARK_BYTES + len]).map_err(|_| fmt::Error)?)
    }
}

/// A number that tells whether it is zero or one.
pub(super) trait Number: Display + Copy + itoa::Integer {
    fn is_few(self) -> bool;
}

macro_rules! number {
    ($($of:ty)*) => {$(
        impl Number for $of {
            fn is_few(self) -> bool {
                matches!(self, 0 | 1)
            }
        }
    )*};
}

number!(usize isize i32 u32 i64);

/// A float that a launch may bring.
pub(super) fn float(x: f32) -> String {
    format!("as_float((int){})", always(x.to_bits() as i32))
}

/// The quotient of a variable that is not negative by a number that a launch may bring. Where it does, a multiplication gives it.
pub(super) fn quotient(variable: &str, divisor: usize) -> String {
    if divisor <= 1 { variable.into() } else { any_quotient(variable, divisor).to_string() }
}

/// The same also for one, which is a number like any other then.
pub(super) fn any_quotient(variable: &str, divisor: usize) -> impl Display {
    struct Quotient<'a, D>(&'a str, D);
    impl<D: Display> Display for Quotient<'_, D> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "QUOTIENT({}, {})", self.0, self.1)
        }
    }
    Quotient(variable, self::divisor(divisor))
}

/// The last three arguments of `QUOTIENT` for a divisor that a launch may bring.
pub(super) fn divisor(divisor: usize) -> impl Display {
    struct Divisor(usize);
    impl Display for Divisor {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let (factor, shift) = reciprocal(self.0);
            write!(f, "{}, {}, {}", always(self.0), always(factor), always(shift))
        }
    }
    Divisor(divisor)
}

/// What multiplies a number below 2^31 by the reciprocal of `divisor`: the upper 32 bits of the product of twice the number with the
/// factor, shifted.
fn reciprocal(divisor: usize) -> (i32, u32) {
    let Some(divisor) = u32::try_from(divisor).ok().filter(|divisor| (1..1 << 31).contains(divisor)) else {
        return (0, 0);
    };
    let bits = divisor.next_power_of_two().ilog2();
    let factor = (1_u64 << (31 + bits)) / u64::from(divisor) + 1;
    // The bits of a number without a sign.
    (factor as u32 as i32, bits)
}

/// The text with its numbers.
pub(super) fn compiled(text: &str) -> String {
    text.replace([OPEN, CLOSE], "")
}

/// The text with members of a structure in place of its numbers, and these.
pub(super) fn launched(text: &str) -> (String, Vec<i64>) {
    let (mut result, mut numbers) =
        (String::with_capacity(text.len() + text.len() / 4), Vec::with_capacity(USUAL));
    let mut rest = text;
    let mut digits = itoa::Buffer::new();
    // Both marks begin with the same byte, which no other character of a text has.
    while let Some(at) = memchr::memchr(MARK, rest.as_bytes())
        && let Some(behind) = rest[at..].strip_prefix(OPEN)
    {
        result.push_str(&rest[..at]);
        let end = behind.bytes().position(|byte| byte == MARK).unwrap_or(behind.len());
        let number = &behind[..end];
        match number.parse() {
            Ok(known) => {
                result.push_str("SHAPE(");
                result.push_str(digits.format(numbers.len()));
                result.push(')');
                numbers.push(known);
            }
            Err(_) => result.push_str(number),
        }
        rest = behind[end..].strip_prefix(CLOSE).unwrap_or(&behind[end..]);
    }
    result.push_str(rest);
    (result, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_serves_both_ways() {
        let text = format!("i * {} + {} + {}", mark(12), mark(1), mark(-3));
        assert_eq!(compiled(&text), "i * 12 + 1 + -3");
        assert_eq!(launched(&text), ("i * SHAPE(0) + 1 + SHAPE(1)".into(), vec![12, -3]));
    }

    #[test]
    fn quotients_are_exact() {
        let by = |x: u32, divisor: usize| {
            let (factor, shift) = reciprocal(divisor);
            ((u64::from(2 * x) * u64::from(factor as u32)) >> 32) as u32 >> shift
        };
        let most = i32::MAX as u32;
        let divisors = (1..2000).chain((1..31).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        for divisor in divisors.filter(|&divisor| (1..=most as usize).contains(&divisor)) {
            let d = divisor as u32;
            for x in [0, 1, d - 1, d, d + 1, most / d * d, (most / d * d).wrapping_sub(1), most, most - 1] {
                let x = x.min(most);
                assert_eq!(by(x, divisor), x / d, "{x} / {divisor}");
            }
        }
    }
}
