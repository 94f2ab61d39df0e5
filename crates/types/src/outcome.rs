//! How client bytes were obtained.

use std::fmt;

/// How the bytes of a client's read were obtained. Every client byte is accounted under exactly one outcome.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    Hit,
    /// From the origin by a fill that this read started, and kept.
    Missed,
    /// From the origin by a fill that another read had started, and kept.
    Coalesced,
    Bypassed,
}

impl Outcome {
    /// Every outcome, in the order of the counters.
    pub const ALL: [Self; 4] = [Self::Hit, Self::Missed, Self::Coalesced, Self::Bypassed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Missed => "missed",
            Self::Coalesced => "coalesced",
            Self::Bypassed => "bypassed",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
