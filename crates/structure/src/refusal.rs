//! Outcomes of parsing, and reasons to refuse a file.

/// The result of parsing a file; also a label of metrics.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    Parsed,
    UnknownVersion,
    TooLarge,
    Damaged,
    /// Not a ROOT file, one without trees, or one that its writer did not close.
    None,
}

impl Outcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Parsed => "parsed",
            Self::UnknownVersion => "unknown_version",
            Self::TooLarge => "too_large",
            Self::Damaged => "damaged",
            Self::None => "none",
        }
    }
}

/// A reason not to use a file or one of its trees.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    #[error("the version or kind of {0} is unknown")]
    UnknownVersion(&'static str),
    #[error("{0} beyond the limit")]
    TooLarge(&'static str),
    #[error("damaged: {0}")]
    Damaged(&'static str),
}

impl Refusal {
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::UnknownVersion(_) => Outcome::UnknownVersion,
            Self::TooLarge(_) => Outcome::TooLarge,
            Self::Damaged(_) => Outcome::Damaged,
        }
    }
}
