//! Types that know nothing of the file: errors with their place, accounts of this machine, URLs of origins, roles.

mod accounts;
mod error;
mod origin_url;
mod role;

pub use accounts::RunAs;
pub(crate) use accounts::parse_group;
pub use error::{ConfigError, Problem};
pub use origin_url::{OriginUrl, parse_origin_url};
pub use role::Role;
