//! The requests of a trace, in the order of time.

use crate::access::Full;
use forebay_types::ByteRange;

/// Opens, requests and closes held at most: 24 bytes of memory each.
pub const REQUESTS_MAX: usize = 100_000_000;

/// Ranges of requests held at most: 16 bytes of memory each.
pub const RANGES_MAX: usize = 100_000_000;

/// Opens of files, and what was read through them.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    opens: Vec<Open>,
    list: Vec<Request>,
    ranges: Vec<ByteRange>,
}

/// An open file of the records.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Open {
    /// Number of the file.
    pub(crate) file: u32,
    /// Number of the user.
    pub(crate) user: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// In microseconds of the Unix epoch.
    pub(crate) at_us: i64,
    /// Number of the open.
    pub(crate) open: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Kind {
    Open,
    /// The position of its first range, and their number.
    Read(u32, u32),
    Close,
}

/// A request with its ranges.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action<'a> {
    Open,
    Read(&'a [ByteRange]),
    Close,
}

impl Requests {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds an open; its number.
    pub(crate) fn open(&mut self, at_us: i64, open: Open) -> Result<u32, Full> {
        let full = Full { max: REQUESTS_MAX, what: "opens and requests" };
        let number = u32::try_from(self.opens.len()).map_err(|_| full)?;
        self.add(Request { at_us, open: number, kind: Kind::Open })?;
        self.opens.push(open);
        Ok(number)
    }

    /// Adds a request for these ranges.
    pub(crate) fn read(&mut self, at_us: i64, open: u32, ranges: &[ByteRange]) -> Result<(), Full> {
        let full = Full { max: RANGES_MAX, what: "ranges of requests" };
        if self.ranges.len() + ranges.len() > RANGES_MAX {
            return Err(full);
        }
        let first = u32::try_from(self.ranges.len()).map_err(|_| full)?;
        let count = u32::try_from(ranges.len()).map_err(|_| full)?;
        self.add(Request { at_us, open, kind: Kind::Read(first, count) })?;
        self.ranges.extend_from_slice(ranges);
        Ok(())
    }

    pub(crate) fn close(&mut self, at_us: i64, open: u32) -> Result<(), Full> {
        self.add(Request { at_us, open, kind: Kind::Close })
    }

    fn add(&mut self, request: Request) -> Result<(), Full> {
        if self.list.len() == REQUESTS_MAX {
            return Err(Full { max: REQUESTS_MAX, what: "opens and requests" });
        }
        self.list.push(request);
        Ok(())
    }

    /// Sorts by time; of the same time, opens come first, and closes last.
    pub(crate) fn sort(&mut self) {
        self.list.sort_by_key(|request| (request.at_us, request.kind));
    }

    /// The opens, by number.
    pub(crate) fn opens(&self) -> &[Open] {
        &self.opens
    }

    /// All requests, with the open and what it does.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Request, Action<'_>)> {
        self.list.iter().map(|request| (request, self.action(request.kind)))
    }

    fn action(&self, kind: Kind) -> Action<'_> {
        match kind {
            Kind::Open => Action::Open,
            Kind::Read(first, count) => {
                let (first, count) = (first as usize, count as usize);
                Action::Read(self.ranges.get(first..first + count).unwrap_or_default())
            }
            Kind::Close => Action::Close,
        }
    }
}
