//! Datagrams of XRootD monitoring: maps, file statistics (f-stream) and events of a cache (g-stream).
//!
//! All numbers are big-endian. A datagram begins with its code, a sequence number, its length and the start time of the server,
//! which collectors use with the address of the sender as the key of everything else.

mod datagram;
mod file_records;
mod general_events;

pub use datagram::{DATAGRAM_LEN_MAX, Sender, map};
pub use file_records::{CallStatistics, CloseRecord, FileRecords, LFN_LEN_MAX, OpenRecord, Transferred};
pub use general_events::{FileClose, GeneralEvents};
