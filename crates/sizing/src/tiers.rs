//! The data tiers of the files of the records.

use crate::access::Accesses;
use forebay_types::DataName;
use std::collections::HashMap;

/// The tier of each file, found out once.
#[derive(Clone, Debug)]
pub struct Tiers<'a> {
    names: Vec<&'a str>,
    by_file: Vec<u32>,
}

/// Accesses to the files of one tier.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TierSums<'a> {
    pub name: &'a str,
    pub accesses: u64,
    /// Bytes that clients got.
    pub read: u64,
}

impl<'a> Tiers<'a> {
    pub fn new(accesses: &'a Accesses) -> Self {
        let mut tiers = Self { names: Vec::new(), by_file: Vec::with_capacity(accesses.files().len()) };
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        for file in accesses.files() {
            let name = DataName::of(file.key.as_str()).tier;
            let next = u32::try_from(tiers.names.len()).unwrap_or(u32::MAX);
            let number = *numbers.entry(name).or_insert(next);
            if number == next {
                tiers.names.push(name);
            }
            tiers.by_file.push(number);
        }
        tiers
    }

    /// The names of tiers, by number.
    pub fn names(&self) -> &[&'a str] {
        &self.names
    }

    /// The number of the tier of a file.
    pub fn of(&self, file: u32) -> Option<usize> {
        self.by_file.get(file as usize).map(|number| *number as usize)
    }

    /// The sums of all accesses by tier.
    pub fn sums(&self, accesses: &Accesses) -> Vec<TierSums<'a>> {
        let mut sums: Vec<_> = self.names.iter().map(|&name| TierSums { name, accesses: 0, read: 0 }).collect();
        for access in accesses.list() {
            if let Some(tier) = self.of(access.file).and_then(|tier| sums.get_mut(tier)) {
                tier.accesses += 1;
                tier.read = tier.read.saturating_add(access.read);
            }
        }
        sums
    }
}
