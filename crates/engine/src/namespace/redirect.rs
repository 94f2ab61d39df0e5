//! Where clients are sent instead of being served.

use crate::namespace::{decisions::Miss, routes::OriginTarget};
use forebay_cache::Action;
use forebay_types::Endpoint;

/// Where a client finds a file instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Redirect {
    pub server: Endpoint,
    /// The file's URL when its path there is not the one that the client has asked for.
    pub url: Option<String>,
}

/// Which redirects a client can follow. A client that can follow none is served from the origin, and nothing is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Redirects {
    Never,
    /// To the same path at another server.
    ToServers,
    ToUrls,
    /// To any URL, and to files of the cache, which it sees.
    ToFiles,
    /// The same, in answer to reads too.
    ToFilesAmidReads,
}

/// The answer to opens for writing and to changes of the name space.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WritePolicy {
    Refuse,
    /// The client is redirected to this server.
    Redirect(Endpoint),
}

impl Redirects {
    /// Whether the client can read files of the cache itself.
    #[must_use]
    pub const fn reach_files(self) -> bool {
        matches!(self, Self::ToFiles | Self::ToFilesAmidReads)
    }

    const fn reach_urls(self) -> bool {
        matches!(self, Self::ToUrls) || self.reach_files()
    }
}

impl OriginTarget {
    /// Whether clients that can follow are sent to the origin as long as the file is not complete here.
    pub(crate) fn leaves_misses(&self) -> bool {
        self.service.miss == Miss::Redirect && self.caching.action == Action::Cache
    }

    /// Where the client finds the file at its origin, when it can follow: clients change the server, not the protocol.
    #[must_use]
    pub fn redirect(&self, redirects: Redirects) -> Option<Redirect> {
        // Checked first: the common client can follow no redirect, and no URL is formatted for it.
        if redirects == Redirects::Never || !self.server.scheme.is_xrootd() {
            return None;
        }
        // Below an export the path at the origin is the one that the client has asked for.
        if !self.is_forwarded {
            return Some(Redirect { server: self.server.endpoint.clone(), url: None });
        }
        let url = redirects.reach_urls().then(|| format!("root://{}/{}", self.server, self.path.lfn))?;
        Some(Redirect { server: self.server.endpoint.clone(), url: Some(url) })
    }
}
