//! Roles of a server.

/// The task of a server among several that share a store.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Role {
    /// Fills a store and serves files from it.
    #[default]
    Cache,
    /// As a cache; also publishes complete files, for managers.
    Filler,
    /// Redirects clients to the complete files of a filler, and all other requests to the filler.
    Manager,
}

impl Role {
    pub(crate) const ALL: [Self; 3] = [Self::Cache, Self::Filler, Self::Manager];

    /// The name in the configuration file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Filler => "filler",
            Self::Manager => "manager",
        }
    }
}
