//! The typed configuration, which the rest of the program uses.

use crate::base::{ClientCertificates, Role, RunAs};
use forebay_cache::{AllowList, ValidityPolicy};
use forebay_engine::{DecisionOptions, Service, Writes};
use forebay_net::{Credential, ServerTlsFiles, TrustAnchors};
use forebay_origin::RedirectTargets;
use forebay_proto::{TlsPolicy, TlsUse};
use forebay_record_outputs::RecordOptions;
use forebay_store::Permissions;
use forebay_telemetry::{LogFormat, StreamOptions, TraceOptions};
use forebay_trust::{CredentialOptions, SecurityOptions};
use forebay_types::{Endpoint, Lfn, OriginId};
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// A checked configuration. The values of `default` are not those of the documentation, which conversion writes into it.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub server: ServerConfig,
    pub http: HttpConfig,
    pub s3: S3Config,
    pub dcap: DcapConfig,
    pub tls: TlsConfig,
    /// Authentication and authorization of clients.
    pub security: SecurityOptions,
    /// Credentials for origins.
    pub credentials: CredentialOptions,
    pub admin: AdminConfig,
    /// Empty only if no files of origins are exported.
    pub disks: Vec<DiskConfig>,
    /// Division of the disk among several fillers.
    pub parts: PartsConfig,
    /// Permissions of new files on the disks.
    pub permissions: Permissions,
    pub index: IndexConfig,
    pub engine: forebay_engine::Options,
    /// No two have the same path.
    pub exports: Vec<ExportConfig>,
    /// Origins that clients may name in a path.
    pub forwarding: AllowList,
    /// Where they may redirect this cache.
    pub forwarding_redirects: RedirectTargets,
    /// Server of the filler; `None` if the manager reads it from the store.
    pub manager_filler: Option<Endpoint>,
    /// Without managers, this server is not a member.
    pub cluster: forebay_cluster::Options,
    pub decisions: DecisionOptions,
    pub origin: OriginConfig,
    pub logging: LogConfig,
    pub trace: Option<TraceOptions>,
    /// Without collectors, nothing is sent.
    pub monitoring: StreamOptions,
    /// Without outputs, there are no records. Of the server, at most the site is known here.
    pub records: RecordOptions,
}

/// The `root://` front.
#[derive(Clone, Debug, Default)]
pub struct ServerConfig {
    pub role: Role,
    /// At least one address.
    pub listen: Vec<SocketAddr>,
    /// User to switch to if root starts the server.
    pub user: Option<RunAs>,
    pub options: forebay_server::Options,
    /// Limits that hold for all fronts.
    pub front: forebay_front::Options,
    /// Time that active requests have to finish during a shutdown.
    pub shutdown_time_max: Duration,
}

/// The HTTP front.
#[derive(Clone, Debug, Default)]
pub struct HttpConfig {
    /// Whether the addresses of the `root://` front serve HTTP, too.
    pub is_shared: bool,
    /// Addresses for HTTP only.
    pub listen: Vec<SocketAddr>,
    pub client_certificates: ClientCertificates,
    /// Whether clients of HTTPS are offered HTTP/2.
    pub offers_http2: bool,
    pub options: forebay_http::Options,
}

/// The S3 front.
#[derive(Clone, Debug, Default)]
pub struct S3Config {
    /// Addresses for S3 only.
    pub listen: Vec<SocketAddr>,
    pub options: forebay_http::S3,
}

/// The dCap front.
#[derive(Clone, Debug, Default)]
pub struct DcapConfig {
    /// Addresses for dCap only.
    pub listen: Vec<SocketAddr>,
    pub options: forebay_dcap::Options,
}

/// TLS for clients and origins.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TlsConfig {
    /// `None` if clients are not offered TLS.
    pub clients: Option<ClientsTls>,
    /// The directory may be missing if it is not configured.
    pub trust: TrustAnchors,
    /// Certificate for origins that request one.
    pub own: Option<Credential>,
}

/// TLS for clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientsTls {
    pub files: ServerTlsFiles,
    pub policy: TlsPolicy,
    pub handshake_time_max: Duration,
}

/// The admin port.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AdminConfig {
    pub listen: Option<SocketAddr>,
    pub token_file: Option<PathBuf>,
    pub socket: Option<PathBuf>,
    /// Group whose members may use the socket.
    pub socket_group: Option<u32>,
    /// Regions of origins, each with a pattern of host names.
    pub regions: Vec<(String, String)>,
    /// Host names of the admin port.
    pub hosts: Vec<String>,
    /// A report on the efficiency of jobs, for the status page.
    pub job_efficiency: Option<PathBuf>,
}

/// Division of a store among several fillers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PartsConfig {
    /// `None` if the store has one filler.
    pub count: Option<u16>,
    pub lease: Duration,
}

/// The index of cached files.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct IndexConfig {
    /// `None` for `.forebay/index` on the first disk.
    pub path: Option<PathBuf>,
    pub cache_bytes: usize,
}

/// A disk on which files are kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DiskConfig {
    /// Name of the setting with its directory, for messages.
    pub setting: String,
    pub path: PathBuf,
    /// Share of new files relative to other disks of the same size.
    pub weight: u32,
    /// Whether the directory must be a mount point.
    pub is_mounted: bool,
}

/// A part of the name space.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExportConfig {
    /// The export applies to this path and all paths below it.
    pub path: Lfn,
    pub files: ExportFiles,
    pub writes: Writes,
    pub validity: ValidityPolicy,
    /// Whether the origin is asked, on behalf of the client, for permission to serve a cached file.
    pub checks_origin: bool,
    /// Where its origins may redirect this cache.
    pub redirects: RedirectTargets,
    pub service: Service,
}

/// The source of the files of an export.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ExportFiles {
    /// Interchangeable servers, tried in this order.
    Origins { first: Endpoint, others: Vec<Endpoint>, tls: TlsUse },
    /// The same of HTTP; or one federation of Pelican alone.
    HttpOrigins { first: OriginId, others: Vec<OriginId> },
    /// Servers of several protocols with the same files, tried in this order; each is one of the kinds above.
    Alternatives(Vec<Self>),
    /// A directory of this machine.
    Directory(PathBuf),
}

impl ExportFiles {
    fn servers(&self) -> Vec<Endpoint> {
        match self {
            Self::Origins { first, others, .. } => [std::slice::from_ref(first), others].concat(),
            Self::HttpOrigins { first, others } => {
                std::iter::once(first).chain(others).map(|origin| origin.endpoint.clone()).collect()
            }
            Self::Alternatives(files) => files.iter().flat_map(Self::servers).collect(),
            Self::Directory(_) => Vec::new(),
        }
    }

    /// Whether clients of `root://` can continue at the first server.
    pub(crate) const fn begins_with_xrootd(&self) -> bool {
        match self {
            Self::Origins { .. } => true,
            Self::HttpOrigins { .. } | Self::Directory(_) => false,
            Self::Alternatives(files) => matches!(files.as_slice(), [Self::Origins { .. }, ..]),
        }
    }
}

/// Requests and connections to origins.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OriginConfig {
    pub options: forebay_origin_root::Options,
    pub pool: forebay_origin_root::PoolOptions,
}

/// The log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LogConfig {
    pub format: LogFormat,
    /// In the syntax of `RUST_LOG`.
    pub filter: String,
}

impl Config {
    /// Whether clients with direct access read complete files of some export without the server.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.decisions.forwarding_service.direct || self.exports.iter().any(|export| export.service.direct)
    }

    /// The servers of the origins of all exports.
    #[must_use]
    pub fn origin_servers(&self) -> Vec<Endpoint> {
        self.exports.iter().flat_map(|export| export.files.servers()).collect()
    }

    /// Whether files of origins are cached.
    #[must_use]
    pub fn is_cache(&self) -> bool {
        !self.forwarding.is_empty()
            || self.exports.iter().any(|export| !matches!(export.files, ExportFiles::Directory(_)))
    }
}
