//! Configuration: from a file, or from flags, to what the program uses.
//!
//! Two steps: a raw mirror of the file, then a typed [`Config`] that cannot be wrong. All settings are declared in one
//! place, from which the parser, [`example_file`], [`reference()`] and the names of flags in messages come.

mod accounts;
mod admin;
mod checker;
mod config;
mod convert;
mod credentials;
mod decisions;
mod declare;
mod direct;
mod disks;
mod documents;
mod duration;
mod environment;
mod error;
mod exports;
mod flags;
mod integrity;
mod issuers;
mod old_keys;
mod origin_url;
mod purge;
mod raw;
mod read_ahead;
mod roles;
mod security;
mod service;
mod settings;
mod source;
mod tls;
mod trace;

pub use accounts::RunAs;
pub use config::{
    AdminConfig, ClientsTls, Config, DiskConfig, ExportConfig, ExportFiles, IndexConfig, LogConfig, OriginConfig,
    ServerConfig, TlsConfig, TraceConfig,
};
pub use documents::{example_file, reference, setting_help};
pub use error::{ConfigError, Problem};
pub use flags::Flags;
pub use origin_url::{OriginUrl, OriginUrlError, parse_origin_url};
pub use roles::Role;
pub use settings::{FILE_LEN_MAX, Settings};
