//! How far a reader may be read ahead of.

use crate::read_ahead::{ReadAheadSettings, Worth};

/// How far one reader may be read ahead of at this moment, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadAheadBounds {
    target: u64,
    /// Never more than this; 0 for nothing at all.
    max: u64,
    divisor: u64,
}

/// Window over a link of which nothing is known yet.
const UNKNOWN_LINK_WINDOW: u64 = 1 << 20;

/// Up to this length one more read is fetched ahead, however short the link: its reader does something with the bytes
/// meanwhile.
const NEXT_READ_LEN_MAX: u64 = 4 << 20;

impl ReadAheadBounds {
    /// The bounds over a link whose [`crate::LinkEstimate::window`] is `link_window`.
    pub const fn new(settings: &ReadAheadSettings, link_window: Option<u64>, worth: Worth) -> Self {
        let divisor = match worth {
            Worth::Off => return Self { target: 0, max: 0, divisor: 1 },
            Worth::Full => 1,
            Worth::Reduced(divisor) => divisor,
        };
        let max = if settings.enabled { settings.window_max / divisor } else { 0 };
        let target = match link_window {
            Some(window) => window / divisor,
            None => UNKNOWN_LINK_WINDOW / divisor,
        };
        Self { target, max, divisor }
    }

    /// Whether nothing is to be fetched ahead.
    pub const fn is_off(self) -> bool {
        self.max == 0
    }

    /// Largest window.
    pub(crate) const fn max(self) -> u64 {
        self.max
    }

    /// The largest window of a reader whose reads are `read_len` bytes long, of a file with blocks of `block_size` bytes.
    pub(crate) fn window(self, read_len: u64, block_size: u64) -> u64 {
        let next_read = read_len.saturating_mul(2).min(NEXT_READ_LEN_MAX) / self.divisor;
        self.target.max(first_window(block_size)).max(next_read).min(self.max)
    }
}

/// The window that a reader begins with: two blocks.
pub(crate) const fn first_window(block_size: u64) -> u64 {
    block_size.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn window(link: Option<u64>, worth: Worth, read_len: u64) -> u64 {
        let settings = ReadAheadSettings { window_max: 16 * MIB, ..ReadAheadSettings::default() };
        ReadAheadBounds::new(&settings, link, worth).window(read_len, 64 * KIB)
    }

    #[test]
    fn the_link_decides_between_one_read_and_the_limit() {
        assert_eq!(window(Some(5 * MIB), Worth::Full, 64 * KIB), 5 * MIB);
        assert_eq!(window(Some(50 * MIB), Worth::Full, 64 * KIB), 16 * MIB);
        assert_eq!(window(Some(1), Worth::Full, 64 * KIB), 128 * KIB);
        assert_eq!(window(Some(1), Worth::Full, MIB), 2 * MIB);
        assert_eq!(window(Some(1), Worth::Full, 8 * MIB), 4 * MIB);
        assert_eq!(window(None, Worth::Full, 64 * KIB), MIB);
    }

    #[test]
    fn waste_makes_the_window_smaller() {
        assert_eq!(window(Some(50 * MIB), Worth::Reduced(4), 64 * KIB), 4 * MIB);
        assert_eq!(window(Some(1), Worth::Reduced(4), MIB), MIB / 2);
        assert_eq!(window(Some(50 * MIB), Worth::Off, 64 * KIB), 0);
    }

    #[test]
    fn nothing_is_fetched_ahead_when_it_is_turned_off() {
        let settings = ReadAheadSettings { enabled: false, ..ReadAheadSettings::default() };
        assert!(ReadAheadBounds::new(&settings, Some(MIB), Worth::Full).is_off());
    }
}
