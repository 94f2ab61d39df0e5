//! Datagrams of XRootD monitoring: maps, file statistics (f-stream), events of a cache (g-stream), and summary reports.
//!
//! Summary reports are XML. In all others numbers are big-endian. Such a datagram begins with its code, a sequence number, its length and the start time of the server,
//! which collectors use with the address of the sender as the key of everything else.

mod datagram;
mod file_records;
mod general_events;
mod summary;

pub use datagram::{DATAGRAM_LEN_MAX, Sender, map};
pub use file_records::{CallStatistics, CloseRecord, FileRecords, LFN_LEN_MAX, OpenRecord, Transferred};
pub use general_events::{FileClose, GeneralEvents};
pub use summary::{SummaryHeader, SummaryReport};
