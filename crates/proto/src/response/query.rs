//! Answers to questions and opens: checksum, configuration, space, attributes, locations, handles.

use super::{ReplyTo, ResponseError, encode_stat, parse_stat};
use crate::code::Status;
use crate::flags::OpenOptions;
use crate::header::FileHandle;
use crate::wire::{Reader, put_text, until_nul};
use forebay_types::{Endpoint, FileKind, FileStat};

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

/// A server that has a file, or could have it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Location {
    pub kind: LocationKind,
    pub is_writable: bool,
    pub endpoint: Endpoint,
}

/// The kind of server that a location names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LocationKind {
    /// A data server that has the file at hand.
    Server,
    /// A data server that must stage the file first.
    PendingServer,
    /// A manager below which the file is.
    Manager,
    /// A manager below which the file must be staged.
    PendingManager,
}

impl LocationKind {
    const ALL: [(char, Self); 4] =
        [('S', Self::Server), ('s', Self::PendingServer), ('M', Self::Manager), ('m', Self::PendingManager)];

    fn letter(self) -> char {
        Self::ALL.into_iter().find(|(_, kind)| *kind == self).map_or('S', |(letter, _)| letter)
    }
}

impl Location {
    /// Parses the reply to a locate.
    ///
    /// # Errors
    /// When it names no server, or one in a form that is not understood.
    pub fn parse_all(body: &[u8]) -> Result<Vec<Self>, ResponseError> {
        const MALFORMED: ResponseError = ResponseError::Malformed { what: "list of locations" };
        let text = std::str::from_utf8(until_nul(body)).map_err(|_| MALFORMED)?;
        let locations: Option<Vec<Self>> = text.split_ascii_whitespace().map(Self::parse).collect();
        locations.filter(|locations| !locations.is_empty()).ok_or(MALFORMED)
    }

    fn parse(item: &str) -> Option<Self> {
        let mut letters = item.chars();
        let letter = letters.next()?;
        let (_, kind) = LocationKind::ALL.into_iter().find(|(known, _)| *known == letter)?;
        let is_writable = match letters.next()? {
            'r' => false,
            'w' => true,
            _ => return None,
        };
        Some(Self { kind, is_writable, endpoint: letters.as_str().parse().ok()? })
    }
}

/// The reply to an open.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenReply {
    pub handle: FileHandle,
    pub stat: Option<FileStat>,
}

impl OpenReply {
    /// Parses the body of the reply.
    ///
    /// # Errors
    /// When it is too short for a handle, or ends with a stat text that makes no sense.
    pub fn parse(body: &[u8]) -> Result<Self, ResponseError> {
        const WHAT: &str = "open reply";
        let mut reader = Reader::new(body);
        let handle = FileHandle(reader.array().ok_or(ResponseError::Truncated { what: WHAT })?);
        let has_compression = reader.u64().is_some();
        let stat = (has_compression && !reader.rest().is_empty()).then(|| parse_stat(reader.rest())).transpose()?;
        Ok(Self { handle, stat })
    }
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

    /// Appends the reply to a space query: bytes in all, and free ones.
    pub fn space(self, total: u64, free: u64, out: &mut Vec<u8>) {
        let used = total.saturating_sub(free);
        self.frame(Status::OK, out, |out| {
            let space = format_args!("oss.space={total}&oss.free={free}&oss.maxf={free}&oss.used={used}");
            put_text(out, format_args!("oss.cgroup=public&{space}&oss.quota=-1\0"));
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
        let is_writable = stat.access.as_ref().is_some_and(|access| access.is_writable);
        let (space, permission) = if is_writable { ('w', "a") } else { ('r', "lr") };
        self.frame(Status::OK, out, |out| {
            put_text(
                out,
                format_args!(
                    "oss.cgroup=public&oss.type={kind}&oss.used={size}&oss.mt={mtime}&oss.ct={mtime}&oss.at={mtime}\
                     &oss.u=*&oss.g=*&oss.fs={space}&ofs.ap={permission}\0"
                ),
            );
        });
    }

    /// Appends the reply to a locate. The client connects to what is listed, so it must be able to.
    pub fn locate(self, locations: &[Location], out: &mut Vec<u8>) {
        self.frame(Status::OK, out, |out| {
            for (index, location) in locations.iter().enumerate() {
                let separator = if index == 0 { "" } else { " " };
                let access = if location.is_writable { 'w' } else { 'r' };
                put_text(out, format_args!("{separator}{}{access}{}", location.kind.letter(), location.endpoint));
            }
            out.push(0);
        });
    }

    /// Appends the reply to an open, with the fields that `options` ask for.
    pub fn open(self, handle: FileHandle, options: OpenOptions, stat: &FileStat, out: &mut Vec<u8>) {
        self.frame(Status::OK, out, |out| {
            out.extend_from_slice(&handle.0);
            if options.intersects(OpenOptions::COMPRESS.with(OpenOptions::RETURN_STAT)) {
                out.extend_from_slice(&[0; 8]);
            }
            if options.contains(OpenOptions::RETURN_STAT) {
                encode_stat(stat, out);
                out.push(0);
            }
        });
    }
}
