//! Settings of the server itself: its ports, encryption, direct access, log and trace.

use super::declare::{Value, section};
use crate::{
    base::{Role, RunAs},
    config::Config,
    value::{
        Ciphers, Collector, DnsName, Filler, Group, Line, List, LogFilter, Mapping, Mode, Number, Probe, Region, Size,
        Time,
    },
};
use forebay_cache::PathPattern;
use forebay_net::CrlPolicy;
use forebay_proto::TlsPolicy;
use forebay_telemetry::{LogFormat, Sample, StreamOptions, TraceOptions};
use forebay_types::AddressPattern;
use std::{net::SocketAddr, path::PathBuf};

/// Ranges of counts, chosen so that a typing error is caught and no useful value is refused.
type Connections = Number<usize, 1, 1_000_000>;
type PerSession = Number<usize, 1, 65_536>;

/// Patterns and directories: each open of such a client may search all of them.
const DIRECT_ENTRIES_MAX: usize = 256;

/// Longest lists of regions and of host names of the admin port.
const REGIONS_MAX: usize = 64;

/// Patterns: each open is compared with all of them.
/// Most collectors: each gets a copy of every datagram.
const COLLECTORS_MAX: usize = 8;

const TRACE_PATTERNS_MAX: usize = 256;

section! {
    /// The `root://` front: addresses, limits per client, and times.
    "server" RawServer => Config {
        /// Addresses on which the server accepts connections, each `ADDRESS:PORT`. `[::]` includes IPv4; port 0 selects a free port.
        listen: List<SocketAddr, 1> => server.listen = Value::default(r#"["0.0.0.0:1094"]"#).example(r#"["0.0.0.0:1094"]"#).flag("--listen"),
        /// Task of this server. `cache` fills a store and serves files from it. `filler` does the same and publishes complete files
        /// for managers. `manager` redirects clients to the complete files of a store that a filler on this or another machine
        /// fills, and all other requests to that filler, or to the origin while the filler does not respond. Filler and manager
        /// use the same `store.path`.
        role: Role => server.role = Value::default(r#""cache""#),
        /// User to switch to if root starts the server: a name in `/etc/passwd`, or `UID:GID`. The switch happens after the
        /// listening sockets are open; files are read and written as this user. Root must set it to serve a store of another user.
        user: RunAs => server.user = Value::none().sample(r#""forebay""#),
        /// Maximum number of client connections, including parallel streams. Further connections are closed immediately.
        connections_max: Connections => server.front.connections_max = Value::default("16384"),
        /// Maximum number of connections from one client address (for IPv6: one /64 network). Default: three quarters of
        /// `connections_max`.
        connections_per_address_max: Connections => server.front.connections_per_address_max = Value::none().sample("4096"),
        /// Maximum number of connections from one client address that have not completed the login. Default: half of
        /// `connections_max`.
        logins_per_address_max: Connections => server.front.logins_per_address_max = Value::none().sample("1024"),
        /// Maximum number of sessions of one authenticated identity (certificate, token or shared secret). Default: three
        /// quarters of `connections_max`.
        sessions_per_identity_max: Connections => server.front.sessions_per_identity_max = Value::none().sample("4096"),
        /// Maximum number of open files per client session.
        handles_per_session_max: PerSession => server.options.handles_per_session_max = Value::default("8192"),
        /// Maximum number of open files of all sessions of one client address (for IPv6: one /64 network). Further opens are refused
        /// (`kXR_Overloaded`). Default: a quarter of the files that can be open within the limit of file descriptors.
        handles_per_address_max: Connections => server.front.handles_per_address_max = Value::none().sample("4096"),
        /// Maximum number of open files of all sessions of one authenticated identity. Default: as for an address.
        handles_per_identity_max: Connections => server.front.handles_per_identity_max = Value::none().sample("4096"),
        /// Maximum number of requests per connection that wait for the origin or the disk at the same time.
        requests_outstanding_max: PerSession => server.options.requests_outstanding_max = Value::default("256"),
        /// Timeout for the login of a new connection.
        login_time_max: Time => server.options.login_time_max = Value::default(r#""30s""#),
        /// Timeout for the rest of a request of which a part was received: the connection is closed.
        request_time_max: Time => server.options.request_time_max = Value::default(r#""30s""#),
        /// Timeout for a client to take up to 512 KiB (HTTP and dCap: 256 KiB) that wait for it. Slower connections are closed.
        write_stall_max: Time => server.options.write_stall_max = Value::default(r#""60s""#),
        /// Close connections without a request and without an open file after this time. Clients reconnect when they need to, and
        /// stock clients close idle connections after 5 to 20 minutes themselves.
        idle_time_max: Time => server.options.idle_time_max = Value::default(r#""30min""#),
        /// Send an interim "wait" response to clients that have waited this long for an answer. Clients reconnect after 60s of silence.
        wait_response_after: Time => server.options.wait_response_after = Value::default(r#""10s""#),
        /// Time that active requests have to finish when the server is stopped.
        shutdown_time_max: Time => server.shutdown_time_max = Value::default(r#""30s""#),
        /// Site name reported to clients that query it.
        site_name: DnsName => server.options.site_name = Value::none().sample(r#""EXAMPLE-SITE""#),
        /// Host name reported by locate. Default: the address that the client used.
        host_name: DnsName => server.options.host_name = Value::none().sample(r#""cache.example.org""#),
        /// Checksum algorithms announced to clients, the default one first. The origin determines which are available.
        checksum_algorithms: List<DnsName> => server.options.checksum_algorithms = Value::default(r#"["adler32", "crc32c"]"#),
    }
}

section! {
    /// TLS for clients (requires `certificate`) and certificate verification for clients and origins. Changed files are
    /// reloaded automatically.
    "tls" RawTls => Config {
        /// PEM file with the host certificate, followed by intermediate certificates. Default: no TLS for clients.
        certificate: PathBuf = Value::none().sample(r#""/etc/grid-security/hostcert.pem""#),
        /// PEM file with the private key; must be readable only by the server's user. Default: the key is in the certificate file.
        key: PathBuf = Value::none().sample(r#""/etc/grid-security/hostkey.pem""#),
        /// TLS requirement for clients: `capable` offers TLS but does not require it; `login` requires TLS before the login;
        /// `session` after the login; `data` as `session`, and on parallel streams; `all` as `login`, and on parallel streams.
        policy: TlsPolicy = Value::default(r#""capable""#),
        /// Directory with trusted CA certificates and their revocation lists under OpenSSL hash names; used for clients and origins.
        ca_dir: PathBuf => tls.trust.ca_dir = Value::default(r#""/etc/grid-security/certificates""#),
        /// Use of certificate revocation lists: `ignore`; `try` checks lists that are present; `require` also demands a current list
        /// for each CA.
        crl: CrlPolicy => tls.trust.crl = Value::default(r#""try""#),
        /// Request certificates from clients. Clients without one are accepted.
        client_certificates: bool = Value::default("true"),
        /// TLS 1.2 cipher suites in OpenSSL notation. Default: suites with forward secrecy and authenticated encryption.
        ciphers: Ciphers = Value::none().sample(r#""ECDHE+AESGCM""#),
        /// Timeout for the TLS handshake.
        handshake_time_max: Time = Value::default(r#""10s""#),
    }
}

section! {
    /// The admin port: `/metrics` (OpenMetrics), `/healthz`, `/readyz` and the administration API over HTTP. Disabled by default.
    "admin" RawAdmin => Config {
        /// Address to listen on. Metrics and probes are not protected: use a private network.
        listen: SocketAddr => admin.listen = Value::none().example(r#""127.0.0.1:9090""#).flag("--admin-listen"),
        /// File with the token required for the administration API on `listen`; must not be readable by other users.
        /// Default: the API is not available on `listen`.
        token_file: PathBuf => admin.token_file = Value::none().sample(r#""/etc/forebay/admin.token""#),
        /// Unix socket of the administration API. Root and the server's user need no token.
        socket: PathBuf => admin.socket = Value::none().sample(r#""/run/forebay/admin.sock""#).flag("--admin-socket"),
        /// Group whose members may use the socket as well: a name in `/etc/group`, or a number.
        socket_group: Group => admin.socket_group = Value::none().sample(r#""forebay-admin""#),
        /// Regions of origins in metrics and on the status page, each `NAME=HOST` with `*` for any run of characters; the first
        /// match applies. Default: the top-level domains of the origins.
        regions: List<Region, 0, REGIONS_MAX> => admin.regions = Value::default("[]").sample(r#"["EU=*.cern.ch", "US=*.gov"]"#),
        /// Host names under which browsers reach `listen`, besides addresses and `localhost`. Requests with other `Host` headers
        /// get no pages.
        hosts: List<DnsName, 0, REGIONS_MAX> => admin.hosts = Value::default("[]").sample(r#"["cache.example.org"]"#),
        /// Output of `forebay efficiency --json`, shown on the status page. It is read for each visit.
        job_efficiency: PathBuf => admin.job_efficiency = Value::none().sample(r#""/var/lib/forebay/job-efficiency.json""#),
    }
}

section! {
    /// Direct access: clients that mount the cache's file system are redirected to complete files and read them without the server.
    "direct" RawDirect => Config {
        /// Addresses of these clients, in which `*` matches any run of characters, or networks such as `10.1.0.0/16`. Host names
        /// are not resolved.
        clients: List<AddressPattern, 0, DIRECT_ENTRIES_MAX> => server.front.direct.clients = Value::default(r#"["127.*", "::1"]"#).example(r#"["127.*", "::1", "10.1.0.0/16"]"#),
        /// Proof that a client sees the file system: `none`, or `client` to redirect only opens that carry the content of the
        /// file `.forebay-probe` of the (first) store.
        probe: Probe => server.front.direct.needs_probe = Value::default(r#""none""#),
        /// Paths of store directories on the clients, each `DIRECTORY=PATH`; the first match applies. Default: the same path as
        /// on the server.
        paths: List<Mapping, 0, DIRECT_ENTRIES_MAX> => server.front.direct.paths = Value::default("[]").sample(r#"["/srv/cache=/mnt/cache"]"#),
        /// Permission bits of complete files once clients are redirected to them. Incomplete files keep `store.file_mode`, which must
        /// not allow other users to read.
        file_mode: Mode<0o600, 0o644> => engine.direct_mode = Value::default(r#""0644""#),
        /// Time for which a file is not purged after a redirect to it. The server cannot see when the client closes the file.
        lease: Time => engine.direct_lease = Value::default(r#""15min""#),
        /// Accept page reads (`pgread`) from these clients. A client with an open file is redirected once the file is complete, in
        /// response to a read but not to a page read. `false` makes `xrdcp`, which uses page reads, follow as well.
        page_reads: bool => server.front.direct.page_reads = Value::default("true"),
    }
}

section! {
    /// A data manager (`server.role = "manager"`): redirects clients to the complete files of a store that another process fills.
    "manager" RawManager => Config {
        /// Address of the filler for clients, `root://HOST:PORT`. Default: the address that the filler publishes in the store.
        filler: Filler => manager_filler = Value::none().sample(r#""root://filler.example.org:1094""#),
    }
}

section! {
    /// The log, written to standard error. The target `forebay::access` has a line for each closed file, each redirect to a file, and each open that failed or was refused.
    "logging" RawLogging => Config {
        /// Format of lines: `text`, or `json` with one object per line.
        format: LogFormat => logging.format = Value::default(r#""text""#),
        /// Level: `error`, `warn`, `info`, `debug` or `trace`; also per target, as in `info,forebay_origin=debug`.
        filter: LogFilter => logging.filter = Value::default(r#""info""#).flag("--log").live(),
    }
}

section! {
    /// Trace of client reads: a JSON line per open, read and close, in rotated files (`docs/trace.md`). Disabled by default.
    "trace" RawTrace => TraceOptions {
        /// Directory of the files `trace-*.jsonl`; created if missing. Other files of this name are removed by the rotation.
        path: PathBuf => directory = Value::none().sample(r#""/var/log/forebay/trace""#),
        /// Fraction of opens to trace, chosen at random: `1/10` is one in ten.
        sample: Sample => sample = Value::default(r#""1/1""#),
        /// Patterns of paths to trace, as in `[[rule]]`. Default: all files.
        only: List<PathPattern, 0, TRACE_PATTERNS_MAX> => only = Value::none().sample(r#"["/store/user/**"]"#),
        /// Size at which a new file is started.
        file_size: Size<0x1_0000, 0x10_0000_0000> => file_bytes = Value::default(r#""256MiB""#),
        /// Number of files to keep; the oldest is removed.
        files: Number<usize, 1, 100_000> => files_max = Value::default("8"),
    }
}

section! {
    /// Accounting streams for collectors of XRootD monitoring, by UDP (`docs/accounting.md`). Disabled by default.
    "monitoring" RawMonitoring => StreamOptions {
        /// Collectors or shovelers. All get the same datagrams, from one socket.
        collectors: List<Collector, 0, COLLECTORS_MAX> => collectors = Value::default("[]").sample(r#"["collector.example.org:9930"]"#),
        /// Name of the site, as it is registered in the accounting.
        site: Line => site = Value::none().sample(r#""EXAMPLE_SITE""#),
        /// Name of this server at the site.
        instance: Line => instance = Value::default(r#""forebay""#),
        /// Time after which records are sent even if their datagram is not full. Collectors know the times of opens and closes by their
        /// datagrams.
        flush_interval: Time<1_000, 600_000> => flush = Value::default(r#""5s""#),
        /// Interval of reports on files that stay open.
        progress_interval: Time<1_000> => progress = Value::default(r#""5m""#),
        /// Interval at which the identity of the server is sent again. Collectors that start later, or forget it after five minutes, do not
        /// know the site until then.
        identity_interval: Time<1_000> => identity = Value::default(r#""60s""#),
        /// Size of datagrams in bytes. Larger ones than the default are sent in fragments by most networks.
        datagram_bytes: Number<usize, 512, 65_472> => datagram_bytes = Value::default("1472"),
        /// Receivers of summary reports: counters of the server as XML, as by the directive `xrd.report` of XRootD.
        summary_collectors: List<Collector, 0, COLLECTORS_MAX> => summary_collectors = Value::default("[]").sample(r#"["collector.example.org:9931"]"#),
        /// Interval of summary reports.
        summary_interval: Time<1_000> => summary = Value::default(r#""60s""#),
    }
}
