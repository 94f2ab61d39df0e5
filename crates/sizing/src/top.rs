//! The groups with the most bytes, among any number of names.

use crate::reuse::Group;
use std::{cmp::Reverse, collections::HashMap};

/// Sums by name for at most a number of names. When there are more, the one with the fewest bytes gives its place to the new one; the names with the most
/// bytes are counted nearly completely.
#[derive(Debug)]
pub(crate) struct Top {
    names_max: usize,
    groups: HashMap<String, Group>,
}

/// The part of the names that is dropped at a time: a search for each new name would cost too much.
const DROPPED_PART: usize = 10;

impl Top {
    pub(crate) fn new(names_max: usize) -> Self {
        Self { names_max, groups: HashMap::new() }
    }

    pub(crate) fn add(&mut self, name: &str, read: u64, reread: u64) {
        if let Some(group) = self.groups.get_mut(name) {
            group.add(read, reread);
            return;
        }
        if self.groups.len() == self.names_max {
            self.drop_smallest();
        }
        let mut group = Group { name: name.to_owned(), ..Group::default() };
        group.add(read, reread);
        self.groups.insert(name.to_owned(), group);
    }

    /// All groups, those with the most bytes first.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = self.groups.values().cloned().collect();
        groups.sort_by(|a, b| (Reverse(a.read), &a.name).cmp(&(Reverse(b.read), &b.name)));
        groups
    }

    fn drop_smallest(&mut self) {
        let groups = self.groups();
        for group in groups.iter().rev().take(self.names_max / DROPPED_PART + 1) {
            self.groups.remove(&group.name);
        }
    }
}

impl Group {
    fn add(&mut self, read: u64, reread: u64) {
        self.accesses += 1;
        self.read = self.read.saturating_add(read);
        self.reread = self.reread.saturating_add(reread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_groups_stay() {
        let mut top = Top::new(10);
        for round in 0..100_u64 {
            top.add("large", 50, 25);
            top.add(&format!("small{round}"), 1, 0);
        }
        let groups = top.groups();
        assert!(groups.len() <= 10);
        assert_eq!(groups[0], Group { name: "large".to_owned(), accesses: 100, read: 5000, reread: 2500 });
    }
}
