//! The fate of each directive.

use crate::reader::Place;

/// The fate of a directive.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fate {
    /// A setting has the same effect.
    Honoured,
    /// No effect is lost without it.
    NotNeeded,
    /// It cannot be honoured, with a visible effect.
    NotHonoured,
    /// It restricted access or protected data, which this release cannot do.
    Unprotected,
    /// It is not known; xrootd may ignore it as well.
    Unknown,
}

impl Fate {
    pub const ALL: [Self; 5] = [Self::Honoured, Self::NotNeeded, Self::NotHonoured, Self::Unprotected, Self::Unknown];

    /// The name in tables and comments.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::NotNeeded => "not needed",
            Self::NotHonoured => "not honoured",
            Self::Unprotected => "unprotected",
            Self::Unknown => "unknown",
        }
    }

    /// Whether an administrator should check it before the configuration is used.
    #[must_use]
    pub const fn wants_attention(self) -> bool {
        match self {
            Self::Honoured | Self::NotNeeded => false,
            Self::NotHonoured | Self::Unprotected | Self::Unknown => true,
        }
    }
}

/// The fate of one directive, with the reason.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Note {
    pub place: Place,
    /// With its variables replaced.
    pub directive: String,
    pub fate: Fate,
    /// Reason and remedy.
    pub text: String,
}

/// Index of a note.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NoteId(pub(super) usize);

/// The decision on a directive.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Verdict {
    pub(super) fate: Fate,
    pub(super) text: String,
}

impl Verdict {
    pub(super) fn honoured(text: impl Into<String>) -> Self {
        Self { fate: Fate::Honoured, text: text.into() }
    }

    pub(super) fn not_needed(text: impl Into<String>) -> Self {
        Self { fate: Fate::NotNeeded, text: text.into() }
    }

    pub(super) fn not_honoured(text: impl Into<String>) -> Self {
        Self { fate: Fate::NotHonoured, text: text.into() }
    }

    pub(super) fn unprotected(text: impl Into<String>) -> Self {
        Self { fate: Fate::Unprotected, text: text.into() }
    }

    /// For arguments that xrootd would not accept.
    pub(super) fn malformed() -> Self {
        Self::not_honoured("invalid arguments; the default is used")
    }
}
