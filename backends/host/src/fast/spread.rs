//! Copies of rows that displace one another in the first cache level.
//!
//! Lines whose addresses are a multiple of 4 KiB apart share a set of a first level of 32 or 48 KiB, which holds 8 or 12 of them. The rows
//! of a tile are read side by side: where all of them lie so, as those of 1024 terms do, each line is gone before its next term is read.

/// Bytes from one line to the next of the same set.
const SET_BYTES: usize = 4096;
/// Lines of a set, where it holds the fewest.
const WAYS: usize = 8;
/// Numbers of a cache line.
const LINE: usize = 16;

/// Copies rows of so many terms, which are neighbours, into `copy` if they displace one another, and lets the pointers lead there.
///
/// # Safety
/// Each pointer reaches the terms. What is in `copy` stays as it is as long as the pointers are used.
pub(super) unsafe fn spread(terms: usize, rows: &mut [*const f32], copy: &mut Vec<f32>) {
    if !displace_one_another(rows) {
        return;
    }
    // An odd number of lines, so that rows begin in as many sets as there are.
    let next = (terms.div_ceil(LINE) | 1) * LINE;
    copy.resize((rows.len() * next).max(copy.len()), 0.0);
    for (row, copy) in rows.iter_mut().zip(copy.chunks_exact_mut(next)) {
        // SAFETY: by the caller.
        copy[..terms].copy_from_slice(unsafe { std::slice::from_raw_parts(*row, terms) });
        *row = copy.as_ptr();
    }
}

fn displace_one_another(rows: &[*const f32]) -> bool {
    let distance = |pair: &[*const f32]| pair[1].addr().abs_diff(pair[0].addr());
    rows.len() > WAYS && rows.windows(2).all(|pair| distance(pair).is_multiple_of(SET_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_in_one_set_are_copied_to_several_and_others_stay() {
        let data: Vec<f32> = (0..20 * 1040).map(|i| i as f32).collect();
        for (terms, apart, count, is_copied) in
            [(1024, 1024, 14, true), (1000, 1024, 9, true), (1024, 1024, 8, false), (1024, 1040, 14, false)]
        {
            let before: Vec<*const f32> = (0..count).map(|row| data[row * apart..].as_ptr()).collect();
            let (mut rows, mut copy) = (before.clone(), vec![7.0; 3]);
            // SAFETY: the data is longer than all rows.
            unsafe { spread(terms, &mut rows, &mut copy) };
            assert_eq!(rows != before, is_copied, "{count} rows of {terms}, {apart} apart");
            assert!(!displace_one_another(&rows) || count <= WAYS);
            for (row, pointer) in rows.iter().enumerate() {
                // SAFETY: a row has its terms, wherever it is.
                let row_now = unsafe { std::slice::from_raw_parts(*pointer, terms) };
                assert_eq!(row_now, &data[row * apart..][..terms]);
            }
        }
    }
}
