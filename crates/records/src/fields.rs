//! The fields of records: name, type, meaning.

/// A field of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    /// The records that have it.
    pub of: &'static str,
    /// Unit, source, and what it means.
    pub meaning: &'static str,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Milliseconds of the Unix epoch.
    Time,
    /// A text that is a name.
    Name,
    /// A list of names.
    Names,
    /// A sentence for people.
    Text,
    /// A whole number, 0 or more.
    Count,
    Float,
    Flag,
    Address,
}

impl Kind {
    /// The type in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Name => "name",
            Self::Names => "names",
            Self::Text => "text",
            Self::Count => "number",
            Self::Float => "float",
            Self::Flag => "bool",
            Self::Address => "address",
        }
    }
}

const ALL: &str = "all";
const CLOSE: &str = "close";
const LAST: &str = "last close";

const fn field(name: &'static str, kind: Kind, of: &'static str, meaning: &'static str) -> Field {
    Field { name, kind, of, meaning }
}

/// All fields, in the order in which records have them.
pub const FIELDS: &[Field] = &[
    field("record_id", Kind::Name, ALL, "unique among all servers and their starts; the `_id` of the document"),
    field("@timestamp", Kind::Time, ALL, "the event; of a close as `end_time`"),
    field("event", Kind::Name, ALL, "`close`, `direct`, `redirect`, `refused` or `failed`"),
    field("start_time", Kind::Time, ALL, "the open"),
    field("end_time", Kind::Time, ALL, "the close, or the answer to the open"),
    field("operation_time", Kind::Float, ALL, "seconds between the two"),
    field("server_site", Kind::Name, ALL, "`records.site`, default `monitoring.site`"),
    field("server_host", Kind::Name, ALL, "host name of the server"),
    field("instance", Kind::Name, ALL, "`monitoring.instance`"),
    field("version", Kind::Name, ALL, "version of the server"),
    field("user", Kind::Name, ALL, "the name that the client has proven, or gives"),
    field("vo", Kind::Name, ALL, "organization that the client has proven; absent without one"),
    field("client_host", Kind::Name, ALL, "host name or address of the client"),
    field("client_domain", Kind::Name, ALL, "domain of the host name; the /24 or /48 network of an address"),
    field("client_ip", Kind::Address, ALL, "address of the connection"),
    field("ipv6", Kind::Flag, ALL, "whether that is an address of IPv6"),
    field(
        "protocol",
        Kind::Name,
        ALL,
        "`xroot` (also within TLS), `http`, `https` or `dcap`, as in the accounting streams",
    ),
    field("appinfo", Kind::Name, ALL, "program, as the client states it"),
    field("file_lfn", Kind::Name, ALL, "path, as the client has asked for it"),
    field("file_size", Kind::Count, "all, if known", "bytes"),
    field("dataset", Kind::Name, ALL, "as the group `dataset` of the [metrics](monitoring.md#groups)"),
    field("tier", Kind::Name, ALL, "as the group `tier`"),
    field("primary", Kind::Name, ALL, "primary dataset; paths of CMS only"),
    field("campaign", Kind::Name, ALL, "era or campaign; paths of CMS only"),
    field("origin", Kind::Name, ALL, "server of the origin; absent if it is not known, and for exported directories"),
    field("target", Kind::Name, "direct, redirect", "the file or server that the client was sent to"),
    field(
        "status",
        Kind::Name,
        ALL,
        "`ok`, or the kind of the refusal or failure; of a close that of its last failed read",
    ),
    field("reason", Kind::Text, "refused, failed", "the text that the client got, at most 512 bytes"),
    field(
        "decision",
        Kind::Name,
        CLOSE,
        "`cache`, `bypass` (served from the origin, not stored) or `local` (exported directory)",
    ),
    field("read_bytes", Kind::Count, CLOSE, "bytes that the client got"),
    field("read_single_bytes", Kind::Count, CLOSE, "those of reads of one range"),
    field("read_vector_bytes", Kind::Count, CLOSE, "those of vector reads"),
    field("read_operations", Kind::Count, CLOSE, "all read requests"),
    field("read_single_operations", Kind::Count, CLOSE, "requests for one range"),
    field("read_vector_operations", Kind::Count, CLOSE, "vector reads"),
    field("read_vector_count", Kind::Count, CLOSE, "ranges of vector reads"),
    field("bytes_hit_cache", Kind::Count, CLOSE, "bytes that the client got from the cache"),
    field("bytes_miss_cache", Kind::Count, CLOSE, "bytes fetched from the origin for it, and stored"),
    field("bytes_coalesced", Kind::Count, CLOSE, "bytes of a fetch that was under way already"),
    field("bytes_bypass_cache", Kind::Count, CLOSE, "bytes from the origin that were not stored"),
    field("throughput", Kind::Float, CLOSE, "`read_bytes` per second of `operation_time`; absent if that is 0"),
    field("bytes_read_by_remote", Kind::Count, LAST, "bytes received from origins to be stored"),
    field("bytes_to_disk", Kind::Count, LAST, "bytes written to disk"),
    field("bytes_by_prefetch", Kind::Count, LAST, "bytes requested by read-ahead or completion"),
    field("bytes_wasted", Kind::Count, LAST, "bytes fetched by read-ahead and not read"),
    field(
        "access_count",
        Kind::Count,
        LAST,
        "access periods since the file came into the cache; 0 if it is not cached",
    ),
    field("first_access", Kind::Flag, LAST, "whether this was the first one"),
    field("since_last_use_s", Kind::Count, LAST, "seconds since the period before; absent in the first one"),
    field("block_size", Kind::Count, LAST, "bytes"),
    field("blocks", Kind::Count, LAST, "blocks of the file"),
    field("blocks_done", Kind::Count, LAST, "blocks in the cache"),
    field("remotes", Kind::Names, LAST, "servers that have sent bytes of the file"),
];

/// The fields as a table in Markdown.
#[must_use]
pub fn field_table() -> String {
    let mut table = "| field | type | records | meaning |\n|---|---|---|---|\n".to_owned();
    for Field { name, kind, of, meaning } in FIELDS {
        table.push_str(&format!("| `{name}` | {} | {of} | {meaning} |\n", kind.as_str()));
    }
    table
}
