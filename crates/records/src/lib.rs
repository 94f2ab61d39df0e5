//! Records of what clients opened, read and were refused: their fields, and their text as JSON.
//!
//! Nothing here performs I/O or reads a clock: facts go in, lines come out. [`FIELDS`] declares each field once; documents and
//! templates are compared with it.

mod fields;
mod json;
mod names;
mod record;

pub use fields::{FIELDS, Field, Kind, field_table};
pub use names::{DataNames, address_of};
pub use record::{CacheUse, Client, Decision, Event, REASON_LEN_MAX, Reads, Record, Server, Times};
