//! Windows sliding over up to three spatial dimensions.

use std::ops::Range;

/// The geometry of a convolution or pooling; missing leading dimensions have length one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) input: [usize; 3],
    pub(crate) kernel: [usize; 3],
    pub(crate) output: [usize; 3],
    pub(crate) strides: [usize; 3],
    pub(crate) dilations: [usize; 3],
    pub(crate) pads_begin: [usize; 3],
}

impl Window {
    /// The geometry from spatial dimensions and parameters, one to three of each.
    pub(crate) fn new(
        input: &[usize],
        kernel: &[usize],
        output: &[usize],
        strides: &[usize],
        dilations: &[usize],
        pads_begin: &[usize],
    ) -> Self {
        Self {
            input: padded(input, 1),
            kernel: padded(kernel, 1),
            output: padded(output, 1),
            strides: padded(strides, 1),
            dilations: padded(dilations, 1),
            pads_begin: padded(pads_begin, 0),
        }
    }

    /// The input position under a tap of the window at an output position; none in the padding.
    pub(crate) fn position(&self, axis: usize, output: usize, tap: usize) -> Option<usize> {
        (output * self.strides[axis] + tap * self.dilations[axis])
            .checked_sub(self.pads_begin[axis])
            .filter(|&position| position < self.input[axis])
    }

    /// The output positions at which a tap lies inside the input.
    pub(crate) fn inside(&self, axis: usize, tap: usize) -> Range<usize> {
        let (stride, reach, pad) = (self.strides[axis], tap * self.dilations[axis], self.pads_begin[axis]);
        let start = pad.saturating_sub(reach).div_ceil(stride).min(self.output[axis]);
        let end = (self.input[axis] + pad).saturating_sub(reach).div_ceil(stride).min(self.output[axis]);
        start..end.max(start)
    }

    /// The taps that lie inside the input at an output position. However long a window is, only these are worth a visit.
    pub(crate) fn taps_inside(&self, axis: usize, output: usize) -> Range<usize> {
        let (start, pad) = (output * self.strides[axis], self.pads_begin[axis]);
        let before = |position: usize| {
            position.saturating_sub(start).div_ceil(self.dilations[axis]).min(self.kernel[axis])
        };
        before(pad)..before(pad + self.input[axis])
    }

    /// Whether a window reaches beyond the input.
    pub(crate) fn has_padding(&self) -> bool {
        let whole = self.without_padding();
        (whole.pads_begin, whole.input) != (self.pads_begin, self.input)
    }

    /// The geometry over an input that has the padding in itself.
    pub(crate) fn without_padding(&self) -> Self {
        let input = std::array::from_fn(|axis| {
            let last = |count: usize, step: usize| (count.max(1) - 1).saturating_mul(step);
            let reach = last(self.output[axis], self.strides[axis])
                .saturating_add(last(self.kernel[axis], self.dilations[axis]))
                .saturating_add(1);
            reach.max(self.pads_begin[axis].saturating_add(self.input[axis]))
        });
        Self { input, pads_begin: [0; 3], ..*self }
    }

    /// The number of taps.
    pub(crate) fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// The number of input elements of a plane.
    pub(crate) fn inputs(&self) -> usize {
        self.input.iter().fold(1, |all, &extent| all.saturating_mul(extent))
    }

    /// The number of output elements of a plane.
    pub(crate) fn outputs(&self) -> usize {
        self.output.iter().product()
    }
}

/// Entries aligned at the last of three.
pub(crate) fn padded(entries: &[usize], fill: usize) -> [usize; 3] {
    let mut all = [fill; 3];
    for (to, from) in all.iter_mut().rev().zip(entries.iter().rev()) {
        *to = *from;
    }
    all
}

/// The index of each of three dimensions from a row-major position.
pub(crate) fn split(position: usize, dims: &[usize; 3]) -> [usize; 3] {
    let rest = position / dims[2];
    [rest / dims[1], rest % dims[1], position % dims[2]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_agree_with_positions() {
        for (input, kernel, stride, dilation, pad) in
            [(7, 3, 1, 1, 1), (7, 3, 2, 2, 3), (2, 5, 3, 1, 4), (1, 1, 1, 1, 0), (5, 2, 4, 3, 2)]
        {
            let output = (input + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
            let window = Window::new(&[input], &[kernel], &[output], &[stride], &[dilation], &[pad]);
            for tap in 0..kernel {
                let range = window.inside(2, tap);
                for at in 0..output {
                    let inside = window.position(2, at, tap).is_some();
                    assert_eq!(range.contains(&at), inside, "{window:?} {tap} {at}");
                    assert_eq!(window.taps_inside(2, at).contains(&tap), inside, "{window:?} {tap} {at}");
                }
            }
        }
    }

    #[test]
    fn padding_becomes_part_of_the_input() {
        let window = Window::new(&[7], &[3], &[4], &[2], &[1], &[1]);
        assert!(window.has_padding());
        let whole = window.without_padding();
        assert_eq!((whole.input[2], whole.pads_begin[2]), (9, 0));
        assert!(!whole.has_padding());
        for (at, tap) in (0..4).flat_map(|at| (0..3).map(move |tap| (at, tap))) {
            let position = whole.position(2, at, tap).expect("it is inside");
            assert_eq!(window.position(2, at, tap), position.checked_sub(1).filter(|&at| at < 7));
        }
    }

    #[test]
    fn positions_split_in_row_major_order() {
        assert_eq!(split(2 * 12 + 3, &[5, 3, 4]), [2, 0, 3]);
    }
}
