//! Files that stay in the table of open files for a while after their last close.

use forebay_cache::CacheKey;
use std::collections::VecDeque;

/// Files of a part of the table that were left a moment ago, in the order of their last closes.
///
/// Each close is a mention of its file, which knows the number of its last one: a close compares no names, whose memory is mostly not in the
/// caches of the processor.
#[derive(Debug, Default)]
pub(crate) struct LeftFiles {
    /// The last one at the end. `None` where a later one of the same file follows.
    mentions: VecDeque<Option<CacheKey>>,
    /// Mentions before the first of these. They are numbered from 1 on.
    taken_out: u64,
    /// Those of `mentions` that are the last ones of their files.
    files: usize,
}

/// Files that stay in the table after their last close, until a regular look at all files: one that is opened again soon is
/// found there for half the cost. More would hold descriptors and memory that the next opens need.
const FILES_MAX: usize = 64;

/// Mentions that are kept: a few files that are opened all the time do not keep the others here for ever.
const MENTIONS_MAX: usize = 4 * FILES_MAX;

impl LeftFiles {
    /// Notes a close of the file of `key`, whose last mention was `last` (0: none), and returns the number of this one.
    pub(crate) fn mention(&mut self, key: &CacheKey, last: u64) -> u64 {
        let position = last.checked_sub(self.taken_out + 1).and_then(|position| usize::try_from(position).ok());
        if let Some(mention) = position.and_then(|position| self.mentions.get_mut(position))
            && mention.take().is_some()
        {
            self.files -= 1;
        }
        self.mentions.push_back(Some(key.clone()));
        self.files += 1;
        self.taken_out + self.mentions.len() as u64
    }

    /// The file that is to leave, with its last mention, if there are too many. To be called after each mention.
    pub(crate) fn pop_surplus(&mut self) -> Option<(u64, CacheKey)> {
        while self.files > FILES_MAX
            || self.mentions.len() > MENTIONS_MAX
            || matches!(self.mentions.front(), Some(None))
        {
            let mention = self.mentions.pop_front()?;
            self.taken_out += 1;
            if let Some(key) = mention {
                self.files -= 1;
                return Some((self.taken_out, key));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Closes of files by number; the files that leave.
    #[derive(Default)]
    struct Table {
        left: LeftFiles,
        last: HashMap<CacheKey, u64>,
    }

    impl Table {
        fn close(&mut self, number: usize) -> Option<usize> {
            let key = CacheKey::from_text(&format!("/{number}")).unwrap();
            let mention = self.left.mention(&key, self.last.get(&key).copied().unwrap_or(0));
            self.last.insert(key, mention);
            let (mention, key) = self.left.pop_surplus()?;
            assert_eq!(self.last.remove(&key), Some(mention));
            Some(key.as_str()[1..].parse().unwrap())
        }
    }

    #[test]
    fn one_file_too_many_leaves_the_one_that_was_left_first() {
        let mut table = Table::default();
        assert!((0..FILES_MAX).all(|number| table.close(number).is_none()));
        // The first one is left again.
        assert_eq!(table.close(0), None);
        assert_eq!(table.close(FILES_MAX), Some(1));
        assert_eq!(table.close(1), Some(2));
        assert_eq!((table.left.files, table.last.len()), (FILES_MAX, FILES_MAX));
    }

    #[test]
    fn a_file_that_is_opened_all_the_time_does_not_keep_the_others() {
        let mut table = Table::default();
        table.close(0);
        let left: Vec<usize> = (0..2 * MENTIONS_MAX).filter_map(|_| table.close(1)).collect();
        assert_eq!(left, [0]);
        assert!(table.left.mentions.len() <= MENTIONS_MAX);
        assert_eq!(table.left.files, 1);
    }

    #[test]
    fn files_that_are_opened_in_turn_stay() {
        let mut table = Table::default();
        for _ in 0..10 {
            assert!((0..FILES_MAX).all(|number| table.close(number).is_none()));
        }
        assert_eq!(table.left.files, FILES_MAX);
        assert!(table.left.mentions.len() <= FILES_MAX);
    }
}
