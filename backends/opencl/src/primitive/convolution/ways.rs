//! How the kernel of panels (`convolution/packed.cl`) comes by a convolution's source: where it lies, copied with its borders, or gathered.

use anydnn_backend::Layout;

use super::Shape;
use super::items::Local;
use super::packed::three;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::space::{Address, Space};
use crate::primitive::unit_panels::{Factors, MOST_ROOM, ROOMS};

/// Clocks that a matrix unit takes for two tiles beside those of their rows, and in which the rest of a row is copied to where zeros follow it.
const TILE_CLOCKS: usize = 3;
const REST_CLOCKS: usize = 4;
/// Clocks in which a tile is loaded whose rows begin at multiples of so many bytes.
const LOAD_CLOCKS: [(usize, usize); 4] = [(64, 10), (32, 20), (16, 32), (1, 38)];
/// The same of a tile of weights, which as many tiles of places share as are multiplied at once.
const WEIGHTS_CLOCKS: usize = 16;
/// Bytes that a core copies in a clock: through memory, beside the clocks of a vector where a place is not a run of the source, and to where
/// it reads them at once, beside the clocks of a line or tap.
const COPIED_BYTES: usize = 8;
const COPIED_VECTOR_CLOCKS: usize = 10;
const GATHERED_BYTES: usize = 8;
const GATHER_CLOCKS: usize = 12;
/// The same of whole lines.
const HELD_BYTES: usize = 16;

/// Where taps are in the source: as `[d, h, w]`, in bytes.
pub(super) struct Image {
    pub(super) address: Address,
    pub(super) place_step: usize,
    pub(super) run_steps: [usize; 3],
    /// How many lines there are whose places follow each other at this step from one line to the next one, too.
    pub(super) run_lines: usize,
}

/// Terms of a place and of a run of taps.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// Channels, with those that fill up a place.
    pub(super) pixel: usize,
    /// Taps side by side that are one run.
    pub(super) taps: usize,
    /// Bytes of the weights of a run, in parts of 16 channels.
    pub(super) part_bytes: usize,
}

impl Run {
    pub(super) fn new(pixel: usize, taps: usize, factors: Factors) -> Self {
        Self { pixel, taps, part_bytes: factors.part_bytes(pixel * taps) }
    }

    pub(super) fn terms(self) -> usize {
        self.pixel * self.taps
    }

    /// How often a unit multiplies the terms of a run.
    pub(super) fn steps(self, factors: Factors) -> usize {
        self.part_bytes / factors.unit.part_bytes()
    }
}

/// Where the source is read, and how it lies there.
pub(super) enum From {
    InPlace(Image),
    /// A copy with its borders, which a launch makes.
    Copied,
    /// The lines that a work-item takes in local memory, with their borders. Behind a run lies what the next places have, which weights of
    /// zero make nothing of, if it is finite.
    Held(Image),
    /// Places in local memory, with all that their windows take; the image is that which they are gathered from.
    Gathered(Image),
    /// The same where windows one line apart share what they take of a line.
    GatheredLines(Image),
}

impl From {
    /// What of it a work-item has in local memory.
    pub(super) fn local(&self) -> Local {
        match self {
            Self::InPlace(_) | Self::Copied => Local::Nothing,
            Self::Gathered(_) => Local::Places,
            Self::GatheredLines(_) => Local::Taps,
            Self::Held(_) => Local::Lines,
        }
    }
}

/// How the source is read, and by which factors.
pub(super) struct Way {
    pub(super) source: From,
    pub(super) run: Run,
    pub(super) factors: Factors,
}

impl Shape<'_> {
    /// The way that takes the least time; none where few channels share steps and lie elsewhere than side by side.
    pub(super) fn way(&self, space: &Space, factors: Factors, packing: bool) -> Option<Way> {
        let shares_steps = self.taps_share_steps(factors);
        // What lies behind a run meets weights of zero, which makes no difference to integers alone.
        let fill = match factors.element() {
            _ if shares_steps => 1,
            1 if packing => factors.step().min(4),
            _ => factors.step(),
        };
        let plain = Run::new(self.channels.next_multiple_of(fill), self.run_taps(), factors);
        let in_place = |run: Run| self.image_in_place(space, run, factors);
        let way = |source: From, run: Run| Way { source, run, factors };
        if factors.unit.panels.repeats_rows {
            let source = in_place(plain).map_or(From::Copied, From::InPlace);
            return Some(way(source, plain));
        }
        let mut ways = Vec::new();
        if !shares_steps {
            // Taps one by one where their channels end within a step.
            let single = Run::new(plain.pixel, 1, factors);
            let found = [plain, single].into_iter().find_map(|run| Some((run, in_place(run)?)));
            if let Some((run, image)) = found {
                ways.push(way(From::InPlace(image), run));
            }
            ways.push(way(From::Copied, plain));
        }
        let pixel = match (packing, shares_steps) {
            (true, _) => self.channels,
            (_, true) => self.shared_pixel(factors),
            _ => plain.pixel,
        };
        // Filled up, tiles are loaded in less time, and more of them. Weights in place have their own places.
        let filled = (packing && plain.pixel > pixel).then_some(plain.pixel);
        let pixels = [Some(pixel), filled].into_iter().flatten();
        ways.extend(pixels.filter_map(|pixel| self.held(space, pixel, factors)));
        ways.extend(
            [true, false].into_iter().filter_map(|lines| self.gathered(space, factors, pixel, lines)),
        );
        ways.into_iter().min_by_key(|way| self.clocks(way))
    }

    /// Lines as they are in the source, where its channels lie side by side.
    fn held(&self, space: &Space, pixel: usize, factors: Factors) -> Option<Way> {
        let kernel = self.kernel();
        let run = Run::new(pixel, kernel[2], factors);
        let [strides, dilations, dst] =
            [self.window.strides, self.window.dilations, self.window.dst].map(|sizes| three(sizes, 1));
        let is_plane = kernel[0] == 1 && dst[0] == 1 && self.run_taps() == kernel[2];
        if !is_plane || !self.has_channels_last() || self.held_bytes(1, run, factors) > ROOMS[2] {
            return None;
        }
        let Address::Linear { base, coefficients } = &space.find("SRC0")?.address else { return None };
        let element = factors.element();
        let bytes = coefficients.iter().map(|c| c * element).collect();
        let image = Image {
            address: Address::Linear { base: base * element as isize, coefficients: bytes },
            place_step: strides[2] * pixel * element,
            run_steps: [0, dilations[1] * self.held_pitch(run, factors), 0],
            run_lines: dst[1],
        };
        Some(Way { source: From::Held(image), run, factors })
    }

    /// Bytes from a line to the next one in local memory: tiles read so much behind its last place.
    pub(super) fn held_pitch(&self, run: Run, factors: Factors) -> usize {
        let step = factors.unit.step_bytes();
        (self.padded_size()[2] * run.pixel * factors.element()).next_multiple_of(step) + step
    }

    /// The source's lines that so many lines of the result take.
    fn held_lines(&self, lines: usize) -> usize {
        let [stride, dilation] = [self.window.strides, self.window.dilations].map(|sizes| three(sizes, 1)[1]);
        (lines - 1) * stride + (self.kernel()[1] - 1) * dilation + 1
    }

    /// Bytes of them.
    pub(super) fn held_bytes(&self, lines: usize, run: Run, factors: Factors) -> usize {
        self.held_lines(lines).saturating_mul(self.held_pitch(run, factors))
    }

    /// Places gathered with all that their windows take of the source, where its channels lie side by side.
    fn gathered(&self, space: &Space, mut factors: Factors, pixel: usize, by_lines: bool) -> Option<Way> {
        let kernel = self.kernel();
        let run = Run::new(pixel, kernel[2], factors);
        let segment = run.steps(factors) * factors.unit.step_bytes();
        let dst = three(self.window.dst, 1);
        let [stride, dilation] = [self.window.strides, self.window.dilations].map(|sizes| three(sizes, 1)[1]);
        // A single line shares with none, and is the only one that the loops know.
        let shares = dst[0] == 1 && dst[1] > 1 && kernel[0] == 1 && kernel[1] > 1 && stride == 1;
        if by_lines && !shares {
            return None;
        }
        let place_step = if by_lines { segment } else { self.place_bytes(run, factors) };
        let rows = factors.unit.rows;
        let tile = if by_lines {
            // Two lines more than whole ones, as tiles begin and end within them.
            let lines = (rows * factors.unit.tiles) / dst[2] + 2 + (kernel[1] - 1) * dilation;
            lines * dst[2] * segment / factors.unit.tiles
        } else {
            place_step * rows
        };
        if !by_lines && tile * factors.unit.tiles > MOST_ROOM {
            factors.unit.tiles = 1;
            let parts = self.outputs.div_ceil(CPU_LANES);
            factors.unit.columns = if parts > 2 { 4 } else { parts } * CPU_LANES;
        }
        let Address::Linear { base, coefficients } = &space.find("SRC0")?.address else { return None };
        if tile * factors.unit.tiles > MOST_ROOM || !self.has_channels_last() {
            return None;
        }
        let element = factors.element();
        let bytes = coefficients.iter().map(|c| c * element).collect();
        let image = Image {
            address: Address::Linear { base: base * element as isize, coefficients: bytes },
            place_step,
            run_steps: if by_lines {
                [0, dilation * dst[2] * segment, 0]
            } else {
                [segment * kernel[1], segment, 0]
            },
            run_lines: if by_lines { dst[1] } else { self.images() * dst[0] * dst[1] },
        };
        let source = if by_lines { From::GatheredLines(image) } else { From::Gathered(image) };
        Some(Way { source, run, factors })
    }

    /// Bytes of a place with all that its window takes.
    pub(super) fn place_bytes(&self, run: Run, factors: Factors) -> usize {
        let kernel = self.kernel();
        kernel[0] * kernel[1] * run.steps(factors) * factors.unit.step_bytes()
    }

    /// Whether a place's channels lie side by side in the source.
    pub(super) fn has_channels_last(&self) -> bool {
        match self.desc.src().layout() {
            Layout::Blocked(blocking) => {
                blocking.inner.is_empty() && (self.channels == 1 || blocking.strides[1] == 1)
            }
            _ => false,
        }
    }

    /// Whether the taps of a line are one run of the source's elements.
    pub(super) fn is_run(&self, run: Run) -> bool {
        let beside = match self.desc.src().layout() {
            Layout::Blocked(blocking) => {
                self.line_axis().is_some_and(|axis| blocking.strides[axis] == self.channels)
            }
            _ => false,
        };
        run.pixel == self.channels && beside && self.run_taps() == run.taps
    }

    /// Clocks in which a tile of places is loaded: rows that do not end with a cache line take six times as long.
    fn load_clocks(&self, way: &Way) -> usize {
        let pixel = way.run.pixel * way.factors.term_bytes();
        let steps = match &way.source {
            From::Copied | From::Held(_) => [pixel, 0, 0, 0],
            From::Gathered(_) | From::GatheredLines(_) => [0; 4],
            From::InPlace(Image { place_step, run_steps: [d, h, w], .. }) => [*place_step, *d, *h, *w],
        };
        let within = |bytes: usize| steps.iter().all(|step| step.is_multiple_of(bytes));
        LOAD_CLOCKS.into_iter().find(|(bytes, _)| within(*bytes)).map_or(0, |(_, clocks)| clocks)
    }

    /// What a way costs a core, in clocks.
    pub(super) fn clocks(&self, way: &Way) -> usize {
        let Way { source, run, factors } = way;
        let kernel = self.kernel();
        let parts = self.outputs.div_ceil(CPU_LANES);
        let dst = three(self.window.dst, 1);
        let lines = self.images() * dst[0] * dst[1];
        let taps = kernel[0] * kernel[1] * (kernel[2] / run.taps);
        let run_lines = match source {
            From::InPlace(image) | From::Gathered(image) | From::GatheredLines(image) => image.run_lines,
            From::Copied | From::Held(_) => 1,
        };
        let line_tiles = (run_lines * dst[2]).div_ceil(factors.unit.rows);
        let tiles = lines / run_lines * line_tiles;
        let rows = (run_lines * dst[2]).div_ceil(line_tiles);
        let rest = match source {
            From::InPlace(_) => !(self.channels * run.taps).is_multiple_of(factors.step()),
            _ => false,
        };
        let rests = if rest { REST_CLOCKS * rows * parts.div_ceil(2) } else { 0 };
        let at_once = (factors.panel() / CPU_LANES).min(parts);
        let weights = at_once * WEIGHTS_CLOCKS / factors.unit.tiles.min(tiles).max(1);
        let product = (at_once * (rows + TILE_CLOCKS))
            .max(self.load_clocks(way) * rows / factors.unit.rows)
            .max(weights);
        let step = parts.div_ceil(at_once) * product;
        let products = tiles.saturating_mul(taps * (run.steps(*factors) * step + rests));
        let gathered = |segments: usize| {
            let pieces = if self.is_run(*run) { 1 } else { kernel[2] };
            let bytes = run.steps(*factors) * factors.unit.step_bytes();
            segments.saturating_mul(pieces * GATHER_CLOCKS + bytes / GATHERED_BYTES)
        };
        let copies = match source {
            From::InPlace(_) => 0,
            From::Copied => {
                let bytes = self.image_bytes(*factors, *run);
                let vectors = if self.is_run(*run) { 0 } else { run.pixel.div_ceil(CPU_LANES) };
                let places = bytes / (run.pixel * factors.term_bytes()).max(1);
                bytes / COPIED_BYTES + places * vectors * COPIED_VECTOR_CLOCKS
            }
            From::Gathered(_) => gathered((lines * dst[2]).saturating_mul(kernel[0] * kernel[1])),
            From::Held(_) => {
                let pitch = self.held_pitch(*run, *factors);
                let step = three(self.window.strides, 1)[1];
                // Of so many lines the item's next one has to have all but these again.
                let room = ROOMS[2] / pitch;
                let halo = self.held_lines(1) - step.min(self.held_lines(1));
                let own = room.saturating_sub(halo).max(step);
                let clocks = if self.is_run(*run) {
                    GATHER_CLOCKS + pitch / HELD_BYTES
                } else {
                    self.padded_size()[2] * (GATHER_CLOCKS + run.pixel * factors.element() / GATHERED_BYTES)
                };
                (lines * step).saturating_mul(clocks * (own + halo)) / own
            }
            From::GatheredLines(_) => {
                // Lines that are shared within an item are copied by the next one again.
                let line = dst[2] * run.steps(*factors) * factors.unit.step_bytes();
                let room = (ROOMS[2] / line.max(1)).max(1);
                let own = room.saturating_sub(kernel[1] + 1).max(1);
                gathered((lines * dst[2]).saturating_mul(room.max(kernel[1] + 2)) / own)
            }
        };
        products.saturating_add(copies)
    }

    /// The source where it lies, if every tap is inside of it and runs are whole tiles.
    fn image_in_place(&self, space: &Space, run: Run, factors: Factors) -> Option<Image> {
        let element = factors.element();
        let step = |name: &str| space.coefficient("SRC0", space.variable(name)?);
        let Address::Linear { base, coefficients } = &space.find("SRC0")?.address else { return None };
        let whole =
            (run.pixel == self.channels || run.taps == 1) && factors.reads_in_place(self.channels * run.taps);
        let side_by_side = (self.channels == 1 || step("c") == Some(1))
            && (run.taps == 1 || step("kw") == Some(self.channels));
        if !whole || !side_by_side || !self.window.is_unpadded() {
            return None;
        }
        let bytes = coefficients.iter().map(|c| c * element).collect();
        // Each loop's step is what the one inside of it goes through.
        let ow = space.variable("ow")?;
        let mut whole_step = coefficients[ow] * space.loops[ow].extent;
        let follows = |v: &usize| {
            let extent = space.loops[*v].extent;
            let follows = extent == 1 || coefficients[*v] == whole_step;
            whole_step *= extent;
            follows
        };
        let run_lines = if factors.unit.panels.repeats_rows {
            1
        } else {
            (0..ow).rev().take_while(follows).map(|v| space.loops[v].extent).product()
        };
        Some(Image {
            address: Address::Linear { base: base * element as isize, coefficients: bytes },
            place_step: coefficients[ow] * element,
            run_lines,
            run_steps: [step("kd")? * element, step("kh")? * element, step("kw")? * element],
        })
    }
}
