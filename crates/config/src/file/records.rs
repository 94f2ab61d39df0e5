//! Settings of the records of accesses.

use super::declare::{Value, section};
use crate::value::{IndexName, IndexNaming, Line, List, SearchUrl, Size, Time};
use forebay_record_outputs::{FileOptions, SearchOptions};
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

/// Most servers: each of them is tried before a pause.
const SERVERS_MAX: usize = 16;

section! {
    /// Records of accesses in OpenSearch or Elasticsearch (`docs/records.md`), by bulk requests. Disabled by default.
    "opensearch" RawSearch => SearchOptions {
        /// Servers, each `https://HOST:PORT` with at most a path after it, the preferred one first; the next one is used while one fails.
        urls: List<SearchUrl, 0, SERVERS_MAX> => urls = Value::default("[]").sample(r#"["https://search.example.org:9200"]"#),
        /// Name of the data stream, or begin of the names of daily indices.
        stream: IndexName => stream = Value::default(r#""forebay-accesses""#),
        /// `data-stream`, or `daily` for an index for each day (`NAME-YYYY.MM.DD`, by the time of the record), which Elasticsearch
        /// without its own licence needs.
        index: IndexNaming => is_daily = Value::default(r#""data-stream""#),
        /// PEM file with the CAs of the servers. Default: those of the operating system.
        ca_file: PathBuf => ca_file = Value::none().sample(r#""/etc/forebay/search-ca.pem""#),
        /// File with an API key in the encoded form; must not be readable by other users.
        api_key_file: PathBuf = Value::none().sample(r#""/etc/forebay/search.key""#),
        /// User for basic authentication, with `password_file`.
        user: Line = Value::none().sample(r#""forebay""#),
        /// File with the password; must not be readable by other users.
        password_file: PathBuf = Value::none().sample(r#""/etc/forebay/search.password""#),
        /// Directory of records that wait for a server; created if missing. Default: they wait in memory, at most 8 MiB.
        spool: PathBuf => spool = Value::none().sample(r#""/var/lib/forebay/record-spool""#),
        /// Size of all records that wait; the oldest are dropped.
        spool_size: Size<0x10_0000, 0x10_0000_0000> => spool_bytes = Value::default(r#""64MiB""#),
        /// Install the index template `stream` at the first request, which needs the right to manage templates.
        install_template: bool => installs_template = Value::default("false"),
    }
}
