//! What the operating system tells of this process and of files.

use anyhow::{Context as _, Result};
use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

/// What this process has used so far.
pub struct Usage {
    pub resident_bytes: u64,
    pub anonymous_bytes: u64,
    pub written_bytes: u64,
    pub processor_seconds: f64,
}

impl Usage {
    pub fn now() -> Result<Self> {
        let (status, io) = (fs::read_to_string("/proc/self/status")?, fs::read_to_string("/proc/self/io")?);
        let stat = fs::read_to_string("/proc/self/stat")?;
        let ticks: u64 = stat
            .rsplit_once(')')
            .map(|(_, rest)| {
                rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
            })
            .context("no processor time")?;
        Ok(Self {
            resident_bytes: field(&status, "VmRSS:")? * 1024,
            anonymous_bytes: field(&status, "RssAnon:")? * 1024,
            written_bytes: field(&io, "write_bytes:")?,
            processor_seconds: ticks as f64 / 100.0,
        })
    }
}

fn field(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name}"))?;
    Ok(line.split_whitespace().next().context("an empty field")?.parse()?)
}

/// Room that the files below `path` take.
pub fn bytes_below(path: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}
