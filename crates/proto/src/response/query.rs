//! Answers to questions: checksum, configuration, space, attributes.

use super::{ReplyTo, ResponseError};
use crate::code::Status;
use crate::wire::{put_text, until_nul};
use forebay_types::{FileKind, FileStat};

/// The answer to a checksum query.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Checksum {
    /// Name of the algorithm in lower case.
    pub algorithm: String,
    /// Value in lower-case hex digits; those of 32 bits have all eight digits.
    pub value: String,
}

impl Checksum {
    /// A checksum in normal form: lower case, leading zeros in place.
    pub fn new(algorithm: &str, value: &str) -> Self {
        let algorithm = algorithm.to_ascii_lowercase();
        let value = value.to_ascii_lowercase();
        let is_short = matches!(algorithm.as_str(), "adler32" | "crc32" | "crc32c");
        let value = if is_short { format!("{value:0>8}") } else { value };
        Self { algorithm, value }
    }

    /// Parses the reply to a checksum query.
    ///
    /// # Errors
    /// When it is not a name and a value in hex digits.
    pub fn parse(body: &[u8]) -> Result<Self, ResponseError> {
        const MALFORMED: ResponseError = ResponseError::Malformed { what: "checksum" };
        let text = std::str::from_utf8(until_nul(body)).map_err(|_| MALFORMED)?;
        let mut words = text.split_ascii_whitespace();
        let (Some(algorithm), Some(value), None) = (words.next(), words.next(), words.next()) else {
            return Err(MALFORMED);
        };
        if !value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(MALFORMED);
        }
        Ok(Self::new(algorithm, value))
    }
}

/// The reply to a configuration query: one value a line, in the order of the names asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConfigValues<'a>(&'a str);

impl<'a> ConfigValues<'a> {
    /// # Errors
    /// When it is not UTF-8.
    pub fn parse(body: &'a [u8]) -> Result<Self, ResponseError> {
        let text = std::str::from_utf8(until_nul(body));
        text.map(Self).map_err(|_| ResponseError::Malformed { what: "configuration values" })
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.0.lines()
    }

    /// The value at `index`; `None` when it is missing or when the server knows no such name and echoed it.
    pub fn value(&self, index: usize, name: &str) -> Option<&'a str> {
        self.iter().nth(index).filter(|value| *value != name)
    }
}

/// The space that a path lies in, in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Space {
    pub total: u64,
    pub free: u64,
    /// Largest contiguous free part.
    pub largest_free: u64,
    pub used: u64,
}

impl ReplyTo {
    /// Appends the reply to a checksum query.
    pub fn checksum(self, checksum: &Checksum, out: &mut Vec<u8>) {
        self.frame(Status::OK, out, |out| {
            put_text(out, format_args!("{} {}\0", checksum.algorithm, checksum.value));
        });
    }

    /// Appends the reply to a configuration query. A name that is not known is its own value.
    pub fn config<'a>(self, values: impl IntoIterator<Item = &'a str>, out: &mut Vec<u8>) {
        self.frame(Status::OK, out, |out| {
            for value in values {
                put_text(out, format_args!("{value}\n"));
            }
        });
    }

    /// Appends the reply to a space query.
    pub fn space(self, space: &Space, out: &mut Vec<u8>) {
        let Space { total, free, largest_free, used } = *space;
        self.frame(Status::OK, out, |out| {
            put_text(
                out,
                format_args!(
                    "oss.cgroup=public&oss.space={total}&oss.free={free}&oss.maxf={largest_free}&oss.used={used}\
                     &oss.quota=-1\0"
                ),
            );
        });
    }

    /// Appends the reply to a query of a file's attributes.
    pub fn xattr(self, stat: &FileStat, out: &mut Vec<u8>) {
        let kind = match stat.kind {
            FileKind::File => 'f',
            FileKind::Directory => 'd',
            FileKind::Other => 'o',
        };
        let FileStat { size, mtime, .. } = *stat;
        self.frame(Status::OK, out, |out| {
            put_text(
                out,
                format_args!(
                    "oss.cgroup=public&oss.type={kind}&oss.used={size}&oss.mt={mtime}&oss.ct={mtime}&oss.at={mtime}\
                     &oss.u=*&oss.g=*&oss.fs=r&ofs.ap=lr\0"
                ),
            );
        });
    }
}
