//! Copies of a convolution's operands for `convolution/packed.cl`: the source as an image with its borders, and the weights in parts of 16
//! output channels (`convolution/pack.cl`).

use anydnn_backend::Arg;

use super::Shape;
use super::packed::three;
use super::ways::{Image, Run};
use crate::plan::Launch;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::source::Source;
use crate::primitive::space::{Address, Binding, Index, Operand, Space};
use crate::primitive::unit_panels::{Factors, TERMS, copied, raw};
use crate::primitive::value::Value;

const PACK: &str = anydnn_kernels::text("convolution/pack.cl");

/// Bytes behind a line of the source's copy: a whole vector may be stored, or a tile read, from its last element on.
pub(super) const GAP: usize = 64;

impl Shape<'_> {
    /// Strides, dilations, and places of the result, in three dimensions.
    fn three_of_each(&self) -> [[usize; 3]; 3] {
        [self.window.strides, self.window.dilations, self.window.dst].map(|sizes| three(sizes, 1))
    }

    /// The source's places in three dimensions with the borders that windows reach.
    pub(super) fn padded_size(&self) -> [usize; 3] {
        let ([strides, dilations, dst], kernel) = (self.three_of_each(), self.kernel());
        [0, 1, 2].map(|i| (dst[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1)
    }

    /// Bytes of a copy with its borders.
    pub(super) fn image_bytes(&self, factors: Factors, run: Run) -> usize {
        let places: usize = self.padded_size().iter().product();
        let images = self.images() * self.groups;
        places.saturating_mul(images * run.pixel * factors.term_bytes())
    }

    /// A copy of the source with its borders, and the launch that makes it.
    pub(super) fn copy_image(
        &self,
        space: &Space,
        factors: Factors,
        run: Run,
    ) -> Option<(Image, usize, Launch)> {
        let [strides, dilations, _] = self.three_of_each();
        let size = self.padded_size();
        let pixel = run.pixel * factors.term_bytes();
        let line = size[2] * pixel + GAP;
        let plane = size[1] * line;
        let group = size[0] * plane;
        let image = group * self.groups;
        let images = self.images();

        let mut copy = Space::default();
        let names = [("image", images), ("pd", size[0]), ("ph", size[1])];
        for (name, extent) in names {
            copy.push(name, extent);
        }
        let g = copy.push("g", self.groups);
        let pw = copy.push("pw", size[2]);
        let spatial: Vec<Index> = self.window.push_source(&mut copy);
        let c = copy.push("c", self.channels);
        let channel = Index::sum(&[(g, self.channels), (c, 1)]);
        let at = self.along.place(Index::of(0), channel, &spatial);
        copy.operand("SRC0", Binding::Arg(Arg::SRC), self.desc.src(), &at);
        let mut to = vec![0; copy.loops.len()];
        (to[0], to[1], to[2], to[g], to[pw]) = (image, plane, line, group, pixel);
        copy.operands.push(copied("DST", Binding::Scratchpad(0), Address::linear(to)));
        if let Some(zero) = space.find("ZERO_SRC0") {
            let base = match &zero.address {
                Address::Linear { base, .. } => *base,
                Address::General { .. } => return None,
            };
            let address = Address::Linear { base, coefficients: vec![0; copy.loops.len()] };
            copy.operands.push(Operand { address, ..zero.clone() });
        }
        let bytes = image.checked_mul(images)?;
        let wide = self.wide || i32::try_from(bytes).is_err();
        let mut text = Source::new(&copy, Value::F32, (CPU_LANES, Some(c)), wide, true);
        let iw = copy.variable("iw")?;
        let load = raw(copy.find("SRC0")?, if self.channels == 1 { iw } else { c })?;
        let step = |v: usize| copy.coefficient("SRC0", v);
        let is_run = run.pixel == self.channels
            && step(iw) == Some(run.pixel)
            && (self.channels == 1 || step(c) == Some(1));
        factors.define_terms(&mut text);
        self.window.define(&mut text);
        text.general()
            .declare("DECLARE_LINE", &copy, 0..g)
            .declare("DECLARE_GROUP", &copy, g..g + 1)
            .define("RAW_SRC0(o, n)", load("o", "n"))
            .define("PACK_SOURCE", 1)
            .define("HAS_ZERO_SRC0", i32::from(copy.find("ZERO_SRC0").is_some()))
            .number_of("WIDTH", size[2])
            .number_of("IS_RUN", i32::from(is_run))
            .number_of(
                "SRC_ROOM",
                if step(c) == Some(1) { self.desc.src().size() / factors.element() } else { 0 },
            )
            .number_of("CHANNELS", self.channels)
            .number_of("PIXEL_TERMS", run.pixel);
        let global = [copy.count(0..g), self.groups, 1];
        let launch = text.launch("convolution_pack_source", &[TERMS, PACK], global, Some([1, 1, 1]));
        let address = |name: &str| space.variable(name);
        let mut coefficients = vec![0; space.loops.len()];
        for (name, step) in [
            ("image", image),
            ("g", group),
            ("od", strides[0] * plane),
            ("oh", strides[1] * line),
            ("ow", strides[2] * pixel),
        ] {
            coefficients[address(name)?] = step;
        }
        let made = Image {
            address: Address::linear(coefficients),
            place_step: strides[2] * pixel,
            run_lines: 1,
            run_steps: [dilations[0] * plane, dilations[1] * line, dilations[2] * pixel],
        };
        Some((made, bytes, launch))
    }

    /// The launch that copies the weights into parts of 16 output channels.
    pub(super) fn copy_parts(
        &self,
        space: &Space,
        factors: Factors,
        run: Run,
        to: &Address,
        scratchpad: usize,
    ) -> Option<Launch> {
        let mut copy = Space { operands: vec![space.find("WEIGHTS")?.clone()], ..space.clone() };
        copy.operands.push(copied("DST", Binding::Scratchpad(scratchpad), to.clone()));
        let [group, panel, lane] = ["g", "panel", "lane"].map(|name| copy.variable(name));
        let (group, panel, lane) = (group?, panel?, lane?);
        let load = raw(copy.find("WEIGHTS")?, lane)?;
        let mut text = Source::new(&copy, Value::F32, (CPU_LANES, Some(lane)), self.wide, true);
        factors.define_terms(&mut text);
        self.window.define(&mut text);
        text.general()
            .declare("DECLARE_PARTS", &copy, group..panel + 1)
            .define("RAW_WEIGHTS(o, n)", load("o", "n"))
            .number_of("GROUP_OUTPUTS", self.outputs)
            .number_of("CHANNELS", self.channels)
            .number_of("PIXEL_TERMS", run.pixel)
            .number_of("RUN_TAPS", run.taps)
            .number_of("RUN_STEPS", run.part_bytes / factors.unit.part_bytes());
        let global = [copy.count(group..panel + 1), 1, 1];
        Some(text.launch("convolution_pack_weights", &[TERMS, PACK], global, Some([1, 1, 1])))
    }
}
