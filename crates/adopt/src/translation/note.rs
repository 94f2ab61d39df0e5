//! What becomes of each directive.

use crate::reader::Place;

/// What becomes of a directive.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fate {
    /// A setting does the same.
    Honoured,
    /// Nothing is lost without it.
    NotNeeded,
    /// It cannot be honoured, and that can be noticed.
    NotHonoured,
    /// It kept somebody out or something secret, which this release cannot do.
    Unprotected,
    /// Nobody knows it: xrootd may have ignored it as well.
    Unknown,
}

impl Fate {
    /// Every fate.
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

    /// Whether somebody should look at it before the configuration is used.
    #[must_use]
    pub const fn wants_attention(self) -> bool {
        match self {
            Self::Honoured | Self::NotNeeded => false,
            Self::NotHonoured | Self::Unprotected | Self::Unknown => true,
        }
    }
}

/// What becomes of one directive, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Note {
    /// Where the directive is written.
    pub place: Place,
    /// The directive, its variables replaced.
    pub directive: String,
    /// What becomes of it.
    pub fate: Fate,
    /// Why, and what to do.
    pub text: String,
}

/// A note among all notes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NoteId(pub(super) usize);

/// What the translator thinks of a directive.
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

    /// The value is none that xrootd would accept.
    pub(super) fn malformed() -> Self {
        Self::not_honoured("its arguments cannot be understood; the default is used")
    }
}
