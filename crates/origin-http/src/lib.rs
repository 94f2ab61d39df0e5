//! Origins over `http://`, `https://`, `s3://` and `pelican://`.
//!
//! From the outside in: [`HttpOrigin`] asks the servers of its list in order (`servers`) for the head of a file (`head`), an open file (`file`) reads ranges
//! and resumes them, `exchange` sends one request and follows its redirects, over connections that the process keeps in a
//! [`Pool`]. A [`PelicanOrigin`] asks a federation which servers have a file, and is an [`HttpOrigin`] of those. The modules of `answer` interpret heads and bodies of answers and do no I/O.

mod answer;
mod exchange;
mod file;
mod head;
mod http_origin;
mod options;
mod pelican;
mod pool;
mod proof;
mod request;
mod s3;
mod servers;
mod target;

pub use http_origin::HttpOrigin;
pub use options::{Options, PoolOptions};
pub use pelican::{PelicanOrigin, PelicanServers};
pub use pool::Pool;
