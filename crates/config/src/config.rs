//! The typed configuration: what the rest of the program uses, and what cannot be wrong.

use crate::{accounts::RunAs, roles::Role};
use forebay_cache::{AllowList, PathPattern, ValidityPolicy};
use forebay_engine::{DecisionOptions, Service, Writes};
use forebay_net::{Credential, ServerTlsFiles, TrustAnchors};
use forebay_proto::{TlsPolicy, TlsUse};
use forebay_store::Permissions;
use forebay_telemetry::{LogFormat, TraceOptions};
use forebay_trust::{CredentialOptions, SecurityOptions};
use forebay_types::{Endpoint, Lfn};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The `root://` front.
    pub server: ServerConfig,
    /// Encryption.
    pub tls: TlsConfig,
    /// Who clients are, and what they may do.
    pub security: SecurityOptions,
    /// What origins are shown.
    pub credentials: CredentialOptions,
    /// The admin port.
    pub admin: AdminConfig,
    /// Where files are kept; none only when nothing is cached.
    pub disks: Vec<DiskConfig>,
    /// Who may use new files on them.
    pub permissions: Permissions,
    /// Where what is known of cached files is kept.
    pub index: IndexConfig,
    /// Block size, memory and syncs.
    pub engine: forebay_engine::Options,
    /// Parts of the name space; no two have one path.
    pub exports: Vec<ExportConfig>,
    /// Origins that clients may name.
    pub forwarding: AllowList,
    /// Where the filler of a manager is; `None` to look for it in the store.
    pub manager_filler: Option<Endpoint>,
    /// What is decided about opens.
    pub decisions: DecisionOptions,
    /// How origins are used.
    pub origin: OriginConfig,
    /// The log.
    pub logging: LogConfig,
    /// The trace of reads; `None` for none.
    pub trace: Option<TraceConfig>,
}

/// The trace of reads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TraceConfig {
    /// Where it is kept, and how much of it.
    pub options: TraceOptions,
    /// Files that are traced; all, when there are none.
    pub only: Vec<PathPattern>,
}

/// The `root://` front.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What the server does.
    pub role: Role,
    /// Where clients connect: one address at least.
    pub listen: Vec<SocketAddr>,
    /// Whom the server becomes when root starts it.
    pub user: Option<RunAs>,
    /// Limits and names.
    pub options: forebay_server::Options,
    /// Limits that hold for all fronts.
    pub front: forebay_front::Options,
    /// Time that requests under way have to finish when the server is told to stop.
    pub shutdown_time_max: Duration,
}

/// Encryption.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TlsConfig {
    /// Towards clients; `None` for none.
    pub clients: Option<ClientsTls>,
    /// Which CAs are trusted. The directory may be missing when nobody has written it.
    pub trust: TrustAnchors,
    /// What is shown to origins that ask for a certificate.
    pub own: Option<Credential>,
}

/// Encryption towards clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientsTls {
    /// The files.
    pub files: ServerTlsFiles,
    /// What is demanded of clients.
    pub policy: TlsPolicy,
    /// Time within which a client must finish the handshake.
    pub handshake_time_max: Duration,
}

/// The admin port.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AdminConfig {
    /// Where it listens; `None` for nowhere.
    pub listen: Option<SocketAddr>,
    /// The file that holds the token of the administration API.
    pub token_file: Option<PathBuf>,
    /// The unix socket of the administration API.
    pub socket: Option<PathBuf>,
    /// Number of the group whose members may use the socket.
    pub socket_group: Option<u32>,
}

/// Where what is known of cached files is kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IndexConfig {
    /// The file; `None` for the usual place in the store.
    pub path: Option<PathBuf>,
    /// Bytes of it that are held in memory at most.
    pub cache_bytes: usize,
}

impl Default for IndexConfig {
    fn default() -> Self {
        Self { path: None, cache_bytes: 64 << 20 }
    }
}

/// A disk on which files are kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DiskConfig {
    /// The setting that names its directory.
    pub setting: String,
    /// The directory.
    pub path: PathBuf,
    /// Its share of new files, relative to the other disks', for the same room.
    pub weight: u32,
    /// Whether the directory must be a mount point.
    pub is_mounted: bool,
}

/// A part of the name space.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExportConfig {
    /// Paths at and below this one.
    pub path: Lfn,
    /// Where its files come from.
    pub files: ExportFiles,
    /// What happens to writes.
    pub writes: Writes,
    /// How copies of its files are kept valid.
    pub validity: ValidityPolicy,
    /// Whether the origin is asked for leave before a client gets what is here.
    pub asks_leave: bool,
    /// How clients get at its files.
    pub service: Service,
}

/// Where the files of an export come from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ExportFiles {
    /// From interchangeable servers, tried in this order.
    Origins {
        /// The first one.
        first: Endpoint,
        /// The others.
        others: Vec<Endpoint>,
        /// What is done about TLS.
        tls: TlsUse,
    },
    /// From a directory of this machine.
    Directory(PathBuf),
}

/// How origins are used.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OriginConfig {
    /// Requests.
    pub options: forebay_origin::Options,
    /// Connections.
    pub pool: forebay_origin::PoolOptions,
}

/// The log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogConfig {
    /// How lines are written.
    pub format: LogFormat,
    /// What is logged, in the syntax of `RUST_LOG`.
    pub filter: String,
}

/// Port that the server listens at unless told otherwise.
const LISTEN_DEFAULT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), forebay_types::XROOTD_PORT);

impl Default for Config {
    /// The settings of an empty file, which alone is no configuration: it serves nothing.
    fn default() -> Self {
        Self {
            server: ServerConfig {
                role: Role::default(),
                listen: vec![LISTEN_DEFAULT],
                user: None,
                options: forebay_server::Options::default(),
                front: forebay_front::Options::default(),
                shutdown_time_max: Duration::from_secs(30),
            },
            tls: TlsConfig::default(),
            security: SecurityOptions::default(),
            credentials: CredentialOptions::default(),
            admin: AdminConfig::default(),
            disks: Vec::new(),
            permissions: Permissions::default(),
            index: IndexConfig::default(),
            engine: forebay_engine::Options::default(),
            exports: Vec::new(),
            forwarding: AllowList::default(),
            manager_filler: None,
            decisions: DecisionOptions::default(),
            origin: OriginConfig::default(),
            logging: LogConfig { format: LogFormat::default(), filter: "info".to_owned() },
            trace: None,
        }
    }
}

impl Config {
    /// Whether clients that see the cache's file system read some complete files on their own.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.decisions.forwarding_service.direct || self.exports.iter().any(|export| export.service.direct)
    }

    /// Whether anything is cached.
    #[must_use]
    pub fn is_cache(&self) -> bool {
        !self.forwarding.is_empty()
            || self.exports.iter().any(|export| matches!(export.files, ExportFiles::Origins { .. }))
    }
}
