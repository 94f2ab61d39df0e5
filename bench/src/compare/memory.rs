//! How much memory a process has, from /proc.

use anyhow::{Context as _, Result};

/// Memory of a process when it was looked at, without what the kernel keeps for its sockets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    /// The most that were resident since the peak was reset, or since its start.
    pub(crate) peak: u64,
}

impl Memory {
    /// Looks at process `pid`.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/status");
        let status = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        parse(&status).with_context(|| format!("{path} makes no sense"))
    }

    /// Resets the peak of process `pid`.
    pub(crate) fn reset_peak(pid: u32) -> Result<()> {
        let path = format!("/proc/{pid}/clear_refs");
        std::fs::write(&path, "5").with_context(|| format!("cannot write {path}"))
    }
}

fn parse(status: &str) -> Option<Memory> {
    let bytes = |key| {
        let value = status.lines().find_map(|line| line.strip_prefix(key))?;
        Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    };
    Some(Memory { resident: bytes("VmRSS:")?, peak: bytes("VmHWM:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(parse(status), Some(Memory { resident: 1 << 20, peak: 2 << 20 }));
        assert_eq!(parse("Name:\tx\n"), None);
    }

    #[test]
    fn a_peak_can_begin_anew() {
        let pid = std::process::id();
        drop(std::hint::black_box(vec![1_u8; 64 << 20]));
        let before = Memory::of(pid).unwrap();
        Memory::reset_peak(pid).unwrap();
        let after = Memory::of(pid).unwrap();
        assert!(before.peak >= 64 << 20);
        assert!(after.peak < before.peak);
    }
}
