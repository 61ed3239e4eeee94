//! The frame around cached bytes: what they are, how many, and whether they are intact.
//!
//! A frame is the magic (8 bytes), the format and the total length (little-endian `u32` and `u64`), the body (`postcard`), and the
//! BLAKE3 hash of everything before it (32 bytes).

use anydnn_backend::Error;
use serde::{Deserialize, Serialize};

/// The layout of frames and bodies. Raised when either changes.
const FORMAT: u32 = 1;

const MAGIC: usize = 8;
const HEADER: usize = MAGIC + size_of::<u32>() + size_of::<u64>();
const CHECKSUM: usize = blake3::OUT_LEN;

/// What a frame is around.
pub(super) type Magic = [u8; MAGIC];

/// Why cached programs were not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheMiss {
    /// The bytes are something else.
    #[error("it does not begin like cached programs do")]
    NotOurs,
    /// There are fewer bytes than any cache has.
    #[error("it has {given} bytes, expected at least {expected}")]
    Short {
        /// Bytes there are.
        given: usize,
        /// The fewest bytes that can be right.
        expected: usize,
    },
    /// A version of this library with another layout wrote them.
    #[error("its format is {given}, expected {expected}")]
    Format {
        /// The format of the bytes.
        given: u32,
        /// The format that this version reads.
        expected: u32,
    },
    /// There are more or fewer bytes than were written.
    #[error("it has {given} bytes, but says that it has {expected}")]
    Length {
        /// Bytes there are.
        given: u64,
        /// Bytes there should be.
        expected: u64,
    },
    /// The bytes changed since they were written.
    #[error("its checksum does not match its content")]
    Checksum,
    /// The bytes are intact and make no sense.
    #[error("its content is malformed: {0}")]
    Malformed(String),
    /// The programs were compiled for another device, by another driver or from another library's kernels.
    #[error("its {what} is {given}, expected {expected}")]
    Foreign {
        /// What differs first.
        what: String,
        /// What the bytes are for.
        given: String,
        /// What is here.
        expected: String,
    },
    /// A file that somebody else could have written, or that is no plain file.
    #[error("the file is not trusted: {0}")]
    Untrusted(String),
}

/// A body in its frame.
pub(super) fn seal(magic: Magic, body: &impl Serialize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&magic);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&0_u64.to_le_bytes());
    let mut bytes = postcard::to_extend(body, bytes)
        .map_err(|error| Error::unsupported("cache programs", error.to_string()))?;
    let total = (bytes.len() + CHECKSUM) as u64;
    bytes[HEADER - size_of::<u64>()..HEADER].copy_from_slice(&total.to_le_bytes());
    let checksum = blake3::hash(&bytes);
    bytes.extend_from_slice(checksum.as_bytes());
    Ok(bytes)
}

/// The body in a frame. Nothing is decoded, and no memory taken, before the checksum has matched.
pub(super) fn open<'a, T: Deserialize<'a>>(magic: Magic, bytes: &'a [u8]) -> Result<T, CacheMiss> {
    if !bytes.starts_with(&magic) {
        return Err(CacheMiss::NotOurs);
    }
    let short = CacheMiss::Short { given: bytes.len(), expected: HEADER + CHECKSUM };
    let Some((content, checksum)) = bytes.split_last_chunk::<CHECKSUM>() else { return Err(short) };
    let header = content.get(MAGIC..).and_then(|rest| rest.split_first_chunk::<{ size_of::<u32>() }>());
    let Some((format, rest)) = header else { return Err(short) };
    let Some((total, body)) = rest.split_first_chunk::<{ size_of::<u64>() }>() else { return Err(short) };
    let (format, total) = (u32::from_le_bytes(*format), u64::from_le_bytes(*total));
    if format != FORMAT {
        return Err(CacheMiss::Format { given: format, expected: FORMAT });
    }
    if total != bytes.len() as u64 {
        return Err(CacheMiss::Length { given: bytes.len() as u64, expected: total });
    }
    if blake3::hash(content) != blake3::Hash::from_bytes(*checksum) {
        return Err(CacheMiss::Checksum);
    }
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(CacheMiss::Malformed(format!("{} bytes too many", rest.len()))),
        Err(error) => Err(CacheMiss::Malformed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: Magic = *b"test\r\n\x1a\n";

    fn sealed() -> Vec<u8> {
        seal(TEST, &(7_u32, "text".to_owned())).unwrap()
    }

    /// Gives changed bytes the checksum that fits them.
    fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let end = bytes.len() - CHECKSUM;
        let checksum = blake3::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(checksum.as_bytes());
        bytes
    }

    #[test]
    fn what_was_sealed_opens() {
        assert_eq!(open(TEST, &sealed()), Ok((7_u32, "text")));
    }

    #[test]
    fn each_flaw_has_its_name() {
        let flaw = |bytes: &[u8]| open::<(u32, &str)>(TEST, bytes).unwrap_err();
        let bytes = sealed();
        assert_eq!(flaw(b""), CacheMiss::NotOurs);
        assert_eq!(flaw(&seal(*b"otherone", &1).unwrap()), CacheMiss::NotOurs);
        assert_eq!(flaw(&bytes[..9]), CacheMiss::Short { given: 9, expected: 52 });
        assert_eq!(flaw(&bytes[..51]), CacheMiss::Short { given: 51, expected: 52 });
        let cut = bytes.len() - 1;
        assert_eq!(flaw(&bytes[..cut]), CacheMiss::Length { given: cut as u64, expected: cut as u64 + 1 });
        let mut newer = bytes.clone();
        newer[MAGIC] += 1;
        assert_eq!(flaw(&resealed(newer)), CacheMiss::Format { given: FORMAT + 1, expected: FORMAT });
        let mut flipped = bytes.clone();
        flipped[HEADER] ^= 1;
        assert_eq!(flaw(&flipped), CacheMiss::Checksum);
        // A length of the text beyond the end, under a checksum that fits.
        let mut long = bytes.clone();
        long[HEADER + 1] = 0x7f;
        assert!(matches!(flaw(&resealed(long)), CacheMiss::Malformed(_)));
        let more = seal(TEST, &(7_u32, "text".to_owned(), 1_u8)).unwrap();
        assert_eq!(flaw(&more), CacheMiss::Malformed("1 bytes too many".into()));
    }
}
