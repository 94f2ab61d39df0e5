//! Access records without the names of users and files.

use crate::{
    access::{Access, Accesses},
    names::tier_of,
};
use std::{collections::HashMap, fmt::Write as _};

/// Replaces names by numbers in the order of their appearance, which cannot be turned back without the original records.
///
/// Kept: the tree of directories, the data tier, and at the top of CMS's name space `store` and its kind of data, so that rules and tables by tier apply as before;
/// bytes, rounded up to whole MiB; the order of accesses and the time between them. Times begin in the first week of 2001, on the
/// same day of the week.
#[derive(Debug, Default)]
pub struct Anonymizer {
    components: HashMap<String, usize>,
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

/// Components of the name space of CMS that name a kind of data, not a person or a dataset.
const KINDS: [&str; 9] = ["store", "mc", "data", "user", "group", "relval", "temp", "hidata", "himc"];

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
        let tier = tier_of(path);
        let mut is_top = true;
        for component in path.split('/').skip(1) {
            let is_kept = component == tier || (is_top && KINDS.contains(&component));
            is_top = is_top && is_kept;
            if is_kept {
                // Writing to a text cannot fail.
                let _ = write!(self.path, "/{component}");
                continue;
            }
            let next = self.components.len() + 1;
            let number = match self.components.get(component) {
                Some(number) => *number,
                None => *self.components.entry(component.to_owned()).or_insert(next),
            };
            let _ = write!(self.path, "/n{number}");
        }
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
}
