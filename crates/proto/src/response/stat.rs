//! Stat texts of files and of spaces.

use super::{ReplyTo, ResponseError};
use crate::code::Status;
use crate::flags::StatFlags;
use crate::wire::{put_number, put_text, until_nul};
use forebay_types::{Access, FileKind, FileStat};
use std::sync::Arc;

/// An owner or group that is not known.
const UNKNOWN: &str = "*";

/// Appends the stat text of a file in its long form, without a NUL: id, size, flags, three times, mode, owner, group.
/// An owner that is not known is `*`, and all times are that of the last change; blanks in their place would not parse.
pub fn encode_stat(stat: &FileStat, out: &mut Vec<u8>) {
    let FileStat { id, size, mtime, .. } = *stat;
    let flags = flags_of(stat).0;
    let (mode, owner, group) = match &stat.access {
        Some(access) => (access.mode, access.owner.as_str(), access.group.as_str()),
        None => (mode_of(StatFlags(flags)), UNKNOWN, UNKNOWN),
    };
    let flags = u64::from(flags);
    for number in [id, size, flags] {
        put_number(out, number);
        out.push(b' ');
    }
    for _ in 0..3 {
        if mtime < 0 {
            out.push(b'-');
        }
        put_number(out, mtime.unsigned_abs());
        out.push(b' ');
    }
    put_text(out, format_args!("{mode:04o} {owner} {group}"));
}

/// The permission bits of a file of which only the flags are known.
fn mode_of(flags: StatFlags) -> u32 {
    let bits = [(StatFlags::READABLE, 0o444), (StatFlags::WRITABLE, 0o222), (StatFlags::EXECUTABLE, 0o111)];
    bits.into_iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, bits)| bits).sum()
}

fn flags_of(stat: &FileStat) -> StatFlags {
    let kind = match stat.kind {
        FileKind::File => StatFlags::default(),
        FileKind::Directory => StatFlags::DIRECTORY,
        FileKind::Other => StatFlags::OTHER,
    };
    [
        (stat.executable, StatFlags::EXECUTABLE),
        (stat.offline, StatFlags::OFFLINE),
        (stat.readable, StatFlags::READABLE),
        (stat.access.as_ref().is_some_and(|access| access.is_writable), StatFlags::WRITABLE),
        (stat.cached, StatFlags::CACHED),
    ]
    .into_iter()
    .filter(|(is_set, _)| *is_set)
    .fold(kind, |flags, (_, flag)| flags.with(flag))
}

/// Parses the stat text of a file, with four fields or more, with or without a NUL.
///
/// # Errors
/// When one of the first four fields is missing or no number.
pub fn parse_stat(text: &[u8]) -> Result<FileStat, ResponseError> {
    parse_fields(text).ok_or(ResponseError::Malformed { what: "stat text" })
}

fn parse_fields(text: &[u8]) -> Option<FileStat> {
    let text = std::str::from_utf8(until_nul(text)).ok()?;
    let mut fields = text.split_ascii_whitespace();
    // The id is opaque: one that is not a number still leaves a good stat.
    let id = fields.next()?.parse().unwrap_or(0);
    let size = fields.next()?.parse().ok()?;
    let flags = StatFlags(fields.next()?.parse().ok()?);
    let mtime = fields.next()?.parse().ok()?;
    let kind = if flags.contains(StatFlags::DIRECTORY) {
        FileKind::Directory
    } else if flags.contains(StatFlags::OTHER) {
        FileKind::Other
    } else {
        FileKind::File
    };
    // Old servers end the text here, and caches know no owner: only the flags describe the access then.
    let mode = fields.nth(2).and_then(|mode| u32::from_str_radix(mode, 8).ok()).unwrap_or_else(|| mode_of(flags));
    let (owner, group) = (fields.next().unwrap_or(UNKNOWN), fields.next().unwrap_or(UNKNOWN));
    let is_writable = flags.contains(StatFlags::WRITABLE);
    let access = (is_writable || owner != UNKNOWN)
        .then(|| Arc::new(Access { is_writable, mode, owner: owner.to_owned(), group: group.to_owned() }));
    Some(FileStat {
        id,
        kind,
        size,
        mtime,
        readable: flags.contains(StatFlags::READABLE),
        executable: flags.contains(StatFlags::EXECUTABLE),
        offline: flags.contains(StatFlags::OFFLINE),
        cached: flags.contains(StatFlags::CACHED),
        access,
        validator: None,
    })
}

impl ReplyTo {
    /// Appends the reply to a stat of a file.
    pub fn stat(self, stat: &FileStat, out: &mut Vec<u8>) {
        self.frame(Status::OK, out, |out| {
            encode_stat(stat, out);
            out.push(0);
        });
    }

    /// Appends the reply to a stat of a space: one server with so much free.
    pub fn vfs_stat(self, free_mib: u64, use_percent: u64, out: &mut Vec<u8>) {
        self.frame(Status::OK, out, |out| put_text(out, format_args!("1 {free_mib} {use_percent} 0 0 0\0")));
    }

    /// Appends the reply to a statx: one byte for each path.
    pub fn statx<'a>(self, stats: impl IntoIterator<Item = &'a FileStat>, out: &mut Vec<u8>) {
        let flags = |stat: &FileStat| match stat.kind {
            FileKind::Directory => 2,
            FileKind::Other => 4,
            FileKind::File if stat.offline => 8,
            FileKind::File => 0,
        };
        self.frame(Status::OK, out, |out| out.extend(stats.into_iter().map(flags)));
    }
}
