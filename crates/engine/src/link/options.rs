//! How reading ahead is set up.

use forebay_cache::ReadAheadSettings;

/// Set-up of reading ahead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReadAheadOptions {
    /// How files are read ahead and completed, unless a rule says otherwise.
    pub settings: ReadAheadSettings,
    /// Bytes that may be under way from one origin without a reader waiting for them.
    pub origin_bytes_max: u64,
    /// The share of the byte budget that such bytes may hold, 0 to 50 percent.
    pub memory_percent: u8,
}

impl Default for ReadAheadOptions {
    fn default() -> Self {
        Self { settings: ReadAheadSettings::default(), origin_bytes_max: 64 << 20, memory_percent: 25 }
    }
}
