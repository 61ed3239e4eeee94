//! Images read at places between their elements.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::floats;
use super::indexing::part;
use crate::graph::{Attrs, OpKind};
use crate::model::HostTensor;

/// Elements of all images that floats count without loss.
const MOST_ELEMENTS: usize = 1 << 24;

/// `GridSample` by nearest and linear neighbours: for each corner of a place the elements of all channels, which lie side by side, are gathered,
/// weighed and added.
pub(super) fn grid_sample(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (src, grid) = (floats(node, 0)?, floats(node, 1)?);
    let rank = src.rank().saturating_sub(2);
    let fits = rank > 0
        && grid.rank() == rank + 2
        && grid.dims[0] == src.dims[0]
        && grid.dims[rank + 1] == rank
        && src.dims.elements() > 0;
    if !fits {
        return Err(node.invalid("grid", &grid.dims, format!("places in the images of {}", src.dims)));
    }
    let mode = node.word("mode", "linear")?;
    let nearest = match mode.as_str() {
        "nearest" => true,
        "linear" | "bilinear" => false,
        other => return Err(node.unsupported(format!("neighbours of the mode {other:?} are not read"))),
    };
    let border = match node.word("padding_mode", "zeros")?.as_str() {
        "zeros" => false,
        "border" => true,
        other => return Err(node.unsupported(format!("the padding {other:?} is not read"))),
    };
    let (batch, channels, image) = (src.dims[0], src.dims[1], &src.dims[2..]);
    let (size, points) = (image.iter().product::<usize>(), grid.dims[1..=rank].iter().product::<usize>());
    let is_single = [src, grid].iter().all(|value| value.data_type == DataType::F32);
    if !is_single || batch.saturating_mul(size) > MOST_ELEMENTS || points == 0 || rank > 3 {
        return Err(node.unsupported(format!("images of {} are not read here", src.dims)));
    }
    let grid = network.reshape(node, grid, Dims::from([batch, points, rank]))?;
    let aligned = node.flag("align_corners", false)?;
    // The corners that count: their indices, weights and whether they lie in the image, one dimension after the other.
    let mut corners = vec![Corner::first(network, node, batch, size)?];
    let mut stride = size;
    for (d, &extent) in image.iter().enumerate() {
        stride /= extent;
        let given = part(network, node, &grid, 2, rank - 1 - d, 1)?;
        let given = network.reshape(node, &given, Dims::from([batch, points]))?;
        let mut at = located(network, node, &given, extent, aligned)?;
        if border {
            at = clamped(network, node, &at, extent)?;
        }
        let own = neighbours(network, node, &at, nearest)?;
        let mut next = Vec::with_capacity(corners.len() * own.len());
        for corner in &corners {
            for neighbour in &own {
                next.push(corner.along(network, node, neighbour, [extent, stride], border)?);
            }
        }
        corners = next;
    }
    let order = Attrs::new().with("order", vec![0_i64, 2, 1]);
    let table = network.reshape(node, src, Dims::from([batch, channels, size]))?;
    let table = network.op(node, OpKind::StaticTranspose, &[&table], order.clone())?;
    let table = network.reshape(node, &table, Dims::from([batch * size, channels]))?;
    let mut sum: Option<Value> = None;
    for corner in &corners {
        let part = corner.weighed(network, node, &table, batch * points)?;
        sum = Some(match sum {
            Some(sum) => network.op(node, OpKind::Add, &[&sum, &part], Attrs::new())?,
            None => part,
        });
    }
    let sum = sum.ok_or_else(|| node.unsupported("no corners"))?;
    let sum = network.reshape(node, &sum, Dims::from([batch, points, channels]))?;
    let sum = network.op(node, OpKind::StaticTranspose, &[&sum], order)?;
    let dims = Dims::from([&src.dims[..2], &node.input(1)?.dims[1..=rank]].concat());
    Ok(vec![network.reshape(node, &sum, dims)?])
}

/// The places along a dimension that numbers from -1 to 1 mean.
fn located(network: &mut Network, node: &Node, given: &Value, extent: usize, aligned: bool) -> Result<Value> {
    let mut step = |kind, value: &Value, number: f64| {
        let number = network.scalar(node, number, value)?;
        network.op(node, kind, &[value, &number], Attrs::new())
    };
    let from_zero = step(OpKind::Add, given, 1.0)?;
    if aligned {
        let half = step(OpKind::Multiply, &from_zero, 0.5)?;
        return step(OpKind::Multiply, &half, extent as f64 - 1.0);
    }
    let twice = step(OpKind::Multiply, &from_zero, extent as f64)?;
    let less = step(OpKind::Subtract, &twice, 1.0)?;
    step(OpKind::Multiply, &less, 0.5)
}

fn clamped(network: &mut Network, node: &Node, at: &Value, extent: usize) -> Result<Value> {
    let limits = Attrs::new().with("min", 0.0_f32).with("max", extent as f32 - 1.0);
    network.op(node, OpKind::Clamp, &[at], limits)
}

/// The neighbours of places along a dimension, each with its weight; a single one has none.
fn neighbours(
    network: &mut Network,
    node: &Node,
    at: &Value,
    nearest: bool,
) -> Result<Vec<(Value, Option<Value>)>> {
    if nearest {
        return Ok(vec![(network.op(node, OpKind::Round, &[at], Attrs::new())?, None)]);
    }
    let low = network.op(node, OpKind::Floor, &[at], Attrs::new())?;
    let one = network.scalar(node, 1.0, at)?;
    let rest = network.op(node, OpKind::Subtract, &[at, &low], Attrs::new())?;
    let other = network.op(node, OpKind::Subtract, &[&one, &rest], Attrs::new())?;
    let high = network.op(node, OpKind::Add, &[&low, &one], Attrs::new())?;
    Ok(vec![(low, Some(other)), (high, Some(rest))])
}

/// A corner of each place, `[batch, points]`.
struct Corner {
    /// The element in all images.
    index: Value,
    weight: Option<Value>,
    /// Whether it lies in its image; none where all do.
    is_inside: Option<Value>,
}

impl Corner {
    /// The first element of each image.
    fn first(network: &mut Network, node: &Node, batch: usize, size: usize) -> Result<Self> {
        let starts: Vec<f64> = (0..batch).map(|image| (image * size) as f64).collect();
        let starts = HostTensor::from_f64([batch, 1], DataType::F32, &starts)?;
        let index = network.constant(&format!("{}/images", node.name()), starts)?;
        Ok(Self { index, weight: None, is_inside: None })
    }

    /// The same with a neighbour along one more dimension of so many elements, which are so far apart.
    fn along(
        &self,
        network: &mut Network,
        node: &Node,
        (place, weight): &(Value, Option<Value>),
        [extent, stride]: [usize; 2],
        border: bool,
    ) -> Result<Self> {
        let within = clamped(network, node, place, extent)?;
        let mut is_inside = self.is_inside.clone();
        if !border {
            let own = network.op(node, OpKind::Equal, &[place, &within], Attrs::new())?;
            is_inside = Some(match &is_inside {
                Some(others) => network.op(node, OpKind::And, &[others, &own], Attrs::new())?,
                None => own,
            });
        }
        let stride = network.scalar(node, stride as f64, &within)?;
        let further = network.op(node, OpKind::Multiply, &[&within, &stride], Attrs::new())?;
        let index = network.op(node, OpKind::Add, &[&further, &self.index], Attrs::new())?;
        let weight = match (&self.weight, weight) {
            (Some(others), Some(own)) => {
                Some(network.op(node, OpKind::Multiply, &[others, own], Attrs::new())?)
            }
            (others, own) => others.as_ref().or(own.as_ref()).cloned(),
        };
        Ok(Self { index, weight, is_inside })
    }

    /// The corner's elements of a table `[elements, channels]`, weighed, for all places.
    fn weighed(&self, network: &mut Network, node: &Node, table: &Value, places: usize) -> Result<Value> {
        let index = network.converted(node, &self.index, DataType::S32)?;
        let index = network.reshape(node, &index, Dims::from([places]))?;
        let attrs = Attrs::new().with("mode", "axis").with("axis", 0_i64);
        let mut made = network.op(node, OpKind::Gather, &[table, &index], attrs)?;
        let column = Dims::from([places, 1]);
        if let Some(weight) = &self.weight {
            let weight = network.reshape(node, weight, column.clone())?;
            made = network.op(node, OpKind::Multiply, &[&made, &weight], Attrs::new())?;
        }
        // Nothing of what lies outside, whatever is read in its place.
        if let Some(is_inside) = &self.is_inside {
            let is_inside = network.reshape(node, is_inside, column)?;
            let zero = network.scalar(node, 0.0, &made)?;
            made = network.op(node, OpKind::Select, &[&is_inside, &made, &zero], Attrs::new())?;
        }
        Ok(made)
    }
}
