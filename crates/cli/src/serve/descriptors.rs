//! The limit of open files: a cache holds one descriptor for each connection and each open file.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the process's limit of descriptors to the most it may have, and warns when that is less than `connections_max`
/// connections with a file each need.
pub(crate) fn raise_limit(connections_max: usize) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    let needed = u64::try_from(connections_max).unwrap_or(u64::MAX).saturating_mul(2);
    if let Some(current) = getrlimit(Resource::Nofile).current
        && current < needed
    {
        tracing::warn!(limit = current, needed, "few open files are allowed for server.connections_max connections");
    }
}
