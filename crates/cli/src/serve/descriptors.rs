//! The limit of open files: a cache holds one descriptor for each connection and each open file.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// One of this many descriptors besides those of connections and open files is reserved for disks, origins and the admin port.
/// Without them not even connected clients could be served.
const KEPT_SHARE: usize = 4;

/// Connections and files that fit into a limit of descriptors.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Room {
    pub(crate) connections: usize,
    /// Different files that are open at the same time.
    pub(crate) files: usize,
}

/// Raises the process's limit of descriptors to its maximum, and returns what fits into it: these maxima, or less. Warns if not
/// all connections fit.
pub(crate) fn raise_limit(connections_max: usize, files_max: usize) -> Room {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return Room { connections: connections_max, files: files_max };
    };
    let room = room_within(limit, connections_max, files_max);
    if room.connections < connections_max {
        tracing::warn!(
            limit,
            connections_max,
            connections = room.connections,
            "the limit of open files (ulimit -Hn, LimitNOFILE) is too low for server.connections_max; fewer connections are accepted"
        );
    }
    room
}

/// Connections get at most half of the descriptors, and open files what is left of the rest.
fn room_within(limit: u64, connections_max: usize, files_max: usize) -> Room {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let connections = connections_max.min((limit / 2).max(1));
    let rest = limit.saturating_sub(connections);
    let kept = rest / KEPT_SHARE;
    Room { connections, files: files_max.min((rest - kept).max(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_to_files_and_both_to_others() {
        for (limit, connections, files) in
            [(0, 1, 1), (1024, 512, 384), (32_767, 16_383, 12_288), (65_536, 16_384, 36_864), (1 << 20, 16_384, 65_536)]
        {
            assert_eq!(room_within(limit, 16_384, 65_536), Room { connections, files }, "{limit}");
        }
    }
}
