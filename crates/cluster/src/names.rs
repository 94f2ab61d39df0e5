//! The files that managers have asked about lately.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// Most remembered names. Beyond it the oldest are forgotten: their files are asked for again when their node fails.
const NAMES_MAX: usize = 100_000;

/// Most bytes of remembered names.
const BYTES_MAX: usize = 16 << 20;

/// Remembered names, and what managers expect of this node.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashMap<Arc<str>, Expected>,
    order: VecDeque<Arc<str>>,
    bytes: usize,
}

/// The last that this node has reported of a file.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Expected {
    Nothing,
    /// It will fetch the file, in place of a member that was lost.
    Inherited,
    /// It will fetch the file, or has it.
    Promised,
    /// It has the file, and has said so without being asked.
    Announced,
}

impl Names {
    /// Remembers that a manager has asked.
    pub(crate) fn note(&mut self, path: &str) {
        self.remember(path, Expected::Nothing);
    }

    /// Remembers that this node will have the file.
    pub(crate) fn assign(&mut self, path: &str) {
        self.remember(path, Expected::Promised);
    }

    /// Remembers that this node will have the file of a lost member.
    pub(crate) fn inherit(&mut self, path: &str) {
        self.remember(path, Expected::Inherited);
    }

    /// Files that were inherited, and not promised again since.
    pub(crate) fn inherited(&self) -> Vec<Arc<str>> {
        let inherited = self.known.iter().filter(|(_, expected)| **expected == Expected::Inherited);
        inherited.map(|(path, _)| Arc::clone(path)).collect()
    }

    /// This node will not have the file any more.
    pub(crate) fn release(&mut self, path: &str) {
        if let Some(expected) = self.known.get_mut(path) {
            *expected = Expected::Nothing;
        }
    }

    /// This node will have none of the files that it has promised.
    pub(crate) fn release_all(&mut self) {
        self.known.values_mut().for_each(|expected| *expected = Expected::Nothing);
    }

    /// Notes that there is data of the file. True if managers have a promise only.
    pub(crate) fn arrived(&mut self, path: &str) -> bool {
        let is_promise = |expected: &&mut Expected| matches!(expected, Expected::Promised | Expected::Inherited);
        let Some(expected) = self.known.get_mut(path).filter(is_promise) else { return false };
        *expected = Expected::Announced;
        true
    }

    pub(crate) fn is_assigned(&self, path: &str) -> bool {
        self.known.get(path).is_some_and(|&expected| expected != Expected::Nothing)
    }

    /// All names, in no particular order.
    pub(crate) fn all(&self) -> Vec<Arc<str>> {
        self.order.iter().cloned().collect()
    }

    fn remember(&mut self, path: &str, expected: Expected) {
        if let Some(known) = self.known.get_mut(path) {
            *known = (*known).max(expected);
            return;
        }
        let path: Arc<str> = path.into();
        self.bytes = self.bytes.saturating_add(path.len());
        self.order.push_back(Arc::clone(&path));
        self.known.insert(path, expected);
        while self.order.len() > NAMES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(oldest.len());
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_outlasts_later_questions() {
        let mut names = Names::default();
        names.note("/a");
        assert!(!names.is_assigned("/a") && !names.is_assigned("/b"));
        names.assign("/a");
        names.note("/a");
        assert!(names.is_assigned("/a"));
        assert_eq!(names.all().len(), 1);
        names.release("/a");
        assert!(!names.is_assigned("/a"));
        names.assign("/a");
        names.release_all();
        assert!(!names.is_assigned("/a"));
    }

    #[test]
    fn the_arrival_of_a_promised_file_is_news_once() {
        let mut names = Names::default();
        names.note("/a");
        assert!(!names.arrived("/a") && !names.arrived("/b"), "no manager was promised anything");
        names.assign("/a");
        assert!(names.arrived("/a"));
        names.assign("/a");
        assert!(!names.arrived("/a") && names.is_assigned("/a"));
        names.release("/a");
        names.assign("/a");
        assert!(names.arrived("/a"), "it was fetched again");
    }

    #[test]
    fn inherited_files_are_those_that_were_not_promised_since() {
        let mut names = Names::default();
        for path in ["/a", "/b", "/c", "/d"] {
            names.inherit(path);
        }
        names.assign("/b");
        assert!(names.arrived("/c"));
        names.release("/d");
        assert_eq!(names.inherited().iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["/a"]);
        assert!(names.is_assigned("/a"));
    }

    #[test]
    fn the_oldest_names_are_forgotten() {
        let mut names = Names::default();
        for number in 0..=NAMES_MAX {
            names.assign(&number.to_string());
        }
        assert_eq!(names.all().len(), NAMES_MAX);
        assert!(!names.is_assigned("0") && names.is_assigned("1"));
        let mut names = Names::default();
        let long = "x".repeat(BYTES_MAX / 4);
        for number in 0..5 {
            names.assign(&format!("{number}{long}"));
        }
        assert_eq!(names.all().len(), 3);
    }
}
