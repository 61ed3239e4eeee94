//! Windows of convolutions and pools: attributes with their defaults, padding worked out.

use anydnn_backend::Result;

use super::node::Node;
use crate::graph::Attrs;

/// A window, with an entry for each spatial dimension.
pub(in crate::onnx) struct Window {
    pub(in crate::onnx) kernel: Vec<usize>,
    pub(in crate::onnx) strides: Vec<usize>,
    pub(in crate::onnx) dilations: Vec<usize>,
    pub(in crate::onnx) pads_begin: Vec<usize>,
    pub(in crate::onnx) pads_end: Vec<usize>,
    auto_pad: AutoPad,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AutoPad {
    No,
    /// No padding.
    Valid,
    /// As many results as strides fit; the odd zero behind.
    SameUpper,
    /// The same, with the odd zero in front.
    SameLower,
}

impl Window {
    /// The attributes of a node over `kernel` taps. Padding that depends on the source is zero yet.
    pub(in crate::onnx) fn new(node: &Node, kernel: &[usize]) -> Result<Self> {
        let rank = kernel.len();
        let auto_pad = match node.word("auto_pad", "NOTSET")?.as_str() {
            "NOTSET" | "" => AutoPad::No,
            "VALID" => AutoPad::Valid,
            "SAME_UPPER" => AutoPad::SameUpper,
            "SAME_LOWER" => AutoPad::SameLower,
            other => {
                let expected = "NOTSET, VALID, SAME_UPPER or SAME_LOWER";
                return Err(node.invalid("attribute auto_pad", other, expected));
            }
        };
        let mut pads = sizes(node, "pads", 2 * rank, 0, 0)?;
        if auto_pad != AutoPad::No {
            pads.fill(0);
        }
        let pads_end = pads.split_off(rank);
        Ok(Self {
            kernel: kernel.to_vec(),
            strides: sizes(node, "strides", rank, 1, 1)?,
            dilations: sizes(node, "dilations", rank, 1, 1)?,
            pads_begin: pads,
            pads_end,
            auto_pad,
        })
    }

    /// Works out the padding of a window that slides over `spatial`, and, where `ceil` asks for it, what lies behind the last window.
    /// A window that would begin behind the source and its padding is none.
    pub(in crate::onnx) fn slide(&mut self, node: &Node, spatial: &[usize], ceil: bool) -> Result<()> {
        for (i, &extent) in spatial.iter().enumerate() {
            let (stride, reach) = (self.strides[i], self.reach(node, i)?);
            if matches!(self.auto_pad, AutoPad::SameUpper | AutoPad::SameLower) {
                let last = (extent.div_ceil(stride).max(1) - 1).saturating_mul(stride);
                let total = last.saturating_add(reach).saturating_sub(extent);
                self.pad(i, total);
            }
            let padded = extent.saturating_add(self.pads_begin[i]).saturating_add(self.pads_end[i]);
            let Some(room) = padded.checked_sub(reach) else {
                let expected = format!("at least {reach}, the reach of the window");
                return Err(node.invalid("source with padding", padded, expected));
            };
            let start = room.div_ceil(stride).saturating_mul(stride);
            if ceil && !room.is_multiple_of(stride) && start < extent.saturating_add(self.pads_begin[i]) {
                self.pads_end[i] = self.pads_end[i].saturating_add(start - room);
            }
        }
        Ok(())
    }

    /// Works out the padding of a transposed convolution, which cuts off. A result that is wanted larger than all windows reach has the
    /// rest behind them, as `extra`.
    pub(in crate::onnx) fn slide_transposed(
        &mut self,
        node: &Node,
        spatial: &[usize],
        extra: &mut [usize],
        wanted: Option<&[usize]>,
    ) -> Result<()> {
        let same = matches!(self.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
        for (i, &extent) in spatial.iter().enumerate() {
            let wanted = match wanted {
                Some(wanted) => wanted[i],
                None if same => extent.saturating_mul(self.strides[i]),
                None => continue,
            };
            let span = extent.saturating_sub(1).saturating_mul(self.strides[i]);
            let full = span.saturating_add(self.reach(node, i)?).saturating_add(extra[i]);
            self.pad(i, full.saturating_sub(wanted));
            extra[i] += wanted.saturating_sub(full);
        }
        Ok(())
    }

    /// How many windows there are along each dimension, once padding is worked out.
    pub(in crate::onnx) fn results(&self, spatial: &[usize]) -> Vec<usize> {
        let count = |d: usize| {
            let padded = spatial[d].saturating_add(self.pads_begin[d]).saturating_add(self.pads_end[d]);
            let reach = (self.kernel[d].max(1) - 1).saturating_mul(self.dilations[d]).saturating_add(1);
            padded.checked_sub(reach).map_or(0, |room| room / self.strides[d] + 1)
        };
        (0..spatial.len()).map(count).collect()
    }

    /// The attributes of the graph's operation.
    pub(in crate::onnx) fn attrs(&self) -> Attrs {
        Attrs::new()
            .with("strides", signed(&self.strides))
            .with("pads_begin", signed(&self.pads_begin))
            .with("pads_end", signed(&self.pads_end))
            .with("data_format", "NCX")
    }

    fn pad(&mut self, i: usize, total: usize) {
        self.pads_begin[i] = if self.auto_pad == AutoPad::SameLower { total.div_ceil(2) } else { total / 2 };
        self.pads_end[i] = total - self.pads_begin[i];
    }

    /// From the first tap to the last.
    fn reach(&self, node: &Node, i: usize) -> Result<usize> {
        let reach = self.kernel[i]
            .checked_sub(1)
            .and_then(|gaps| gaps.checked_mul(self.dilations[i])?.checked_add(1));
        reach.ok_or_else(|| {
            node.invalid("kernel", self.kernel[i], "at least 1 and a size in the address space")
        })
    }
}

/// A list attribute of sizes that are at least `least`, or `absent` for each.
pub(in crate::onnx) fn sizes(
    node: &Node,
    name: &str,
    count: usize,
    absent: usize,
    least: usize,
) -> Result<Vec<usize>> {
    let Some(given) = node.ints(name)? else { return Ok(vec![absent; count]) };
    let values = given.iter().map(|&value| usize::try_from(value).ok().filter(|value| *value >= least));
    // A size beyond half of the largest could not be added to another.
    let values: Option<Vec<usize>> = values.map(|value| value.filter(|value| *value <= 1 << 40)).collect();
    values.filter(|values| values.len() == count).ok_or_else(|| {
        let expected = format!("{count} numbers of at least {least}");
        node.invalid(&format!("attribute {name}"), format!("{given:?}"), expected)
    })
}

pub(in crate::onnx) fn signed(values: &[usize]) -> Vec<i64> {
    values.iter().map(|&value| value as i64).collect()
}
