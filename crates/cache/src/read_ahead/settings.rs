//! Settings of reading ahead.

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
}

/// How much of a file is fetched.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum FillPolicy {
    /// The blocks that are read, and those that reading ahead adds.
    #[default]
    OnDemand,
    /// The whole file while a client has it open; the rest when it is opened again.
    WhileOpen,
    /// All of it, also after the last client has left.
    ToEnd,
}

/// The error of a text that is not a fill policy.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is not a fill policy: write \"on-demand-blocks\", \"while-open\" or \"to-end\"")]
pub struct FillPolicyError(pub String);

/// How far one open file is read ahead by default, in bytes: a little more than ROOT reads at once by default.
pub const READ_AHEAD_WINDOW_MAX: u64 = 32 << 20;

impl Default for ReadAheadSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            window_max: READ_AHEAD_WINDOW_MAX,
            complete_after_percent: None,
            fill: FillPolicy::default(),
        }
    }
}

impl ReadAheadSettings {
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

impl FillPolicy {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand-blocks",
            Self::WhileOpen => "while-open",
            Self::ToEnd => "to-end",
        }
    }
}

impl FromStr for FillPolicy {
    type Err = FillPolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The short form is an older name.
        let text = if text == "on-demand" { "on-demand-blocks" } else { text };
        [Self::OnDemand, Self::WhileOpen, Self::ToEnd]
            .into_iter()
            .find(|policy| policy.as_str() == text)
            .ok_or_else(|| FillPolicyError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
