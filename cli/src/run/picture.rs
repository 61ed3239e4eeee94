//! Pictures as inputs.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anydnn::backend::{Dims, Error, Result};
use anydnn::model::HostTensor;
use png::{ColorType, Decoder, Transformations};

/// A picture as it lies in a file: bytes of red, green and blue, row by row.
struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<[u8; 3]>,
}

/// A PNG file as an input of dimensions `[1, C, H, W]` or `[1, H, W, C]` with one or three colours, scaled to its size. Values go up to
/// `most`.
pub(super) fn read_png(file: &Path, dims: Option<&Dims>, most: f32) -> Result<HostTensor> {
    let shown = || dims.map_or_else(|| "an unknown shape".to_owned(), ToString::to_string);
    let wrong = || {
        let expected = "an input of 1xCxHxW or 1xHxWxC with one or three colours";
        Error::invalid(file.display().to_string(), "input of a picture", shown(), expected)
    };
    let (channels, height, width, first) = match dims.map(|dims| &dims[..]) {
        // Three is the number of colours before one is.
        Some(&[1, 3, h, w]) => (3, h, w, true),
        Some(&[1, h, w, 3]) => (3, h, w, false),
        Some(&[1, 1, h, w]) => (1, h, w, true),
        Some(&[1, h, w, 1]) => (1, h, w, false),
        _ => return Err(wrong()),
    };
    let picture = decode(file)?;
    let mut values = vec![0.0; channels * height * width];
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        let colour = picture.at(x, y, width, height);
        // Grey as the eye weighs colours (ITU-R BT.601).
        let grey = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2];
        let values_of: &[f32] = if channels == 1 { &[grey] } else { &colour };
        for (channel, value) in values_of.iter().take(channels).enumerate() {
            let place =
                if first { (channel * height + y) * width + x } else { (y * width + x) * channels + channel };
            values[place] = value / 255.0 * most;
        }
    }
    HostTensor::from_f32(dims.cloned().unwrap_or_default(), &values)
}

impl Picture {
    /// The colour of a pixel of a picture of another size, by straight lines between pixels.
    fn at(&self, x: usize, y: usize, width: usize, height: usize) -> [f32; 3] {
        let place = |i: usize, own: usize, other: usize| {
            let place = ((i as f32 + 0.5) * own as f32 / other as f32 - 0.5).clamp(0.0, (own - 1) as f32);
            (place as usize, (place as usize + 1).min(own - 1), place.fract())
        };
        let (x0, x1, u) = place(x, self.width, width);
        let (y0, y1, v) = place(y, self.height, height);
        let pixel = |x: usize, y: usize| self.pixels[y * self.width + x].map(f32::from);
        let mix =
            |a: [f32; 3], b: [f32; 3], part: f32| std::array::from_fn(|i| a[i] * (1.0 - part) + b[i] * part);
        mix(mix(pixel(x0, y0), pixel(x1, y0), u), mix(pixel(x0, y1), pixel(x1, y1), u), v)
    }
}

fn decode(file: &Path) -> Result<Picture> {
    let wrong = |error: png::DecodingError| match error {
        png::DecodingError::IoError(error) => Error::io(file.display(), error),
        other => Error::invalid(file.display().to_string(), "content", other.to_string(), "a PNG picture"),
    };
    let opened = File::open(file).map_err(|error| Error::io(file.display(), error))?;
    let mut decoder = Decoder::new(BufReader::new(opened));
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(wrong)?;
    let size = reader.output_buffer_size().unwrap_or(usize::MAX);
    anydnn::backend::check_host_memory(size, || file.display().to_string())?;
    let mut bytes = vec![0; size];
    let info = reader.next_frame(&mut bytes).map_err(wrong)?;
    let bytes = &bytes[..info.buffer_size()];
    let pixels = match info.color_type {
        ColorType::Grayscale => bytes.iter().map(|&grey| [grey; 3]).collect(),
        ColorType::GrayscaleAlpha => bytes.chunks_exact(2).map(|pixel| [pixel[0]; 3]).collect(),
        ColorType::Rgba => bytes.chunks_exact(4).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
        _ => bytes.chunks_exact(3).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
    };
    Ok(Picture { width: info.width as usize, height: info.height as usize, pixels })
}

#[cfg(test)]
mod tests {
    use approx::assert_abs_diff_eq;

    use super::*;

    #[test]
    fn pictures_fill_inputs_of_either_order() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.png");
        let mut encoder = png::Encoder::new(File::create(&file).unwrap(), 2, 1);
        encoder.set_color(ColorType::Rgb);
        encoder.write_header().unwrap().write_image_data(&[255, 0, 0, 0, 0, 255]).unwrap();
        let read = |dims: &[usize], most: f32| read_png(&file, Some(&dims.into()), most).unwrap().to_f32s();
        assert_eq!(read(&[1, 3, 1, 2], 1.0), [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(read(&[1, 1, 2, 3], 255.0)[..3], [255.0, 0.0, 0.0]);
        let grey = read(&[1, 1, 1, 2], 1.0);
        assert_abs_diff_eq!(grey[..], [0.299, 0.114][..], epsilon = 1e-6);
        assert_eq!(read(&[1, 3, 2, 4], 255.0)[..4], [255.0, 191.25, 63.75, 0.0]);
        let error = read_png(&file, Some(&[3, 4].as_slice().into()), 1.0).unwrap_err().to_string();
        assert!(error.contains("1xCxHxW"), "{error}");
        std::fs::write(&file, "no picture").unwrap();
        assert!(
            read_png(&file, Some(&[1, 3, 1, 1].as_slice().into()), 1.0)
                .unwrap_err()
                .to_string()
                .contains("x.png")
        );
    }
}
