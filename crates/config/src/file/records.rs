//! Settings of the records of accesses.

use super::declare::{Value, section};
use crate::value::{Line, Size, Time};
use forebay_record_outputs::FileOptions;
use std::path::PathBuf;

section! {
    /// Records of accesses: a JSON line for each file that a client has closed, and for each open that was redirected, refused or
    /// failed (`docs/records.md`). Disabled by default.
    "records" RawRecords => FileOptions {
        /// Name of the site in records. Default: `monitoring.site`.
        site: Line = Value::none().sample(r#""EXAMPLE_SITE""#),
        /// Directory of the files `records-*.jsonl`; created if missing. Other files of this name are removed by the rotation.
        path: PathBuf => directory = Value::none().sample(r#""/var/log/forebay/records""#),
        /// Size at which a new file is started.
        file_size: Size<0x1_0000, 0x10_0000_0000> => file_bytes = Value::default(r#""64MiB""#),
        /// Age at which a new file is started.
        file_age: Time<60_000> => file_age = Value::default(r#""1d""#),
        /// Size of all files together, at least twice that of one; the oldest files are removed.
        total_size: Size<0x2_0000> => total_bytes = Value::default(r#""4GiB""#),
        /// Remove files that were written last before this time. Default: never.
        age_max: Time<60_000> => age_max = Value::none().sample(r#""365d""#),
    }
}
