//! Records of what clients opened, read and were refused: their fields, and their text as JSON.
//!
//! Nothing here performs I/O or reads a clock: facts go in, lines come out. [`FIELDS`] declares each field once; documents and
//! templates are compared with it.

mod bulk;
mod fields;
mod json;
mod names;
mod record;
mod template;

pub use bulk::{BulkAnswer, read_bulk_answer, write_bulk_item};
pub use fields::{FIELDS, Field, Kind, field_table};
pub use names::{DataNames, address_of};
pub use record::{CacheUse, Client, Decision, Event, REASON_LEN_MAX, Reads, Record, Server, Times};
pub use template::index_template;
