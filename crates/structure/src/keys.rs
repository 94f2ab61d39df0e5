//! The head of a file, records of directories, and keys.

use crate::{
    Refusal,
    cursor::{Cursor, count},
    limits::{KEYS_MAX, STORED_LEN_MAX},
};

/// Files of this version and later have positions of eight bytes in their header.
const BIG_FILE_VERSION: u32 = 1_000_000;

/// Keys and directories of this version and earlier have positions of four bytes.
const SMALL_VERSION_MAX: u16 = 1000;

/// Bytes of a directory record that are read, in its longest form.
pub(crate) const DIRECTORY_LEN: u64 = 42;

/// Position of the record of the first directory, from the header; `None` if this is not a ROOT file.
pub(crate) fn directory_position(head: &[u8]) -> Result<Option<u64>, Refusal> {
    if !head.starts_with(b"root") {
        return Ok(None);
    }
    let mut header = Cursor::new(head);
    header.skip(4)?;
    let (version, begin) = (header.u32()?, header.u32()?);
    header.skip(if version >= BIG_FILE_VERSION { 24 } else { 16 })?;
    let name_len = header.u32()?;
    Ok(Some(u64::from(begin) + u64::from(name_len)))
}

/// The place of the keys of a directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct KeyList {
    pub(crate) position: u64,
    pub(crate) len: u64,
}

impl KeyList {
    /// Reads the record of a directory; `None` if its writer has not written keys yet.
    pub(crate) fn of_directory(record: &[u8]) -> Result<Option<Self>, Refusal> {
        let mut record = Cursor::new(record);
        let is_big = record.u16()? > SMALL_VERSION_MAX;
        // Times of creation and of change.
        record.skip(8)?;
        let len = count(record.i32()?)? as u64;
        record.skip(4)?;
        record.seek(is_big)?;
        record.seek(is_big)?;
        let position = record.seek(is_big)?;
        if len > STORED_LEN_MAX {
            return Err(Refusal::TooLarge("a list of keys"));
        }
        Ok((position != 0 && len != 0).then_some(Self { position, len }))
    }
}

/// A key: where an object is, and what it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Key {
    pub(crate) position: u64,
    /// Bytes of key and object as stored.
    pub(crate) len: u64,
    pub(crate) key_len: u16,
    pub(crate) object_len: u64,
    pub(crate) cycle: u16,
    pub(crate) class: Vec<u8>,
    pub(crate) name: Vec<u8>,
}

impl Key {
    fn read(from: &mut Cursor<'_>) -> Result<Self, Refusal> {
        let len = count(from.i32()?)? as u64;
        let is_big = from.u16()? > SMALL_VERSION_MAX;
        let object_len = count(from.i32()?)? as u64;
        from.skip(4)?;
        let (key_len, cycle) = (from.u16()?, from.u16()?);
        let position = from.seek(is_big)?;
        from.seek(is_big)?;
        let (class, name) = (from.string()?.to_vec(), from.string()?.to_vec());
        from.string()?;
        Ok(Self { position, len, key_len, object_len, cycle, class, name })
    }

    /// All keys of a list; of one name only that of the highest cycle, because others are backups.
    pub(crate) fn read_list(list: &[u8]) -> Result<Vec<Self>, Refusal> {
        let mut from = Cursor::new(list);
        let own_len = usize::from(Self::read(&mut from)?.key_len);
        let mut from = Cursor::new(list);
        from.skip(own_len)?;
        let listed = count(from.i32()?)?;
        if listed > KEYS_MAX {
            return Err(Refusal::TooLarge("number of keys"));
        }
        let mut keys = (0..listed).map(|_| Self::read(&mut from)).collect::<Result<Vec<_>, _>>()?;
        keys.sort_by(|a, b| (&a.name, b.cycle).cmp(&(&b.name, a.cycle)));
        keys.dedup_by(|later, earlier| later.name == earlier.name);
        Ok(keys)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.class.starts_with(b"TDirectory")
    }
}
