//! Weights in blocks along the terms, a scale and a zero point for each, after the reference of ONNX Runtime's domain `com.microsoft`.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::floats;
use super::fused::sum;
use crate::graph::{Attrs, OpKind, normalize_axis};
use crate::model::HostTensor;

/// Numbers in blocks, row by row.
struct Blocks {
    /// Rows, and numbers of each.
    rows: usize,
    terms: usize,
    block: usize,
    numbers: Vec<u8>,
    /// One for each block of a row.
    scales: Vec<f64>,
    points: Vec<f64>,
}

impl Blocks {
    fn per_row(&self) -> usize {
        self.terms.div_ceil(self.block)
    }

    /// The floats, of each term in the block that `block_of` says.
    fn floats(&self, block_of: impl Fn(usize) -> usize) -> Vec<f32> {
        let mut made = Vec::with_capacity(self.rows * self.terms);
        for (row, numbers) in self.numbers.chunks(self.terms.max(1)).enumerate() {
            for (term, &number) in numbers.iter().enumerate() {
                let at = row * self.per_row() + block_of(term);
                made.push(((f64::from(number) - self.points[at]) * self.scales[at]) as f32);
            }
        }
        made
    }
}

/// `MatMulNBits`: weights of two, four or eight bits. Whole blocks in order go to the device as they are; parts of blocks, an order of
/// groups, zero points that are no integers and numbers of two bits as floats.
pub(super) fn matmul(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let size = |name: &str, least: i64| match node.int(name, 0)? {
        size if size >= least => Ok(size as usize),
        size => Err(node.invalid(&format!("attribute {name}"), size, format!("at least {least}"))),
    };
    let (terms, columns, block) = (size("K", 1)?, size("N", 1)?, size("block_size", 16)?);
    let bits = bits_of(node)?;
    let per_row = terms.div_ceil(block);
    let packed = known(network, node, 1, "weights")?;
    let numbers = unpacked(node, packed, bits, [columns, per_row * block])?;
    // The rest of a last block is no term.
    let rows = numbers.chunks(per_row * block);
    let numbers = rows.flat_map(|row| row[..terms].iter().copied()).collect();
    let scales = known(network, node, 2, "scales")?.to_f64s();
    let mut has_floats = false;
    let points = match node.optional(3) {
        None => vec![f64::from(1 << (bits - 1)); columns * per_row],
        Some(points) if points.data_type == DataType::U8 => {
            let points = unpacked(node, known(network, node, 3, "zero points")?, bits, [columns, per_row])?;
            points.into_iter().map(f64::from).collect()
        }
        Some(_) => {
            has_floats = true;
            known(network, node, 3, "zero points")?.to_f64s()
        }
    };
    for (what, given) in [("number of scales", scales.len()), ("number of zero points", points.len())] {
        if given != columns * per_row {
            return Err(node.invalid(what, given, format!("{columns} times {per_row}")));
        }
    }
    let blocks = Blocks { rows: columns, terms, block, numbers, scales, points };
    let groups = match node.optional(4) {
        None => None,
        Some(order) => {
            let order = super::known_ints(network, node, order, "groups")?;
            let fits = order.len() >= terms && order.iter().all(|group| (0..per_row as i64).contains(group));
            if !fits {
                let expected = format!("{terms}, each below {per_row}");
                return Err(node.invalid("groups", order.len(), expected));
            }
            Some(order)
        }
    };
    let product = if has_floats || bits == 2 || groups.is_some() || !terms.is_multiple_of(block) {
        let block_of = |term: usize| groups.as_ref().map_or(term / block, |groups| groups[term] as usize);
        let dims = Dims::from([columns, terms]);
        let weights =
            network.computed(&format!("{}/weights", node.name()), dims, &blocks.floats(block_of))?;
        let weights = network.converted(node, &weights, src.data_type)?;
        network.op(node, OpKind::MatMul, &[src, &weights], Attrs::new().with("transpose_b", true))?
    } else {
        let weights = dequantized(network, node, &blocks, bits, src.data_type)?;
        network.op(node, OpKind::MatMul, &[src, &weights], Attrs::new())?
    };
    Ok(vec![sum(network, node, &[Some(&product), node.optional(5)])?])
}

/// The weights `[terms, columns]` of whole blocks, dequantised where the device reads them. In the file a column lies in a row.
fn dequantized(
    network: &mut Network,
    node: &Node,
    blocks: &Blocks,
    bits: usize,
    data_type: DataType,
) -> Result<Value> {
    let (columns, per_row) = (blocks.rows, blocks.per_row());
    let turned = |values: &[f64], rows: usize, data_type| {
        let turned: Vec<f64> = (0..rows)
            .flat_map(|row| (0..columns).map(move |column| (row, column)))
            .map(|(row, column)| values[column * rows + row])
            .collect();
        HostTensor::from_f64([rows, columns], data_type, &turned)
    };
    let whole = if bits == 4 { DataType::U4 } else { DataType::U8 };
    let numbers: Vec<f64> = blocks.numbers.iter().map(|&number| f64::from(number)).collect();
    let constants = [
        ("weights", turned(&numbers, blocks.terms, whole)?),
        ("scales", turned(&blocks.scales, per_row, DataType::F32)?),
        ("points", turned(&blocks.points, per_row, whole)?),
    ];
    let mut operands = Vec::with_capacity(3);
    for (name, tensor) in constants {
        operands.push(network.constant(&format!("{}/{name}", node.name()), tensor)?);
    }
    let operands: Vec<&Value> = operands.iter().collect();
    let attrs = Attrs::new().with("qtype", "per_group").with("group_shape", vec![blocks.block as i64, 1]);
    network.op_to(node, OpKind::DynamicDequantize, &operands, attrs, Some(data_type))
}

/// `GatherBlockQuantized`: rows of a table in blocks along the last dimension, which becomes floats when the model is imported.
pub(super) fn gather(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let table = node.input(0)?;
    let bits = match table.data_type {
        DataType::U8 => bits_of(node)?,
        DataType::U4 | DataType::S4 => 4,
        other => return Err(node.unsupported(format!("tables of {other} are not read"))),
    };
    let rank = table.rank();
    let axis = normalize_axis(node.int("gather_axis", 0)?, rank)?;
    let along = normalize_axis(node.int("quantize_axis", 1)?, rank)?;
    if axis != 0 || along + 1 != rank || rank < 2 {
        return Err(
            node.unsupported("only blocks along the last dimension, and indices of the first, are read")
        );
    }
    let block = usize::try_from(node.int("block_size", 128)?).unwrap_or(0);
    let whole = known(network, node, 0, "tables")?;
    let rows = Dims::new(&table.dims[..along]).elements();
    let terms =
        if table.data_type == DataType::U8 { table.dims[along] * 8 / bits } else { table.dims[along] };
    if block == 0 {
        return Err(node.invalid("attribute block_size", block, "at least 16"));
    }
    let is_signed = table.data_type == DataType::S4;
    let read = |tensor: &HostTensor, count: usize| -> Result<Vec<u8>> {
        if tensor.data_type() == DataType::U8 {
            return unpacked(node, tensor, bits, [rows, count]);
        }
        // Numbers below zero as such of bytes, whose points move by as much.
        Ok(tensor.to_f64s().iter().map(|&value| (value + if is_signed { 8.0 } else { 0.0 }) as u8).collect())
    };
    let per_row = terms.div_ceil(block);
    let points: Vec<f64> = if node.optional(3).is_some() {
        let points = read(known(network, node, 3, "zero points")?, per_row)?;
        points.into_iter().map(f64::from).collect()
    } else {
        let point = match table.data_type {
            DataType::U8 => f64::from(1 << (bits - 1)),
            DataType::S4 => 8.0,
            _ => 0.0,
        };
        vec![point; rows * per_row]
    };
    let scales = known(network, node, 2, "scales")?.to_f64s();
    for (what, given) in [("number of scales", scales.len()), ("number of zero points", points.len())] {
        if given != rows * per_row {
            return Err(node.invalid(what, given, format!("{rows} times {per_row}")));
        }
    }
    let blocks = Blocks { rows, terms, block, numbers: read(whole, terms)?, scales, points };
    let mut dims = table.dims.clone();
    dims[along] = terms;
    let floats = blocks.floats(|term| term / block);
    let table = network.computed(&format!("{}/table", node.name()), dims, &floats)?;
    let table = network.converted(node, &table, node.input(2)?.data_type)?;
    let attrs = Attrs::new().with("mode", "axis").with("axis", 0_i64);
    Ok(vec![network.op(node, OpKind::Gather, &[&table, node.input(1)?], attrs)?])
}

fn bits_of(node: &Node) -> Result<usize> {
    match node.int("bits", 4)? {
        bits @ (2 | 4 | 8) => Ok(bits as usize),
        other => Err(node.unsupported(format!("weights of {other} bits are not read"))),
    }
}

/// An input that must be known when the model is imported.
fn known<'a>(network: &'a Network, node: &Node, index: usize, what: &str) -> Result<&'a HostTensor> {
    let why = || node.unsupported(format!("{what} that are given on execution are not read"));
    network.known(node.input(index)?).ok_or_else(why)
}

/// Numbers of a few bits, those of each row in bytes of its own, low bits first.
fn unpacked(node: &Node, packed: &HostTensor, bits: usize, [rows, count]: [usize; 2]) -> Result<Vec<u8>> {
    let whole = 8 / bits;
    let line = count.div_ceil(whole);
    if packed.bytes().len() != rows * line {
        let expected = format!("{} for {rows} rows", rows * line);
        return Err(node.invalid("bytes", packed.bytes().len(), expected));
    }
    let mask = u8::MAX >> (8 - bits);
    let number = |row: &[u8], at: usize| row[at / whole] >> (bits * (at % whole)) & mask;
    let rows = packed.bytes().chunks(line.max(1));
    Ok(rows.flat_map(|row| (0..count).map(move |at| number(row, at))).collect())
}
