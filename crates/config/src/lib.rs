//! Configuration: from a file, or from flags, to typed options.
//!
//! Reading takes two steps: the file becomes typed values, each with its place; then a [`Config`] whose settings agree with each
//! other. All settings are declared once, in `file`: the parser, [`example_file`], [`reference()`] and the names of flags in
//! messages come from there.

mod base;
mod config;
mod convert;
mod documents;
mod doubts;
mod environment;
mod file;
mod flags;
mod manual;
mod old_keys;
mod public_form;
mod settings;
mod syntax;
mod value;

pub use base::{ClientCertificates, ConfigError, OriginUrl, Problem, Role, RunAs, parse_origin_url};
pub use config::{
    AdminConfig, ClientsTls, Config, DcapConfig, DiskConfig, ExportConfig, ExportFiles, HttpConfig, IndexConfig,
    LogConfig, OriginConfig, PartsConfig, S3Config, ServerConfig, TlsConfig,
};
pub use documents::{example_file, reference, setting_help};
pub use flags::{Flag, flags};
pub use manual::manual;
pub use public_form::public_form;
pub use settings::{DEFAULT_FILE, FILE_LEN_MAX, Settings};
