//! Windows that slide over up to three spatial dimensions, as convolution and pooling have them.

use anydnn_backend::Dims;

use super::source::Source;
use super::space::{Index, Space};

pub(super) const WINDOW: &str = anydnn_kernels::text("common/window.cl");

/// The geometry of a sliding window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window<'a> {
    pub(super) src: &'a [usize],
    pub(super) dst: &'a [usize],
    pub(super) kernel: &'a [usize],
    pub(super) strides: &'a Dims,
    pub(super) dilations: &'a Dims,
    pub(super) pads_begin: &'a Dims,
    pub(super) pads_end: &'a Dims,
    /// Whether the window slides over the result, and the source has an element for each of its places.
    pub(super) transposed: bool,
}

/// Names of the last three spatial dimensions.
const NAMES: [&str; 3] = ["d", "h", "w"];

impl<'a> Window<'a> {
    /// A window of one tap at each of the positions: results lie where the sources do. `ones` and `zeros` are as long as `extents`.
    pub(super) fn single_tap(extents: &'a [usize], ones: &'a Dims, zeros: &'a Dims) -> Self {
        Self {
            src: extents,
            dst: extents,
            kernel: ones,
            strides: ones,
            dilations: ones,
            pads_begin: zeros,
            pads_end: zeros,
            transposed: false,
        }
    }
}

impl Window<'_> {
    /// Adds the loops `od`, `oh`, `ow` over the result; dimensions that the tensor lacks have one step. Returns the indices of those
    /// that it has.
    pub(super) fn push_result(&self, space: &mut Space) -> Vec<Index> {
        self.push(space, "o", self.dst)
    }

    /// Adds the loops `id`, `ih`, `iw` over the source, likewise.
    pub(super) fn push_source(&self, space: &mut Space) -> Vec<Index> {
        self.push(space, "i", self.src)
    }

    /// Adds the loops `kd`, `kh`, `kw` over the window, likewise.
    pub(super) fn push_taps(&self, space: &mut Space) -> Vec<Index> {
        self.push(space, "k", self.kernel)
    }

    /// The source's indices under the window at a place of the result. Call it after all other loops are there.
    pub(super) fn source_index(&self, space: &mut Space, result: &[Index], taps: &[Index]) -> Vec<Index> {
        if self.transposed {
            // No loops of a kernel but macros of `common/window.cl`.
            let missing = 3 - self.src.len();
            let names = ["IN_DEPTH", "IN_HEIGHT", "IN_WIDTH"];
            return names[missing..]
                .iter()
                .zip(self.src)
                .map(|(name, &extent)| Index::of(space.push(*name, extent)))
                .collect();
        }
        let variable = |index: &Index| index.terms[0].0;
        result
            .iter()
            .zip(taps)
            .enumerate()
            .map(|(i, (result, tap))| {
                Index::sum(&[(variable(result), self.strides[i]), (variable(tap), self.dilations[i])])
                    .shifted(-(self.pads_begin[i] as isize))
            })
            .collect()
    }

    /// Defines the constants of `common/window.cl`.
    pub(super) fn define(&self, source: &mut Source) {
        let missing = 3 - self.src.len();
        source.define("TRANSPOSED", i32::from(self.transposed));
        for (i, name) in NAMES.iter().enumerate() {
            let name = name.to_uppercase();
            let facts: [(&str, &[usize], usize); 7] = [
                ("STRIDE", self.strides, 1),
                ("DILATION", self.dilations, 1),
                ("PAD", self.pads_begin, 0),
                ("PAD_END", self.pads_end, 0),
                ("KERNEL", self.kernel, 1),
                ("SRC", self.src, 1),
                ("DST", self.dst, 1),
            ];
            for (what, values, default) in facts {
                let number = match i.checked_sub(missing) {
                    Some(j) => source.shape_number(values[j]),
                    None => source.rank_number(default),
                };
                source.define(format_args!("{what}_{name}"), number);
            }
        }
    }

    /// Whether every tap of every window lies in the source.
    pub(super) fn is_unpadded(&self) -> bool {
        !self.transposed
            && (0..self.src.len()).all(|i| {
                let reach =
                    (self.dst[i].max(1) - 1) * self.strides[i] + (self.kernel[i] - 1) * self.dilations[i];
                self.pads_begin[i] == 0 && reach < self.src[i]
            })
    }

    fn push(&self, space: &mut Space, prefix: &str, extents: &[usize]) -> Vec<Index> {
        let missing = 3 - extents.len();
        let mut index = Vec::new();
        for (i, name) in NAMES.iter().enumerate() {
            let name = format!("{prefix}{name}");
            match i.checked_sub(missing) {
                Some(j) => index.push(Index::of(space.push(name, extents[j]))),
                None => _ = space.push_missing(name),
            }
        }
        index
    }
}
