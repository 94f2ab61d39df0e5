//! Membership of XRootD clusters: the node logs in to stock managers, and answers which files it has or will fetch.
//!
//! The members of a cluster agree on the node for a new file without negotiation: all rank the live members by the name
//! ([`View`]), and the best one answers the manager. [`Cluster`] runs one task per manager and one for the other members.

mod census;
mod cluster;
mod damper;
mod datagram;
mod health;
mod locator;
mod manager_link;
mod members;
mod names;
mod observer;
mod options;
mod peers;
mod resolver;
mod shared;
mod standing;
mod verdict;
mod view;

pub use cluster::{Cluster, NodeParts};
pub use forebay_cms::{PATHS_LEN_MAX, paths_len};
pub use locator::{FilePresence, Location, Locator, MemberShare};
pub use members::{EXPIRY, MemberState, PROBE_INTERVAL};
pub use observer::{Feed, Observer, observe};
pub use options::{MANAGERS_MAX, MEMBERS_MAX, Options, Placement};
pub use standing::Census;
pub use view::{Member, View};
