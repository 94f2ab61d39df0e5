//! Access records without the names of users and files.

use crate::access::{Access, Accesses};
use forebay_types::DataName;
use std::{collections::HashMap, fmt::Write as _};

/// Replaces names by numbers in the order of their appearance, which cannot be turned back without the original records.
///
/// Kept: the tree of directories, the data tier as a component or a field between dots, and `store` or `rucio` with the kind of data, so that tables by tier are as
/// before; bytes, rounded up to whole MiB; the order of accesses and the time between them. Times begin in the first week of 2001, on the
/// same day of the week.
#[derive(Debug, Default)]
pub struct Anonymizer {
    names: HashMap<String, usize>,
    path: String,
}

/// An access without names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AnonymousAccess<'a> {
    pub at_ms: i64,
    pub path: &'a str,
    pub size: u64,
    pub read: u64,
    /// Bytes that did not come from the origin; `None` if the record does not have it.
    pub saved: Option<u64>,
    pub user: u32,
}

/// The first Monday of 2001, in milliseconds of the Unix epoch.
const MONDAY_MS: i64 = 978_307_200_000;

const WEEK_MS: i64 = 7 * 86_400_000;

const ROUNDING: u64 = 1 << 20;

/// Directories at which name spaces of experiments begin.
const TOPS: [&str; 2] = ["store", "rucio"];

/// Directories below them that name a kind of data, not a person or a dataset.
const KINDS: [&str; 8] = ["mc", "data", "user", "group", "relval", "temp", "hidata", "himc"];

impl Anonymizer {
    /// Passes each of `accesses`, which must be sorted, to `visit`, without names.
    ///
    /// # Errors
    /// The first error of `visit`; it is not called again.
    pub fn run<E>(
        &mut self,
        accesses: &Accesses,
        mut visit: impl FnMut(AnonymousAccess<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let first = accesses.span_ms().map_or(0, |(first, _)| first);
        let weeks = first.saturating_sub(MONDAY_MS).div_euclid(WEEK_MS);
        for access in accesses.list() {
            let Some(file) = accesses.files().get(access.file as usize) else { continue };
            self.write_path(file.key.as_str());
            let saved = if access.saved == Access::UNKNOWN { None } else { Some(rounded(access.saved)) };
            visit(AnonymousAccess {
                at_ms: access.at_ms.saturating_sub(weeks.saturating_mul(WEEK_MS)),
                path: &self.path,
                size: rounded(file.size),
                read: rounded(access.read),
                saved,
                user: access.user,
            })?;
        }
        Ok(())
    }

    fn write_path(&mut self, path: &str) {
        self.path.clear();
        let tier = DataName::of(path).tier;
        let mut above = "";
        for component in path.split('/').skip(1) {
            self.path.push('/');
            if TOPS.contains(&component) || (TOPS.contains(&above) && KINDS.contains(&component)) {
                self.path.push_str(component);
            } else if component.split('.').any(|field| field == tier) {
                self.write_fields(component, tier);
            } else {
                self.write_number(component);
            }
            above = component;
        }
    }

    /// Writes a component that contains the tier: ATLAS has it among other fields, and `_` before the number of a file.
    fn write_fields(&mut self, component: &str, tier: &str) {
        for (position, field) in component.split('.').enumerate() {
            if position > 0 {
                self.path.push('.');
            }
            if field == tier {
                self.path.push_str(field);
                continue;
            }
            if field.starts_with('_') {
                self.path.push('_');
            }
            self.write_number(field);
        }
    }

    fn write_number(&mut self, name: &str) {
        let next = self.names.len() + 1;
        let number = match self.names.get(name) {
            Some(number) => *number,
            None => *self.names.entry(name.to_owned()).or_insert(next),
        };
        // Writing to a text cannot fail.
        let _ = write!(self.path, "n{number}");
    }
}

const fn rounded(bytes: u64) -> u64 {
    bytes.div_ceil(ROUNDING) * ROUNDING
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_cache::CacheKey;

    #[test]
    fn names_are_gone_and_the_rest_stays_comparable() {
        let mut accesses = Accesses::default();
        let at = 1_700_000_000_000;
        for (path, after_ms, user, saved) in [
            ("/store/mc/Run3/Secret/MINIAODSIM/v1/data/a.root", 0, "ann", 1),
            ("/store/mc/Run3/Secret/MINIAODSIM/v1/data/b.root", 1500, "bob", Access::UNKNOWN),
            ("/store/user/ann/a.root", 2500, "ann", 0),
        ] {
            let access = Access { at_ms: at + after_ms, file: 0, user: 0, read: 3 << 20, saved };
            accesses.add(CacheKey::from_text(path).unwrap(), Some((3 << 20) + 1), user, access).unwrap();
        }
        accesses.sort();
        let mut rows = Vec::new();
        let visit = |access: AnonymousAccess<'_>| {
            rows.push((
                access.path.to_owned(),
                access.at_ms,
                access.size >> 20,
                access.read >> 20,
                access.saved,
                access.user,
            ));
            Ok::<(), ()>(())
        };
        Anonymizer::default().run(&accesses, visit).unwrap();
        let paths: Vec<_> = rows.iter().map(|row| row.0.as_str()).collect();
        assert_eq!(
            paths,
            ["/store/mc/n1/n2/MINIAODSIM/n3/n4/n5", "/store/mc/n1/n2/MINIAODSIM/n3/n4/n6", "/store/user/n7/n5"]
        );
        let begin = rows[0].1;
        assert!((MONDAY_MS..MONDAY_MS + WEEK_MS).contains(&begin));
        assert_eq!((at - begin) % WEEK_MS, 0);
        assert_eq!(rows.iter().map(|row| row.1 - begin).collect::<Vec<_>>(), [0, 1500, 2500]);
        assert_eq!((rows[0].2, rows[0].3, rows[0].4), (4, 3, Some(1 << 20)));
        assert_eq!(rows.iter().map(|row| (row.4, row.5)).collect::<Vec<_>>()[1..], [(None, 1), (Some(0), 0)]);
    }

    #[test]
    fn tiers_are_the_same_without_names() {
        let mut anonymizer = Anonymizer::default();
        for (path, without_names) in [
            ("/root:/o:1094/store/mc/R/P/AODSIM/v/0/f", "/n1/n2/store/mc/n3/n4/AODSIM/n5/n6/n7"),
            ("/store/temp/user/ann/f", "/store/temp/n8/n9/n7"),
            ("/atlas/rucio/user/ann/a1/0f/f", "/n10/rucio/user/n9/n11/n12/n7"),
            ("/atlas/rucio/mc20/a1/0f/DAOD_PHYS.31415._000001.pool", "/n10/rucio/n13/n11/n12/DAOD_PHYS.n14._n15.n16"),
            ("/data/mc20.7.Py8.deriv.AOD.e6_p5/f", "/n17/n13.n18.n19.n20.AOD.n21/n7"),
            ("/store/README.md", "/store/n22"),
        ] {
            anonymizer.write_path(path);
            assert_eq!(anonymizer.path, without_names);
            assert_eq!(DataName::of(path).tier, DataName::of(&anonymizer.path).tier, "{path}");
        }
    }
}
