//! A layered layout of a directed graph, after Sugiyama, Tagawa and Toda, *Methods for Visual Understanding of Hierarchical System
//! Structures* (1981): layers by longest path, order within a layer by barycentres, then coordinates.

/// The gap between two boxes of a layer, and half the gap between layers.
const GAP: f64 = 28.0;
const MARGIN: f64 = 16.0;
/// Sweeps that improve order and coordinates; small graphs settle long before.
const SWEEPS: usize = 12;

/// Where boxes and edges lie.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    /// The boxes in the order given.
    pub(super) boxes: Vec<Rect>,
    /// The points that each edge passes, from its source's lower side to its target's upper side.
    pub(super) edges: Vec<Vec<(f64, f64)>>,
}

/// A box: its upper left corner and its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Rect {
    fn centre(&self) -> f64 {
        self.x + self.width / 2.0
    }
}

/// Lays out boxes of the given sizes; every edge leads from a box to a later one.
pub(super) fn layered(sizes: &[(f64, f64)], edges: &[(usize, usize)]) -> Layout {
    let mut work = Work::new(sizes, edges);
    work.order();
    work.place();
    work.finish(sizes.len())
}

/// The boxes, and a bend for every layer that an edge passes.
struct Work {
    nodes: Vec<Rect>,
    layers: Vec<Vec<usize>>,
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    paths: Vec<Vec<usize>>,
}

impl Work {
    fn new(sizes: &[(f64, f64)], edges: &[(usize, usize)]) -> Self {
        let layer = layers(sizes.len(), edges);
        let mut nodes: Vec<Rect> =
            sizes.iter().map(|&(width, height)| Rect { x: 0.0, y: 0.0, width, height }).collect();
        let mut layers = vec![Vec::new(); layer.iter().max().map_or(0, |&last| last + 1)];
        for (node, &layer) in layer.iter().enumerate() {
            layers[layer].push(node);
        }
        let mut paths = Vec::new();
        for &(from, to) in edges {
            let mut path = vec![from];
            for passed in &mut layers[layer[from] + 1..layer[to]] {
                path.push(nodes.len());
                passed.push(nodes.len());
                nodes.push(Rect { x: 0.0, y: 0.0, width: 1.0, height: 0.0 });
            }
            path.push(to);
            paths.push(path);
        }
        let (mut above, mut below) = (vec![Vec::new(); nodes.len()], vec![Vec::new(); nodes.len()]);
        for step in paths.iter().flat_map(|path| path.windows(2)) {
            below[step[0]].push(step[1]);
            above[step[1]].push(step[0]);
        }
        Self { nodes, layers, above, below, paths }
    }

    /// Orders each layer by the mean position of the neighbours in the layer before, downwards and upwards in turn.
    fn order(&mut self) {
        let mut place = vec![0.0; self.nodes.len()];
        let number = |layer: &[usize], place: &mut [f64]| {
            for (i, &node) in layer.iter().enumerate() {
                place[node] = i as f64;
            }
        };
        self.layers.iter().for_each(|layer| number(layer, &mut place));
        for sweep in 0..SWEEPS {
            for index in sweep_order(self.layers.len(), sweep) {
                let neighbours = if sweep % 2 == 0 { &self.above } else { &self.below };
                let key =
                    |node: usize| mean(neighbours[node].iter().map(|&n| place[n])).unwrap_or(place[node]);
                let mut layer: Vec<_> = self.layers[index].iter().map(|&node| (key(node), node)).collect();
                layer.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.layers[index] = layer.into_iter().map(|(_, node)| node).collect();
                number(&self.layers[index], &mut place);
            }
        }
    }

    /// Moves every box towards its neighbours as far as the order and the gaps allow.
    fn place(&mut self) {
        let mut y = MARGIN;
        for layer in &self.layers {
            let height = layer.iter().map(|&node| self.nodes[node].height).fold(0.0, f64::max);
            for &node in layer {
                self.nodes[node].y = y + (height - self.nodes[node].height) / 2.0;
            }
            y += height + 2.0 * GAP;
        }
        for sweep in 0..SWEEPS {
            for index in sweep_order(self.layers.len(), sweep) {
                let neighbours = if sweep % 2 == 0 { &self.above } else { &self.below };
                let layer = self.layers[index].clone();
                let wanted: Vec<f64> = layer
                    .iter()
                    .map(|&node| {
                        mean(neighbours[node].iter().map(|&n| self.nodes[n].centre()))
                            .unwrap_or_else(|| self.nodes[node].centre())
                            - self.nodes[node].width / 2.0
                    })
                    .collect();
                let mut least = f64::NEG_INFINITY;
                let mut moved = 0.0;
                for (&node, &wanted) in layer.iter().zip(&wanted) {
                    let own = &mut self.nodes[node];
                    own.x = wanted.max(least);
                    least = own.x + own.width + GAP;
                    moved += own.x - wanted;
                }
                // Boxes gave way to the right only; half of that goes back on average.
                let back = moved / layer.len().max(1) as f64;
                for &node in &layer {
                    self.nodes[node].x -= back;
                }
            }
        }
        let left = self.nodes.iter().map(|n| n.x).fold(f64::INFINITY, f64::min);
        self.nodes.iter_mut().for_each(|n| n.x += MARGIN - left);
    }

    fn finish(self, boxes: usize) -> Layout {
        let nodes = &self.nodes;
        let edge = |path: &Vec<usize>| {
            let (first, last) = (path[0], path[path.len() - 1]);
            let mut points = vec![(nodes[first].centre(), nodes[first].y + nodes[first].height)];
            points.extend(path[1..path.len() - 1].iter().map(|&bend| (nodes[bend].centre(), nodes[bend].y)));
            points.push((nodes[last].centre(), nodes[last].y));
            points
        };
        let far = |end: fn(&Rect) -> f64| nodes.iter().map(end).fold(0.0, f64::max) + MARGIN;
        Layout {
            width: far(|n| n.x + n.width),
            height: far(|n| n.y + n.height),
            edges: self.paths.iter().map(edge).collect(),
            boxes: self.nodes[..boxes].to_vec(),
        }
    }
}

/// The length of the longest path to each node; a node without predecessors moves down to the first that reads it.
fn layers(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut layer = vec![0_usize; count];
    for node in 0..count {
        layer[node] =
            edges.iter().filter(|edge| edge.1 == node).map(|edge| layer[edge.0] + 1).max().unwrap_or(0);
    }
    for node in 0..count {
        if !edges.iter().any(|edge| edge.1 == node) {
            let reader = edges.iter().filter(|edge| edge.0 == node).map(|edge| layer[edge.1]).min();
            layer[node] = reader.map_or(0, |first| first.saturating_sub(1));
        }
    }
    layer
}

fn sweep_order(layers: usize, sweep: usize) -> Vec<usize> {
    if sweep.is_multiple_of(2) { (0..layers).collect() } else { (0..layers).rev().collect() }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use approx::assert_abs_diff_eq;

    use super::*;

    #[test]
    fn boxes_are_apart_and_edges_lead_down() {
        // A residual: 0 -> 1 -> 2 -> 3 with 0 -> 3 past two layers, and a side input 4 -> 5.
        let edges = [(0, 1), (1, 2), (0, 3), (2, 3), (3, 5), (4, 5)];
        let layout = layered(&[(100.0, 40.0); 6], &edges);
        for (i, a) in layout.boxes.iter().enumerate() {
            assert!(a.x >= 0.0 && a.x + a.width <= layout.width && a.y + a.height <= layout.height);
            for b in &layout.boxes[..i] {
                let apart = a.x + a.width <= b.x
                    || b.x + b.width <= a.x
                    || a.y + a.height <= b.y
                    || b.y + b.height <= a.y;
                assert!(apart, "{a:?} overlaps {b:?}");
            }
        }
        for (points, &(from, to)) in layout.edges.iter().zip(&edges) {
            assert!(points.windows(2).all(|p| p[0].1 < p[1].1), "{points:?}");
            assert_eq!(points[0], (layout.boxes[from].centre(), layout.boxes[from].y + 40.0));
            assert_eq!(points[points.len() - 1], (layout.boxes[to].centre(), layout.boxes[to].y));
        }
        assert_eq!(layout.edges[2].len(), 4, "the long edge bends at both layers that it passes");
        // The side input sits right above its reader.
        assert_abs_diff_eq!(layout.boxes[4].y, layout.boxes[3].y, epsilon = 1e-9);
    }

    #[test]
    fn nothing_takes_no_space() {
        let layout = layered(&[], &[]);
        assert!(layout.boxes.is_empty() && layout.height <= 2.0 * MARGIN);
    }
}
