//! Units that multiply panels, and the factors that they take: what `matmul/packed.rs` and `convolution/packed.rs` share.

use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc};

use super::numbers::always;
use super::panels::{sums, widest};
use super::rows::{CPU_LANES, is_cpu};
use super::source::Source;
use super::space::{Address, Binding, Operand, Space};
use super::value::{Value, storage};
use crate::capability::instruction::Multiplicand;
use crate::capability::units::{Feature, Panels};
use crate::plan::DeviceTraits;

const FINISH: &str = anydnn_kernels::text("matmul/finish.cl");
/// What copies are made by.
pub(super) const TERMS: &str = anydnn_kernels::text("matmul/terms.cl");

/// Bytes of local memory that programs of units have, beside their sums, for what they gather or copy: of these the least that do.
pub(super) const ROOMS: [usize; 4] = [16 << 10, 48 << 10, 96 << 10, MOST_ROOM];
pub(super) const MOST_ROOM: usize = 160 << 10;
/// Bytes of terms in a tile of a unit that has tiles of its own, and of those that others multiply at once.
const TILE_BYTES: usize = 64;
const LANE_BYTES: usize = 4;
/// Terms whose products of any two bytes fit 31 bits, also with zero points taken off them.
const MOST_TERMS: usize = 33_000;
/// Rows of a tile where registers hold few sums: products of words are vectors before they are added.
const FEW_ROWS: usize = 5;
/// How many tiles of rows matrix units multiply at once by panels of so many parts: registers hold four sums, or three of a single part.
const TILES_OF_PARTS: [usize; 5] = [0, 3, 2, 0, 1];
/// Panels for each compute unit from which on they may be wide.
const PANELS_OF_FEW_ROWS: usize = 2;
/// What a panel of so many parts costs: narrow ones read a row for fewer products.
const PART_COSTS: [usize; 4] = [140, 220, 310, 400];

/// A unit that multiplies panels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    feature: Feature,
    pub(super) panels: &'static Panels,
    /// Rows of a tile, tiles of rows that are multiplied at once, and columns of a panel.
    pub(super) rows: usize,
    pub(super) tiles: usize,
    pub(super) columns: usize,
}

impl Unit {
    /// Every unit that multiplies panels, best first.
    pub(super) fn all(device: &DeviceTraits) -> impl Iterator<Item = Self> {
        let few = widest(sums(device)) == 1;
        Feature::of_panels().map(move |(feature, panels)| {
            // Units without registers of their own have their sums in those of the processor.
            let (rows, columns) = if few && panels.repeats_rows {
                (panels.rows.min(FEW_ROWS), CPU_LANES)
            } else {
                (panels.rows, panels.columns)
            };
            Self { feature, panels, rows, tiles: panels.tiles, columns }
        })
    }

    /// Bytes of terms that are multiplied at once, of which copies are a multiple.
    pub(super) fn step_bytes(self) -> usize {
        if self.panels.repeats_rows { LANE_BYTES } else { TILE_BYTES }
    }

    /// Bytes of a part of 16 columns for these.
    pub(super) fn part_bytes(self) -> usize {
        self.step_bytes() * CPU_LANES
    }

    /// The rows of a tile that has so many at most.
    pub(super) fn tile_rows(self, rows: usize) -> usize {
        let most = self.rows * self.tiles;
        // Few programs serve all numbers of rows.
        if self.panels.repeats_rows && rows <= self.panels.rows { most.min(rows) } else { most }
    }
}

/// The factors of a product that units take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factors {
    pub(super) src: DataType,
    pub(super) weights: DataType,
    pub(super) unit: Unit,
    factor: Multiplicand,
}

impl Factors {
    /// The factors of a description, if a unit of the device takes them.
    pub(super) fn of(desc: &PrimitiveDesc, unit: Unit, device: &DeviceTraits) -> Option<Self> {
        let (src, weights) = (desc.src().data_type(), desc.find(Arg::Weights)?.data_type());
        let fpmath = desc.attributes().fpmath;
        let instruction = unit.feature.instruction(src, fpmath)?;
        let exact_sums = !instruction.sum.is_float() || desc.attributes().dequantize.is_empty();
        let takes = instruction.factor.takes(weights, fpmath) && exact_sums;
        let whole =
            |zero: &MemoryDesc| matches!(zero.data_type(), DataType::S8 | DataType::U8 | DataType::S32);
        let zeros = desc.attributes().dequantize.iter().filter_map(|d| d.zero_point.as_ref());
        let exact = zeros.into_iter().all(whole);
        // Zero points alone may be wide integers, and make no wider results.
        let narrow = matches!(desc.dst().data_type(), DataType::S32 | DataType::S8 | DataType::U8);
        let value = match Value::of(desc, true) {
            Value::F32 => true,
            Value::I64 => narrow && desc.find(Arg::Bias).is_none(),
            Value::F64 => false,
        };
        let fits = takes && exact && is_cpu(device) && value;
        let works = || unit.panels.is_optional || device.has(unit.feature);
        (fits && works()).then_some(Self { src, weights, unit, factor: instruction.factor })
    }

    /// With panels of which so many columns leave least empty, for units that multiply parts of 16 of them one after the other. Those with
    /// tiles of their own have more tiles of rows for few columns, and wider panels for few rows where these keep all compute units at work.
    pub(super) fn for_result(mut self, [batch, rows, columns]: [usize; 3], device: &DeviceTraits) -> Self {
        if self.unit.panels.repeats_rows {
            let parts = columns.max(1).div_ceil(CPU_LANES);
            let widest = self.unit.columns / CPU_LANES;
            let cost = |own: &usize| parts.div_ceil(*own) * PART_COSTS[own - 1];
            self.unit.columns = (1..=widest.min(parts)).rev().min_by_key(cost).unwrap_or(1) * CPU_LANES;
            if self.unit.columns == CPU_LANES && widest > 1 {
                self.unit.rows = self.unit.panels.narrow_rows;
            }
        } else {
            let parts = columns.max(1).div_ceil(CPU_LANES);
            let busy = |own: usize| parts.div_ceil(own) * batch >= device.compute_units * PANELS_OF_FEW_ROWS;
            let own = if rows <= self.unit.rows {
                [4, 2].into_iter().find(|&own| busy(own)).unwrap_or(1)
            } else {
                parts.min(2)
            };
            (self.unit.tiles, self.unit.columns) = (TILES_OF_PARTS[own], own * CPU_LANES);
        }
        self
    }

    /// With panels whose weights, of so many terms, have at most so many bytes, where units with tiles of their own have such.
    pub(super) fn within(self, terms: usize, most: usize) -> Self {
        let fits = |parts: &usize| self.part_bytes(terms) * parts <= most;
        let widest = self.panel() / CPU_LANES;
        match [4, 2, 1].into_iter().filter(|&parts| parts <= widest).find(fits) {
            Some(parts) if !self.unit.panels.repeats_rows => {
                let unit = Unit { tiles: TILES_OF_PARTS[parts], columns: parts * CPU_LANES, ..self.unit };
                Self { unit, ..self }
            }
            _ => self,
        }
    }

    /// Bytes of an element.
    pub(super) fn element(self) -> usize {
        self.src.bits() / 8
    }

    /// Bytes of a term of the source's copies.
    pub(super) fn term_bytes(self) -> usize {
        self.element() * if self.as_words() { 2 } else { 1 }
    }

    /// Terms of a column that lie side by side.
    pub(super) fn lane(self) -> usize {
        LANE_BYTES / self.element()
    }

    /// Terms that are multiplied at once.
    pub(super) fn step(self) -> usize {
        self.unit.step_bytes() / self.element()
    }

    /// The most terms whose sums a unit holds.
    pub(super) fn most_terms(self, desc: &PrimitiveDesc) -> usize {
        let greatest = |data_type: DataType| if data_type == DataType::S8 { 128 } else { 255 };
        if self.src.is_float() {
            usize::MAX
        } else if desc.attributes().dequantize.iter().any(|d| d.zero_point.is_some()) {
            MOST_TERMS
        } else {
            i32::MAX as usize / (greatest(self.src) * greatest(self.weights))
        }
    }

    /// Whether runs of so many terms are multiplied where they lie, beside others.
    pub(super) fn reads_in_place(self, terms: usize) -> bool {
        // Units with tiles of their own copy what is beyond whole ones.
        let ends_within = !self.unit.panels.repeats_rows || terms * self.element() >= LANE_BYTES;
        !self.as_words() && (ends_within || terms.is_multiple_of(self.step()))
    }

    /// Bytes of a part of 16 columns of so many terms.
    pub(super) fn part_bytes(self, terms: usize) -> usize {
        terms.div_ceil(self.step()) * self.unit.part_bytes()
    }

    /// The blocks of weights in parts, outermost first: of which axis, and how many.
    pub(super) fn blocks<Axis>(self, column: Axis, term: Axis) -> Vec<(Axis, usize)>
    where
        Axis: Copy,
    {
        let lane = self.lane();
        let all = [(term, self.step() / lane), (column, CPU_LANES), (term, lane)];
        all.into_iter().filter(|(_, count)| *count > 1).collect()
    }

    /// The same as the end of a layout's tag.
    pub(super) fn block_tag(self, column: char, term: char) -> String {
        tag_of(self.blocks(column, term))
    }

    /// Defines what copies are made by.
    pub(super) fn define_terms(self, text: &mut Source) {
        text.define("ELEMENT", self.element())
            .define("STEP_QUADS", self.unit.step_bytes() / LANE_BYTES)
            .define("AS_WORDS", i32::from(self.as_words()))
            .define("SRC0_SIGNED", i32::from(self.src == DataType::S8));
    }

    /// Whether the source has to be copied as words.
    pub(super) fn as_words(self) -> bool {
        self.factor == Multiplicand::Words
    }

    /// Columns of a panel.
    pub(super) fn panel(self) -> usize {
        self.unit.columns
    }

    /// A kernel's text behind [`Factors::define`].
    pub(super) fn files(self, kernel: &'static str) -> [&'static str; 3] {
        [self.unit.panels.text, FINISH, kernel]
    }

    /// From a row of the result to the next one, where sums that begin with the bias are results but for their rounding.
    fn final_step(self, space: &Space, desc: &PrimitiveDesc, (row, lane): (usize, usize)) -> Option<usize> {
        let dst = space.find("DST")?;
        let along_rows = |name: &str| space.find(name).map_or(0, |o| o.address.step(row, 1).unwrap_or(1));
        let plain = self.src.is_float()
            && matches!(dst.data_type, DataType::BF16 | DataType::F32)
            && desc.attributes().post_ops.is_empty()
            && dst.address.step(lane, CPU_LANES) == Some(1)
            && along_rows("BIAS") == 0;
        plain.then(|| space.coefficient("DST", row)).flatten()
    }

    /// Defines the unit's macros, and those that its sums are finished by. `runs` are the numbers of taps in the three dimensions and how
    /// many bytes they are apart in the source; each has as many terms, and zeros up to a whole step unless it lies in place.
    pub(super) fn define(
        self,
        text: &mut Source,
        space: &Space,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        (runs, terms, in_place): ([(usize, usize); 3], usize, bool),
        row: usize,
    ) -> Option<()> {
        let signed = |t: DataType| t == DataType::S8;
        let real = self.src.is_float();
        let run_steps = terms.div_ceil(self.step());
        let rest = if in_place { terms * self.element() } else { 0 };
        let parts: Vec<String> = (0..self.panel() / CPU_LANES).map(|j| format!("X(i, {j})")).collect();
        let kind = storage(self.src).1;
        text.define("EACH_V(X, i)", parts.join(" "))
            .define("PANEL", self.panel())
            .define("SUM", if real { "float" } else { "int" })
            .define("SUMS", if real { "float16" } else { "int16" })
            .define("SUM_IS_FLOAT", i32::from(real))
            .define("HAS_INSTRUCTION", i32::from(device.has(self.unit.feature)))
            .define("SRC0_SIGNED", i32::from(signed(self.src)))
            .define("WEIGHTS_SIGNED", i32::from(signed(self.weights)))
            .define("UNPACK_SRC0(n)", format_args!("unpack_{kind}_##n"))
            .define("PART_BYTES", self.unit.part_bytes())
            .number_of("RUN_STEPS", run_steps)
            .define("REST_BYTES", if self.unit.panels.repeats_rows { rest % LANE_BYTES } else { 0 })
            .number_of("RUN_REST", rest % self.unit.step_bytes())
            .number_of("SRC_BYTES", desc.src().size())
            .number_of("RUN_TERMS", terms);
        let count: usize = runs.iter().map(|(count, _)| count).product();
        text.number_of("K_STEPS", run_steps * count).define("RUN_ROOM", count.next_power_of_two());
        for ((count, step), name) in runs.into_iter().zip(["D", "H", "W"]) {
            text.number_of(format_args!("RUNS_{name}"), count)
                .number_of(format_args!("RUN_STEP_{name}"), step);
        }
        for (name, has) in [("ZERO_SRC0", "HAS_ZERO_SRC0"), ("ZERO_WEIGHTS", "HAS_ZERO_WEIGHTS")] {
            text.define(has, i32::from(space.find(name).is_some()));
        }
        let lane = space.variable("lane")?;
        let final_step = self.final_step(space, desc, (row, lane));
        let result_bytes = desc.dst().data_type().bits() / 8;
        text.define("SUMS_ARE_RESULTS", i32::from(final_step.is_some()))
            .define("RESULT_BYTES", result_bytes)
            .define("HAS_FIRST_SUMS", i32::from(desc.find(Arg::Bias).is_some()))
            .number_of("DST_ROW_STEP", final_step.unwrap_or(0) * result_bytes);
        if let Some(zero) = space.find("ZERO_WEIGHTS") {
            let raw = raw(zero, lane)?;
            let kind = storage(zero.data_type).1;
            text.define(
                "ZERO_OF_WEIGHTS(n)",
                format_args!("unpack_{kind}_16({})", raw("OFF_ZERO_WEIGHTS", "n")),
            );
        }
        let dst = space.find("DST")?;
        let plain = !real
            && dst.data_type == DataType::S32
            && desc.attributes().post_ops.is_empty()
            && desc.find(Arg::Bias).is_none()
            && ["SCALE_SRC0", "SCALE_WEIGHTS"].iter().all(|name| space.find(name).is_none());
        let step = dst.address.step(lane, CPU_LANES).filter(|_| plain);
        text.define("EXACT", i32::from(step.is_some()));
        match step {
            Some(1) => text.define("STORE_EXACT(x, n)", "store_32_16(dst, OFF_DST, n, x)"),
            Some(step) => text.define(
                "STORE_EXACT(x, n)",
                format_args!("scatter_32_16(dst, OFF_DST, {}, n, x)", always(step)),
            ),
            None => text,
        };
        Some(())
    }
}

/// The end of a layout's tag of blocks, outermost first.
pub(super) fn tag_of(blocks: impl IntoIterator<Item = (char, usize)>) -> String {
    blocks.into_iter().fold(String::new(), |tag, (axis, count)| format!("{tag}{count}{axis}"))
}

/// The type of pointers to the weights that units multiply.
pub(super) fn weights_pointer(is_local: bool) -> &'static str {
    if is_local { "const __local uchar *" } else { "const __global uchar *" }
}

/// How to load the raw bits of 16 elements of an operand along a loop, from an offset and their number on.
pub(super) fn raw(operand: &Operand, along: usize) -> Option<impl Fn(&str, &str) -> String> {
    let bits = storage(operand.data_type).0;
    let pointer = operand.name.to_lowercase();
    let step = operand.address.step(along, CPU_LANES)?;
    Some(move |offset: &str, n: &str| match step {
        1 => format!("load_{bits}_16({pointer}, {offset}, {n})"),
        _ => format!("gather_{bits}_16({pointer}, {offset}, {}, {n})", always(step)),
    })
}

/// An operand of bytes.
pub(super) fn copied(name: &str, binding: Binding, address: Address) -> Operand {
    Operand { name: name.into(), binding, data_type: DataType::U8, address }
}

/// Lets an operand's bytes come from elsewhere.
pub(super) fn place(space: &mut Space, name: &str, binding: Binding, address: Address) {
    if let Some(operand) = space.operands.iter_mut().find(|o| o.name == name) {
        *operand = copied(name, binding, address);
    }
}
