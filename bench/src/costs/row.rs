//! The rows that are counted: one operation of each kind that a warm cache answers.

use super::scene::{MANY_FILES, SMALL_FILES};
use crate::load::{Operation, Order};
use anyhow::{Result, bail};

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Short name, for the command line and the baseline.
    pub(crate) name: &'static str,
    pub(crate) protocol: Protocol,
    pub(crate) operation: Operation,
    pub(crate) order: Order,
    /// Operations that are sent at once; then all answers are awaited.
    pub(crate) pipeline: u16,
    /// How often that is done in one slice. Timers fire during every slice, because it takes a while to end one; many
    /// operations make their share small.
    pub(crate) batches: u16,
    /// Whether other clients have the files open, which saves the server from loading their entries.
    pub(crate) use_by_others: UseByOthers,
    pub(crate) files: Files,
    /// Whether the file is dropped from the page cache before each batch: reads come from the disk.
    pub(crate) is_from_device: bool,
}

/// The protocol of the requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Protocol {
    Root { is_encrypted: bool },
    Http { is_encrypted: bool },
}

/// The files of a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Files {
    /// One, which is read.
    Large,
    /// A few, opened in turn.
    Small,
    /// Many, opened in turn. The work after a close, until the server has dropped the state of the file, counts as well.
    Many,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum UseByOthers {
    /// No matter: reads have the file open already.
    Any,
    Open,
    /// The server has written their records and dropped their state: each slice opens a file once.
    Closed,
}

impl Row {
    /// Operations in one slice.
    pub(crate) fn operations(&self) -> u64 {
        u64::from(self.pipeline) * u64::from(self.batches)
    }
}

const fn read(name: &'static str, len: u32, pipeline: u16, batches: u16) -> Row {
    Row {
        name,
        protocol: Protocol::Root { is_encrypted: false },
        operation: Operation::Read { len },
        order: Order::Random,
        pipeline,
        batches,
        use_by_others: UseByOthers::Any,
        files: Files::Large,
        is_from_device: false,
    }
}

const fn http(name: &'static str, len: u32, batches: u16) -> Row {
    Row { protocol: Protocol::Http { is_encrypted: false }, ..read(name, len, 1, batches) }
}

/// Sequential reads of 1 MiB.
const fn encrypted(name: &'static str, protocol: Protocol) -> Row {
    Row { protocol, order: Order::Sequential, ..read(name, 1 << 20, 1, 8) }
}

const fn opens(name: &'static str, batches: u16) -> Row {
    Row { operation: Operation::OpenStatClose, files: Files::Small, ..read(name, 0, 1, batches) }
}

const VECTOR: Operation = Operation::ReadVector { elements: 64, len: 16 << 10 };

/// All rows, cheap ones first.
pub(crate) const ROWS: [Row; 15] = [
    read("read-4k", 4 << 10, 1, 100),
    read("read-4k-x16", 4 << 10, 16, 20),
    read("read-128k", 128 << 10, 1, 50),
    Row { is_from_device: true, ..read("disk-32k", 32 << 10, 1, 25) },
    Row { order: Order::Sequential, ..read("read-1m", 1 << 20, 1, 16) },
    Row { operation: Operation::PageRead { len: 64 << 10 }, ..read("pgread-64k", 0, 1, 25) },
    Row { operation: VECTOR, ..read("readv-64x16k", 0, 1, 10) },
    http("http-4k", 4 << 10, 100),
    http("http-128k", 128 << 10, 50),
    Row { operation: VECTOR, ..http("http-multirange", 0, 10) },
    encrypted("https-1m", Protocol::Http { is_encrypted: true }),
    encrypted("tls-1m", Protocol::Root { is_encrypted: true }),
    Row { use_by_others: UseByOthers::Open, ..opens("open-in-use", 100) },
    Row { use_by_others: UseByOthers::Closed, ..opens("open-stat-close", SMALL_FILES) },
    Row { use_by_others: UseByOthers::Closed, files: Files::Many, ..opens("open-many", MANY_FILES / 4) },
];

/// The rows whose names are among `names`; all of them when there are none.
pub(crate) fn select(names: &[String]) -> Result<Vec<Row>> {
    let is_known = |name: &String| ROWS.iter().any(|row| row.name == name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known = ROWS.map(|row| row.name).join(", ");
        bail!("there is no row {unknown}; there are {known}");
    }
    let is_chosen = |row: &Row| names.is_empty() || names.iter().any(|name| name == row.name);
    Ok(ROWS.into_iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_name_and_come_in_their_own_order() {
        let names = |wanted: &[&str]| -> Vec<_> {
            let wanted: Vec<_> = wanted.iter().map(|&name| name.to_owned()).collect();
            select(&wanted).unwrap().iter().map(|row| row.name).collect()
        };
        assert_eq!(names(&["read-1m", "read-4k"]), ["read-4k", "read-1m"]);
        assert_eq!(names(&[]).len(), ROWS.len());
        assert!(select(&["read".to_owned()]).is_err());
    }
}
