//! Settings of the name space: exports, forwarding, rules, read-ahead and origins.

use super::declare::{Value, section};
use crate::{
    base::OriginUrl,
    config::{Config, ExportConfig},
    value::{
        DurationOrZero, Fraction, List, Number, Or, OriginPattern, Pattern, Redirects, Size, Time, Unlimited, Validity,
        Visibility,
    },
};
use forebay_cache::{Action, CgiPattern, FillPolicy, PathPattern, Rule, StructureUse};
use forebay_engine::{Miss, Writes};
use forebay_types::{BlockSize, Lfn};
use std::path::PathBuf;

/// Servers of one export: an open may wait for each of them in turn.
const ORIGINS_MAX: usize = 64;

/// Bytes ahead, 64KiB to 16GiB: less than a block has no effect, more is a typing error.
type HistoryBytes = Size<0, 0x4_0000_0000>;
type Ahead = Size<0x1_0000, 0x4_0000_0000>;
type Percent = Number<u8, 1, 100>;
type Attempts = Number<u32, 1, 1000>;

section! {
    /// A part of the name space and the source of its files. Can be repeated; the longest matching path applies.
    "export" RawExport => ExportConfig {
        /// The export applies to this path and all paths below it.
        path: Lfn => path = Value::default(r#""/""#).example(r#""/store""#).live(),
        /// Origins of the files, each `root://HOST:PORT`, or `roots://HOST:PORT` to require TLS; `https://HOST:PORT`, with or without a path;
        /// `s3://HOST:PORT/BUCKET`; or `pelican://FEDERATION` or `osdf:///`, with or without a path. They must hold the same files and are tried
        /// in this order.
        origins: List<OriginUrl, 1, ORIGINS_MAX> = Value::none()
            .example(r#"["root://origin-1.example.org:1094", "root://origin-2.example.org:1094"]"#)
            .flag("--origin")
            .live(),
        /// Local directory to serve read-only and without caching, instead of origins.
        directory: PathBuf = Value::none().sample(r#""/srv/data""#).flag("--export-dir").live(),
        /// Handling of write requests: `refuse`, or `redirect` to the first origin.
        writes: Writes => writes = Value::default(r#""refuse""#).flag("--writes").live(),
        /// When cached copies are compared with the origin: `immutable` never, `each-open` on each open, or a duration for which a
        /// successful check stays valid, such as `"1h"`.
        validity: Validity => validity.check = Value::default(r#""immutable""#).live(),
        /// Time for which a copy whose check is due is served while the origin is unavailable; `"0s"` disables this.
        stale_max: Or<Unlimited, DurationOrZero> => validity.stale_max = Value::default(r#""1h""#).live(),
        /// Include the origin's checksum, in addition to size and modification time, in the comparison. Costs one more query per check
        /// and per new copy.
        compare_checksum: bool => validity.compares_checksum = Value::default("false").live(),
        /// Check with the origin, using the client's own token or delegated proxy, that the client may read a file before it is
        /// served from the cache. A positive answer is valid for 5min, a negative one for 10s.
        origin_check: bool => checks_origin = Value::default("false"),
        /// Hosts that the origins may redirect this cache to: `same-domain` for those whose names end like that of an origin, without its
        /// first label (an address: itself); a list of hosts or addresses, in which `*` matches any run of characters, or networks; or
        /// `any`. Addresses of this machine and of its link must be named, unless an origin has one.
        redirects: Redirects => redirects = Value::default(r#""same-domain""#).live(),
        /// Files that clients with direct access read without the server: `never` any, or `complete` files. See `[direct]`.
        direct: Visibility => service.direct = Value::default(r#""never""#).flag("--direct").live(),
        /// Handling of opens of files that are not complete: `proxy` serves them through the cache; `redirect` sends the client
        /// to the origin, which it must be able to reach, and the cache fetches the whole file regardless of `fill`.
        miss: Miss => service.miss = Value::default(r#""proxy""#).flag("--miss").live(),
        /// Amount of a file to fetch: `on-demand-blocks` the requested blocks; `while-open` the whole file as long as a client
        /// has it open, and the rest at the next open; `to-end` the whole file, also after the last client has closed it. A rule
        /// may override it. Default: `read_ahead.fill`.
        fill: FillPolicy => service.fill = Value::none().sample(r#""while-open""#).flag("--fill").live(),
    }
}

section! {
    /// Forwarding: clients name the origin in the path, as in `root://CACHE//root://ORIGIN//path`.
    "forwarding" RawForwarding => Config {
        /// Origins that clients may name: `HOST`, `HOST:PORT` or `HOST:*` for `root://`, and the same after `https://`, `http://`,
        /// `s3://` or `pelican://`; `*` in HOST matches any run of characters, and no port means that of the scheme.
        allow: List<OriginPattern> = Value::default("[]").example(r#"["*.example.org:1094"]"#).flag("--forwarding").live(),
        /// As `validity` of an export.
        validity: Validity => decisions.forwarding_validity.check = Value::default(r#""immutable""#).live(),
        /// As `stale_max` of an export.
        stale_max: Or<Unlimited, DurationOrZero> => decisions.forwarding_validity.stale_max = Value::default(r#""1h""#).live(),
        /// As `compare_checksum` of an export.
        compare_checksum: bool => decisions.forwarding_validity.compares_checksum = Value::default("false").live(),
        /// As `origin_check` of an export.
        origin_check: bool => decisions.forwarding_authorizes_at_origin = Value::default("false"),
        /// As `redirects` of an export.
        redirects: Redirects => forwarding_redirects = Value::default(r#""same-domain""#).live(),
        /// Whether the names of a Rucio file at several origins (`…/rucio/SCOPE/xx/yy/NAME`) share one entry. The origin is asked for size
        /// and checksum (`adler32`) of a file once, then as `validity` says; if it reports none, the file has an entry for this origin alone.
        share_rucio_files: bool => decisions.shares_rucio_files = Value::default("false").live(),
        /// As `direct` of an export.
        direct: Visibility => decisions.forwarding_service.direct = Value::default(r#""never""#).live(),
        /// As `miss` of an export.
        miss: Miss => decisions.forwarding_service.miss = Value::default(r#""proxy""#).live(),
        /// As `fill` of an export.
        fill: FillPolicy => decisions.forwarding_service.fill = Value::none().sample(r#""while-open""#).live(),
    }
}

section! {
    /// Decisions on opens of files of origins that do not depend on rules.
    "decision" RawDecision => Config {
        /// A partly cached file counts as cached if at least `cached_fraction_min` of it is present, and either this much of it is
        /// present or the file is not larger. Used when clients query the cache state or open with `only-if-cached`.
        cached_size_min: Size => decisions.cached.size_min = Value::default(r#""1MiB""#).live(),
        /// See `cached_size_min`. Complete files always count as cached.
        cached_fraction_min: Fraction => decisions.cached.fraction_min = Value::default("1.0").live(),
        /// Time for which a "not found" response of an origin is cached; `"0s"` disables this. A reload clears this cache.
        negative_time: DurationOrZero => decisions.negative_time = Value::default(r#""5s""#).live(),
        /// Timeout for the comparison of a copy with the origin during an open. After it, the check counts as failed.
        check_time_max: Time => decisions.check_time_max = Value::default(r#""10s""#).live(),
    }
}

section! {
    /// Rule for opens of files of origins. Can be repeated; the first matching rule applies, and without a match files are cached.
    /// All conditions of a rule must match; a condition that is not set matches every open.
    "rule" RawRule => Rule {
        /// Pattern of paths: `*` matches any run of characters within a component, `?` one character of it, `**` any run across
        /// components. The path of a forwarded file is `/root:/HOST:PORT/path`.
        path: PathPattern => path = Value::none().sample(r#""/store/user/**""#).live(),
        /// Minimum size of the file. If it decides and the file is not cached, the origin is queried for the size first.
        size_min: Size => size_min = Value::none().sample(r#""100GiB""#).live(),
        /// Maximum size of the file.
        size_max: Size => size_max = Value::none().sample(r#""4KiB""#).live(),
        /// User name that the client reports, without authentication; `*` matches any run of characters.
        user: Pattern => user = Value::none().sample(r#""prod*""#).live(),
        /// Address of the client; `*` matches any run of characters.
        host: Pattern => host = Value::none().sample(r#""192.0.2.*""#).live(),
        /// Opaque data of the request, each `key=value`, or `key` for any value; all must match. `*` matches any run of characters.
        cgi: List<CgiPattern> => cgi = Value::none().sample(r#"["cache=no"]"#).live(),
        /// `cache` the file; `bypass` reads from the origin and stores nothing; `redirect` sends the client to the origin, which
        /// it must be able to reach.
        action: Action => caching.action = Value::default(r#""cache""#).live(),
        /// Block size of new files; overrides `store.block_size`. Cached files keep theirs.
        block_size: BlockSize => caching.block_size = Value::none().sample(r#""1MiB""#).live(),
        /// Overrides `read_ahead.enabled`.
        read_ahead: bool = Value::none().sample("false").live(),
        /// Overrides `read_ahead.window_max`.
        window_max: Size = Value::none().sample(r#""64MiB""#).live(),
        /// Overrides `read_ahead.complete_after`.
        complete_after: Percent = Value::none().sample("30").live(),
        /// Overrides `fill` of the export.
        fill: FillPolicy => caching.fill = Value::none().sample(r#""to-end""#).live(),
    }
}

section! {
    /// Read-ahead: data that is fetched before a client requests it. Rules may override it for some files.
    "read_ahead" RawReadAhead => Config {
        /// Recognize sequential reads, strides and repeated vector reads, and read ahead.
        enabled: bool => engine.read_ahead.settings.enabled = Value::default("true"),
        /// Maximum read-ahead of an open file. While other reads wait for bytes, the read-ahead is at most twice the
        /// bandwidth-delay product of the path to the origin; otherwise at most four times the length of the current run.
        window_max: Ahead => engine.read_ahead.settings.window_max = Value::default(r#""32MiB""#),
        /// Maximum number of bytes in transfer from one origin that no reader waits for.
        origin_max: Ahead => engine.read_ahead.origin_bytes_max = Value::default(r#""64MiB""#),
        /// Percentage of the memory that such bytes may use. At least half of the memory remains available to readers.
        memory_percent: Number<u8, 0, 50> => engine.read_ahead.memory_percent = Value::default("25"),
        /// Use of the structure of ROOT files (names that end in `.root`): `learn` parses the tables of trees when a file is
        /// opened, learns which columns its readers use, and fetches the next baskets or pages of these; `learn-and-remember`
        /// also remembers the columns for 30 days, by dataset, user and program, and fetches them from the open of the next file
        /// on; `off` does neither.
        structure: StructureUse => engine.read_ahead.settings.structure = Value::default(r#""learn-and-remember""#),
        /// Maximum number of bytes to fetch for an open of a ROOT file because of columns of other files. If most of these columns
        /// are not read, the next files of the dataset get half of it, down to a sixteenth.
        structure_history_max: HistoryBytes => engine.read_ahead.settings.structure_history_max = Value::default(r#""16MiB""#),
        /// Fetch the rest of a file once this percentage of it is cached. Default: never.
        complete_after: Percent => engine.read_ahead.settings.complete_after_percent = Value::none().sample("30"),
        /// Amount of a file to fetch if its export does not set it: `on-demand-blocks` (or `on-demand`) the requested blocks;
        /// `while-open` the whole file as long as a client has it open; `to-end` the whole file, also after the last client has
        /// closed it.
        fill: FillPolicy => engine.read_ahead.settings.fill = Value::default(r#""on-demand-blocks""#),
    }
}

section! {
    /// Connections and requests to origins.
    "origin" RawOrigin => Config {
        /// Timeout for a new connection, from name resolution to login.
        connect_timeout: Time => origin.pool.connect_timeout = Value::default(r#""10s""#),
        /// Timeout for the first byte of a response.
        first_byte_timeout: Time => origin.options.first_byte_timeout = Value::default(r#""60s""#),
        /// Timeout between two bytes of a response.
        stall_timeout: Time => origin.options.stall_timeout = Value::default(r#""30s""#),
        /// Timeout for an operation including all redirects, waits and retries. For a read it restarts with each received byte.
        deadline: Time => origin.options.deadline = Value::default(r#""10min""#),
        /// Maximum single wait that an origin may request before a retry.
        wait_max: Time => origin.options.wait_max = Value::default(r#""60s""#),
        /// Maximum number of attempts of an open, stat, listing or checksum query.
        attempts: Attempts => origin.options.attempts = Value::default("5"),
        /// Maximum number of attempts of a read without progress.
        read_attempts: Attempts => origin.options.read_attempts = Value::default("10"),
        /// Time for which an unreachable server is skipped if another one is available.
        circuit_time: Time => origin.pool.circuit_time = Value::default(r#""30s""#),
        /// Time after which an idle connection is closed.
        idle_timeout: Time => origin.pool.idle_timeout = Value::default(r#""5min""#),
        /// Request data with checksums (`pgread`) from servers that support it.
        page_reads: bool => origin.options.page_reads = Value::default("true"),
        /// PEM file with the certificate for origins that request one in the TLS handshake. Default: none.
        certificate: PathBuf = Value::none().sample(r#""/etc/forebay/robot.pem""#),
        /// PEM file with its private key. Default: the key is in the certificate file.
        key: PathBuf = Value::none().sample(r#""/etc/forebay/robot.key""#),
    }
}
