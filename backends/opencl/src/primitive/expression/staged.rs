//! Few long rows: several work-items share a row. Each pass is a launch that joins parts of rows and one that joins the parts; a last
//! launch stores the results of every element.

use super::body::Body;
use super::{Program, Stored};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::rows::{Mode, Rows, group_size, is_cpu};
use crate::primitive::space::{Address, Binding, Operand, Space};

/// Elements that are worth a work-item (or a work-group) of their own.
const LONG_PART: usize = 16384;
/// The same for one of many work-items that do not share a row.
const SHORT_PART: usize = 512;
/// The alignment of what lies in the scratchpad.
const ALIGNMENT: usize = 64;

/// The launches, and the bytes of working memory between them. None where one launch does as well.
pub(super) fn launches(
    program: &Program,
    rows: &Rows,
    device: &DeviceTraits,
) -> Option<(Vec<Launch>, usize)> {
    let last = program.last_pass();
    let (variable, parts) = cut(rows, device).filter(|_| last > 0)?;
    let count = rows.space.count(0..rows.outer);
    let mut memory = Memory { used: 0, bytes: program.value.storage().bits() / 8 };
    let is_result = |name: &str| program.results.iter().any(|result: &Stored| result.name == name);

    let mut whole = rows.space.clone();
    whole.split(variable, "part", parts);
    whole.rotate(variable);
    let outer = rows.outer + 1;
    let mut totals = rows.space.clone();
    while totals.loops.len() > rows.outer {
        totals.remove(rows.outer);
    }
    totals.push("part", parts);
    totals.operands.iter_mut().for_each(|operand| operand.address.extend());

    // Rows side by side stay so: parts are the outermost loop.
    let strides: Vec<usize> = (0..rows.outer).map(|v| rows.space.count(v + 1..rows.outer)).collect();
    let at = |part: usize, row: &[usize], rest: usize| {
        let mut coefficients = vec![part];
        coefficients.extend(row);
        coefficients.resize(1 + row.len() + rest, 0);
        coefficients
    };
    let at_end = |part: usize| -> Vec<usize> { strides.iter().copied().chain([part]).collect() };
    let inner = whole.loops.len() - outer;
    let mut launches = Vec::new();
    for pass in 1..=last {
        let is_last = pass == last;
        let mut partial = whole.clone();
        partial.operands.retain(|operand| !is_result(&operand.name));
        for (i, ..) in program.folds(pass) {
            let (part, save) = (memory.take(count * parts), memory.take(count));
            let operand = |name: &str, offset: usize, coefficients: Vec<usize>| Operand {
                name: format!("{name}{i}"),
                binding: Binding::Scratchpad(offset),
                data_type: program.value.storage(),
                address: Address::linear(coefficients),
            };
            partial.operands.push(operand("PART", part, at(count, &strides, inner)));
            totals.operands.push(operand("PART", part, at_end(count)));
            totals.operands.push(operand("SAVE", save, at_end(0)));
            whole.operands.push(operand("SAVE", save, at(0, &strides, inner)));
        }
        let body = Body {
            joined: pass - 1,
            last: pass,
            partial: true,
            room: 0,
            elements: false,
            rows: false,
            program,
        };
        let shared = |space: Space| Rows {
            space,
            outer,
            mode: rows.mode,
            lanes: rows.lanes,
            lane: rows.lane.map(|lane| lane + 1),
            overlaps: false,
        };
        launches.push(program.launch(&shared(partial), &body.text(), 1, false, device));
        let has_elements = program.results.iter().any(|result| !result.per_row);
        let body = Body { rows: is_last, partial: false, ..body };
        let mode =
            if !is_cpu(device) && parts >= 32 && group_size(device) >= 32 { Mode::Group } else { Mode::Lane };
        let joining =
            Rows { space: totals.clone(), outer: rows.outer, mode, lanes: 1, lane: None, overlaps: false };
        launches.push(program.launch(&joining, &body.join(!is_last || has_elements), 1, is_last, device));
        if is_last && has_elements {
            let body =
                Body { joined: last, last, partial: false, room: 0, elements: true, rows: false, program };
            launches.push(program.launch(&shared(whole.clone()), &body.text(), 1, true, device));
        }
    }
    Some((launches, memory.used))
}

/// The loop over elements to cut and into how many parts; none where there are rows enough.
fn cut(rows: &Rows, device: &DeviceTraits) -> Option<(usize, usize)> {
    let Rows { space, outer, .. } = rows;
    let all = space.loops.len();
    let (count, elements) = (rows.rows(), space.count(*outer..all));
    let (wanted, least) = match rows.mode {
        // Lanes that are rows take that many elements at a step.
        Mode::Lane if is_cpu(device) => (device.compute_units * 4, LONG_PART / rows.lanes),
        _ if is_cpu(device) => (device.compute_units * 4, LONG_PART),
        Mode::Group | Mode::Part | Mode::SubGroup => (device.compute_units * 8, LONG_PART),
        _ => (device.compute_units * 512, SHORT_PART),
    };
    if !space.is_linear() || elements < 2 * least || count == 0 || count >= wanted {
        return None;
    }
    let most = (elements / least).min(wanted.div_ceil(count)).max(2);
    let parts = |v: usize| {
        let extent = space.loops[v].extent;
        let step = if rows.lane == Some(v) { rows.lanes * 4 } else { 1 };
        (2..=most).rev().find(|parts| extent.is_multiple_of(*parts) && extent / parts >= step)
    };
    (*outer..all).rev().filter_map(|v| Some((v, parts(v)?))).max_by_key(|&(_, parts)| parts)
}

/// Places in the scratchpad.
struct Memory {
    used: usize,
    bytes: usize,
}

impl Memory {
    fn take(&mut self, values: usize) -> usize {
        let at = self.used;
        self.used = (at + values * self.bytes).next_multiple_of(ALIGNMENT);
        at
    }
}
