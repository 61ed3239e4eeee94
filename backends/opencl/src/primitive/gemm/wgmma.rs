//! Products of f16, of bf16, of f32 where tf32 is allowed, and of integers and floats of eight bits, by the tensor cores of NVIDIA's
//! Hopper (`matmul/wgmma.cl`).

use std::fmt::Write;
use std::ops::Range;

use anydnn_backend::{DataType, Eltwise, FpMath, PostOp};

use super::shares::Shares;
use super::{Fetch, LARGE, Product, Serves};
use crate::capability::instruction::{Instruction, Multiplicand};
use crate::capability::probe::LARGE_LOCAL_BYTES;
use crate::capability::units::{DEEP, Feature, Tile};
use crate::plan::DeviceTraits;
use crate::primitive::choice::{Choices, Planned};
use crate::primitive::source::Source;
use crate::primitive::space::{Address, Operand};

const UNIT: Feature = Feature::Wgmma;
const SLICES: &str = anydnn_kernels::text("matmul/wgmma_slices.cl");
const WGMMA: &str = anydnn_kernels::text("matmul/wgmma.cl");
const JOIN: &str = anydnn_kernels::text("matmul/wgmma_join.cl");
/// Columns of a tile whose shares a work-group joins.
const JOINED_COLUMNS: usize = 32;

const LANES: usize = 8;
/// Bytes of the ring of slices: what OpenCL grants, however much there is. [`DEEP`] ones have more.
const RING_BYTES: usize = 48 << 10;
/// The most columns of a tile whose biases have registers beside its sums and what is on its way.
const OVERLAPPING_COLUMNS: usize = 128;
/// Terms of sums of 14 bits, each of whose instructions may lose the last one.
const MOST_SHORT: usize = 8192;
/// Slices of a tile up to which those of the next one come while its sums are stored although bias or taps need registers meanwhile: 4096
/// rows, columns and terms with a bias would take 1.04 of the time, 32 x 56 x 56 x 64 by 256 outputs take 0.88.
const OVERLAPPING_STEPS: usize = 16;
/// Slices of a tile from which on a group that has a unit alone pays: nothing is multiplied while it stores its sums. 32 x 56 x 56 x 64 by 256
/// outputs takes 28 us by 128 x 256, and 23 by 128 x 128.
const FEWEST_DEEP_STEPS: usize = 8;
/// Slices that must have room beside a table of terms, and what a window takes without one, as times as long.
const FEWEST_STAGES: usize = 2;
const WITHOUT_TABLE: usize = 3;

/// The most that a work-group alone takes for a slice of a window, whose rows come again for other taps: the cache has them.
const WINDOW_LATENCY: usize = 750;
/// Bytes of a line of the cache and of its sectors.
const LINE_BYTES: usize = 128;
const SECTOR_BYTES: usize = 32;
/// Clocks of a piece of a row that begins where a line does, of 64 bytes along the terms that begins elsewhere, and of up to 256 bytes along
/// the rows that begins within a sector. Fitted to 40 measurements of 14 products on an H200.
const PIECE_CLOCKS: usize = 4;
const PART_LINE_CLOCKS: usize = 6;
const PART_SECTOR_CLOCKS: usize = 5;

/// Offers the tiles, best first, where the device and the types are right.
pub(super) fn offer(product: &Product<'_>, choices: &mut Choices<'_>, device: &DeviceTraits) {
    let fits = || product.scales_wait() && product.has_vectors(LANES) && device.has(UNIT);
    let Some(instruction) = instruction(product).filter(|_| fits()) else { return };
    let bytes = instruction.factor.bytes();
    let of_type = |tile: &Tile| {
        let tile = Tile { k: tile.k * 2 / bytes, ..*tile };
        let slow = product.window.is_some()
            && fetch(product, "SRC0", bytes) == Fetch::Element
            && table_bytes(product, &tile, bytes).is_none();
        let times = if slow { WITHOUT_TABLE } else { 1 };
        if product.window.is_some() {
            let latency = tile.latency.min(WINDOW_LATENCY);
            return Tile { clocks: tile.clocks * times, latency: latency * times, ..tile };
        }
        let rows = [("SRC0", tile.m), ("WEIGHTS", tile.n)];
        let clocks: usize = rows.iter().map(|(name, rows)| rows * piece_clocks(product, name, bytes)).sum();
        Tile { clocks: tile.clocks * clocks / ((tile.m + tile.n) * PIECE_CLOCKS), ..tile }
    };
    // Elements on their way need registers, and a place for each of them.
    let is_deep = device.has(Feature::LargeLocal) && !has_elements(product, bytes);
    let pays = |tile: &Tile| product.terms() >= FEWEST_DEEP_STEPS * tile.k;
    let deep = DEEP.iter().map(of_type).filter(|tile| is_deep && pays(tile));
    let tiles: Vec<Tile> = UNIT.tiles().iter().map(of_type).chain(deep).collect();
    for (i, (tile, shares)) in product.ranked_shares(&tiles, device).into_iter().enumerate() {
        let reason = if i == 0 {
            "tensor cores, by a tile that fits the size"
        } else {
            "tensor cores, by another tile"
        };
        choices.offer(tile.variant, reason, || Some(plan(product, instruction, &tile, shares, device)));
    }
}

/// The instruction for the factors, if one takes both: integers may differ in having a sign, floats of eight bits in their kind. Sums of
/// integers must not overflow.
fn instruction(product: &Product<'_>) -> Option<&'static Instruction> {
    let [src, weights] = ["SRC0", "WEIGHTS"].map(|name| product.space.find(name).map(|o| o.data_type));
    let instruction = UNIT.instruction(src?, product.desc.attributes().fpmath)?;
    let takes = |data_type| instruction.factor.takes(data_type, product.desc.attributes().fpmath);
    let fits = match instruction.factor {
        Multiplicand::Bytes => weights.is_some_and(takes) && product.sums_integers(),
        Multiplicand::F8 => weights.is_some_and(takes) && permits_short_sums(product),
        _ => src == weights && product.desc.attributes().dequantize.is_empty(),
    };
    fits.then_some(instruction)
}

/// Whether sums of floats of eight bits may have the 14 bits that the instruction keeps: the result has fewer, or they are permitted.
fn permits_short_sums(product: &Product<'_>) -> bool {
    let result = product.desc.dst().data_type();
    let is_short = result.is_float() && result.bits() <= 16;
    // Three more bits of a result are an eighth of the terms whose errors stay below them.
    let most = if result == DataType::F16 { MOST_SHORT / 8 } else { MOST_SHORT };
    let is_permitted = product.desc.attributes().fpmath == FpMath::Any;
    (is_short && product.terms() <= most) || (is_permitted && product.terms() <= MOST_SHORT)
}

/// Whether elements of a factor come through registers.
fn has_elements(product: &Product<'_>, bytes: usize) -> bool {
    [("SRC0", &product.loops.m), ("WEIGHTS", &product.loops.n)].into_iter().any(|(name, rows)| {
        match words(product, name, rows, bytes) {
            Some(words) => words.is_odd,
            None => fetch(product, name, bytes) == Fetch::Element,
        }
    })
}

/// The launches of a tile, where there is an instruction for the factors.
#[cfg(test)]
pub(super) fn planned(
    product: &Product<'_>,
    tile: &Tile,
    shares: Shares,
    device: &DeviceTraits,
) -> Option<Planned> {
    let instruction = instruction(product)?;
    let tile = Tile { k: tile.k * 2 / instruction.factor.bytes(), ..*tile };
    Some(plan(product, instruction, &tile, shares, device))
}

/// The launches.
fn plan(
    product: &Product<'_>,
    instruction: &Instruction,
    tile: &Tile,
    shares: Shares,
    device: &DeviceTraits,
) -> Planned {
    let Shares::Last { parts, whole } = shares else {
        return plan_sums(product, instruction, tile, shares, device);
    };
    let Product { desc, ref loops, window, value, wide, .. } = *product;
    let (mut space, loops) = (product.space.clone(), loops.clone());
    space.operands.push(product.partial());
    let own = Product { desc, space, loops, window, value, wide };
    let mut planned = plan_sums(&own, instruction, tile, shares, device);
    let last = product.groups(tile) - whole;
    planned.scratchpad = last * parts * tile.m * tile.n * size_of::<f32>();
    // The same program, so that it is compiled once.
    planned.launches.extend(planned.launches.first().cloned().map(|mut launch| {
        launch.kernel = "matmul_wgmma_join".into();
        launch.global = [last * tile.m * 2, tile.n / JOINED_COLUMNS, 1];
        launch
    }));
    planned
}

/// The launches without the one that joins the shares of the last tiles.
fn plan_sums(
    product: &Product<'_>,
    instruction: &Instruction,
    tile: &Tile,
    shares: Shares,
    device: &DeviceTraits,
) -> Planned {
    let parts = if let Shares::All(parts) = shares { parts } else { 1 };
    let bytes = instruction.factor.bytes();
    let operands = [("A", "SRC0", &product.loops.m), ("B", "WEIGHTS", &product.loops.n)];
    let words = operands.map(|(_, name, rows)| words(product, name, rows, bytes));
    let fetches = [0, 1].map(|i| {
        let (letter, name, rows) = operands[i];
        let fetch = words[i].as_ref().map_or_else(|| fetch(product, name, bytes), |words| words.fetch);
        (letter, fetch, product.is_closer(name, rows))
    });
    let by_terms = fetches.iter().any(|&(letter, fetch, _)| letter == "A" && fetch == Fetch::Terms);
    let taps = product.taps("SRC0", tile.k).filter(|_| by_terms);
    let rows = || product.loops.m.clone();
    let is_same = |v| product.space.find("BIAS").is_some_and(|bias| bias.address.step(v, 1) == Some(0));
    let bias_by_column = rows().all(is_same);
    let is_short =
        product.terms().div_ceil(tile.k * parts) <= OVERLAPPING_STEPS && tile.n <= OVERLAPPING_COLUMNS;
    // Numbers of large ones are worth a program for each shape at once. A table has numbers that the compiler must know.
    let has_numbers = table_bytes(product, tile, bytes).is_some();
    let is_plain = product.desc.attributes().dequantize.is_empty() && product.space.is_linear();
    let is_small = product.operations() < LARGE && !tile.is_deep() && !matches!(shares, Shares::Last { .. });
    let for_all = is_small && is_plain && !has_numbers;
    // Of one tap that always exists there is nothing to know beside how far terms are apart.
    let taps = taps.filter(|(_, taps, _)| !for_all || *taps > 1 || product.stride("SRC0").is_none());
    product.plan(
        (tile, parts),
        (LANES, if for_all { Serves::Shapes } else { Serves::OneShape }),
        &product.loops.k.clone().collect::<Vec<_>>(),
        device,
        |source| {
            let stage = (tile.m + tile.n) * tile.k * bytes;
            let table = table_bytes(product, tile, bytes);
            let ring = if tile.is_deep() { LARGE_LOCAL_BYTES } else { RING_BYTES };
            let stages = (ring - table.unwrap_or(0)) / stage;
            if tile.is_deep() {
                source.define("LOCAL_BYTES", format_args!("\"{}\"", stages * stage));
            }
            let pairs = pairs(product, bytes).filter(|_| table.is_some());
            if table.is_some() {
                source.define("A_TABLE", 1);
            }
            if let Some(Pairs { terms, lead, unit, width }) = pairs {
                source
                    .define("A_PAIRS", (lead + terms).div_ceil(2))
                    .define("PAIR_TERMS", terms)
                    .define("PAIR_LEAD", lead)
                    .define("PAIR_UNIT", unit)
                    .define("PAIR_WIDTH", width);
            }
            // Elements on their way need registers.
            let elements = fetches.iter().any(|(_, fetch, _)| *fetch == Fetch::Element)
                || words.iter().flatten().any(|words| words.is_odd);
            let resident =
                if elements && !tile.is_deep() { (tile.resident / 2).max(2) } else { tile.resident };
            source
                .define("FOR_ALL", i32::from(for_all))
                .number_of("BATCHES", product.space.count(product.loops.batch.clone()))
                .number_of("OVERLAPS", i32::from(is_short || (taps.is_none() && !bias_by_column)))
                .define("BYTES", bytes)
                .define("STAGES", stages)
                .define("LAG", i32::from(tile.is_deep()))
                .define("RESIDENT", format_args!("\"{resident}\""));
            if let Shares::Last { parts, whole } = shares {
                source.define("LAST_PARTS", parts).define("WHOLE_TILES", whole);
            }
            for (letter, words) in ["A", "B"].iter().zip(&words) {
                if let Some(Words { line, is_odd, .. }) = words {
                    source
                        .define(format_args!("{letter}_WORDS"), 1)
                        .define(format_args!("{letter}_ODD"), i32::from(*is_odd))
                        .number_of(format_args!("{letter}_LINE"), *line);
                }
            }
            for (letter, fetch, closer) in fetches {
                let how = match fetch {
                    Fetch::Terms => "BY_TERMS",
                    Fetch::Rows => "BY_ROWS",
                    Fetch::Element => "BY_ELEMENT",
                };
                source
                    .define(format_args!("{letter}_FETCH"), how)
                    .define(format_args!("{letter}_ROWS_FIRST"), i32::from(closer));
            }
            let result = product.desc.dst().data_type();
            source.define("HALF_RESULT", i32::from(result.is_float() && result.bits() == 16));
            if let Some(name) = packed_result(product) {
                source.define("PACKED_RESULT", format_args!("\"{name}\""));
            }
            let is_gelu = |post_op: &PostOp| matches!(post_op, PostOp::Eltwise(Eltwise::GeluErf));
            if product.desc.attributes().post_ops.iter().any(is_gelu) {
                source.define("USES_GELU_ERF", 1);
            }
            for (letter, name) in [("A", "SRC0"), ("B", "WEIGHTS")] {
                // Places of terms that do not exist keep terms from being as far apart.
                if let Some(stride) = product.stride(name).filter(|_| pairs.is_none()) {
                    source.number_of(format_args!("{letter}_STRIDE"), stride * bytes);
                }
            }
            if bias_by_column && !(for_all && parts > 1) {
                source.define("BIAS_BY_COLUMN", 1);
            }
            if let Some((channels, taps, offset)) = taps {
                source.number_of("A_CHANNELS", channels).define("A_TAPS", taps).define("OFF_TAP", offset);
            }
            source
                .define("INTEGERS", i32::from(instruction.sum == DataType::S32))
                .define("SCALED", i32::from(!product.desc.attributes().dequantize.is_empty()))
                .define("EXACT", i32::from(product.is_exact()));
            let types = ["SRC0", "WEIGHTS"].map(|name| product.space.find(name).map(|o| o.data_type));
            define_instructions(source, tile.n, instruction, types);
        },
        |source, files, [tiles, batch, parts]| {
            let mut files = [files, &[SLICES, WGMMA]].concat();
            let group = tile.m * 2;
            let mut groups = tiles.saturating_mul(batch);
            if let Shares::Last { parts, whole } = shares {
                files.push(JOIN);
                groups = whole + (groups - whole) * parts;
            }
            // Each group takes several tiles where there are more than the device holds.
            let groups = groups.min(device.compute_units.max(1) * tile.resident);
            let global = [groups * group, 1, parts];
            let mut launch = source.launch("matmul_wgmma", &files, global, Some([group, 1, 1]));
            launch.alignment = 16;
            launch
        },
    )
}

/// The clocks of a factor's pieces, by where its rows begin.
fn piece_clocks(product: &Product<'_>, name: &str, bytes: usize) -> usize {
    let Some(operand) = product.space.find(name) else { return PIECE_CLOCKS };
    let begins = |loops: &Range<usize>, grain: usize| {
        loops.clone().any(|v| operand.address.is_aligned(v, (grain / bytes).max(1)))
    };
    let rows = if name == "SRC0" { &product.loops.m } else { &product.loops.n };
    if begins(&product.loops.k, 1) {
        if begins(&product.loops.k, LINE_BYTES) { PIECE_CLOCKS } else { PART_LINE_CLOCKS }
    } else if begins(rows, SECTOR_BYTES) {
        PIECE_CLOCKS
    } else {
        PART_SECTOR_CLOCKS
    }
}

/// The type of a result of 16 bits whose vectors lie at multiples of their length, as instructions call it.
fn packed_result(product: &Product<'_>) -> Option<&'static str> {
    let lies_in_vectors = |dst: &&Operand| dst.address.is_aligned(product.loops.n.start, LANES);
    let dst = product.space.find("DST").filter(lies_in_vectors)?;
    match dst.data_type {
        DataType::F16 => Some("f16"),
        DataType::BF16 => Some("bf16"),
        _ => None,
    }
}

/// How an operand of elements of so many bytes comes.
fn fetch(product: &Product<'_>, name: &str, bytes: usize) -> Fetch {
    let rows = if name == "SRC0" { &product.loops.m } else { &product.loops.n };
    match product.fetch(name, rows, 16 / bytes, true) {
        // Only elements of two bytes may lie along the rows.
        Fetch::Rows if bytes != 2 => Fetch::Element,
        fetch => fetch,
    }
}

/// How an operand comes in words of four bytes.
struct Words {
    fetch: Fetch,
    /// Bytes from a line to the next.
    line: usize,
    /// Whether a line may begin within a word.
    is_odd: bool,
}

/// The words of a product's operand of two bytes whose lines are no multiples of 16 bytes apart.
fn words(product: &Product<'_>, name: &str, rows: &Range<usize>, bytes: usize) -> Option<Words> {
    let is_window = product.window.is_some();
    if bytes != 2 || (is_window && name == "SRC0") || fetch(product, name, bytes) != Fetch::Element {
        return None;
    }
    let by = |grain: usize| product.fetch_aligned(name, rows, 16 / bytes, true, grain);
    let fetch = by(1);
    let along = match fetch {
        Fetch::Terms => rows,
        Fetch::Rows => &product.loops.k,
        Fetch::Element => return None,
    };
    // The terms of a window's weights are those of several loops.
    let step = match fetch {
        Fetch::Rows if is_window => product.stride(name)?,
        _ => product.space.coefficient(name, along.start).filter(|_| along.len() == 1)?,
    };
    let line = step * bytes;
    Some(Words { fetch, line, is_odd: by(2) != fetch })
}

/// The bytes of a table of a window's terms, which has two numbers for each; none where elements do not come one by one along the terms, taps
/// do not fit into bits or the table does not fit beside the slices.
fn table_bytes(product: &Product<'_>, tile: &Tile, bytes: usize) -> Option<usize> {
    let window = product.window.filter(|window| !window.transposed && !product.wide)?;
    let is_plane = window.kernel.iter().rev().skip(2).all(|&taps| taps == 1)
        && window.src.iter().rev().skip(2).all(|&extent| extent == 1);
    let has_bits = window.kernel.iter().all(|&taps| taps < u32::BITS as usize);
    let by_terms =
        fetch(product, "SRC0", bytes) == Fetch::Element && !product.is_closer("SRC0", &product.loops.m);
    let table = places(product, bytes).next_multiple_of(tile.k) * 2 * size_of::<i32>();
    let fits = FEWEST_STAGES * (tile.m + tile.n) * tile.k * bytes + table <= RING_BYTES;
    (is_plane && has_bits && by_terms && fits && has_parts(product)).then_some(table)
}

/// Whether an element's place in the source is a part of its row and one of its term: no blocked dimension has its index from both.
fn has_parts(product: &Product<'_>) -> bool {
    let Some(source) = product.space.find("SRC0") else { return false };
    let Address::General { blocking, index } = &source.address else { return true };
    blocking.inner.iter().all(|&(axis, _)| {
        let varying = index[axis].terms.iter().filter(|(v, _)| product.space.loops[*v].extent > 1);
        let mut of_terms = varying.map(|(v, _)| product.loops.k.contains(v));
        let first = of_terms.next();
        of_terms.all(|other| Some(other) == first)
    })
}

/// How elements of a window that are neighbours along its width come, two at a time.
#[derive(Clone, Copy, Debug)]
struct Pairs {
    /// The terms of a line of neighbours.
    terms: usize,
    /// Whether the first pair begins one element before them, so that all begin at multiples of two.
    lead: usize,
    /// Elements from a tap to the next.
    unit: usize,
    /// Elements between the edges.
    width: usize,
}

/// The pairs of a window's source of two bytes an element, where each lies within a word and no edge is within one.
fn pairs(product: &Product<'_>, bytes: usize) -> Option<Pairs> {
    let window = product.window.filter(|window| !window.transposed && bytes == 2)?;
    let Address::Linear { base, coefficients } = &product.space.find("SRC0")?.address else { return None };
    let (k, loops) = (&product.loops.k, &product.space.loops);
    let named = |v: usize, name: &str| k.contains(&v) && loops[v].name == name;
    let last = k.end - 1;
    let (taps, unit) = if named(last, "kw") {
        (last, 1)
    } else if named(last, "c") && named(last.checked_sub(1)?, "kw") {
        (last - 1, loops[last].extent)
    } else {
        return None;
    };
    let along = window.src.len() - 1;
    let (stride, pad) = (window.strides[along] * unit, window.pads_begin[along] * unit);
    let pairs =
        Pairs { terms: loops[taps].extent * unit, lead: pad % 2, unit, width: window.src[along] * unit };
    let others = (0..coefficients.len()).filter(|&v| loops[v].extent > 1 && !(taps..k.end).contains(&v));
    let are_neighbours = coefficients[last] == 1 && coefficients[taps] == unit;
    let are_words = (*base - pairs.lead as isize) % 2 == 0
        && others.map(|v| coefficients[v]).all(|c| c.is_multiple_of(2))
        && stride.is_multiple_of(2)
        && pairs.width.is_multiple_of(2);
    // Pairs of the weights' terms need not be neighbours.
    let is_open = fetch(product, "WEIGHTS", bytes) != Fetch::Terms;
    let has_bits = (pairs.lead + pairs.terms).div_ceil(2) < u32::BITS as usize;
    (are_neighbours && are_words && is_open && has_bits).then_some(pairs)
}

/// The places of a window's terms in its slices: pairs have some that no term takes.
fn places(product: &Product<'_>, bytes: usize) -> usize {
    pairs(product, bytes).map_or(product.terms(), |Pairs { terms, lead, .. }| {
        product.terms() / terms * (lead + terms).next_multiple_of(2)
    })
}

/// Defines the instructions that name every register of the sums.
fn define_instructions(
    source: &mut Source,
    columns: usize,
    instruction: &Instruction,
    types: [Option<DataType>; 2],
) {
    let count = columns / 2;
    let is_integer = instruction.sum == DataType::S32;
    let register = if is_integer { "r" } else { "f" };
    let (mut names, mut registers) = (String::new(), String::new());
    for i in 0..count {
        let comma = if i > 0 { ", " } else { "" };
        let _ = write!(names, "{comma}%{i}");
        let _ = write!(registers, "{comma}\"+{register}\"(sums[{i}])");
    }
    let (a, b) = (count, count + 1);
    let (bytes, terms) = (instruction.factor.bytes(), instruction.k);
    let name = |data_type: Option<DataType>| match data_type {
        Some(DataType::U8) => "u8",
        Some(DataType::S8) => "s8",
        Some(DataType::F8E4M3) => "e4m3",
        Some(DataType::F8E5M2) => "e5m2",
        _ => instruction.factor.name(),
    };
    let kinds = format!("{}.{}.{}", instruction.sum, name(types[0]), name(types[1]));
    // That both operands are added as they are; only elements of two bytes may lie along the rows.
    let signs = if is_integer { "" } else { ", 1, 1" };
    let order = if bytes == 2 { ", \" A_BY_ROWS \", \" B_BY_ROWS \"" } else { "" };
    source
        .define(
            "WGMMA(a, b)",
            format!(
                "asm volatile(SM90A \"wgmma.mma_async.sync.aligned.m64n{columns}k{terms}.{kinds} \
                 {{{names}}}, %{a}, %{b}, 1{signs}{order};\" : {registers} : \"l\"(a), \"l\"(b))"
            ),
        )
        .define(
            "WGMMA_WAIT",
            format!("asm volatile(SM90A \"wgmma.wait_group.sync.aligned 0;\" : {registers} :: \"memory\")"),
        );
}
