//! Types that know nothing of the file: errors with their place, accounts of this machine, URLs of origins, roles.

mod accounts;
mod error;
mod origin_url;

pub use accounts::RunAs;
pub(crate) use accounts::parse_group;
pub use error::{ConfigError, Problem};
pub use origin_url::{OriginUrl, parse_origin_url};

use forebay_types::named_enum;

named_enum! {
    /// The task of a server among several that share a store.
    #[derive(Default)]
    pub enum Role {
        /// Fills a store and serves files from it.
        #[default]
        Cache = "cache",
        /// As a cache; also publishes complete files, for managers.
        Filler = "filler",
        /// Redirects clients to the complete files of a filler, and all other requests to the filler.
        Manager = "manager",
    }
}

named_enum! {
    /// Whether clients of HTTPS show certificates.
    #[derive(Default)]
    pub enum ClientCertificates {
        Off = "off",
        /// Clients without one are accepted.
        #[default]
        Ask = "ask",
        Require = "require",
    }
}
