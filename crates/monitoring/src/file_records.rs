//! The f-stream: opens, transfers and closes of files, collected for a datagram.

use crate::datagram::{DATAGRAM_LEN_MAX, HEADER_LEN, Sender};

/// Longest path that is sent, in bytes; collectors have a limit of about this length.
pub const LFN_LEN_MAX: usize = 1024;

/// Length of the header with the record of the time.
const START_LEN: usize = HEADER_LEN + 24;

/// Length of a close, the longest record without a path.
const CLOSE_LEN: usize = 80;

/// Kinds of records: the first byte of each.
const CLOSE: u8 = 0;
const OPEN: u8 = 1;
const TIME: u8 = 2;
const TRANSFER: u8 = 3;
const DISCONNECT: u8 = 4;

/// Flags of records: a server number follows, a path follows, statistics of calls follow.
const WITH_SERVER: u8 = 1;
const WITH_LFN: u8 = 1;
const WITH_CALLS: u8 = 2;

/// Records that are waiting to be sent.
#[derive(Clone, Debug)]
pub struct FileRecords {
    datagram: Vec<u8>,
    /// Length of a datagram that is not exceeded.
    len_max: usize,
    transfers: u16,
    records: u16,
}

/// A file was opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenRecord<'a> {
    pub file: u32,
    /// Number of the user, as sent in a map.
    pub user: u32,
    pub size: u64,
    /// The path; cut to [`LFN_LEN_MAX`].
    pub lfn: &'a str,
}

/// Bytes that a client has got so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Transferred {
    pub read: u64,
    pub vector: u64,
}

/// A file was closed.
#[derive(Clone, Copy, Debug)]
pub struct CloseRecord {
    pub file: u32,
    pub bytes: Transferred,
    pub calls: CallStatistics,
}

/// Numbers and sizes of the calls that read a file. Sizes are 0 without a call.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CallStatistics {
    pub reads: u64,
    pub read_min: u64,
    pub read_max: u64,
    pub vectors: u64,
    pub vector_min: u64,
    pub vector_max: u64,
    /// Elements of all vectors, and of the shortest and longest one.
    pub elements: u64,
    pub elements_min: u64,
    pub elements_max: u64,
}

impl FileRecords {
    /// Datagrams have at most `len_max` bytes, or those of one record.
    #[must_use]
    pub fn new(len_max: usize) -> Self {
        let len_max = len_max.min(DATAGRAM_LEN_MAX);
        Self { datagram: vec![0; START_LEN], len_max, transfers: 0, records: 0 }
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether the next record does not fit: the datagram has to be sent first. `lfn_len` is the length of the path of an open, 0 for
    /// other records.
    #[must_use]
    pub fn is_full(&self, lfn_len: usize) -> bool {
        let record_len = CLOSE_LEN.max(28 + lfn_len.min(LFN_LEN_MAX));
        !self.is_empty() && self.datagram.len() + record_len > self.len_max
    }

    /// Adds an open, with the path of the file.
    pub fn open(&mut self, record: &OpenRecord<'_>) {
        let path = cut(record.lfn, LFN_LEN_MAX).as_bytes();
        // As XRootD: filled with at least one zero to a multiple of four bytes.
        let len = (28 + path.len()) & !3;
        let begin = self.begin(OPEN, WITH_LFN, len, record.file);
        self.datagram.extend(record.size.to_be_bytes());
        self.datagram.extend(record.user.to_be_bytes());
        self.datagram.extend(path);
        self.datagram.resize(begin + len, 0);
    }

    /// Adds the progress of a file that is still open.
    pub fn transfer(&mut self, file: u32, bytes: Transferred) {
        self.begin(TRANSFER, 0, 32, file);
        self.put_bytes(bytes);
        self.transfers += 1;
    }

    /// Adds a close, with the bytes and calls since the open.
    pub fn close(&mut self, record: &CloseRecord) {
        self.begin(CLOSE, WITH_CALLS, CLOSE_LEN, record.file);
        self.put_bytes(record.bytes);
        let calls = &record.calls;
        [calls.reads, calls.vectors, 0].into_iter().for_each(|count| self.put_u32(count));
        for count in [calls.elements_min, calls.elements_max] {
            let count = i16::try_from(count).unwrap_or(i16::MAX);
            self.datagram.extend(count.to_be_bytes());
        }
        self.datagram.extend(calls.elements.to_be_bytes());
        let sizes = [calls.read_min, calls.read_max, calls.vector_min, calls.vector_max, 0, 0];
        sizes.into_iter().for_each(|size| self.put_u32(size));
    }

    /// Adds the end of a user's session.
    pub fn disconnect(&mut self, user: u32) {
        self.begin(DISCONNECT, 0, 8, user);
    }

    /// Takes the datagram; the next one begins empty. `begin` and `end` are the times of its interval in seconds.
    pub fn take(&mut self, sender: Sender, sequence: u8, begin: u32, end: u32) -> Vec<u8> {
        let mut datagram = std::mem::replace(&mut self.datagram, vec![0; START_LEN]);
        let time = [
            &[TIME, WITH_SERVER, 0, 24][..],
            &self.transfers.to_be_bytes(),
            &self.records.to_be_bytes(),
            &begin.to_be_bytes(),
            &end.to_be_bytes(),
            &sender.marked_id(0).to_be_bytes(),
        ]
        .concat();
        for (byte, value) in datagram.iter_mut().skip(HEADER_LEN).zip(time) {
            *byte = value;
        }
        sender.seal(&mut datagram, b'f', sequence);
        (self.transfers, self.records) = (0, 0);
        datagram
    }

    /// Writes the header of a record, and returns where the record begins.
    fn begin(&mut self, kind: u8, flags: u8, len: usize, id: u32) -> usize {
        let begin = self.datagram.len();
        let len = u16::try_from(len).expect("paths have at most LFN_LEN_MAX bytes");
        self.datagram.extend([kind, flags]);
        self.datagram.extend(len.to_be_bytes());
        self.datagram.extend(id.to_be_bytes());
        self.records += 1;
        begin
    }

    fn put_bytes(&mut self, bytes: Transferred) {
        [bytes.read, bytes.vector, 0].into_iter().for_each(|value| self.datagram.extend(value.to_be_bytes()));
    }

    /// Appends a number to a field of 31 bits.
    fn put_u32(&mut self, value: u64) {
        let value = i32::try_from(value).unwrap_or(i32::MAX);
        self.datagram.extend(value.to_be_bytes());
    }
}

/// The begin of a text, at most `len_max` bytes.
pub(crate) fn cut(text: &str, len_max: usize) -> &str {
    let mut end = text.len().min(len_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram of XRootD 5.5.3 (`fstat 2 lfn ops`): xrdcp has read a file of 3,000,000 bytes with one page read, and left.
    const STOCK: &str = "660000a06b06961f02010018000000036b0696206b06962100006cd444227521010100280000000200000000002dc6c0000000012f646174612f6269672e62696e00000000000000000200500000000200000000002dc6c0000000000000000000000000000000000000000100000000000000000000000000000000000000007fffffff00000000000000000000000000000000000000000400000800000001";

    #[test]
    fn a_datagram_equals_that_of_xrootd() {
        let sender = Sender { start: 0x6b06_961f, id: 0x6cd4_4422_7521 };
        let mut records = FileRecords::new(1472);
        assert!(records.is_empty());
        records.open(&OpenRecord { file: 2, user: 1, size: 3_000_000, lfn: "/data/big.bin" });
        let bytes = Transferred { read: 3_000_000, vector: 0 };
        // XRootD 5.5.3 counts no sizes of page reads, and then leaves the smallest one at its initial value.
        let calls = CallStatistics { reads: 1, read_min: 0x7fff_ffff, ..CallStatistics::default() };
        records.close(&CloseRecord { file: 2, bytes, calls });
        records.disconnect(1);
        let datagram = records.take(sender, 0, 0x6b06_9620, 0x6b06_9621);
        let hex: String = datagram.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, STOCK);
        assert!(records.is_empty());
    }

    #[test]
    fn records_that_may_not_fit_wait_for_the_next_datagram() {
        let lfn = "/x".repeat(1000);
        let open = OpenRecord { file: 2, user: 1, size: 1, lfn: &lfn };
        let mut records = FileRecords::new(1472);
        assert!(!records.is_full(lfn.len()));
        records.open(&open);
        assert!(records.is_full(lfn.len()));
        assert!(!records.is_full(0), "there is room for a close");
        let datagram = records.take(Sender { start: 1, id: 2 }, 0, 3, 4);
        assert_eq!(datagram.len(), START_LEN + 28 + LFN_LEN_MAX);
        assert!(!records.is_full(lfn.len()));
    }

    #[test]
    fn a_datagram_takes_records_up_to_its_length() {
        let mut records = FileRecords::new(1472);
        let bytes = Transferred::default();
        let taken = (0..100).take_while(|file| {
            let has_room = !records.is_full(0);
            if has_room {
                records.close(&CloseRecord { file: *file, bytes, calls: CallStatistics::default() });
            }
            has_room
        });
        assert_eq!(taken.count(), (1472 - START_LEN) / CLOSE_LEN);
        assert!(records.take(Sender { start: 1, id: 2 }, 0, 3, 4).len() <= 1472);
    }
}
