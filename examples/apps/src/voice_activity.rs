//! When somebody speaks in a sound, by Silero's voice detector: a network with a memory, which looks at 32 ms at a time.

use std::f64::consts::PI;
use std::path::Path;

use anydnn::backend::DataType;
use anydnn::model::HostTensor;
use anydnn::onnx::Session;
use anydnn::select::{AnyBackend, AnyEngine};
use anyhow::{Context, Result, ensure};
use hound::{SampleFormat, WavReader};

use crate::fetch::{File, Package};
use crate::{output, session};

/// The network that takes many chunks in one execution.
pub const MODEL: Package = Package {
    name: "silero-vad",
    version: "6.2.3",
    files: &[File {
        path: "silero_vad/data/silero_vad_16k_sequence.onnx",
        bytes: 1_246_165,
        sha256: "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
    }],
};

/// Samples in a second.
pub const RATE: usize = 16_000;
/// Samples of which one number tells whether there is a voice.
pub const CHUNK: usize = 512;
/// Samples of the chunk before that the network is given too.
const CONTEXT: usize = 64;
/// Chunks of one execution: always as many, so that one plan serves sounds of any length.
const BLOCK: usize = 64;
/// Numbers that the network remembers, twice.
const STATE: [usize; 3] = [1, 1, 128];

/// A voice begins where it is as certain, and ends where it is less certain than the second.
const BEGINS: f32 = 0.5;
const ENDS: f32 = 0.35;
/// Shorter voices are none, and shorter pauses belong to the voice; in seconds.
const VOICE: f64 = 0.25;
const PAUSE: f64 = 0.1;

/// The network.
#[derive(Debug)]
pub struct Detector {
    session: Session<AnyBackend>,
}

impl Detector {
    /// Fetches the file and loads it.
    ///
    /// # Errors
    /// Where it cannot be had.
    pub fn load(engine: &AnyEngine) -> Result<Self> {
        Ok(Self { session: session(&MODEL.fetch()?.join(MODEL.files[0].path), engine)? })
    }

    /// How certain a voice is in each chunk, from zero to one.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn probabilities(&self, sound: &[f32]) -> Result<Vec<f32>> {
        let chunks = sound.len().div_ceil(CHUNK);
        // Silence before the beginning and behind the end.
        let mut padded = vec![0.0; CONTEXT];
        padded.extend(sound);
        padded.resize(CONTEXT + chunks.next_multiple_of(BLOCK) * CHUNK, 0.0);
        let rows = |first: usize| {
            let row = |chunk: usize| &padded[(first + chunk) * CHUNK..][..CONTEXT + CHUNK];
            (0..BLOCK).flat_map(row).copied().collect::<Vec<f32>>()
        };
        let mut found = Vec::with_capacity(chunks);
        let mut h = HostTensor::zeros(STATE, DataType::F32)?;
        let mut c = h.clone();
        for first in (0..chunks).step_by(BLOCK) {
            let input = HostTensor::from_f32([BLOCK, CONTEXT + CHUNK], &rows(first))?;
            let outputs = self.session.run(&[("input", input), ("h", h), ("c", c)])?;
            found.extend(output(&outputs, "speech_probs")?.to_f32s());
            h = output(&outputs, "hn")?.clone();
            c = output(&outputs, "cn")?.clone();
        }
        found.truncate(chunks);
        Ok(found)
    }
}

/// Where voices begin and end, in seconds.
pub fn voices(probabilities: &[f32]) -> Vec<(f64, f64)> {
    let seconds = |chunk: usize| (chunk * CHUNK) as f64 / RATE as f64;
    let mut found: Vec<(f64, f64)> = Vec::new();
    let mut begun = None;
    for (chunk, &certain) in probabilities.iter().chain(&[0.0]).enumerate() {
        match begun {
            None if certain >= BEGINS => begun = Some(seconds(chunk)),
            Some(start) if certain < ENDS => {
                begun = None;
                match found.last_mut() {
                    Some(last) if start - last.1 < PAUSE => last.1 = seconds(chunk),
                    _ => found.push((start, seconds(chunk))),
                }
            }
            _ => {}
        }
    }
    found.retain(|(start, end)| end - start >= VOICE);
    found
}

/// The sound of a WAV file: the mean of its channels, at [`RATE`].
///
/// # Errors
/// Where the file is none.
pub fn read_wav(path: &Path) -> Result<Vec<f32>> {
    let mut reader = WavReader::open(path).with_context(|| path.display().to_string())?;
    let spec = reader.spec();
    ensure!(spec.sample_rate > 0 && spec.channels > 0, "{}: no samples", path.display());
    let samples: Vec<f32> = match spec.sample_format {
        SampleFormat::Float => reader.samples::<f32>().collect::<std::result::Result<_, _>>(),
        SampleFormat::Int => {
            let most = f64::from(spec.bits_per_sample - 1).exp2() as f32;
            reader.samples::<i32>().map(|sample| Ok(sample? as f32 / most)).collect()
        }
    }
    .with_context(|| path.display().to_string())?;
    let channels = usize::from(spec.channels);
    let mono: Vec<f32> =
        samples.chunks_exact(channels).map(|frame| frame.iter().sum::<f32>() / channels as f32).collect();
    Ok(resampled(&mono, spec.sample_rate as usize))
}

/// A sound at [`RATE`]: means over the time of a new sample, or straight lines between old ones.
fn resampled(sound: &[f32], rate: usize) -> Vec<f32> {
    if rate == RATE || sound.is_empty() {
        return sound.to_vec();
    }
    let step = rate as f64 / RATE as f64;
    let at = |place: f64| {
        let index = (place as usize).min(sound.len() - 1);
        let next = sound[(index + 1).min(sound.len() - 1)];
        let part = (place - index as f64) as f32;
        sound[index] * (1.0 - part) + next * part
    };
    let taken = step.ceil().max(1.0) as usize;
    let sample = |index: usize| {
        let parts = (0..taken).map(|part| at((index as f64 + part as f64 / taken as f64) * step));
        parts.sum::<f32>() / taken as f32
    };
    (0..(sound.len() as f64 / step) as usize).map(sample).collect()
}

/// First, second and third resonance of vowels, in hertz.
const VOWELS: [[f64; 3]; 6] = [
    [730.0, 1090.0, 2440.0],
    [270.0, 2290.0, 3010.0],
    [300.0, 870.0, 2240.0],
    [530.0, 1840.0, 2480.0],
    [570.0, 840.0, 2410.0],
    [660.0, 1720.0, 2410.0],
];

/// A sound to try the detector on: two voices, which say vowels, in a little noise.
///
/// # Errors
/// Where there is no memory for it.
pub fn example() -> Result<Vec<f32>> {
    let quiet = |seconds: f64| vec![0.0; (seconds * RATE as f64) as usize];
    let parts = [quiet(1.0), babble(2.0, 1), quiet(1.2), babble(1.5, 3), quiet(1.0)];
    let sound: Vec<f64> = parts.into_iter().flatten().collect();
    let noise =
        HostTensor::random(&anydnn::backend::MemoryDesc::new([sound.len()], DataType::F32), 5)?.to_f32s();
    Ok(sound.iter().zip(noise).map(|(&value, noise)| (value + 0.0005 * f64::from(noise)) as f32).collect())
}

/// A voice that says vowels: pulses through three resonances (Gunnar Fant's source and filter).
fn babble(seconds: f64, shift: usize) -> Vec<f64> {
    let count = (seconds * RATE as f64) as usize;
    let (mut turns, mut before) = (0.0, 0.0);
    let mut memory = [[0.0; 2]; 3];
    let mut sound = Vec::with_capacity(count);
    for i in 0..count {
        let t = i as f64 / RATE as f64;
        let melody = 1.0 + 0.12 * (2.0 * PI * 0.7 * t).sin() + 0.03 * (2.0 * PI * 5.1 * t).sin();
        turns += 125.0 * melody * (-0.1 * t).exp() / RATE as f64;
        let saw: f64 = 2.0 * (turns % 1.0) - 1.0;
        let pulse = -saw.powi(3);
        let source = pulse - before;
        before = pulse;
        let (syllable, part) = ((t / 0.2).floor() as usize, t / 0.2 % 1.0);
        let (one, other) = (VOWELS[(syllable * 5 + shift) % 6], VOWELS[(syllable * 5 + 5 + shift) % 6]);
        let glide = ((part - 0.6) / 0.4).clamp(0.0, 1.0);
        let loudness =
            if syllable % 5 == 4 { 0.03 } else { 0.15 + 0.85 * (PI * part).sin().max(0.0).powf(0.7) };
        let mut value = 0.0;
        for (formant, gain) in [1.0, 0.6, 0.3].into_iter().enumerate() {
            let frequency = one[formant] * (1.0 - glide) + other[formant] * glide;
            let radius = (-PI * (80.0 + 30.0 * formant as f64) / RATE as f64).exp();
            let [y1, y2] = memory[formant];
            let y = source + 2.0 * radius * (2.0 * PI * frequency / RATE as f64).cos() * y1
                - radius * radius * y2;
            memory[formant] = [y, y1];
            value += gain * y;
        }
        sound.push(value * loudness);
    }
    let most = sound.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    sound.iter().map(|value| 0.3 * value / most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_pauses_belong_to_a_voice_and_short_voices_are_none() {
        let mut certain = vec![0.0; 100];
        certain[10..30].fill(0.9);
        certain[20..22].fill(0.1);
        certain[60..63].fill(0.9);
        let chunk = CHUNK as f64 / RATE as f64;
        assert_eq!(voices(&certain), [(10.0 * chunk, 30.0 * chunk)]);
        certain[80..].fill(0.9);
        assert_eq!(voices(&certain).len(), 2);
    }

    #[test]
    fn sounds_of_other_rates_keep_their_pitch() {
        let tone = |rate: usize| -> Vec<f32> {
            (0..rate).map(|i| (2.0 * PI * 200.0 * i as f64 / rate as f64).sin() as f32).collect()
        };
        let expected = tone(RATE);
        for rate in [8000, 44_100, 48_000] {
            let sound = resampled(&tone(rate), rate);
            assert!(sound.len().abs_diff(RATE) <= 1, "{rate}: {}", sound.len());
            let apart = sound.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(apart < 0.1, "{rate}: {apart}");
        }
    }
}
