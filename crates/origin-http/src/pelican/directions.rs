//! Answers of a director that still hold.

use crate::{
    http_origin::HttpOrigin,
    options::{DIRECTION_TIME, DIRECTIONS_MAX},
};
use forebay_origin::{OriginError, RefusalKind};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::time::Instant;

/// The servers of a path or of all paths that begin with it.
pub(super) struct Directed {
    pub(super) files: HttpOrigin,
    /// Set if another server lists directories.
    pub(super) listings: Option<HttpOrigin>,
    pub(super) namespace: String,
    pub(super) requires_token: bool,
    pub(super) issuers: Vec<String>,
}

impl Directed {
    /// An error of the servers, with the tokens that they accept if that is why they refuse.
    pub(super) fn explain(&self, error: OriginError) -> OriginError {
        match error {
            OriginError::Refused {
                endpoint,
                kind: kind @ (RefusalKind::NotAuthenticated | RefusalKind::Denied),
                text,
            } if self.requires_token => {
                let issuers = self.issuers.join(", ");
                let text = format!("{text}; the namespace {} requires a token of {issuers}", self.namespace);
                OriginError::Refused { endpoint, kind, text }
            }
            error => error,
        }
    }
}

/// Answers by the beginning of the paths that they are about.
#[derive(Default)]
pub(super) struct Directions {
    by_prefix: Mutex<HashMap<String, Known>>,
}

struct Known {
    directed: Arc<Directed>,
    /// Whether it holds for all paths below its own.
    is_of_prefix: bool,
    since: Instant,
}

impl Directions {
    /// The servers of `path`.
    pub(super) fn known(&self, path: &str) -> Option<Arc<Directed>> {
        let known = self.by_prefix.lock();
        let holds = |prefix: &str| {
            known.get(prefix).filter(|known| {
                known.since.elapsed() < DIRECTION_TIME && (known.is_of_prefix || prefix.len() == path.len())
            })
        };
        ancestors(path).find_map(holds).map(|known| Arc::clone(&known.directed))
    }

    /// Keeps the servers of `path`, and of all paths with the same first `depth` components.
    pub(super) fn keep(&self, path: String, depth: Option<usize>, directed: Arc<Directed>) {
        let mut known = self.by_prefix.lock();
        if known.len() >= DIRECTIONS_MAX {
            known.retain(|_, known| known.since.elapsed() < DIRECTION_TIME);
        }
        // A director that names a short prefix for each path would otherwise be asked for each.
        if known.len() >= DIRECTIONS_MAX {
            known.clear();
        }
        let prefix = depth.and_then(|depth| first_components(&path, depth)).map(str::to_owned);
        let is_of_prefix = prefix.is_some();
        known.insert(prefix.unwrap_or(path), Known { directed, is_of_prefix, since: Instant::now() });
    }

    /// Forgets the servers of `path`.
    pub(super) fn forget(&self, path: &str) {
        let mut known = self.by_prefix.lock();
        for prefix in ancestors(path) {
            known.remove(prefix);
        }
    }
}

/// The path and all directories that it is in, the longest first; the root is empty.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('/').map(|(parent, _)| parent))
}

/// The first `depth` components of a path; `None` if it has fewer.
fn first_components(path: &str, depth: usize) -> Option<&str> {
    let mut ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain(std::iter::once(path.len()));
    let end = if depth == 0 { Some(0) } else { ends.nth(depth - 1) };
    end.and_then(|end| path.get(..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cut_at_components() {
        assert_eq!(ancestors("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", ""]);
        for (depth, prefix) in [(0, Some("")), (1, Some("/a")), (2, Some("/a/b")), (3, Some("/a/b/c")), (4, None)] {
            assert_eq!(first_components("/a/b/c", depth), prefix, "{depth}");
        }
    }
}
