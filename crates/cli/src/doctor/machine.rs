//! Limits of the machine: descriptors, memory, ports.

use super::{
    disks,
    finding::{Findings, Subject},
};
use crate::text;
use forebay_net::BoundAddress;
use rustix::process::{Resource, getrlimit};
use std::{fs, io};

const LIMIT: &str = "limit";
const PORT: &str = "port";

/// Largest share of the machine's memory for buffers, in percent: hits are served from the page cache.
const MEMORY_PERCENT_MAX: u64 = 50;

/// Connections get one of this many descriptors.
const CONNECTIONS_SHARE: u64 = 2;

pub(super) fn check_limits(subject: &Subject<'_>, findings: &mut Findings) {
    let config = &subject.settings.config;
    let connections = u64::try_from(config.server.front.connections_max).unwrap_or(u64::MAX);
    check_descriptors(getrlimit(Resource::Nofile).maximum, connections, findings);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    if let Some(total) = total_memory(&memory) {
        check_memory(config.engine.budget_bytes, total, findings);
    }
}

fn check_descriptors(limit: Option<u64>, connections: u64, findings: &mut Findings) {
    let needed = connections.saturating_mul(CONNECTIONS_SHARE);
    match limit.filter(|limit| *limit < needed) {
        Some(limit) => {
            let found = format!("the limit is {limit}, but {connections} connections need {needed}");
            let advice = "if the server has the same limit, set LimitNOFILE= in its unit (or raise ulimit -Hn)";
            findings.warn(LIMIT, "open files", found, advice);
        }
        None => findings.ok(LIMIT, "open files", format!("enough for {connections} connections")),
    }
}

/// Memory of the machine in bytes, from /proc/meminfo.
fn total_memory(account: &str) -> Option<u64> {
    let line = account.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn check_memory(budget: u64, total: u64, findings: &mut Findings) {
    let found = format!("memory.budget is {} of {}", text::bytes(budget), text::bytes(total));
    if budget > total / 100 * MEMORY_PERCENT_MAX {
        let advice = "hits are served from the page cache, which needs memory: reduce the budget";
        findings.warn(LIMIT, "memory", found, advice);
    } else {
        findings.ok(LIMIT, "memory", found);
    }
}

pub(super) fn check_ports(subject: &Subject<'_>, findings: &mut Findings) {
    let config = &subject.settings.config;
    let is_server_running = disks::is_any_in_use(config);
    let fronts =
        config.server.listen.iter().chain(&config.http.listen).chain(&config.s3.listen).chain(&config.dcap.listen);
    let addresses = fronts.chain(config.admin.listen.as_ref());
    for address in addresses.filter(|address| address.port() != 0) {
        let Err(error) = BoundAddress::bind(*address) else {
            findings.ok(PORT, address, "is free");
            continue;
        };
        match error.source.kind() {
            io::ErrorKind::AddrInUse if is_server_running => {
                findings.ok(PORT, address, "is in use, and so is the store: a server is running");
            }
            io::ErrorKind::AddrInUse => {
                let advice = "if no server of yours is running, find the process that uses it: ss -ltnp";
                findings.warn(PORT, address, "is in use, but the store is not in use", advice);
            }
            io::ErrorKind::PermissionDenied => {
                let advice = "start the server as root with server.user, or by a unit with AmbientCapabilities=CAP_NET_BIND_SERVICE";
                findings.fail(PORT, address, &error.source, advice);
            }
            _ => findings.fail(PORT, address, &error.source, "configure an address of this machine"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_must_include_reserved_descriptors() {
        for (limit, status) in [(None, 0), (Some(600), 0), (Some(599), 1), (Some(0), 1)] {
            let mut findings = Findings::default();
            check_descriptors(limit, 300, &mut findings);
            assert_eq!(findings.exit_status(), status, "{limit:?}");
        }
    }

    #[test]
    fn buffers_leave_memory_to_the_page_cache() {
        assert_eq!(total_memory("MemFree: 1 kB\nMemTotal:       16384 kB\n"), Some(16 << 20));
        assert_eq!(total_memory("MemTotal: much\n"), None);
        for (budget, status) in [(8 << 20, 0), (9 << 20, 1), (u64::MAX, 1)] {
            let mut findings = Findings::default();
            check_memory(budget, 16_000_000 + (2 << 20), &mut findings);
            assert_eq!(findings.exit_status(), status, "{budget}");
        }
    }
}
