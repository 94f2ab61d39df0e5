//! The login of a data server, and its answer.

use crate::{frame::Frame, pup::Packer, pup::Unpacker};
use std::time::Duration;

/// Version of the protocol in 5.5.3 to 6.2.1.
const VERSION: u16 = 3;

/// Longest list of paths, as [`paths_len`] counts it. Stock managers (5.5.3) reset a connection whose login has more than 4096 bytes;
/// the other fields, with two names of hosts, need less than the rest.
pub const PATHS_LEN_MAX: usize = 3072;

/// Precedes each path. `s` lets the manager select this server for files that no server has: without it, a client whose server has
/// failed gets an error instead of another server.
const PATH_TYPE: &str = "rs ";

/// A data server that holds files.
const MODE_SERVER: u32 = 0x08;

/// It understands redirects that hold for later opens, too.
const MODE_PERMANENT_REDIRECTS: u32 = 0x40;

/// It is not to be selected until it resumes.
const MODE_SUSPENDED: u32 = 0x100;

/// The statements of a data server about itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Login {
    /// Shown in the log of the manager.
    pub process: u32,
    /// Space of the store in GiB.
    pub total_gib: u32,
    pub free_mib: u32,
    /// With less free space the server is not selected for files that no server has.
    pub free_min_mib: u32,
    pub used_percent: u16,
    /// The port to which clients are redirected.
    pub data_port: u16,
    /// Name of this server among those of the same host; the same after a restart.
    pub instance: String,
    /// The name of the host for managers that cannot resolve the address of the connection.
    pub host: String,
    /// Paths of the files; the manager may select this server for files below them that no server has.
    pub paths: Vec<String>,
    pub is_suspended: bool,
}

/// A manager's answer to a login.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LoginReply {
    /// Time in which answers to questions release the waiting clients at once. Later ones help the next client.
    pub fast_window: Duration,
}

impl Login {
    /// The frame, which is the first one of a connection.
    #[must_use]
    pub fn to_frame(&self) -> Frame {
        let suspended = if self.is_suspended { MODE_SUSPENDED } else { 0 };
        // A login without an identity ends a manager of 5.5.3 and 6.2.1 with a segmentation fault.
        let identity = format!("s-{}@{} forebay", or(&self.instance, "cache"), or(&self.host, "localhost"));
        let paths: Vec<String> = self.paths.iter().map(|path| format!("{PATH_TYPE}{path}")).collect();
        let data = Packer::default()
            .short(VERSION)
            .int(MODE_SERVER | MODE_PERMANENT_REDIRECTS | suspended)
            .int(self.process)
            .int(self.total_gib)
            .int(self.free_mib)
            .int(self.free_min_mib)
            .short(1)
            .short(self.used_percent.min(100))
            .short(self.data_port)
            .short(0)
            .text(&identity)
            .text(&paths.join("\n"))
            .text("")
            .text(&format!("myHN={}", or(&self.host, "localhost")))
            .finish();
        Frame { data, ..Frame::empty(0, 0) }
    }
}

impl LoginReply {
    /// Reads the data of the answer. Fields after the time are those of the manager's own login.
    pub(crate) fn parse(data: &[u8]) -> Option<Self> {
        let mut unpacker = Unpacker::new(data);
        let (_version, _mode) = (unpacker.short()?, unpacker.int()?);
        Some(Self { fast_window: Duration::from_millis(unpacker.int()?.into()) })
    }
}

/// Bytes that these paths need in a login.
#[must_use]
pub fn paths_len<'a>(paths: impl IntoIterator<Item = &'a str>) -> usize {
    // With a line break after each.
    paths
        .into_iter()
        .fold(0, |sum, path| sum.saturating_add(PATH_TYPE.len().saturating_add(path.len()).saturating_add(1)))
}

fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_login_is_one_that_managers_take() {
        let path = format!("/{}", "p".repeat(252));
        let paths = vec![path; PATHS_LEN_MAX / 257];
        assert!(paths_len(paths.iter().map(String::as_str)) > PATHS_LEN_MAX - 257);
        let login = Login {
            process: u32::MAX,
            total_gib: u32::MAX,
            free_mib: u32::MAX,
            free_min_mib: 1,
            used_percent: 100,
            data_port: u16::MAX,
            instance: "forebay-65535".to_owned(),
            host: "h".repeat(255),
            paths,
            is_suspended: true,
        };
        assert!(login.to_frame().data.len() < 4096 - 257);
    }
}
