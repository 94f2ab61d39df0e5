//! Accesses to files, in a compact table.

use crate::requests::Requests;
use forebay_cache::CacheKey;
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

/// Accesses held at most: about 3 GB of memory.
pub const ACCESSES_MAX: usize = 100_000_000;

/// Files held at most: about 200 bytes each with their names.
pub const FILES_MAX: usize = 20_000_000;

/// Names of users held at most; accesses of further ones count for the last of them.
pub const USERS_MAX: usize = 1_000_000;

/// One access: a client opened a file, read, and closed it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Access {
    /// Its end, in milliseconds of the Unix epoch.
    pub at_ms: i64,
    /// Number of the file.
    pub file: u32,
    /// Number of the user.
    pub user: u32,
    /// Bytes that the client got.
    pub read: u64,
    /// Those of them that did not come from an origin, or [`Self::UNKNOWN`] if the record does not have it.
    pub saved: u64,
}

impl Access {
    /// The record has no outcome.
    pub const UNKNOWN: u64 = u64::MAX;
}

/// A file of the records.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct File {
    pub key: CacheKey,
    /// Its size in bytes; the most that was read of it at once if no record has the size.
    pub size: u64,
}

/// A limit of the table is reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("more than {max} {what}: simulate a shorter time")]
pub struct Full {
    pub max: usize,
    pub what: &'static str,
}

/// All accesses of a set of records, with their files and users.
#[derive(Clone, Debug, Default)]
pub struct Accesses {
    list: Vec<Access>,
    files: Vec<File>,
    users: Vec<String>,
    requests: Requests,
    file_numbers: HashMap<u64, u32>,
    user_numbers: HashMap<String, u32>,
}

impl Accesses {
    /// Adds an access at `at_ms`; `size` is the file's, if it is known.
    ///
    /// # Errors
    /// When a limit of the table is reached.
    pub fn add(&mut self, key: CacheKey, size: Option<u64>, user: &str, access: Access) -> Result<(), Full> {
        let file = self.file_number(key)?;
        self.add_to(file, size, user, access)
    }

    /// Adds an access to the file of this number, as [`Self::add`] does.
    ///
    /// # Errors
    /// When a limit of the table is reached.
    pub(crate) fn add_to(&mut self, file: u32, size: Option<u64>, user: &str, mut access: Access) -> Result<(), Full> {
        if self.list.len() == ACCESSES_MAX {
            return Err(Full { max: ACCESSES_MAX, what: "accesses" });
        }
        access.file = file;
        access.user = self.user_number(user);
        if let Some(file) = self.files.get_mut(access.file as usize) {
            file.size = file.size.max(size.unwrap_or(access.read));
        }
        self.list.push(access);
        Ok(())
    }

    /// Sorts by time. Times that are not later than the one before are moved to a millisecond after it: a replay takes
    /// accesses in this order, and ranks them by their times.
    pub fn sort(&mut self) {
        self.requests.sort();
        self.list.sort_by_key(|access| access.at_ms);
        let mut last = i64::MIN;
        for access in &mut self.list {
            access.at_ms = access.at_ms.max(last.saturating_add(1));
            last = access.at_ms;
        }
    }

    pub fn list(&self) -> &[Access] {
        &self.list
    }

    /// The files, by number.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// The users, by number.
    pub fn users(&self) -> &[String] {
        &self.users
    }

    /// The requests of traces, if they were imported.
    pub const fn requests(&self) -> &Requests {
        &self.requests
    }

    pub(crate) const fn requests_mut(&mut self) -> &mut Requests {
        &mut self.requests
    }

    /// Notes a file before it is accessed, and its user; their numbers.
    pub(crate) fn note(&mut self, key: CacheKey, size: Option<u64>, user: &str) -> Result<(u32, u32), Full> {
        let number = self.file_number(key)?;
        if let Some((file, size)) = self.files.get_mut(number as usize).zip(size) {
            file.size = file.size.max(size);
        }
        Ok((number, self.user_number(user)))
    }

    /// Times of the first and the last access, once the table is sorted; `None` if it is empty.
    pub fn span_ms(&self) -> Option<(i64, i64)> {
        Some((self.list.first()?.at_ms, self.list.last()?.at_ms))
    }

    /// The number of the file whose key is `text`, if there is one.
    pub(crate) fn known_file(&self, text: &str) -> Option<u32> {
        self.find(text).ok()
    }

    fn file_number(&mut self, key: CacheKey) -> Result<u32, Full> {
        let hash = match self.find(key.as_str()) {
            Ok(number) => return Ok(number),
            Err(hash) => hash,
        };
        let full = Full { max: FILES_MAX, what: "files" };
        let number = u32::try_from(self.files.len()).map_err(|_| full)?;
        if self.files.len() == FILES_MAX {
            return Err(full);
        }
        self.files.push(File { key, size: 0 });
        self.file_numbers.insert(hash, number);
        Ok(number)
    }

    /// The number of a file by the text of its key, or else the place in the map that is free for it.
    fn find(&self, text: &str) -> Result<u32, u64> {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let mut hash = hasher.finish();
        // Names are held once: the map has their hashes, and the next number in place of one that is taken by another name.
        while let Some(&number) = self.file_numbers.get(&hash) {
            if self.files.get(number as usize).is_some_and(|file| file.key.as_str() == text) {
                return Ok(number);
            }
            hash = hash.wrapping_add(1);
        }
        Err(hash)
    }

    fn user_number(&mut self, user: &str) -> u32 {
        if let Some(&number) = self.user_numbers.get(user) {
            return number;
        }
        let number = u32::try_from(self.users.len()).unwrap_or(u32::MAX);
        if self.users.len() == USERS_MAX {
            return number.saturating_sub(1);
        }
        self.users.push(user.to_owned());
        self.user_numbers.insert(user.to_owned(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(accesses: &mut Accesses, path: &str, size: Option<u64>, user: &str, at_ms: i64) {
        let access = Access { at_ms, file: 0, user: 0, read: 10, saved: Access::UNKNOWN };
        accesses.add(CacheKey::from_text(path).unwrap(), size, user, access).unwrap();
    }

    #[test]
    fn files_and_users_are_numbered_once_and_times_increase() {
        let mut accesses = Accesses::default();
        add(&mut accesses, "/b", None, "eve", 5);
        add(&mut accesses, "/a", Some(7), "eve", 3);
        add(&mut accesses, "/b", Some(99), "bob", 5);
        add(&mut accesses, "/a", None, "eve", 4);
        accesses.sort();
        let list: Vec<_> = accesses.list().iter().map(|access| (access.at_ms, access.file, access.user)).collect();
        assert_eq!(list, [(3, 1, 0), (4, 1, 0), (5, 0, 0), (6, 0, 1)]);
        assert_eq!(accesses.files().iter().map(|file| file.size).collect::<Vec<_>>(), [99, 10]);
        assert_eq!(accesses.users(), ["eve", "bob"]);
        assert_eq!(accesses.span_ms(), Some((3, 6)));
    }
}
