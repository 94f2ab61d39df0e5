//! The rows of the table: what is done over the path, and through what.

use crate::compare::servers::XcacheSettings;
use crate::load::{Operation, Order};
use anyhow::{Result, ensure};
use std::borrow::Cow;

/// A task to do over the path.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, clap::ValueEnum)]
pub(crate) enum Task {
    /// `xrdcp` of the large file.
    Copy,
    /// Reads of 4 KiB anywhere in the large file, one after the other.
    #[value(name = "read-4k")]
    Read4k,
    /// Reads of 32 KiB.
    #[value(name = "read-32k")]
    Read32k,
    /// Vector reads of 64 × 16 KiB.
    Readv,
    /// Open, read and close of files of 1 MiB, over 16 connections.
    Files,
    /// Open, read and close of files of 4 KiB, one after the other.
    Opens,
}

/// Through what it is done.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Way {
    /// From the origin itself.
    Direct,
    Forebay,
    Xcache(XcacheSettings),
}

/// Blocks that a tuned XCache may fetch ahead of one file's readers.
const TUNED_PREFETCH: u32 = 64;

/// A way, as it is chosen on the command line: `direct`, `forebay`, `xcache`, or `xcache-256k` for a tuned one.
impl std::str::FromStr for Way {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "direct" => Ok(Self::Direct),
            "forebay" => Ok(Self::Forebay),
            "xcache" => Ok(Self::Xcache(XcacheSettings::default())),
            _ => {
                let size = name.strip_prefix("xcache-").and_then(|size| size.parse::<forebay_types::ByteSize>().ok());
                ensure!(size.is_some(), "{name} is none of direct, forebay, xcache, xcache-SIZE");
                let block_len = size.map(|size| size.0);
                Ok(Self::Xcache(XcacheSettings { prefetch: Some(TUNED_PREFETCH), block_len }))
            }
        }
    }
}

impl Way {
    /// Its name in tables and files.
    pub(crate) fn name(self) -> Cow<'static, str> {
        match self {
            Self::Direct => "direct".into(),
            Self::Forebay => "Forebay".into(),
            Self::Xcache(XcacheSettings { prefetch, block_len }) => match (prefetch, block_len) {
                (Some(blocks), Some(len)) => format!("XCache, prefetch {blocks}, {} KiB", len >> 10).into(),
                _ => "XCache".into(),
            },
        }
    }
}

/// The unit of a task's result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unit {
    MibPerSecond,
    /// Mean time of an operation.
    Milliseconds,
}

impl Unit {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::MibPerSecond => "MiB/s",
            Self::Milliseconds => "ms",
        }
    }
}

/// How the load generator does a task that is not the reference client's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadPlan {
    pub(crate) operation: Operation,
    pub(crate) order: Order,
    pub(crate) connections: u16,
}

/// Connections that read the files of 1 MiB.
const FILES_CONNECTIONS: u16 = 16;

impl Task {
    pub(crate) const ALL: [Self; 6] = [Self::Copy, Self::Read4k, Self::Read32k, Self::Readv, Self::Files, Self::Opens];

    /// Its name in files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Read4k => "read-4k",
            Self::Read32k => "read-32k",
            Self::Readv => "readv",
            Self::Files => "files",
            Self::Opens => "opens",
        }
    }

    /// The title that tables print.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Copy => "xrdcp",
            Self::Read4k => "random read 4 KiB",
            Self::Read32k => "random read 32 KiB",
            Self::Readv => "readv 64 × 16 KiB",
            Self::Files => "files of 1 MiB, 16 connections",
            Self::Opens => "open + read 4 KiB + close",
        }
    }

    pub(crate) const fn unit(self) -> Unit {
        match self {
            Self::Copy | Self::Files => Unit::MibPerSecond,
            Self::Read4k | Self::Read32k | Self::Readv | Self::Opens => Unit::Milliseconds,
        }
    }

    /// The load of the load generator; `None` for the task of the reference client.
    pub(crate) const fn load(self) -> Option<LoadPlan> {
        match self {
            Self::Copy => None,
            Self::Read4k => Some(random(Operation::Read { len: 4 << 10 }, 1)),
            Self::Read32k => Some(random(Operation::Read { len: 32 << 10 }, 1)),
            Self::Readv => Some(random(Operation::ReadVector { elements: 64, len: 16 << 10 }, 1)),
            Self::Files => Some(random(Operation::OpenReadClose, FILES_CONNECTIONS)),
            Self::Opens => Some(random(Operation::OpenReadClose, 1)),
        }
    }
}

const fn random(operation: Operation, connections: u16) -> LoadPlan {
    LoadPlan { operation, order: Order::Random, connections }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_chosen_by_name() {
        let tuned = Way::Xcache(XcacheSettings { prefetch: Some(64), block_len: Some(256 << 10) });
        assert_eq!("xcache-256k".parse::<Way>().unwrap(), tuned);
        assert_eq!(tuned.name(), "XCache, prefetch 64, 256 KiB");
        assert_eq!("xcache".parse::<Way>().unwrap().name(), "XCache");
        assert!("xcache-".parse::<Way>().is_err());
        assert!("plain".parse::<Way>().is_err());
    }
}
