//! The rows of the table: what is measured.

use super::servers::ServerKind;
use crate::load::{Operation, Order};
use anyhow::{Result, ensure};

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Short name, by which it is chosen.
    pub(crate) name: String,
    /// The title that tables print.
    pub(crate) title: String,
    pub(crate) kind: RowKind,
    /// The unit of server time.
    pub(crate) unit: CpuUnit,
}

/// How a row is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowKind {
    /// On a warm cache, for a time.
    Warm(WarmRow),
    /// On a fresh cache, one file from end to end.
    Cold(ColdClient),
    /// Clients that log in and leave, for a time.
    Logins(LoginWay),
}

impl RowKind {
    /// Whether reads come from the disk.
    pub(crate) const fn is_from_device(self) -> bool {
        matches!(self, Self::Warm(warm) if warm.from_device)
    }

    /// The security mechanism of the servers.
    pub(crate) const fn security(self) -> Security {
        match self {
            Self::Warm(warm) => warm.security(),
            Self::Cold(_) => Security::None,
            Self::Logins(way) => way.security(),
        }
    }
}

/// How clients log in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LoginWay {
    /// In clear, without any proof.
    Plain,
    /// With a shared secret.
    Secret,
    /// With a proxy certificate.
    Certificate,
    /// With a proxy certificate that has an attribute of an organization.
    CertificateWithAttribute,
    /// After a whole TLS handshake.
    Tls,
    /// After a TLS handshake that resumes an earlier session.
    TlsResumed,
    /// After a whole TLS handshake, with a token.
    Token,
}

impl LoginWay {
    /// Which sort of server is asked.
    pub(crate) const fn security(self) -> Security {
        match self {
            Self::Plain | Self::Tls | Self::TlsResumed => Security::Tls,
            Self::Secret | Self::Certificate | Self::CertificateWithAttribute | Self::Token => Security::Proof,
        }
    }
}

/// A security mechanism of a server.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Security {
    None,
    /// It encrypts for clients that ask for it.
    Tls,
    /// It wants proof of who comes, and encrypts for clients that ask for it.
    Proof,
}

/// A load on a warm cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarmRow {
    pub(crate) operation: Operation,
    pub(crate) order: Order,
    pub(crate) connections: u16,
    pub(crate) pipeline: u16,
    /// Whether everything is encrypted.
    pub(crate) tls: bool,
    /// Whether the page cache is dropped before: reads come from the disk.
    pub(crate) from_device: bool,
}

/// The client that reads a file that is not in the cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ColdClient {
    /// The reference client's copy program.
    Xrdcp,
    /// Our load generator, which compares every byte.
    Load,
    /// Our load generator, opening, reading and closing many small files over several connections.
    SmallFiles,
    /// The same with files of 1 MiB.
    MediumFiles,
    /// Our load generator, opening, reading and closing small files one after the other: how long a miss takes.
    OneByOne,
    /// Our load generator, reading 4 KiB here and there in one open file, one read after the other: how long the first byte of
    /// a miss takes.
    FirstByte,
}

/// The divisor of server time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CpuUnit {
    PerOperation,
    PerGib,
}

impl CpuUnit {
    /// The unit as it stands in the table.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::PerOperation => "µs/op",
            Self::PerGib => "s/GiB",
        }
    }
}

impl Row {
    /// Whether a server that is not a floor takes part; all do in cold rows. The two reference servers log clients in by
    /// the same code, and do not resume TLS sessions by default; when configured to, version 5.5.3 mixes connections up.
    pub(crate) const fn asks(&self, server: ServerKind) -> bool {
        let is_file_server = matches!(server, ServerKind::Plain) || server.is_forebay();
        match self.kind {
            RowKind::Warm(_) => is_file_server || server.is_cache(),
            RowKind::Logins(LoginWay::TlsResumed) => server.is_forebay(),
            RowKind::Logins(_) => is_file_server,
            RowKind::Cold(_) => true,
        }
    }
}

impl WarmRow {
    /// Whether the floor server can answer it.
    pub(crate) const fn has_floor(&self) -> bool {
        matches!(self.operation, Operation::Read { .. }) && !self.tls && !self.from_device
    }

    /// Which sort of server is asked.
    pub(crate) const fn security(&self) -> Security {
        if self.tls { Security::Tls } else { Security::None }
    }
}

/// Clients that log in at the same time.
pub(crate) const LOGIN_CLIENTS: usize = 4;

/// Bytes of a cold read by the load generator; as many are under way as `xrdcp` has by default.
pub(crate) const COLD_READ_LEN: u32 = 8 << 20;
/// Cold reads under way.
pub(crate) const COLD_PIPELINE: u16 = 4;
/// Connections that read small cold files.
pub(crate) const COLD_SMALL_CONNECTIONS: u16 = 8;
/// Connections that read cold files of 1 MiB.
pub(crate) const COLD_MEDIUM_CONNECTIONS: u16 = 16;
/// Cold files that are read one after the other, at most.
pub(crate) const COLD_ONE_BY_ONE_MAX: usize = 1_000;

/// Bytes of each read that measures when the first byte arrives.
pub(crate) const COLD_FIRST_BYTE_LEN: u32 = 4 << 10;
/// How many of them; few enough that hardly two are in one block.
pub(crate) const COLD_FIRST_BYTES: u64 = 400;

const DEVICE_CONNECTIONS: [u16; 3] = [8, 64, 256];

const CONNECTIONS: [u16; 4] = [1, 8, 64, 256];

/// All rows in the order of the table.
pub(crate) fn all() -> Vec<Row> {
    let mut rows = vec![bulk("read-1m-seq", "read 1 MiB sequential", Operation::Read { len: 1 << 20 })];
    for (size, kib) in [("128k", 128), ("32k", 32), ("4k", 4)] {
        for connections in CONNECTIONS {
            let name = format!("read-{size}-c{connections}");
            rows.push(random(
                name,
                format!("read {kib} KiB random"),
                Operation::Read { len: kib << 10 },
                connections,
                1,
            ));
        }
    }
    let pipelined = "read 4 KiB random, 16 under way".to_owned();
    rows.push(random("read-4k-c8-p16".to_owned(), pipelined, Operation::Read { len: 4 << 10 }, 8, 16));
    let vector = Operation::ReadVector { elements: 64, len: 16 << 10 };
    rows.push(random("readv-64x16k".to_owned(), "readv 64 × 16 KiB".to_owned(), vector, 8, 1));
    rows.push(bulk("pgread-1m-seq", "pgread 1 MiB sequential", Operation::PageRead { len: 1 << 20 }));
    rows.push(random("open-stat-close".to_owned(), "open + stat + close".to_owned(), Operation::OpenStatClose, 8, 1));
    let per_gib = CpuUnit::PerGib;
    rows.push(cold("cold-xrdcp", "cold, xrdcp", ColdClient::Xrdcp, per_gib));
    rows.push(cold("cold-read-8m", "cold, 4 × read 8 MiB under way", ColdClient::Load, per_gib));
    let small = "cold, small files: open + read 16 KiB + close, 8 connections";
    rows.push(cold("cold-small", small, ColdClient::SmallFiles, CpuUnit::PerOperation));
    let medium = "cold, open + read 1 MiB + close, 16 connections";
    rows.push(cold("cold-medium", medium, ColdClient::MediumFiles, CpuUnit::PerOperation));
    let one_by_one = "cold, open + read 16 KiB + close, 1 connection";
    rows.push(cold("cold-one-by-one", one_by_one, ColdClient::OneByOne, CpuUnit::PerOperation));
    let first_byte = "cold, read 4 KiB random, 1 connection";
    rows.push(cold("cold-first-byte", first_byte, ColdClient::FirstByte, CpuUnit::PerOperation));
    rows.extend(secured());
    rows.extend(from_device());
    rows
}

/// Rows of caches that are larger than the memory.
fn from_device() -> Vec<Row> {
    let mut rows = Vec::new();
    for (size, kib) in [("4k", 4), ("32k", 32), ("128k", 128), ("256k", 256), ("1m", 1024)] {
        for connections in DEVICE_CONNECTIONS {
            let (name, title) = (format!("device-{size}-c{connections}"), format!("disk, read {kib} KiB random"));
            rows.push(random(name, title, Operation::Read { len: kib << 10 }, connections, 1));
        }
    }
    let streams = bulk("device-1m-seq-c64", "disk, read 1 MiB sequential", Operation::Read { len: 1 << 20 });
    rows.push(Row { title: "disk, read 1 MiB sequential, 64 connections".to_owned(), ..streams });
    for row in &mut rows {
        if let RowKind::Warm(warm) = &mut row.kind {
            warm.from_device = true;
            if warm.order == Order::Sequential {
                warm.connections = 64;
            }
        }
    }
    rows
}

/// Rows that measure the cost of security.
fn secured() -> Vec<Row> {
    let logins = [
        ("login-plain", "login, no security", LoginWay::Plain),
        ("login-sss", "login, sss", LoginWay::Secret),
        ("login-gsi", "login, gsi", LoginWay::Certificate),
        ("login-gsi-voms", "login, gsi with VOMS", LoginWay::CertificateWithAttribute),
        ("login-tls", "login, TLS", LoginWay::Tls),
        ("login-tls-resumed", "login, TLS resumed", LoginWay::TlsResumed),
        ("login-ztn", "login, TLS + ztn", LoginWay::Token),
    ];
    let logins = logins.map(|(name, title, way)| Row {
        name: name.to_owned(),
        title: format!("{title}, {LOGIN_CLIENTS} clients"),
        kind: RowKind::Logins(way),
        unit: CpuUnit::PerOperation,
    });
    let sequential = bulk("tls-read-1m-seq", "TLS, read 1 MiB sequential", Operation::Read { len: 1 << 20 });
    let read_random = Operation::Read { len: 128 << 10 };
    let reads = [
        sequential,
        random("tls-read-128k-c8".to_owned(), "TLS, read 128 KiB random".to_owned(), read_random, 8, 1),
        random(
            "tls-read-4k-c8".to_owned(),
            "TLS, read 4 KiB random".to_owned(),
            Operation::Read { len: 4 << 10 },
            8,
            1,
        ),
    ];
    logins.into_iter().chain(reads.map(encrypted)).collect()
}

fn encrypted(mut row: Row) -> Row {
    if let RowKind::Warm(warm) = &mut row.kind {
        warm.tls = true;
    }
    row
}

/// The rows whose names begin with one of `prefixes`. Without prefixes all of them but those from the device, which need a disk, where
/// the others should not see one.
pub(crate) fn select(prefixes: &[String]) -> Result<Vec<Row>> {
    let rows = all();
    for prefix in prefixes {
        let is_known = rows.iter().any(|row| row.name.starts_with(prefix.as_str()));
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        ensure!(is_known, "no row begins with {prefix}; there are {}", names.join(", "));
    }
    let is_default = |row: &Row| prefixes.is_empty() && !row.kind.is_from_device();
    let chosen = |row: &Row| is_default(row) || prefixes.iter().any(|prefix| row.name.starts_with(prefix.as_str()));
    Ok(rows.into_iter().filter(chosen).collect())
}

fn bulk(name: &str, title: &str, operation: Operation) -> Row {
    let warm =
        WarmRow { operation, order: Order::Sequential, connections: 1, pipeline: 1, tls: false, from_device: false };
    Row {
        name: name.to_owned(),
        title: format!("{title}, 1 connection"),
        kind: RowKind::Warm(warm),
        unit: CpuUnit::PerGib,
    }
}

fn random(name: String, title: String, operation: Operation, connections: u16, pipeline: u16) -> Row {
    let warm = WarmRow { operation, order: Order::Random, connections, pipeline, tls: false, from_device: false };
    let plural = if connections == 1 { "" } else { "s" };
    let title = format!("{title}, {connections} connection{plural}");
    Row { name, title, kind: RowKind::Warm(warm), unit: CpuUnit::PerOperation }
}

fn cold(name: &str, title: &str, client: ColdClient, unit: CpuUnit) -> Row {
    Row { name: name.to_owned(), title: title.to_owned(), kind: RowKind::Cold(client), unit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_prefix_and_unknown_ones_are_refused() {
        let devices = select(&["device".to_owned()]).unwrap();
        assert_eq!(select(&[]).unwrap().len() + devices.len(), all().len());
        assert!(devices.iter().all(|row| row.kind.is_from_device()));
        let chosen = select(&["read-4k-c".to_owned(), "pgread".to_owned()]).unwrap();
        assert_eq!(chosen.len(), 6);
        assert!(select(&["write".to_owned()]).is_err());
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = all().into_iter().map(|row| row.name).collect();
        assert_eq!(names.len(), all().len());
    }
}
