//! Small images in a terminal.

use std::fmt::Write;

/// A grey image of `[height, width]` pixels from 0 (black) to 1 (white).
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) pixels: Vec<f64>,
}

/// Words of a picture below which its caption stands.
#[derive(Clone, Debug)]
pub(super) struct Captioned {
    pub(super) image: Image,
    pub(super) caption: String,
}

const COLUMNS: usize = 80;
const GAP: usize = 2;
/// From dark to light.
const SHADES: [char; 5] = [' ', '\u{2591}', '\u{2592}', '\u{2593}', '\u{2588}'];

/// Images side by side, as many as fit in a line of the terminal, with their captions below.
///
/// With colours a character is two pixels, one above the other; without it is half a pixel in one of five shades.
pub(super) fn gallery(images: &[Captioned], color: bool) -> String {
    let width = |one: &Captioned| {
        let pixels = if color { one.image.width } else { 2 * one.image.width };
        pixels.max(one.caption.chars().count())
    };
    let widest = images.iter().map(width).max().unwrap_or(1);
    let mut text = String::new();
    for row in images.chunks(((COLUMNS + GAP) / (widest + GAP)).max(1)) {
        let pictures: Vec<Vec<String>> =
            row.iter().map(|one| if color { colored(&one.image) } else { plain(&one.image) }).collect();
        let height = pictures.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            for (picture, one) in pictures.iter().zip(row) {
                let drawn = if color { one.image.width } else { 2 * one.image.width };
                match picture.get(line) {
                    Some(cells) => text.extend([cells.as_str(), &" ".repeat(widest - drawn + GAP)]),
                    None => text.push_str(&" ".repeat(widest + GAP)),
                }
            }
            trim(&mut text);
        }
        for one in row {
            let _ = write!(text, "{:<1$}", one.caption, widest + GAP);
        }
        trim(&mut text);
        text.push('\n');
    }
    text
}

/// Upper half blocks: the foreground is the upper pixel, the background the lower.
fn colored(image: &Image) -> Vec<String> {
    let grey = |x: usize, y: usize| {
        let value = image.pixels.get(y * image.width + x).copied().unwrap_or(0.0);
        // The 24 greys of the 256-colour palette.
        232 + (value.clamp(0.0, 1.0) * 23.0).round() as u8
    };
    let line = |y: usize| {
        let mut cells = String::new();
        for x in 0..image.width {
            let _ = write!(cells, "\x1b[38;5;{};48;5;{}m\u{2580}", grey(x, 2 * y), grey(x, 2 * y + 1));
        }
        cells + "\x1b[0m"
    };
    (0..image.height.div_ceil(2)).map(line).collect()
}

fn plain(image: &Image) -> Vec<String> {
    let shade = |value: &f64| SHADES[(value.clamp(0.0, 1.0) * 4.0).round() as usize];
    image
        .pixels
        .chunks(image.width.max(1))
        .map(|row| row.iter().flat_map(|value| [shade(value); 2]).collect())
        .collect()
}

fn trim(text: &mut String) {
    text.truncate(text.trim_end_matches(' ').len());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        Image { width: 2, height: 2, pixels: vec![0.0, 1.0, 0.5, 0.25] }
    }

    #[test]
    fn shades_stand_for_grey_levels() {
        let text = gallery(
            &[
                Captioned { image: image(), caption: "7".into() },
                Captioned { image: image(), caption: "1".into() },
            ],
            false,
        );
        assert_eq!(
            text,
            "  \u{2588}\u{2588}    \u{2588}\u{2588}\n\u{2592}\u{2592}\u{2591}\u{2591}  \u{2592}\u{2592}\u{2591}\u{2591}\n7     1\n\n"
        );
    }

    #[test]
    fn half_blocks_hold_two_pixels() {
        assert_eq!(
            colored(&image()),
            ["\x1b[38;5;232;48;5;244m\u{2580}\x1b[38;5;255;48;5;238m\u{2580}\x1b[0m"]
        );
    }
}
