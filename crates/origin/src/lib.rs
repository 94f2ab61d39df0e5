//! Origin clients over `root://`: pooling, redirects, retries, page checksums.
//!
//! [`Origin`] is what the engine needs of an origin; [`RootOrigin`] is the real one. A scripted one lives in the test kit.
//!
//! From the outside in: [`RootOrigin`] asks the servers of its list one after the other (`servers`, `retry`, `circuit`),
//! follows redirects (`route`, `redirect`), and makes single calls (`call`) over sessions shared by the whole process
//! ([`Pool`], `connection`). An open file (`file`) reads by rounds of pipelined requests and opens itself anew when a
//! session is lost.

mod call;
mod circuit;
mod connection;
mod detach_on_drop;
mod error;
mod file;
mod greeting;
mod list;
mod on_behalf;
mod options;
mod origin;
mod pool;
mod redirect;
mod retry;
mod root_origin;
mod route;
mod servers;
mod single_flight;

pub use detach_on_drop::DetachOnDrop;
pub use error::OriginError;
pub use forebay_types::Checksum;
pub use greeting::greet;
pub use on_behalf::OnBehalf;
pub use options::{Options, PoolOptions};
pub use origin::{BoxFuture, Chunk, Chunks, FileIdentity, ListDetail, Origin, OriginFile, OriginPath};
pub use pool::Pool;
pub use root_origin::RootOrigin;
pub use single_flight::{SharedValue, SingleFlight};
