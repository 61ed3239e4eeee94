//! The picture as a scalable vector graphic.

use std::fmt::Write;

use super::layout::{Rect, layered};
use super::picture::{Picture, colour};

const FONT: f64 = 12.0;
const LINE: f64 = 16.0;
const PADDING: f64 = 10.0;
/// The mean width of a character of a sans-serif font, as a part of its size.
const CHARACTER: f64 = 0.58;

/// The text of an SVG file: a box for each operation in its partition's colour.
pub(super) fn render(picture: &Picture) -> String {
    let sizes: Vec<_> = picture
        .nodes
        .iter()
        .map(|node| {
            let longest = node.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            (longest as f64 * FONT * CHARACTER + 2.0 * PADDING, node.lines.len() as f64 * LINE + PADDING)
        })
        .collect();
    let edges: Vec<_> = picture.edges.iter().map(|edge| (edge.from, edge.to)).collect();
    let layout = layered(&sizes, &edges);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0}\" height=\"{1:.0}\" viewBox=\"0 0 {0:.0} {1:.0}\" \
         font-family=\"Helvetica, Arial, sans-serif\" font-size=\"{FONT}\">",
        layout.width.ceil(),
        layout.height.ceil()
    );
    text += "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
             orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 Z\" fill=\"#555\"/></marker></defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
    for (points, edge) in layout.edges.iter().zip(&picture.edges) {
        let _ = writeln!(
            text,
            "<path d=\"{}\" fill=\"none\" stroke=\"#555\" marker-end=\"url(#arrow)\"><title>{}</title></path>",
            curve(points),
            escaped(&edge.label)
        );
    }
    for (node, rect) in picture.nodes.iter().zip(&layout.boxes) {
        draw(&mut text, rect, &node.lines, &colour(node.partition), &node.note);
    }
    text + "</svg>\n"
}

fn draw(text: &mut String, rect: &Rect, lines: &[String], fill: &str, note: &str) {
    let _ = write!(
        text,
        "<g><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"5\" fill=\"{fill}\" stroke=\"#333\"/>",
        rect.x, rect.y, rect.width, rect.height
    );
    for (index, line) in lines.iter().enumerate() {
        let weight = if index == 0 { " font-weight=\"bold\"" } else { "" };
        let _ = write!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\"{weight}>{}</text>",
            rect.x + rect.width / 2.0,
            rect.y + PADDING / 2.0 + LINE * index as f64 + FONT,
            escaped(line)
        );
    }
    if !note.is_empty() {
        let _ = write!(text, "<title>{}</title>", escaped(note));
    }
    *text += "</g>\n";
}

/// A path through the points that leaves and enters each of them vertically.
fn curve(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (index, &(x, y)) in points.iter().enumerate() {
        if index == 0 {
            let _ = write!(path, "M{x:.1} {y:.1}");
        } else {
            let (x0, y0) = points[index - 1];
            let middle = f64::midpoint(y0, y);
            let _ = write!(path, " C{x0:.1} {middle:.1} {x:.1} {middle:.1} {x:.1} {y:.1}");
        }
    }
    path
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::picture::{Edge, Node};
    use super::*;

    #[test]
    fn every_box_and_edge_is_drawn_and_names_are_escaped() {
        let node =
            |name: &str, partition| Node { lines: vec![name.into()], partition, note: "because <x>".into() };
        let picture = Picture {
            nodes: vec![node("in", None), node("a<b>&\"c\"", Some(0))],
            edges: vec![Edge { from: 0, to: 1, label: "f32 2x3".into() }],
        };
        let svg = render(&picture);
        assert_eq!(svg.matches("<rect x=").count(), 2);
        assert_eq!(svg.matches("<path d=\"M").count(), 2, "one edge and the arrow's head: {svg}");
        assert!(svg.contains("a&lt;b&gt;&amp;&quot;c&quot;") && !svg.contains("<b>"));
        assert!(svg.contains(&colour(Some(0))));
    }
}
