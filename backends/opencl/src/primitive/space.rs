//! Loops over a primitive's indices and where each operand's elements lie in terms of them.
//!
//! A kernel is written against named loop variables. An operand's element offset is an [`Address`]: for strided layouts (and for
//! blocked ones whose blocked dimension is a pair of loops) a linear function of the variables, else an expression with divisions.
//! Linear addresses let neighbouring loops merge and show which operands are contiguous along which loop.

use std::fmt::Write;
use std::ops::Range;

use anydnn_backend::{Arg, Blocking, DataType, Dims, MemoryDesc};

use super::numbers::{always, mark};

/// A loop variable and the number of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loop {
    pub(super) name: String,
    pub(super) extent: usize,
    /// Whether tensors of this rank lack the dimension.
    pub(super) is_missing: bool,
}

impl Loop {
    fn new(name: impl Into<String>, extent: usize) -> Self {
        Self { name: name.into(), extent, is_missing: false }
    }

    /// Whether it is no loop of a kernel but a macro of `common/window.cl`: where a tap of a window that slides over the result finds the
    /// source.
    pub(super) fn is_place(&self) -> bool {
        self.name.starts_with("IN_")
    }
}

/// An index of one dimension: a sum of loop variables (by number) with factors, and a constant, divided by the length of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) terms: Vec<(usize, usize)>,
    pub(super) shift: isize,
    /// Neighbours that share an element; one if they do not.
    pub(super) block: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self { terms: Vec::new(), shift: 0, block: 1 }
    }
}

/// The element offset of an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// `base` plus each loop variable times its coefficient.
    Linear { base: isize, coefficients: Vec<usize> },
    /// By the blocking rule from the index of each dimension.
    General { blocking: Blocking, index: Vec<Index> },
}

/// Where an operand's bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// An argument of the primitive.
    Arg(Arg),
    /// Working memory from this byte on.
    Scratchpad(usize),
    /// The bytes of the operand of this name.
    Alias(&'static str),
    /// Nowhere: the element offset is the value.
    Number,
}

/// An operand as a kernel names it.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    /// The name in macros (`SRC0`); in lower case the kernel's pointer.
    pub(super) name: String,
    pub(super) binding: Binding,
    pub(super) data_type: DataType,
    pub(super) address: Address,
}

/// Loops and operands.
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    pub(super) loops: Vec<Loop>,
    pub(super) operands: Vec<Operand>,
    /// Addresses name every loop, so that those of all shapes read the same; steps of zero and one along this one alone stay as they are.
    pub(super) complete: Option<usize>,
    /// Whether a complete text is for one rank of tensors, and leaves out the dimensions that those lack.
    pub(super) by_rank: bool,
    /// Whether results are stored as long runs of vectors that begin at multiples of their length, whatever their loops are.
    pub(super) in_runs: bool,
    /// Loops on which addresses of an operand depend in no shape, which even a complete text leaves out.
    pub(super) apart: Vec<(String, Range<usize>)>,
}

impl Index {
    /// One loop variable.
    pub(super) fn of(variable: usize) -> Self {
        Self { terms: vec![(variable, 1)], ..Self::default() }
    }

    /// A sum of loop variables with factors.
    pub(super) fn sum(terms: &[(usize, usize)]) -> Self {
        Self { terms: terms.to_vec(), ..Self::default() }
    }

    /// The same index plus a constant.
    pub(super) fn shifted(mut self, shift: isize) -> Self {
        self.shift += shift;
        self
    }

    /// The same index for an operand in which each element stands for a block of neighbours.
    pub(super) fn by_blocks(mut self, block: usize) -> Self {
        self.block *= block;
        self
    }

    /// The index as an OpenCL C expression.
    pub(super) fn text(&self, loops: &[Loop]) -> String {
        let text = linear_text(self.shift, self.terms.iter().copied(), loops);
        if self.block == 1 || text == "0" { text } else { format!("({text} / {})", self.block) }
    }

    /// The index without a division, where each variable either steps by whole blocks or stays inside of one.
    fn undivided(&self, loops: &[Loop]) -> Option<Self> {
        if self.block == 1 {
            return Some(self.clone());
        }
        let shift = usize::try_from(self.shift).ok()?;
        let (mut inside, mut terms) = (shift % self.block, Vec::new());
        for &(variable, factor) in self.terms.iter().filter(|(v, _)| loops[*v].extent > 1) {
            if factor.is_multiple_of(self.block) {
                terms.push((variable, factor / self.block));
            } else {
                inside = inside.saturating_add(factor.saturating_mul(loops[variable].extent - 1));
            }
        }
        let shift = (shift / self.block) as isize;
        (inside < self.block).then_some(Self { terms, shift, block: 1 })
    }
}

impl Address {
    /// A linear address without a constant.
    pub(super) fn linear(coefficients: Vec<usize>) -> Self {
        Self::Linear { base: 0, coefficients }
    }

    /// The coefficient of a loop variable, of a linear address.
    pub(super) fn coefficient(&self, variable: usize) -> Option<usize> {
        match self {
            Self::Linear { coefficients, .. } => coefficients.get(variable).copied(),
            Self::General { .. } => None,
        }
    }

    /// How far the next value of a loop variable is, where that is the same for all of them in runs of `lanes`.
    pub(super) fn step(&self, variable: usize, lanes: usize) -> Option<usize> {
        match self {
            Self::Linear { coefficients, .. } => coefficients.get(variable).copied(),
            Self::General { blocking, index } => {
                let mut step = 0;
                for (axis, index) in index.iter().enumerate() {
                    let Some((_, factor)) = index.terms.iter().find(|(v, _)| *v == variable) else {
                        continue;
                    };
                    // A run that starts at a multiple of its length stays inside a block that is one, too.
                    let others = index.terms.iter().filter(|(v, _)| *v != variable);
                    let aligned = index.block > 1
                        && *factor == 1
                        && index.block.is_multiple_of(lanes)
                        && index.shift % lanes as isize == 0
                        && others.clone().all(|(_, factor)| factor.is_multiple_of(lanes));
                    if lanes > 1 && aligned {
                        continue;
                    }
                    if index.block > 1 || blocking.block(axis) > 1 {
                        return None;
                    }
                    step += factor * blocking.strides[axis];
                }
                Some(step)
            }
        }
    }

    /// Whether the elements lie side by side along a loop and start, for all values of the other ones, at a multiple of `block`.
    pub(super) fn is_aligned(&self, variable: usize, block: usize) -> bool {
        let Self::Linear { base, coefficients } = self else { return false };
        let others = coefficients.iter().enumerate().filter(|(v, _)| *v != variable);
        coefficients.get(variable) == Some(&1)
            && base.unsigned_abs().is_multiple_of(block)
            && others.into_iter().all(|(_, c)| c.is_multiple_of(block))
    }

    /// Makes room for a loop added after the operand, on which the address does not depend.
    pub(super) fn extend(&mut self) {
        if let Self::Linear { coefficients, .. } = self {
            coefficients.push(0);
        }
    }

    /// The address as an OpenCL C expression, with [marks](super::numbers).
    pub(super) fn text(&self, loops: &[Loop]) -> String {
        match self {
            Self::Linear { base, coefficients } => {
                linear_text(*base, coefficients.iter().copied().enumerate(), loops)
            }
            Self::General { blocking, index } => general_text(blocking, index, loops),
        }
    }
}

impl Space {
    /// The loops that stand for [places](Loop::is_place), which taps and results make together.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        (0..self.loops.len()).filter(|&v| self.loops[v].is_place())
    }

    /// Adds a loop and returns its number. Operands are added after all loops.
    pub(super) fn push(&mut self, name: impl Into<String>, extent: usize) -> usize {
        self.loops.push(Loop::new(name, extent));
        self.loops.len() - 1
    }

    /// Adds a loop of one step for a dimension that tensors of this rank lack.
    pub(super) fn push_missing(&mut self, name: impl Into<String>) -> usize {
        self.loops.push(Loop { is_missing: true, ..Loop::new(name, 1) });
        self.loops.len() - 1
    }

    /// Whether a complete text leaves out a dimension that tensors of this rank lack.
    pub(super) fn is_left_out(&self, variable: usize) -> bool {
        self.by_rank && self.complete.is_some() && self.loops[variable].is_missing
    }

    /// Gives a loop so many steps.
    pub(super) fn set_extent(&mut self, variable: usize, extent: usize) {
        self.loops[variable] = Loop { extent, is_missing: false, ..self.loops[variable].clone() };
    }

    /// Adds an operand whose dimensions have these indices.
    pub(super) fn operand(
        &mut self,
        name: impl Into<String>,
        binding: Binding,
        desc: &MemoryDesc,
        index: &[Index],
    ) {
        let address = self.address(desc, index);
        self.operands.push(Operand { name: name.into(), binding, data_type: desc.data_type(), address });
    }

    /// Adds an operand whose address is known.
    pub(super) fn addressed(
        &mut self,
        name: impl Into<String>,
        binding: Binding,
        data_type: DataType,
        address: Address,
    ) {
        self.operands.push(Operand { name: name.into(), binding, data_type, address });
    }

    /// Adds a number that is a sum of loop variables with factors.
    pub(super) fn number(
        &mut self,
        name: impl Into<String>,
        terms: impl IntoIterator<Item = (usize, usize)>,
    ) {
        let mut coefficients = vec![0; self.loops.len()];
        for (variable, factor) in terms {
            if self.loops[variable].extent > 1 {
                coefficients[variable] += factor;
            }
        }
        let address = Address::linear(coefficients);
        self.operands.push(Operand {
            name: name.into(),
            binding: Binding::Number,
            data_type: DataType::S64,
            address,
        });
    }

    /// The address of an element of `desc` at an index.
    pub(super) fn address(&self, desc: &MemoryDesc, index: &[Index]) -> Address {
        let Some(blocking) = desc.blocking() else { return self.address(&desc.to_row_major(), index) };
        match self.linear(blocking, index) {
            Some(address) => address,
            None => Address::General { blocking: blocking.clone(), index: index.to_vec() },
        }
    }

    /// The operand of this name.
    pub(super) fn find(&self, name: &str) -> Option<&Operand> {
        self.operands.iter().find(|o| o.name == name)
    }

    /// An operand's coefficient of a loop variable; none when it is missing or not linear.
    pub(super) fn coefficient(&self, name: &str, variable: usize) -> Option<usize> {
        self.find(name)?.address.coefficient(variable)
    }

    /// Sets the coefficient of a loop variable in an operand's linear address.
    pub(super) fn set_coefficient(&mut self, name: &str, variable: usize, coefficient: usize) {
        for operand in self.operands.iter_mut().filter(|operand| operand.name == name) {
            if let Address::Linear { coefficients, .. } = &mut operand.address {
                coefficients[variable] = coefficient;
            }
        }
    }

    /// Whether every operand has a step along a loop, as vectors along it need.
    pub(super) fn has_steps(&self, variable: usize, lanes: usize) -> bool {
        self.operands.iter().all(|o| o.address.step(variable, lanes).is_some())
    }

    /// Whether all addresses are linear.
    pub(super) fn is_linear(&self) -> bool {
        self.operands.iter().all(|o| matches!(o.address, Address::Linear { .. }))
    }

    /// The address of an operand as an OpenCL C expression, with [marks](super::numbers).
    pub(super) fn text(&self, operand: &Operand) -> String {
        let (Address::Linear { base, coefficients }, Some(lane)) = (&operand.address, self.complete) else {
            return operand.address.text(&self.loops);
        };
        let is_apart = |v: usize| {
            self.is_left_out(v)
                || self.apart.iter().any(|(name, loops)| *name == operand.name && loops.contains(&v))
        };
        let mut text = String::with_capacity(24 * self.loops.len() + 24);
        text.push('(');
        for (v, (&step, Loop { name, .. })) in coefficients.iter().zip(&self.loops).enumerate() {
            if step == 0 && v != lane && is_apart(v) {
                continue;
            }
            let _ = match step {
                0 if v == lane => write!(text, "0 + "),
                1 if v == lane => write!(text, "{name} + "),
                _ => write!(text, "{name} * {} + ", always(step as isize)),
            };
        }
        if coefficients.is_empty() || self.loops.is_empty() {
            text.push_str(" + ");
        }
        let _ = write!(text, "{})", always(*base));
        text
    }

    /// The number of iterations of a range of loops.
    pub(super) fn count(&self, loops: Range<usize>) -> usize {
        self.loops[loops].iter().map(|l| l.extent).fold(1, usize::saturating_mul)
    }

    /// The number of the loop of this name.
    pub(super) fn variable(&self, name: &str) -> Option<usize> {
        self.loops.iter().position(|l| l.name == name)
    }

    /// Sorts loops so that those with small strides in an operand come last. Only for linear addresses.
    pub(super) fn sort_by(&mut self, loops: Range<usize>, operand: &str) {
        if !self.is_linear() {
            return;
        }
        let Some(key) = self.find(operand).map(|o| o.address.clone()) else { return };
        let mut order: Vec<usize> = (0..self.loops.len()).collect();
        // A loop of one step has no stride; it goes first, out of the way.
        let stride = |v: usize| match self.loops[v].extent {
            0 | 1 => usize::MAX,
            _ => key.coefficient(v).unwrap_or(0),
        };
        order[loops].sort_by_key(|&v| std::cmp::Reverse(stride(v)));
        self.loops = order.iter().map(|&v| self.loops[v].clone()).collect();
        self.each_coefficients(|c| *c = order.iter().map(|&v| c[v]).collect());
    }

    /// Merges neighbouring loops whose strides fit in every operand and drops loops of one step; the last one stays, and no operand of
    /// `without` comes to depend on it. Returns the number of loops left of the range. Loops on which an address that is not linear
    /// depends stay as they are.
    pub(super) fn collapse(&mut self, loops: Range<usize>, without: &[&str]) -> usize {
        if loops.is_empty() {
            return 0;
        }
        let mut last = loops.end - 1;
        for v in loops.clone().rev().skip(1) {
            if self.loops[v].extent == 1 {
                self.remove(v);
                last -= 1;
            }
        }
        let mut v = last;
        while v > loops.start {
            v -= 1;
            let extent = self.loops[v + 1].extent;
            // A last loop of one step has no strides to keep.
            let trivial = extent == 1
                && v + 1 == last
                && without.iter().all(|name| self.find(name).is_none_or(|o| o.address.step(v, 1) == Some(0)));
            let fits = self.operands.iter().all(|o| match &o.address {
                Address::Linear { coefficients: c, .. } => trivial || c[v] == c[v + 1].saturating_mul(extent),
                Address::General { .. } => {
                    o.address.step(v, 1) == Some(0) && o.address.step(v + 1, 1) == Some(0)
                }
            });
            // Kernels count rows in 32 bits.
            let joined =
                extent.checked_mul(self.loops[v].extent).filter(|&steps| i32::try_from(steps).is_ok());
            if fits && joined.is_some() {
                if trivial {
                    self.each_coefficients(|c| c[v + 1] = c[v]);
                }
                self.set_extent(v + 1, self.loops[v + 1].extent * self.loops[v].extent);
                self.remove(v);
                last -= 1;
            }
        }
        last + 1 - loops.start
    }

    /// Splits a loop into two, of which the outer takes `parts` steps.
    pub(super) fn split(&mut self, variable: usize, name: &str, parts: usize) {
        let inner = self.loops[variable].extent / parts;
        self.set_extent(variable, inner);
        self.loops.insert(variable, Loop::new(name, parts));
        self.each_coefficients(|c| c.insert(variable, c[variable] * inner));
        self.each_terms(|terms| {
            terms.iter_mut().filter(|(v, _)| *v >= variable).for_each(|(v, _)| *v += 1);
            let outer: Vec<_> = terms.iter().filter(|(v, _)| *v == variable + 1).copied().collect();
            terms.extend(outer.into_iter().map(|(_, factor)| (variable, factor * inner)));
        });
    }

    /// Makes a loop the outermost one.
    pub(super) fn rotate(&mut self, variable: usize) {
        self.loops[..=variable].rotate_right(1);
        self.each_coefficients(|c| c[..=variable].rotate_right(1));
        self.each_terms(|terms| {
            for (v, _) in terms.iter_mut().filter(|(v, _)| *v <= variable) {
                *v = if *v == variable { 0 } else { *v + 1 };
            }
        });
    }

    /// Names the loops by their number and puts loops of one step before them until there are so many. Only for linear addresses that no
    /// text names.
    pub(super) fn normalize(&mut self, loops: usize) {
        self.pad(0, loops.saturating_sub(self.loops.len()));
        for (i, one) in self.loops.iter_mut().enumerate() {
            one.name = format!("i{i}");
        }
    }

    /// Inserts so many loops of one step before a loop.
    pub(super) fn pad(&mut self, before: usize, count: usize) {
        for i in 0..count {
            self.loops.insert(before + i, Loop::new(format!("one{i}"), 1));
        }
        self.each_coefficients(|c| drop(c.splice(before..before, vec![0; count])));
        self.each_terms(|terms| {
            terms.iter_mut().filter(|(v, _)| *v >= before).for_each(|(v, _)| *v += count);
        });
    }

    /// Puts the first loops in order as far as every shape has it in common: as they are, or with those of these names behind the others, if
    /// the steps of an operand do not grow so; loops of one step stay among their like. Else by their strides.
    pub(super) fn sort_alike(&mut self, count: usize, operand: &str, last: &[&str]) {
        if !self.is_linear() {
            return;
        }
        let is_last = |v: &usize| last.contains(&&*self.loops[*v].name);
        let (mut front, mut back) = (Vec::new(), Vec::new());
        for v in 0..count {
            if is_last(&v) { back.push(v) } else { front.push(v) }
        }
        let fits = |order: &[usize]| {
            let varied = order.iter().filter(|&&v| self.loops[v].extent > 1);
            varied.map(|&v| self.coefficient(operand, v).unwrap_or(0)).is_sorted_by(|a, b| a >= b)
        };
        let orders = [[front, back].concat(), (0..count).collect()];
        let Some(mut order) = orders.into_iter().find(|order| fits(order)) else {
            return self.sort_by(0..count, operand);
        };
        order.extend(count..self.loops.len());
        self.loops = order.iter().map(|&v| self.loops[v].clone()).collect();
        self.each_coefficients(|c| *c = order.iter().map(|&v| c[v]).collect());
    }

    /// Removes a loop, whose variable is then zero.
    pub(super) fn remove(&mut self, variable: usize) {
        self.loops.remove(variable);
        for operand in &mut self.operands {
            match &mut operand.address {
                Address::Linear { coefficients, .. } => drop(coefficients.remove(variable)),
                Address::General { index, .. } => {
                    for terms in index.iter_mut().map(|i| &mut i.terms) {
                        terms.retain(|(v, _)| *v != variable);
                        terms.iter_mut().filter(|(v, _)| *v > variable).for_each(|(v, _)| *v -= 1);
                    }
                }
            }
        }
    }

    fn each_coefficients(&mut self, mut change: impl FnMut(&mut Vec<usize>)) {
        for operand in &mut self.operands {
            if let Address::Linear { coefficients, .. } = &mut operand.address {
                change(coefficients);
            }
        }
    }

    /// The terms of every index of the addresses that are not linear.
    fn each_terms(&mut self, mut change: impl FnMut(&mut Vec<(usize, usize)>)) {
        for operand in &mut self.operands {
            if let Address::General { index, .. } = &mut operand.address {
                for index in index {
                    change(&mut index.terms);
                }
            }
        }
    }

    fn linear(&self, blocking: &Blocking, index: &[Index]) -> Option<Address> {
        let mut base = blocking.offset as isize;
        let mut coefficients = vec![0; self.loops.len()];
        for (axis, (index, &stride)) in index.iter().zip(blocking.strides.iter()).enumerate() {
            let index = &index.undivided(&self.loops)?;
            let mut blocks = blocking.inner.iter().enumerate().filter(|(_, (a, _))| *a == axis);
            let Some((position, &(_, block))) = blocks.next() else {
                // Far steps and padding may wrap: such places are outside the source and never touched.
                base = base.wrapping_add(index.shift.wrapping_mul(stride as isize));
                for &(variable, factor) in &index.terms {
                    if self.loops[variable].extent > 1 {
                        let step = factor.wrapping_mul(stride);
                        coefficients[variable] = usize::wrapping_add(coefficients[variable], step);
                    }
                }
                continue;
            };
            let inner_stride: usize = blocking.inner[position + 1..].iter().map(|&(_, b)| b).product();
            if blocks.next().is_some() || index.shift < 0 || !(index.shift as usize).is_multiple_of(block) {
                return None;
            }
            base += (index.shift as usize / block * stride) as isize;
            let mut inside = 1;
            for &(variable, factor) in &index.terms {
                let extent = self.loops[variable].extent;
                if factor.is_multiple_of(block) {
                    coefficients[variable] += factor / block * stride;
                } else if extent > 1 {
                    inside += factor * (extent - 1);
                    coefficients[variable] += factor * inner_stride;
                }
            }
            // The variables inside a block must never carry into the next one.
            if inside > block {
                return None;
            }
        }
        Some(Address::Linear { base, coefficients })
    }
}

/// The index of each dimension of an operand that broadcasts to `dims` (numpy's rule), from the indices of the result's dimensions.
pub(super) fn broadcast(operand: &MemoryDesc, dims: &Dims, index: &[Index]) -> Vec<Index> {
    let lead = dims.len() - operand.rank();
    operand
        .dims()
        .iter()
        .enumerate()
        .map(|(i, &dim)| if dim == dims[lead + i] { index[lead + i].clone() } else { Index::default() })
        .collect()
}

/// The index of each dimension of an operand that broadcasts by blocks to `dims`, from the indices of those dimensions.
pub(super) fn broadcast_by_blocks(operand: &Dims, dims: &[usize], index: &[Index]) -> Vec<Index> {
    let lead = dims.len() - operand.len();
    operand
        .iter()
        .zip(dims[lead..].iter().zip(&index[lead..]))
        .map(|(&own, (&dim, index))| match own {
            _ if own == dim => index.clone(),
            0 | 1 => Index::default(),
            _ => index.clone().by_blocks(dim / own),
        })
        .collect()
}

/// A sum of loop variables with factors and a constant, as an OpenCL C expression.
pub(super) fn linear_text(
    base: isize,
    terms: impl Iterator<Item = (usize, usize)>,
    loops: &[Loop],
) -> String {
    let mut text = String::new();
    for (variable, factor) in terms {
        // A loop of one step stays at zero.
        if factor == 0 || loops[variable].extent == 1 {
            continue;
        }
        let plus = if text.is_empty() { "" } else { " + " };
        let name = &loops[variable].name;
        let _ = match factor {
            1 => write!(text, "{plus}{name}"),
            _ => write!(text, "{plus}{name} * {}", mark(factor)),
        };
    }
    match base {
        0 if text.is_empty() => "0".into(),
        0 => format!("({text})"),
        _ if text.is_empty() => format!("({})", mark(base)),
        1.. => format!("({text} + {})", mark(base)),
        _ => format!("({text} - {})", mark(base.unsigned_abs())),
    }
}

fn general_text(blocking: &Blocking, index: &[Index], loops: &[Loop]) -> String {
    let mut rest: Vec<String> = index.iter().map(|i| i.text(loops)).collect();
    let mut text = format!("({}", mark(blocking.offset));
    let mut stride = 1;
    for &(axis, block) in blocking.inner.iter().rev() {
        if rest[axis] != "0" {
            let _ = write!(text, " + {} % {block} * {stride}", rest[axis]);
            rest[axis] = format!("({} / {block})", rest[axis]);
        }
        stride *= block;
    }
    for (index, stride) in rest.iter().zip(blocking.strides.iter()) {
        if index != "0" {
            let _ = write!(text, " + {index} * {}", mark(*stride));
        }
    }
    text + ")"
}

#[cfg(test)]
mod tests {
    use super::super::numbers::compiled;
    use super::*;

    fn space(extents: &[usize]) -> (Space, Vec<Index>) {
        let mut space = Space::default();
        let index =
            extents.iter().enumerate().map(|(i, &e)| Index::of(space.push(format!("i{i}"), e))).collect();
        (space, index)
    }

    #[test]
    fn dense_equal_layouts_merge_into_one_loop() {
        let (mut space, index) = space(&[2, 3, 4, 5]);
        let nhwc = MemoryDesc::with_tag([2, 3, 4, 5], DataType::F32, "acdb").unwrap();
        space.operand("SRC0", Binding::Arg(Arg::SRC), &nhwc, &index);
        space.operand("DST", Binding::Arg(Arg::DST), &nhwc, &index);
        space.sort_by(0..4, "DST");
        assert_eq!(space.collapse(0..4, &[]), 1);
        assert_eq!(space.loops[0].extent, 120);
        assert_eq!(space.find("DST").unwrap().address, Address::linear(vec![1]));
    }

    #[test]
    fn broadcasts_merge_where_they_repeat_alike() {
        let (mut space, index) = space(&[2, 3, 4]);
        let dims = Dims::from([2, 3, 4]);
        let vector = MemoryDesc::new([4], DataType::F32);
        space.operand("SRC0", Binding::Arg(Arg::SRC), &MemoryDesc::new(dims.clone(), DataType::F32), &index);
        space.operand("SRC1", Binding::Arg(Arg::Src(1)), &vector, &broadcast(&vector, &dims, &index));
        assert_eq!(space.collapse(0..3, &[]), 2);
        assert_eq!(space.find("SRC1").unwrap().address, Address::linear(vec![0, 1]));
    }

    #[test]
    fn blocks_share_an_element() {
        let heads = MemoryDesc::new([2, 4], DataType::F32);
        let (space, index) = space(&[6, 4]);
        let by_blocks = broadcast_by_blocks(heads.dims(), &[6, 4], &index);
        let address = space.address(&heads, &by_blocks);
        assert_eq!(compiled(&address.text(&space.loops)), "(0 + ((i0) / 3) * 4 + (i1) * 1)");
        assert_eq!((address.step(0, 1), address.step(1, 1), address.step(0, 3)), (None, Some(1), Some(0)));
        let mut pairs = Space::default();
        let (outer, inner, i1) = (pairs.push("o", 2), pairs.push("i", 3), pairs.push("i1", 4));
        let index = [Index::sum(&[(outer, 3), (inner, 1)]), Index::of(i1)];
        let by_blocks = broadcast_by_blocks(heads.dims(), &[6, 4], &index);
        assert_eq!(pairs.address(&heads, &by_blocks), Address::linear(vec![4, 0, 1]));
    }

    #[test]
    fn addresses_agree_with_the_layout() {
        let blocked = MemoryDesc::with_tag([2, 10, 3], DataType::F32, "aBc8b").unwrap();
        let (space, index) = space(&[2, 10, 3]);
        let text = compiled(&space.address(&blocked, &index).text(&space.loops));
        assert_eq!(text, "(0 + (i1) % 8 * 1 + (i0) * 48 + ((i1) / 8) * 24 + (i2) * 8)");
        assert_eq!(blocked.offset_of(&[1, 9, 2]), Some(9 % 8 + 48 + 24 + 16));
    }

    #[test]
    fn addresses_follow_loops_that_move_and_split() {
        let blocked = MemoryDesc::with_tag([10, 6], DataType::F32, "Ab8a").unwrap();
        let (mut space, index) = space(&[10, 6]);
        space.operand("SRC0", Binding::Arg(Arg::SRC), &blocked, &index);
        let text = |space: &Space| compiled(&space.operands[0].address.text(&space.loops));
        assert_eq!(text(&space), "(0 + (i0) % 8 * 1 + ((i0) / 8) * 48 + (i1) * 8)");
        space.rotate(1);
        assert_eq!(space.loops.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["i1", "i0"]);
        assert_eq!(text(&space), "(0 + (i0) % 8 * 1 + ((i0) / 8) * 48 + (i1) * 8)");
        space.split(0, "o1", 2);
        assert_eq!(text(&space), "(0 + (i0) % 8 * 1 + ((i0) / 8) * 48 + (i1 + o1 * 3) * 8)");
    }

    #[test]
    fn a_blocked_dimension_as_two_loops_is_linear() {
        let blocked = MemoryDesc::with_tag([16, 3], DataType::F32, "Ab8a").unwrap();
        let mut space = Space::default();
        let (outer, inner, i1) = (space.push("o", 2), space.push("i", 8), space.push("i1", 3));
        let index = [Index::sum(&[(outer, 8), (inner, 1)]), Index::of(i1)];
        assert_eq!(space.address(&blocked, &index), Address::linear(vec![24, 1, 8]));
        let carries = [Index::sum(&[(outer, 8), (inner, 2)]), Index::of(i1)];
        assert!(matches!(space.address(&blocked, &carries), Address::General { .. }));
    }
}
