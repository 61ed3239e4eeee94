//! How rows (loops that stay) and their elements (loops that are folded) are spread over work-items and lanes; `common/rows.cl` is
//! the other half.

use anydnn_backend::{Arg, DeviceKind};

use super::source::{Source, is_contiguous};
use super::space::{Binding, Space};
use super::value::Value;
use crate::capability::Feature;
use crate::plan::{DeviceTraits, Launch};

const ROWS: &str = anydnn_kernels::text("common/rows.cl");

/// Lanes of a CPU's vectors: one 512-bit or two 256-bit registers of f32.
pub(super) const CPU_LANES: usize = 16;
/// The fewest elements in a row for which a CPU's vectors are worth being filled in part.
pub(super) const FEW_LANES: usize = 4;
/// Variables that a fold on a CPU joins into: as many additions as wait for their results at a time.
const CHAINS: usize = 4;
/// Elements that make a work-item on a CPU worth its launch, and as many as one takes where there are many more.
const CPU_WORK: usize = 8192;
const CPU_PLENTY: usize = 65536;
/// Bytes of a row that stay in a core's second-level cache while the row is worked on.
const KEPT_BYTES: usize = 128 << 10;
/// Elements of a row from which it pays that the next one is fetched ahead.
const FETCHED_ROW: usize = 256;
/// How many operations of a product take the time of one of a row.
const WORK_WEIGHT: usize = 4;
/// Work-items of a work-group on other devices.
const GROUP: usize = 256;
/// The most work-items that share a row in parts.
const MOST_PARTS: usize = 1024;
/// Vectors of a row that a work-item takes if work-items are enough.
const STEPS: usize = 4;
/// The most loops over rows, or over their elements, of programs that shapes have in common.
const MOST_LOOPS: usize = 4;
/// Names of the loops over channels, which are the innermost ones of many images.
const CHANNELS: [&str; 3] = ["g", "og", "c"];
/// Elements of a row that a work-item holds in registers, and of the rows of several operands.
const HELD: usize = 32;
/// The same of narrow vectors, whose places take registers, too.
const HELD_NARROW: usize = 16;
const HELD_BY_ALL: usize = 48;

/// What works on a row, and along what its lanes run: a work-item with lanes along the elements, a work-item with lanes along rows
/// side by side, a work-group, a part of a work-group with lanes along the elements, such a part of whole sub-groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Item,
    Lane,
    Group,
    Part,
    SubGroup,
}

/// A space cut into rows and their elements.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) space: Space,
    /// The number of loops that run over rows; the others run over a row's elements.
    pub(super) outer: usize,
    pub(super) mode: Mode,
    pub(super) lanes: usize,
    pub(super) lane: Option<usize>,
    /// Whether a vector at the end of a row may have elements once more that another one had.
    pub(super) overlaps: bool,
}

/// Whether a device is programmed like a CPU: few work-items with much to do each, instead of many with little.
pub(super) fn is_cpu(device: &DeviceTraits) -> bool {
    device.kind == DeviceKind::Cpu
}

/// The work-items of a group on a device that wants many.
pub(super) fn group_size(device: &DeviceTraits) -> usize {
    let most = device.max_work_group.clamp(1, GROUP);
    1 << most.ilog2()
}

/// Lanes along a loop where many work-items run: an access of 128 bits each to the widest of the operands that lie along it.
pub(super) fn gpu_lanes(space: &Space, along: usize) -> usize {
    let operands = space.operands.iter().filter(|o| o.address.coefficient(along) == Some(1));
    let bits = operands.filter(|o| o.binding != Binding::Number).map(|o| o.data_type.bits()).max();
    if bits.is_some_and(|bits| bits <= 16) { 8 } else { 4 }
}

/// As many of these as rows of all operands start at multiples of, two at least: where they start between, each lane is an access of its own, and
/// those of neighbours lie the further apart the more lanes there are.
fn aligned_lanes(space: &Space, along: usize) -> usize {
    let operands = space.operands.iter().filter(|o| o.address.coefficient(along) == Some(1));
    let is_aligned = |lanes: usize| operands.clone().all(|o| o.address.is_aligned(along, lanes));
    let mut lanes = gpu_lanes(space, along);
    while lanes > 2 && !is_aligned(lanes) {
        lanes /= 2;
    }
    lanes
}

/// A one-dimensional launch of at least `items` work-items; kernels ignore those past the end.
pub(super) fn items(device: &DeviceTraits, items: usize) -> ([usize; 3], Option<[usize; 3]>) {
    let group = if is_cpu(device) { 1 } else { group_size(device) };
    ([items.next_multiple_of(group), 1, 1], Some([group, 1, 1]))
}

/// How many rows a work-item takes, so that it has enough to do and every compute unit gets some.
pub(super) fn rows_per_item(device: &DeviceTraits, rows: usize, work_per_row: usize) -> usize {
    if !is_cpu(device) {
        return 1;
    }
    let units = device.compute_units.max(1);
    let enough = CPU_WORK.div_ceil(work_per_row.max(1)).min(rows.div_ceil(units * 4));
    let plenty = (CPU_PLENTY / work_per_row.max(1)).min(rows / (units * 16));
    enough.max(plenty).max(1)
}

impl Rows {
    /// Rows that are folded: merges loops and chooses a mode by which loop of `SRC0` (and `second`, if given) is contiguous.
    pub(super) fn folded(
        space: Space,
        outer: usize,
        value: Value,
        device: &DeviceTraits,
        second: Option<&str>,
    ) -> Self {
        Self::folded_along(space, outer, value, device, ("SRC0", second))
    }

    /// The same by other operands than `SRC0`.
    pub(super) fn folded_along(
        mut space: Space,
        outer: usize,
        value: Value,
        device: &DeviceTraits,
        (first, second): (&str, Option<&str>),
    ) -> Self {
        if space.loops.len() == outer {
            space = with_one_element(space);
        }
        space.sort_by(outer..space.loops.len(), first);
        space.collapse(outer..space.loops.len(), &[]);
        space.sort_by(0..outer, first);
        let outer = space.collapse(0..outer, &[]);
        let last = space.loops.len() - 1;
        let along = |v: usize| {
            is_contiguous(&space, first, v) && second.is_none_or(|name| is_contiguous(&space, name, v))
        };
        let elements = space.count(outer..space.loops.len());
        let rows_side_by_side = outer > 0 && along(outer - 1) && !along(last);
        let vectors = is_cpu(device) && value == Value::F32 && space.is_linear();
        let (mode, lanes, lane) = if is_cpu(device) {
            if vectors && along(last) && space.loops[last].extent >= FEW_LANES {
                (Mode::Item, CPU_LANES, Some(last))
            } else if vectors && rows_side_by_side && space.loops[outer - 1].extent >= CPU_LANES {
                (Mode::Lane, CPU_LANES, Some(outer - 1))
            } else {
                (Mode::Item, 1, None)
            }
        } else if value == Value::F32
            && space.is_linear()
            && last == outer
            && along(last)
            && elements >= gpu_lanes(&space, last)
        {
            let lanes = aligned_lanes(&space, last);
            // Whole vectors alone: on Intel's CPU runtime rows with partial ones were seen to reach behind their operands.
            let are_whole = elements.is_multiple_of(gpu_lanes(&space, last));
            let mode = if are_whole && fits_sub_groups(device, elements / lanes) {
                Mode::SubGroup
            } else {
                Mode::Part
            };
            (mode, lanes, Some(last))
        } else if elements >= 32 && group_size(device) >= 32 && !rows_side_by_side {
            (Mode::Group, 1, None)
        } else {
            (Mode::Lane, 1, None)
        };
        Self { space, outer, mode, lanes, lane, overlaps: false }
    }

    /// Rows of one result element each, in the order of the result's memory. With `lane`, lanes run along that loop if it is
    /// contiguous in the result and in `operands`, on devices where that pays.
    pub(super) fn outputs(
        mut space: Space,
        outer: usize,
        value: Value,
        device: &DeviceTraits,
        lane: Option<(&str, &[&str])>,
    ) -> Self {
        if is_cpu(device) {
            space.sort_by(0..outer, "DST");
        } else {
            space.sort_alike(outer, "DST", &CHANNELS);
        }
        let lane = lane
            .filter(|_| is_cpu(device) && value == Value::F32 && space.is_linear())
            .and_then(|(name, operands)| Some((space.variable(name)?, operands)))
            .filter(|&(v, operands)| {
                v + 1 == outer
                    && space.loops[v].extent >= CPU_LANES
                    && operands.iter().chain(&["DST"]).all(|name| is_contiguous(&space, name, v))
            })
            .map(|(v, _)| v);
        let lanes = if lane.is_some() { CPU_LANES } else { 1 };
        Self { space, outer, mode: Mode::Lane, lanes, lane, overlaps: false }
    }

    /// Rows of one vector of result elements each, along a loop in which the result and some operands are contiguous, on devices that want
    /// many work-items.
    pub(super) fn vectors_of_outputs(
        mut space: Space,
        outer: usize,
        (name, operands): (&str, &[&str]),
    ) -> Option<Self> {
        space.sort_alike(outer, "DST", &[name]);
        let lane = space.variable(name)?;
        let lanes = gpu_lanes(&space, lane);
        let fits = space.is_linear()
            && lane + 1 == outer
            && space.loops[lane].extent >= lanes
            && operands.iter().chain(&["DST"]).all(|name| is_contiguous(&space, name, lane));
        fits.then_some(Self { space, outer, mode: Mode::Lane, lanes, lane: Some(lane), overlaps: false })
    }

    /// The same rows in a text that shapes have in common, on devices where that costs little: loops of one step fill up their number.
    pub(super) fn in_common(mut self, device: &DeviceTraits) -> Self {
        let all = self.space.loops.len();
        let inner = all - self.outer;
        let wanted = [self.outer.next_power_of_two().max(2), inner.next_power_of_two()];
        if is_cpu(device) || !self.space.is_linear() || wanted.iter().any(|&loops| loops > MOST_LOOPS) {
            return self;
        }
        let [more_outer, more_inner] = [wanted[0] - self.outer, wanted[1] - inner];
        self.space.pad(self.outer, more_inner);
        self.space.pad(0, more_outer);
        self.space.normalize(0);
        let moved = |lane: usize| lane + more_outer + if lane < self.outer { 0 } else { more_inner };
        self.lane = self.lane.map(moved);
        self.outer += more_outer;
        self.complete(device)
    }

    /// The same with texts that name every loop, which shapes have in common, on the same devices.
    pub(super) fn complete(mut self, device: &DeviceTraits) -> Self {
        if !is_cpu(device) && self.space.is_linear() {
            self.space.complete = Some(self.lane.unwrap_or(usize::MAX));
            self.space.by_rank = true;
        }
        self
    }

    /// The same whose vectors may have elements that others had, which are then read and stored once more: not where an operand of a
    /// post-operation may be the result itself, or `keeps` tells that the result keeps numbers that are read again.
    pub(super) fn overlapping(mut self, keeps: bool) -> Self {
        let of_post_op = |binding: &Binding| {
            matches!(binding, Binding::Alias(_) | Binding::Arg(Arg::PostOp(_) | Arg::PostOpOther(_)))
        };
        self.overlaps = !keeps && !self.space.operands.iter().any(|operand| of_post_op(&operand.binding));
        self
    }

    /// Lets a kernel fetch the next row of `SRC0`, where that is a single run of memory, while it works on one that is near already.
    pub(super) fn fetch_next(&self, source: &mut Source, device: &DeviceTraits) {
        let last = self.space.loops.len() - 1;
        let is_one_run = self.mode == Mode::Item && self.lanes > 1 && last == self.outer;
        let operand = self.space.operands.iter().find(|operand| operand.name == "SRC0");
        if let Some(operand) = operand
            && is_cpu(device)
            && is_one_run
            && self.space.loops[last].extent >= FETCHED_ROW
            && is_contiguous(&self.space, "SRC0", last)
        {
            source.define("FETCHES_NEXT", 1).define("BYTES_SRC0", operand.data_type.bytes_for(1));
        }
    }

    /// Whether the last vector of a run is a partial one.
    pub(super) fn is_partial(&self) -> bool {
        let run = self.space.loops.last().map_or(0, |last| last.extent);
        self.mode == Mode::Item && self.lanes > 1 && !run.is_multiple_of(self.lanes)
    }

    /// The number of rows, in units of the lanes.
    pub(super) fn rows(&self) -> usize {
        let whole = self.space.count(0..self.outer);
        match self.lane {
            Some(lane) if lane < self.outer => {
                let extent = self.space.loops[lane].extent;
                whole / extent.max(1) * extent.div_ceil(self.lanes)
            }
            _ => whole,
        }
    }

    /// The work-items of a group: no more than a row has elements where it takes all of them, or as many as share a row in parts.
    fn group(&self, device: &DeviceTraits) -> usize {
        match self.mode {
            Mode::Part | Mode::SubGroup => return group_size(device).max(self.parts(device)),
            Mode::Item | Mode::Lane => return group_size(device),
            Mode::Group => {}
        }
        let elements = self.space.count(self.outer..self.space.loops.len());
        group_size(device).min(elements.max(1).next_power_of_two())
    }

    /// Whether vectors are narrower than an access could be.
    fn is_narrow(&self) -> bool {
        self.space.loops.len().checked_sub(1).is_some_and(|last| self.lanes < gpu_lanes(&self.space, last))
    }

    /// The vectors of a row.
    fn vectors(&self) -> usize {
        self.space.count(self.outer..self.space.loops.len()).div_ceil(self.lanes)
    }

    /// The work-items that share a row in parts. Neighbours read neighbouring vectors, so short rows have one for each vector.
    fn parts(&self, device: &DeviceTraits) -> usize {
        let most = 1 << device.max_work_group.clamp(1, MOST_PARTS).ilog2();
        let vectors = self.vectors();
        let steps = if self.is_narrow() { HELD_NARROW / self.lanes } else { STEPS };
        let wanted = if vectors <= 32 { vectors } else { vectors.div_ceil(steps).max(32) };
        let wanted = wanted.next_power_of_two().min(most);
        if self.mode == Mode::SubGroup { wanted.max(self.sub_group(device)) } else { wanted }
    }

    /// The width of the sub-groups that work on rows.
    fn sub_group(&self, device: &DeviceTraits) -> usize {
        device.sub_groups().map_or(1, |found| found.width_for(self.vectors()))
    }

    /// Lets a kernel over parts read operands from memory once, if a row of each fits into registers; says whether.
    pub(super) fn hold(&self, source: &mut Source, device: &DeviceTraits, operands: &[&str]) -> bool {
        let parts = self.parts(device);
        let steps = self.vectors().div_ceil(parts);
        // Room that rows of many lengths have in common; no step past the end takes anything.
        let (fits, room) = if self.is_narrow() {
            let room = if steps > 1 { HELD_NARROW / self.lanes } else { 1 };
            // The largest work-groups were seen to have no registers for them.
            (steps <= room && parts < MOST_PARTS && room * self.lanes * operands.len() <= HELD_BY_ALL, room)
        } else {
            let elements = steps * self.lanes;
            (elements <= HELD && elements * operands.len() <= HELD_BY_ALL, steps.next_power_of_two())
        };
        let holds = matches!(self.mode, Mode::Part | Mode::SubGroup) && fits && !operands.is_empty();
        if holds {
            source.hold(operands).define("HELD_STEPS", room);
        }
        holds
    }

    /// The vectors of a row that a work-item holds in local memory, or none.
    pub(super) fn kept_vectors(&self, device: &DeviceTraits) -> usize {
        let all = self.space.loops.len();
        let vectors = match self.mode {
            _ if !is_cpu(device) || self.lanes == 1 => 0,
            Mode::Item => {
                let runs = self.space.count(self.outer..all - 1);
                runs.saturating_mul(self.space.loops[all - 1].extent.div_ceil(self.lanes))
            }
            _ => self.space.count(self.outer..all),
        };
        let bytes = vectors.saturating_mul(self.lanes * size_of::<f32>());
        let most = KEPT_BYTES.min(device.local_memory_bytes);
        // As much room for rows of many lengths, which then share a program.
        let room = vectors.next_power_of_two();
        match vectors {
            _ if bytes > most => 0,
            0 => 0,
            _ if room * self.lanes * size_of::<f32>() > most => vectors,
            _ => room,
        }
    }

    /// The macros of the space and of the iteration.
    pub(super) fn source(&self, value: Value, wide: bool, device: &DeviceTraits, work: usize) -> Source {
        let Self { space, outer, mode, lanes, lane, .. } = self;
        let (outer, all) = (*outer, self.space.loops.len());
        let mut source = Source::new(space, value, (*lanes, *lane), wide, true);
        let name = match mode {
            Mode::Item => "ROWS_BY_ITEM",
            Mode::Lane => "ROWS_BY_LANE",
            Mode::Group => "ROWS_BY_GROUP",
            Mode::Part | Mode::SubGroup => "ROWS_BY_PART",
        };
        // Compilers for processors change the order of a scalar's sum by what they know of its length: it has one program, and the same
        // bits on every execution.
        if !is_cpu(device) || lane.is_some() {
            source.gains(3, self.rows().saturating_mul(work).saturating_mul(WORK_WEIGHT));
        }
        source
            .general()
            .define("ROW_MODE", name)
            .number_of("ROWS", self.rows())
            .number_of("ROWS_PER_ITEM", rows_per_item(device, self.rows(), work))
            .define("GROUP", self.group(device))
            .declare_before("DECLARE_ROW", space, 0..outer)
            .number_of("ELEMENTS", space.count(outer..all))
            .declare("DECLARE_ELEMENT", space, outer..all);
        if *mode == Mode::Item {
            let last = &space.loops[all - 1];
            let vectors = last.extent.div_ceil(*lanes);
            let chains = chains(vectors);
            let overlapping = self.overlaps && self.is_partial() && last.extent > *lanes;
            source
                .define("OVERLAPPING", i32::from(overlapping))
                .define("CHAINS", chains)
                .number_of("ELEMENT_RUNS", space.count(outer..all - 1))
                .declare("DECLARE_RUN", space, outer..all - 1)
                .number_of("RUN", last.extent)
                .define("WHOLE_VECTORS", i32::from(last.extent.is_multiple_of(*lanes)))
                .define("WHOLE_CHAINS", i32::from(vectors.is_multiple_of(chains)))
                .define("ALONG", &last.name);
        }
        if *mode == Mode::SubGroup
            && let Some(found) = device.sub_groups()
        {
            source.run_in(found, self.sub_group(device));
        }
        if matches!(mode, Mode::Part | Mode::SubGroup) {
            let last = &space.loops[all - 1];
            let parts = self.parts(device);
            source
                .define("PARTS", parts)
                .define("SIDE", 1 << (parts.ilog2().div_ceil(2)))
                .number_of("STEPS", self.vectors().div_ceil(parts))
                .number_of("RUN", last.extent)
                .define("WHOLE_VECTORS", i32::from(last.extent.is_multiple_of(*lanes)))
                .define("ALONG", &last.name)
                .define("SHUFFLES", i32::from(device.has(Feature::NvidiaPtx)))
                .define_whole();
        }
        source
    }

    /// The launch of a kernel over these rows.
    pub(super) fn launch(
        &self,
        mut source: Source,
        kernel: &str,
        files: &[&'static str],
        device: &DeviceTraits,
        work: usize,
    ) -> Launch {
        let rows = self.rows();
        let (global, local) = if self.mode == Mode::Group {
            let group = self.group(device);
            ([rows * group, 1, 1], Some([group, 1, 1]))
        } else if matches!(self.mode, Mode::Part | Mode::SubGroup) {
            let group = self.group(device);
            if group > GROUP {
                source.for_groups_of(group);
            }
            ([rows.div_ceil(group / self.parts(device)) * group, 1, 1], Some([group, 1, 1]))
        } else {
            items(device, rows.div_ceil(rows_per_item(device, rows, work)))
        };
        let files: Vec<&str> = std::iter::once(ROWS).chain(files.iter().copied()).collect();
        source.launch(kernel, &files, global, local)
    }
}

/// How many variables a fold over so many vectors joins into: a number that divides them, so that no chain ends before the others, or else
/// as many as there may be.
fn chains(vectors: usize) -> usize {
    let most = vectors.clamp(1, CHAINS);
    (2..=most).rev().find(|&chains| vectors.is_multiple_of(chains)).unwrap_or(most)
}

/// Whether sub-groups of a device are of use for rows of so many vectors: at least half of a sub-group's work-items have one.
pub(super) fn fits_sub_groups(device: &DeviceTraits, vectors: usize) -> bool {
    let width = device.sub_groups().map(|found| found.width_for(vectors));
    width.is_some_and(|width| {
        width.is_power_of_two() && width <= group_size(device) && vectors * 2 > width && vectors > 1
    })
}

/// A space without element loops, with one of a single element.
fn with_one_element(mut space: Space) -> Space {
    space.push("one", 1);
    for operand in &mut space.operands {
        operand.address.extend();
    }
    space
}
