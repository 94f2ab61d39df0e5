//! The columns that jobs read of the files of one dataset.
//!
//! A set as bytes, version 1, little-endian: version (u8), whether it stands for all columns (u8), halvings of its budget (u8),
//! uses and hits (u32 each), the last use in seconds of the Unix epoch (i64), the lengths of head and tail (u32 each), the number
//! of columns (u16), for each a hash (u64) and a share in thousandths (u16), the CRC32C of it all (u32).

use crate::Tree;

/// The columns that jobs read of the files of one dataset, as hashes of their names, and where these files have their metadata.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ColumnSet {
    /// In order of the hash.
    columns: Vec<LearnedColumn>,
    /// More columns than are remembered one by one.
    is_all: bool,
    /// Each file of which most columns of the set were not read halves the bytes that may be fetched by it.
    halvings: u8,
    /// Files of which columns were fetched by it, and those of them of which at least half of these columns were read.
    pub uses: u32,
    pub hits: u32,
    /// Seconds of the Unix epoch.
    pub last_use: i64,
    /// Bytes at the beginning and at the end that readers and the parser requested.
    pub head_len: u32,
    pub tail_len: u32,
}

/// A column, and the share of the clusters in which it is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct LearnedColumn {
    hash: u64,
    /// Thousandths of the clusters.
    share: u16,
}

/// The use of the columns of a tree by one reader of a file: of each column about which something is known the hash and the share
/// of the clusters in which it was read, in thousandths.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Observed {
    pub columns: Vec<(u64, u16)>,
}

/// The changes of a set by a file, as numbers of columns.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SetChange {
    /// Columns that were expected and read.
    pub confirmed: u64,
    /// Columns that were expected and not read.
    pub refuted: u64,
    /// Columns that were read and are new in the set.
    pub learned: u64,
}

/// Columns of a set. A reader of more is expected to read all.
pub const SET_COLUMNS_MAX: usize = 512;

/// Longest encoding of a set, in bytes.
pub const SET_LEN_MAX: usize = HEADER_LEN + SET_COLUMNS_MAX * COLUMN_LEN + SEAL_LEN;

/// Time after which a set is of no use, in seconds: habits of users are not remembered for longer.
pub const SET_AGE_MAX_SECONDS: i64 = 30 * 86_400;

/// A column that is read in a smaller share of the clusters is not remembered, in thousandths.
const SHARE_MIN: u16 = 300;
const SHARE_ALL: u16 = 1000;

/// The newest file counts for one part of so many.
const NEWEST_PART: u32 = 4;

/// Percentage of the columns of a set that a tree must have for the set to be used.
const MATCH_PERCENT: usize = 80;

/// A set that was always wrong still gets a sixteenth of the bytes, so that it can be right again.
const HALVINGS_MAX: u8 = 4;

const VERSION: u8 = 1;
const HEADER_LEN: usize = 1 + 1 + 1 + 4 + 4 + 8 + 4 + 4 + 2;
const COLUMN_LEN: usize = 8 + 2;
const SEAL_LEN: usize = 4;

impl ColumnSet {
    pub const fn is_empty(&self) -> bool {
        self.columns.is_empty() && !self.is_all
    }

    /// Number of its columns; `None` when it stands for all.
    pub const fn column_count(&self) -> Option<usize> {
        if self.is_all { None } else { Some(self.columns.len()) }
    }

    /// Whether it is too old at `now`, in seconds of the Unix epoch.
    pub const fn is_outdated(&self, now: i64) -> bool {
        now.saturating_sub(self.last_use) > SET_AGE_MAX_SECONDS
    }

    /// The part of `max` bytes that may be fetched by it before its columns are seen to be read.
    pub const fn budget(&self, max: u64) -> u64 {
        max >> self.halvings
    }

    /// The columns of `tree` that are in it; `None` when the tree has too few of them.
    pub fn columns_of(&self, tree: &Tree) -> Option<Vec<usize>> {
        if self.is_all {
            return Some((0..tree.columns.len()).collect());
        }
        let is_in = |(column, name): (usize, &String)| self.find(column_hash(name)).map(|_| column);
        let found: Vec<usize> = tree.columns.iter().enumerate().filter_map(is_in).collect();
        (!found.is_empty() && found.len() * 100 >= self.columns.len() * MATCH_PERCENT).then_some(found)
    }

    /// Takes in the use of columns by a reader of one more file.
    pub fn note(&mut self, observed: &Observed) -> SetChange {
        let mut change = SetChange::default();
        if observed.columns.len() > SET_COLUMNS_MAX {
            let read = observed.columns.iter().filter(|(_, share)| *share >= SHARE_MIN).count();
            if read > SET_COLUMNS_MAX {
                change.learned = if self.is_all { 0 } else { read as u64 };
                *self = Self { columns: Vec::new(), is_all: true, ..self.clone() };
                return change;
            }
        }
        let was_all = std::mem::replace(&mut self.is_all, false);
        for &(hash, share) in &observed.columns {
            let is_read = share >= SHARE_MIN;
            match self.find(hash).and_then(|place| self.columns.get_mut(place)) {
                Some(known) => {
                    *(if is_read { &mut change.confirmed } else { &mut change.refuted }) += 1;
                    let sum = u32::from(known.share) * (NEWEST_PART - 1) + u32::from(share.min(SHARE_ALL));
                    known.share = u16::try_from(sum / NEWEST_PART).unwrap_or(SHARE_ALL);
                }
                None if is_read => {
                    change.learned += 1;
                    self.insert(LearnedColumn { hash, share: share.min(SHARE_ALL) });
                }
                None => {}
            }
        }
        self.columns.retain(|column| column.share >= SHARE_MIN);
        if self.columns.len() > SET_COLUMNS_MAX {
            self.columns.clear();
            self.is_all = true;
        }
        if !was_all {
            self.judge(change);
        }
        change
    }

    /// Counts whether its columns were read.
    fn judge(&mut self, change: SetChange) {
        if change.confirmed + change.refuted == 0 {
            return;
        }
        self.uses = self.uses.saturating_add(1);
        if change.confirmed >= change.refuted {
            self.hits = self.hits.saturating_add(1);
            self.halvings = self.halvings.saturating_sub(1);
        } else {
            self.halvings = self.halvings.saturating_add(1).min(HALVINGS_MAX);
        }
    }

    fn find(&self, hash: u64) -> Option<usize> {
        self.columns.binary_search_by_key(&hash, |column| column.hash).ok()
    }

    fn insert(&mut self, column: LearnedColumn) {
        if let Err(place) = self.columns.binary_search_by_key(&column.hash, |it| it.hash) {
            self.columns.insert(place, column);
        }
    }
}

// As bytes.
impl ColumnSet {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_LEN + self.columns.len() * COLUMN_LEN + SEAL_LEN);
        bytes.extend([VERSION, u8::from(self.is_all), self.halvings]);
        for number in [self.uses, self.hits] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.last_use.to_le_bytes());
        for number in [self.head_len, self.tail_len] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(u16::try_from(self.columns.len()).unwrap_or(u16::MAX).to_le_bytes());
        for column in &self.columns {
            bytes.extend(column.hash.to_le_bytes());
            bytes.extend(column.share.to_le_bytes());
        }
        let sum = crc32c::crc32c(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// Reads what [`Self::encode`] made. `None` when it is damaged, or of another version: such a set is of no use.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (rest, seal) = bytes.split_last_chunk::<SEAL_LEN>()?;
        if bytes.len() > SET_LEN_MAX || crc32c::crc32c(rest).to_le_bytes() != *seal {
            return None;
        }
        let mut fields = Fields(rest);
        let [version, all, halvings] = fields.take()?;
        let uses = u32::from_le_bytes(fields.take()?);
        let hits = u32::from_le_bytes(fields.take()?);
        let last_use = i64::from_le_bytes(fields.take()?);
        let head_len = u32::from_le_bytes(fields.take()?);
        let tail_len = u32::from_le_bytes(fields.take()?);
        let count = usize::from(u16::from_le_bytes(fields.take()?));
        if version != VERSION || all > 1 || halvings > HALVINGS_MAX || count > SET_COLUMNS_MAX {
            return None;
        }
        let mut columns: Vec<LearnedColumn> = Vec::with_capacity(count);
        for _ in 0..count {
            let hash = u64::from_le_bytes(fields.take()?);
            let share = u16::from_le_bytes(fields.take()?);
            let is_in_order = columns.last().is_none_or(|last| last.hash < hash);
            if !is_in_order || !(SHARE_MIN..=SHARE_ALL).contains(&share) {
                return None;
            }
            columns.push(LearnedColumn { hash, share });
        }
        let is_all = all == 1;
        let is_whole = fields.0.is_empty() && !(is_all && count > 0);
        is_whole.then_some(Self { columns, is_all, halvings, uses, hits, last_use, head_len, tail_len })
    }
}

/// The fields that are not read yet.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }
}

/// The hash of a column's name that is remembered: FNV-1a, which is the same in all versions.
pub(crate) fn column_hash(name: &str) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    name.bytes().fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}
