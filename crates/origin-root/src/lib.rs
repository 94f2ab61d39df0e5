//! Origins over `root://`.
//!
//! From the outside in: [`RootOrigin`] asks the servers of its list in order and retries (`servers`), follows redirects and
//! makes single calls (`route`), over sessions that the whole process shares ([`Pool`], `session`). An open file (`file`)
//! reads by rounds of pipelined requests and opens itself again when a session is lost.

mod file;
mod list;
mod options;
mod refusal;
mod root_origin;
mod route;
mod servers;
mod session;

pub use options::{Options, PoolOptions};
pub use refusal::refusal_kind;
pub use root_origin::RootOrigin;
pub use session::{ping::ping, pool::Pool};
