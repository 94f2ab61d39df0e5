//! How far a reader may be read ahead of: settings, and bounds at a moment.

use crate::read_ahead::Worth;
use std::str::FromStr;

/// How a file is read ahead, and how much of it is fetched beyond what is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadAheadSettings {
    /// Whether patterns of reads are recognised and their continuation is fetched.
    pub enabled: bool,
    /// How far one open file is read ahead of its reader at most, in bytes.
    pub window_max: u64,
    /// Once this many percent of the file's blocks are in the cache, 1 to 100, the rest is fetched too.
    pub complete_after_percent: Option<u8>,
    /// How much is fetched beyond what is read.
    pub fill: FillPolicy,
    /// How the structure of ROOT files is used.
    pub structure: StructureUse,
    /// Bytes that are fetched for one open of a ROOT file only because jobs read such columns of other files.
    pub structure_history_max: u64,
}

forebay_types::named_enum! {
    /// How the structure of ROOT files is used.
    #[derive(Default)]
    pub enum StructureUse {
        /// The columns that are read are learned for each file, and their next baskets or pages are fetched.
        Learn = "learn",
        /// Also those that were read of other files of the dataset, from the open on.
        #[default]
        LearnAndRemember = "learn-and-remember",
        /// Not at all.
        Off = "off",
    }
}

/// The error of a text that is not a use of the structure.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is not a use of the structure of ROOT files: write \"learn-and-remember\", \"learn\" or \"off\"")]
pub struct StructureUseError(pub String);

forebay_types::named_enum! {
    /// How much of a file is fetched.
    #[derive(Default)]
    pub enum FillPolicy {
        /// The blocks that are read, and those that reading ahead adds.
        #[default]
        OnDemand = "on-demand-blocks",
        /// The whole file while a client has it open; the rest when it is opened again.
        WhileOpen = "while-open",
        /// All of it, also after the last client has left.
        ToEnd = "to-end",
    }
}

/// The error of a text that is not a fill policy.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is not a fill policy: write \"on-demand-blocks\", \"while-open\" or \"to-end\"")]
pub struct FillPolicyError(pub String);

/// How far one open file is read ahead by default, in bytes: a little more than ROOT reads at once by default.
pub const READ_AHEAD_WINDOW_MAX: u64 = 32 << 20;

/// Bytes that are fetched for one open because of other files by default: what some ten columns of a file take.
pub const STRUCTURE_HISTORY_MAX: u64 = 16 << 20;

impl Default for ReadAheadSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            window_max: READ_AHEAD_WINDOW_MAX,
            complete_after_percent: None,
            fill: FillPolicy::default(),
            structure: StructureUse::default(),
            structure_history_max: STRUCTURE_HISTORY_MAX,
        }
    }
}

impl ReadAheadSettings {
    /// Whether the structure of ROOT files is used at all.
    pub const fn uses_structure(&self) -> bool {
        self.enabled && !matches!(self.structure, StructureUse::Off)
    }

    /// Whether columns are remembered for other files.
    pub const fn remembers_columns(&self) -> bool {
        self.enabled && matches!(self.structure, StructureUse::LearnAndRemember)
    }

    /// Whether the rest of a file is to be fetched of whose `blocks` blocks `present` are in the cache, while a client has it
    /// open.
    pub const fn is_to_be_completed(&self, present: u64, blocks: u64) -> bool {
        match (self.complete_after_percent, self.fill) {
            (Some(percent), _) => present as u128 * 100 >= blocks as u128 * percent as u128,
            (None, FillPolicy::WhileOpen | FillPolicy::ToEnd) => true,
            (None, FillPolicy::OnDemand) => false,
        }
    }
}

impl FromStr for StructureUse {
    type Err = StructureUseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_name(text).ok_or_else(|| StructureUseError(text.to_owned()))
    }
}

impl FromStr for FillPolicy {
    type Err = FillPolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The short form is an older name.
        let text = if text == "on-demand" { "on-demand-blocks" } else { text };
        Self::from_name(text).ok_or_else(|| FillPolicyError(text.to_owned()))
    }
}

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

    /// Bytes that one reader is read ahead of at most.
    pub const fn max(self) -> u64 {
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

    fn settings(complete_after_percent: Option<u8>, fill: FillPolicy) -> ReadAheadSettings {
        ReadAheadSettings { complete_after_percent, fill, ..ReadAheadSettings::default() }
    }

    #[test]
    fn policies_are_read_by_their_names() {
        for policy in [FillPolicy::OnDemand, FillPolicy::WhileOpen, FillPolicy::ToEnd] {
            assert_eq!(policy.as_str().parse(), Ok(policy));
        }
        assert_eq!("on-demand".parse(), Ok(FillPolicy::OnDemand));
        assert!("on_demand".parse::<FillPolicy>().is_err());
    }

    #[test]
    fn a_file_is_completed_from_its_share_on() {
        let third = settings(Some(30), FillPolicy::OnDemand);
        assert!(!third.is_to_be_completed(29, 100));
        assert!(third.is_to_be_completed(30, 100));
        assert!(!settings(Some(30), FillPolicy::ToEnd).is_to_be_completed(0, 10));
        assert!(settings(Some(100), FillPolicy::ToEnd).is_to_be_completed(10, 10));
    }

    #[test]
    fn without_a_share_the_policy_decides() {
        assert!(!settings(None, FillPolicy::OnDemand).is_to_be_completed(9, 10));
        assert!(settings(None, FillPolicy::WhileOpen).is_to_be_completed(0, 10));
        assert!(settings(None, FillPolicy::ToEnd).is_to_be_completed(0, 10));
    }
}
