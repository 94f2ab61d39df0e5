//! The limit of open files: a cache holds one descriptor for each connection and each open file.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// One of this many descriptors is reserved for files, disks, origins and the admin port. Without them not even connected
/// clients could be served.
const KEPT_SHARE: u64 = 4;

/// Raises the process's limit of descriptors to its maximum, and returns the number of connections that fit into it:
/// `connections_max`, or fewer, with a warning.
pub(crate) fn raise_limit(connections_max: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    let Some(limit) = getrlimit(Resource::Nofile).current else { return connections_max };
    let connections = connections_within(limit, connections_max);
    if connections < connections_max {
        tracing::warn!(
            limit,
            connections_max,
            connections,
            "the limit of open files (ulimit -Hn, LimitNOFILE) is too low for server.connections_max; fewer connections are accepted"
        );
    }
    connections
}

/// Connections that fit into a limit of descriptors.
fn connections_within(limit: u64, connections_max: usize) -> usize {
    let fitting = usize::try_from(limit - limit / KEPT_SHARE).unwrap_or(usize::MAX);
    connections_max.min(fitting.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_reserved() {
        for (limit, expected) in [(0, 1), (1024, 768), (21_844, 16_383), (21_846, 16_384), (1 << 20, 16_384)] {
            assert_eq!(connections_within(limit, 16_384), expected, "{limit}");
        }
    }
}
