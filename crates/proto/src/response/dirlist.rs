//! Directory listings: names, with their stat and checksum on request, in frames cut between entries.

use super::{Checksum, ReplyTo, ResponseError, encode_stat, parse_stat};
use crate::code::Status;
use crate::flags::DirlistOptions;
use crate::limits::{DIRLIST_FRAME_LEN_MAX, DIRLIST_LINE_LEN_MAX};
use crate::wire::put_text;
use forebay_types::DirEntry;

const WHAT: &str = "directory listing";

/// The entry by which clients recognise a listing with stats: a name and a stat that no file has.
const MARKER: &[u8] = b".\n0 0 0 0\n";

/// The detail of each name in a listing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DirlistForm {
    Names,
    Stats,
    Checksums,
}

impl DirlistForm {
    /// The form that the options of a request ask for.
    pub const fn asked_by(options: DirlistOptions) -> Self {
        if options.contains(DirlistOptions::CHECKSUM) {
            Self::Checksums
        } else if options.intersects(DirlistOptions::STAT.with(DirlistOptions::STAT_EXTENDED)) {
            Self::Stats
        } else {
            Self::Names
        }
    }
}

/// Builds the frames of a listing: [`DirlistEncoder::push`] for each entry, then [`DirlistEncoder::finish`].
#[derive(Debug)]
pub struct DirlistEncoder {
    reply_to: ReplyTo,
    form: DirlistForm,
    body: Vec<u8>,
}

impl DirlistEncoder {
    /// Starts a listing. A deferred one goes out in one frame, whatever its size.
    pub fn new(reply_to: ReplyTo, form: DirlistForm) -> Self {
        let body = if form == DirlistForm::Names { Vec::new() } else { MARKER.to_vec() };
        Self { reply_to, form, body }
    }

    /// Adds an entry, and appends a frame to `out` when one is full. Entries that cannot be encoded are left out: names
    /// with a line end, and those without stat in a listing with stats.
    pub fn push(&mut self, entry: &DirEntry, out: &mut Vec<u8>) {
        let is_tellable = !entry.name.is_empty() && !entry.name.contains(['\n', '\0']);
        if !is_tellable || (self.form != DirlistForm::Names && entry.stat.is_none()) {
            return;
        }
        let entry_start = self.body.len();
        put_text(&mut self.body, format_args!("{}\n", entry.name));
        if let (DirlistForm::Stats | DirlistForm::Checksums, Some(stat)) = (self.form, &entry.stat) {
            encode_stat(stat, &mut self.body);
            if self.form == DirlistForm::Checksums {
                let (algorithm, value) = entry.checksum.as_ref().map_or(("none", "none"), |(a, v)| (a, v));
                put_text(&mut self.body, format_args!(" [ {algorithm}:{value} ]"));
            }
            self.body.push(b'\n');
        }
        let is_full = self.body.len() > DIRLIST_FRAME_LEN_MAX && !self.reply_to.is_deferred;
        if is_full && let Some((frame, _)) = self.body.split_at_checked(entry_start).filter(|(f, _)| !f.is_empty()) {
            self.reply_to.frame(Status::OKSOFAR, out, |out| out.extend_from_slice(frame));
            self.body.drain(..entry_start);
        }
    }

    pub fn finish(mut self, out: &mut Vec<u8>) {
        if let Some(last) = self.body.last_mut() {
            *last = 0;
        }
        self.reply_to.ok_with(&self.body, out);
    }
}

/// Reads a listing frame by frame: [`DirlistDecoder::handle_frame`] for each, then [`DirlistDecoder::finish`].
///
/// Frames may be cut anywhere, and a server that knows no stats may leave them out although they were asked for.
#[derive(Debug, Default)]
pub struct DirlistDecoder {
    /// A line of which the end has not arrived.
    partial_line: Vec<u8>,
    state: DecoderState,
}

#[derive(Debug, Default)]
enum DecoderState {
    /// The first line determines the form of the listing.
    #[default]
    Start,
    Names,
    StatName,
    /// The next line is the stat of this name.
    Stat(Vec<u8>),
}

impl DirlistDecoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the body of a frame and adds the entries completed by it.
    ///
    /// # Errors
    /// When a line is longer than any entry, or a stat makes no sense.
    pub fn handle_frame(&mut self, body: &[u8], entries: &mut Vec<DirEntry>) -> Result<(), ResponseError> {
        for piece in body.split_inclusive(|&byte| is_line_end(byte)) {
            let line = piece.strip_suffix(b"\n").or_else(|| piece.strip_suffix(b"\0"));
            if self.partial_line.len() + piece.len() > DIRLIST_LINE_LEN_MAX {
                return Err(ResponseError::TooLong { what: WHAT });
            }
            self.partial_line.extend_from_slice(line.unwrap_or(piece));
            if line.is_some() {
                self.handle_line(entries)?;
            }
        }
        Ok(())
    }

    /// Ends the listing: adds an entry that nothing ended.
    ///
    /// # Errors
    /// When a name lacks its stat.
    pub fn finish(mut self, entries: &mut Vec<DirEntry>) -> Result<(), ResponseError> {
        if !self.partial_line.is_empty() {
            self.handle_line(entries)?;
        }
        match self.state {
            DecoderState::Stat(_) => Err(ResponseError::Truncated { what: WHAT }),
            _ => Ok(()),
        }
    }

    fn handle_line(&mut self, entries: &mut Vec<DirEntry>) -> Result<(), ResponseError> {
        let line = std::mem::take(&mut self.partial_line);
        self.state = match std::mem::take(&mut self.state) {
            DecoderState::Start if line == b"." => DecoderState::Stat(line),
            DecoderState::Start | DecoderState::Names => {
                entries.extend(usable_name(&line).map(|name| DirEntry { name, stat: None, checksum: None }));
                DecoderState::Names
            }
            DecoderState::StatName if line.is_empty() => DecoderState::StatName,
            DecoderState::StatName => DecoderState::Stat(line),
            DecoderState::Stat(name) => {
                if let Some(name) = usable_name(&name) {
                    let mut entry = entry_with_stat(name, &line)?;
                    share_access(entries.last(), &mut entry);
                    entries.push(entry);
                }
                DecoderState::StatName
            }
        };
        Ok(())
    }
}

const fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | 0)
}

/// Most entries of a directory have one owner and mode: they are kept once for all that follow each other.
fn share_access(last: Option<&DirEntry>, entry: &mut DirEntry) {
    let last = last.and_then(|last| last.stat.as_ref()).map(|stat| &stat.access);
    if let (Some(last), Some(stat)) = (last, &mut entry.stat)
        && stat.access == *last
    {
        stat.access.clone_from(last);
    }
}

/// A name that can be asked for again: neither empty nor a directory itself, UTF-8, one component.
fn usable_name(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    (!matches!(name, "" | "." | "..") && !name.contains('/')).then(|| name.to_owned())
}

fn entry_with_stat(name: String, line: &[u8]) -> Result<DirEntry, ResponseError> {
    let text = std::str::from_utf8(line).map_err(|_| ResponseError::Malformed { what: WHAT })?;
    let checksum = text.split_once(" [ ").and_then(|(_, rest)| {
        let (algorithm, value) = rest.strip_suffix(']')?.trim_end().split_once(':')?;
        let Checksum { algorithm, value } = Checksum::new(algorithm.trim(), value.trim());
        (!value.is_empty() && value.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some((algorithm, value))
    });
    Ok(DirEntry { name, stat: Some(parse_stat(line)?), checksum })
}
