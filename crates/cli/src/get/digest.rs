//! Checksums of received data and of the origin.

use anyhow::Context;
use forebay_origin::{Checksum, Origin, OriginError, OriginPath};
use md5::{Digest, Md5};
use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Bytes read at a time to compute a checksum.
pub(super) const READ_LEN: usize = 1 << 20;

/// Cheap checksums, computed of all bytes during the transfer.
#[derive(Clone, Default)]
pub(super) struct Digests {
    adler32: simd_adler32::Adler32,
    crc32c: u32,
}

/// The checksum reported by the origin.
pub(super) enum Expected {
    /// A supported checksum.
    Known(Checksum),
    /// None, with the reason.
    Unknown(String),
}

/// Result of comparing the received data with the origin's checksum.
pub(super) enum Verdict {
    Right(Checksum),
    /// The checksums differ, as described.
    Wrong(String),
    /// No comparison was possible, with the reason.
    Unknown(String),
}

impl Digests {
    /// Takes the next bytes.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.adler32.write(bytes);
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
    }
}

impl Expected {
    /// Requests the origin's preferred checksum, and a supported one if that is not supported.
    pub(super) async fn ask(origin: &dyn Origin, path: &OriginPath) -> Self {
        let mut other = None;
        for algorithm in [None, Some("adler32"), Some("crc32c")] {
            match origin.checksum(path, algorithm).await {
                Ok(checksum) if is_known(&checksum.algorithm) => return Self::Known(checksum),
                Ok(checksum) => other = Some(checksum.algorithm),
                Err(OriginError::Refused { .. }) if other.is_none() => break,
                Err(OriginError::Refused { .. } | OriginError::Protocol { .. }) => {}
                Err(error) => return Self::Unknown(error.to_string()),
            }
        }
        Self::Unknown(match other {
            Some(algorithm) => format!("the origin only has {}", crate::text::printable(&algorithm)),
            None => "the origin has no checksum".to_owned(),
        })
    }

    /// Compares with the received data; `path` is its file, for checksums that are not computed during the transfer.
    pub(super) fn judge(&self, digests: &Digests, path: Option<&Path>) -> anyhow::Result<Verdict> {
        let expected = match self {
            Self::Known(checksum) => checksum,
            Self::Unknown(reason) => return Ok(Verdict::Unknown(reason.clone())),
        };
        let computed = match expected.algorithm.as_str() {
            "adler32" => format!("{:08x}", digests.adler32.finish()),
            "crc32c" => format!("{:08x}", digests.crc32c),
            _ => match path {
                Some(path) => md5_of(path).with_context(|| format!("reading {}", path.display()))?,
                None => return Ok(Verdict::Unknown("md5 is not verified on standard output".to_owned())),
            },
        };
        // Some servers drop leading zeros.
        if computed.trim_start_matches('0').eq_ignore_ascii_case(expected.value.trim_start_matches('0')) {
            return Ok(Verdict::Right(expected.clone()));
        }
        Ok(Verdict::Wrong(format!(
            "its {} is {computed}, but {} at the origin",
            expected.algorithm,
            crate::text::printable(&expected.value)
        )))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right(checksum) => write!(f, "{checksum} verified"),
            Self::Wrong(reason) => write!(f, "wrong: {reason}"),
            Self::Unknown(reason) => write!(f, "not verified: {reason}"),
        }
    }
}

fn is_known(algorithm: &str) -> bool {
    ["adler32", "crc32c", "md5"].contains(&algorithm)
}

fn md5_of(path: &Path) -> io::Result<String> {
    let mut md5 = Md5::new();
    for_each_piece(File::open(path)?, |piece| md5.update(piece))?;
    Ok(md5.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Passes the rest of `file` to `take`, piece by piece; returns its length.
pub(super) fn for_each_piece(mut file: File, mut take: impl FnMut(&[u8])) -> io::Result<u64> {
    let mut buffer = vec![0; READ_LEN];
    let mut total = 0;
    loop {
        let len = match file.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        take(buffer.get(..len).unwrap_or_default());
        total += len as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(algorithm: &str, value: &str, path: Option<&Path>) -> Verdict {
        let mut digests = Digests::default();
        digests.update(b"1234");
        digests.update(b"56789");
        let checksum = Checksum { algorithm: algorithm.to_owned(), value: value.to_owned() };
        Expected::Known(checksum).judge(&digests, path).unwrap()
    }

    #[test]
    fn checksums_are_the_published_ones() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "123456789").unwrap();
        for (algorithm, value) in [
            ("adler32", "091e01de"),
            ("adler32", "91e01de"),
            ("crc32c", "E3069283"),
            ("md5", "25f9e794323b453885f5181f1b624d0b"),
        ] {
            assert!(matches!(judge(algorithm, value, Some(file.path())), Verdict::Right(_)), "{algorithm} {value}");
        }
        assert!(matches!(judge("adler32", "091e01df", None), Verdict::Wrong(_)));
        assert!(matches!(judge("md5", "25f9e794323b453885f5181f1b624d0b", None), Verdict::Unknown(_)));
    }

    #[test]
    fn without_a_checksum_nothing_is_verified() {
        let verdict = Expected::Unknown("why".to_owned()).judge(&Digests::default(), None).unwrap();
        assert_eq!(verdict.to_string(), "not verified: why");
    }
}
