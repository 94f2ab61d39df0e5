//! The reply to an open.

use super::{ReplyTo, ResponseError, encode_stat, parse_stat};
use crate::code::Status;
use crate::flags::OpenOptions;
use crate::header::FileHandle;
use crate::wire::Reader;
use forebay_types::FileStat;

/// The reply to an open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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
