//! Settings of the membership.

use forebay_types::{Endpoint, named_enum};

/// Most managers that a node may log in to; that of stock nodes.
pub const MANAGERS_MAX: usize = 16;

/// Most members that are configured or discovered; a stock manager has slots for as many nodes.
pub const MEMBERS_MAX: usize = 64;

/// Membership of a cluster. Without managers the node is a member of none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Options {
    /// Their ports for nodes.
    pub managers: Vec<Endpoint>,
    /// The data ports of all members, this node included. If there are none and nothing is discovered, the manager selects the node of a
    /// new file.
    pub members: Vec<Endpoint>,
    /// A name with one address for each member, and their data port.
    pub discover: Option<Endpoint>,
    /// The host of this node for clients.
    pub host: String,
    /// Paths that this node serves.
    pub paths: Vec<String>,
    pub placement: Placement,
    /// Concurrent opens of a file from which on a second node serves it, too.
    pub shared_from_opens: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            managers: Vec::new(),
            members: Vec::new(),
            discover: None,
            host: String::new(),
            paths: Vec::new(),
            placement: Placement::default(),
            shared_from_opens: 50,
        }
    }
}

named_enum! {
    /// The part of a name that determines the node of a new file.
    #[derive(Default)]
    pub enum Placement {
        #[default]
        File = "file",
        Directory = "directory",
    }
}
