//! The head of a file, records of directories, and keys.

use crate::{
    Refusal,
    cursor::{Cursor, count},
    limits::{KEYS_MAX, STORED_LEN_MAX, TREES_MAX},
};

/// Files of this version and later have positions of eight bytes in their header.
const BIG_FILE_VERSION: u32 = 1_000_000;

/// Keys and directories of this version and earlier have positions of four bytes.
const SMALL_VERSION_MAX: u16 = 1000;

/// Bytes of a directory record that are read, in its longest form.
pub(crate) const DIRECTORY_LEN: u64 = 42;

/// The head of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Head {
    /// Where its first record begins: keys name their directory by this.
    pub(crate) begin: u64,
    /// Position of the record of the first directory.
    pub(crate) directory_position: u64,
}

impl Head {
    /// `None` if this is not a ROOT file.
    pub(crate) fn of_file(head: &[u8]) -> Result<Option<Self>, Refusal> {
        if !head.starts_with(b"root") {
            return Ok(None);
        }
        let mut header = Cursor::new(head);
        header.skip(4)?;
        let (version, begin) = (header.u32()?, header.u32()?);
        header.skip(if version >= BIG_FILE_VERSION { 24 } else { 16 })?;
        let name_len = header.u32()?;
        let begin = u64::from(begin);
        Ok(Some(Self { begin, directory_position: begin + u64::from(name_len) }))
    }
}

/// Bytes of a key in front of the name of its class, with positions of four and of eight bytes.
const CLASS_AT: [usize; 2] = [26, 34];

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
pub(crate) struct Key<Text = Vec<u8>> {
    pub(crate) position: u64,
    /// Position of the directory that it is in.
    pub(crate) directory: u64,
    /// Bytes of key and object as stored.
    pub(crate) len: u64,
    pub(crate) key_len: u16,
    pub(crate) object_len: u64,
    pub(crate) cycle: u16,
    pub(crate) class: Text,
    pub(crate) name: Text,
}

impl<'a> Key<&'a [u8]> {
    fn read(from: &mut Cursor<'a>) -> Result<Self, Refusal> {
        let len = count(from.i32()?)? as u64;
        let is_big = from.u16()? > SMALL_VERSION_MAX;
        let object_len = count(from.i32()?)? as u64;
        from.skip(4)?;
        let (key_len, cycle) = (from.u16()?, from.u16()?);
        let (position, directory) = (from.seek(is_big)?, from.seek(is_big)?);
        let (class, name) = (from.string()?, from.string()?);
        from.string()?;
        Ok(Self { position, directory, len, key_len, object_len, cycle, class, name })
    }

    fn copied(self) -> Key {
        let Self { position, directory, len, key_len, object_len, cycle, class, name } = self;
        Key { position, directory, len, key_len, object_len, cycle, class: class.to_vec(), name: name.to_vec() }
    }
}

impl Key {
    /// All keys of a list, without backups.
    pub(crate) fn read_list(list: &[u8]) -> Result<Vec<Self>, Refusal> {
        let mut from = Cursor::new(list);
        let own_len = usize::from(Key::<&[u8]>::read(&mut from)?.key_len);
        let mut from = Cursor::new(list);
        from.skip(own_len)?;
        let listed = count(from.i32()?)?;
        if listed > KEYS_MAX {
            return Err(Refusal::TooLarge("number of keys"));
        }
        let keys = (0..listed).map(|_| Key::<&[u8]>::read(&mut from).map(|key| key.copied()));
        Ok(Self::without_backups(keys.collect::<Result<Vec<_>, _>>()?))
    }

    /// The keys of trees in the directory at `directory` whose records lie as a whole in `bytes`, which are those from `offset` on.
    ///
    /// A key states its own place, so bytes that look like one by chance are not taken for one.
    pub(crate) fn find_trees(bytes: &[u8], offset: u64, directory: u64) -> Vec<Self> {
        let class = b"\x05TTree";
        let at_class = bytes.windows(class.len()).enumerate().filter(|(_, window)| *window == class);
        let starts = at_class.flat_map(|(at, _)| CLASS_AT.into_iter().filter_map(move |before| at.checked_sub(before)));
        let key_at = |start: usize| {
            let key = Key::<&[u8]>::read(&mut Cursor::new(bytes.get(start..)?)).ok()?;
            let is_whole = start as u64 + key.len <= bytes.len() as u64 && u64::from(key.key_len) <= key.len;
            let is_there = key.position == offset + start as u64 && key.directory == directory;
            // Copied last: a name can be as long as the rest of the bytes.
            (is_whole && is_there && key.class == b"TTree").then(|| key.copied())
        };
        let keys = starts.filter_map(key_at).take(TREES_MAX).collect();
        Self::without_backups(keys)
    }

    /// Of one name only the key of the highest cycle: others are backups.
    fn without_backups(mut keys: Vec<Self>) -> Vec<Self> {
        keys.sort_by(|a, b| (&a.name, b.cycle).cmp(&(&b.name, a.cycle)));
        keys.dedup_by(|later, earlier| later.name == earlier.name);
        keys
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.class.starts_with(b"TDirectory")
    }
}
