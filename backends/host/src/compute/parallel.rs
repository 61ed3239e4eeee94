//! Loops on all threads. Their work is called through a pointer, once for a piece of some thousand elements: Rayon's splitting is compiled
//! for each type of item alone, not for each piece of work, of which there are hundreds.

use anydnn_backend::Result;
use rayon::prelude::*;

/// Runs `work` on pieces of `len` items with their positions, on all threads when there is more than one piece.
pub(super) fn parallel_chunks<T: Send, R: Outcome>(
    items: &mut [T],
    len: usize,
    work: impl Fn(usize, &mut [T]) -> R + Sync,
) -> R {
    if items.len() <= len {
        return if items.is_empty() { R::DONE } else { work(0, items) };
    }
    run_chunks(items, len, &work)
}

fn run_chunks<T: Send, R: Outcome>(
    items: &mut [T],
    len: usize,
    work: &(dyn Fn(usize, &mut [T]) -> R + Sync),
) -> R {
    items.par_chunks_mut(len).enumerate().map(|(i, chunk)| work(i, chunk)).reduce(|| R::DONE, R::and)
}

/// The values of `work` for all numbers below `count`, in their order.
pub(super) fn parallel_map<R: Send>(count: usize, work: &(dyn Fn(usize) -> R + Sync)) -> Vec<R> {
    (0..count).into_par_iter().map(work).collect()
}

/// What a piece of work returns: nothing, or a result of which the first error counts.
pub(super) trait Outcome: Send {
    const DONE: Self;
    fn and(self, other: Self) -> Self;
}

impl Outcome for () {
    const DONE: Self = ();

    fn and(self, (): Self) {}
}

impl Outcome for Result<()> {
    const DONE: Self = Ok(());

    fn and(self, other: Self) -> Self {
        Result::and(self, other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anydnn_backend::Error;

    #[test]
    fn pieces_have_their_positions() {
        let mut items = vec![0; 1003];
        parallel_chunks(&mut items, 10, |i, chunk| {
            for (j, item) in chunk.iter_mut().enumerate() {
                *item += i * 10 + j;
            }
        });
        assert!(items.iter().enumerate().all(|(i, item)| i == *item));
        parallel_chunks(&mut items[..0], 0, |_, _| -> () { panic!("there is no piece") });
        assert_eq!(parallel_map(100, &|i| 2 * i), (0..100).map(|i| 2 * i).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_error_counts() {
        let fail = |i: usize, _: &mut [u8]| match i {
            0..3 => Ok(()),
            _ => Err(Error::unsupported("piece", i.to_string())),
        };
        let error = parallel_chunks(&mut [0; 100], 10, fail).unwrap_err();
        assert!(error.to_string().contains('3'), "{error}");
    }
}
