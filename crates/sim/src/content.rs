//! Contents of the simulated origin's files: every version of every file differs everywhere, but for the metadata of ROOT files.

use crate::dice::mix;
use forebay_types::ByteRange;

/// One version of one file.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Content {
    pub(crate) file: u64,
    /// Number of the version; its change time is derived from it.
    pub(crate) version: u64,
}

/// A ROOT file with a tree of three columns in three clusters, not compressed.
const ROOT_FILE: &[u8] = include_bytes!("../../structure/tests/golden/tree-none.root");

/// Size of the ROOT file in bytes.
pub(crate) const ROOT_FILE_SIZE: u64 = ROOT_FILE.len() as u64;

/// The baskets of the tree, each as start and end: these bytes differ from version to version.
const BASKETS: [(u64, u64); 4] = [(224, 1304), (23_390, 23_780), (23_780, 24_170), (24_170, 24_515)];

/// Change time of version 0, in seconds of the Unix epoch.
const FIRST_MTIME: i64 = 1_700_000_000;

impl Content {
    pub(crate) fn mtime(self) -> i64 {
        FIRST_MTIME.saturating_add(i64::try_from(self.version).unwrap_or(i64::MAX))
    }

    /// The version of `file` that has this change time.
    pub(crate) fn of_mtime(file: u64, mtime: i64) -> Option<Self> {
        let version = u64::try_from(mtime.checked_sub(FIRST_MTIME)?).ok()?;
        Some(Self { file, version })
    }

    pub(crate) fn bytes(self, range: ByteRange) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(usize::try_from(range.len()).unwrap_or(0) + 16);
        for index in range.start() / 8..range.end().div_ceil(8) {
            bytes.extend_from_slice(&self.word(index).to_le_bytes());
        }
        bytes.drain(..usize::try_from(range.start() % 8).unwrap_or(0));
        bytes.truncate(usize::try_from(range.len()).unwrap_or(0));
        if is_root(self.file) {
            for (offset, byte) in (range.start()..range.end()).zip(&mut bytes) {
                let is_data = BASKETS.iter().any(|(start, end)| (*start..*end).contains(&offset));
                if let Some(metadata) = usize::try_from(offset).ok().and_then(|offset| ROOT_FILE.get(offset))
                    && !is_data
                {
                    *byte = *metadata;
                }
            }
        }
        bytes
    }

    /// Where `bytes`, which begin at `offset`, first differ from this version.
    pub(crate) fn first_difference(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let expected = self.bytes(ByteRange::at(offset, bytes.len() as u64));
        let differs = || expected.iter().zip(bytes).position(|(expected, byte)| expected != byte);
        (expected != bytes).then(|| offset + differs().unwrap_or(expected.len()) as u64)
    }

    fn word(self, index: u64) -> u64 {
        mix(index ^ (self.file << 48) ^ (self.version << 32))
    }
}

/// Whether a file is a ROOT file of [`ROOT_FILE_SIZE`] bytes; of another size its name is one of a ROOT file only.
pub(crate) const fn is_root(file: u64) -> bool {
    file % 3 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_shows_the_same_bytes() {
        let content = Content { file: 3, version: 2 };
        let whole = content.bytes(ByteRange::at(0, 100));
        for (start, end) in [(0, 100), (1, 9), (7, 8), (8, 16), (13, 99)] {
            let part = content.bytes(ByteRange::between(start, end));
            assert_eq!(part, whole[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()]);
        }
        assert_eq!(content.first_difference(10, &whole[10..20]), None);
        assert_eq!(content.first_difference(11, &whole[10..20]), Some(11));
        assert_eq!(Content::of_mtime(3, content.mtime()), Some(content));
    }

    #[test]
    fn root_files_can_be_parsed_and_their_baskets_differ() {
        let versions = [0, 1].map(|version| Content { file: 4, version }.bytes(ByteRange::at(0, ROOT_FILE_SIZE)));
        let mut parser = forebay_structure::Parser::new(ROOT_FILE_SIZE);
        while let Some(range) = parser.poll_wanted() {
            let [start, end] = [range.start(), range.end()].map(|offset| usize::try_from(offset).unwrap());
            parser.handle_bytes(&versions[0][start..end]);
        }
        let layout = parser.into_layout();
        let items = &layout.trees[0].items;
        assert_eq!((items.len(), layout.trees[0].clusters), (9, 3));
        for item in items {
            let [start, end] = [item.offset(), item.end()].map(|offset| usize::try_from(offset).unwrap());
            let equal = (start..end).filter(|at| versions[0][*at] == versions[1][*at]).count();
            assert!(equal < (end - start) / 8, "{item:?}");
        }
    }
}
