//! The fate of each directive.

use crate::reader::{Directive, Place};
use forebay_types::named_enum;

named_enum! {
    /// The fate of a directive.
    pub enum Fate {
        /// A setting has the same effect.
        Honoured = "honoured",
        /// No effect is lost without it.
        NotNeeded = "not needed",
        /// It cannot be honoured, with a visible effect.
        NotHonoured = "not honoured",
        /// It restricts access or protects data, and is not translated.
        Unprotected = "unprotected",
        /// It is not known; xrootd may ignore it as well.
        Unknown = "unknown",
    }
}

impl Fate {
    /// Whether an administrator should check it before the configuration is used.
    #[must_use]
    pub const fn wants_attention(self) -> bool {
        !matches!(self, Self::Honoured | Self::NotNeeded)
    }

    /// The decision for this fate, with its reason.
    pub(super) fn because(self, text: impl Into<String>) -> Verdict {
        Verdict { fate: self, text: text.into() }
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

/// The decision on a directive.
pub(super) struct Verdict {
    fate: Fate,
    text: String,
}

impl Verdict {
    /// For arguments that xrootd would not accept.
    pub(super) fn malformed() -> Self {
        Fate::NotHonoured.because("invalid arguments; the default is used")
    }
}

/// The notes of all directives, in their order. Others refer to a note by its index.
#[derive(Debug, Default)]
pub(super) struct Notes(pub(super) Vec<Note>);

impl Notes {
    /// Starts the note of a directive.
    pub(super) fn begin(&mut self, directive: &Directive) -> usize {
        let (place, directive) = (directive.place.clone(), directive.to_string());
        self.0.push(Note { place, directive, fate: Fate::Unknown, text: String::new() });
        self.0.len() - 1
    }

    pub(super) fn decide(&mut self, note: usize, verdict: Verdict) {
        if let Some(note) = self.0.get_mut(note) {
            (note.fate, note.text) = (verdict.fate, verdict.text);
        }
    }

    /// # Panics
    /// With an index of other notes.
    pub(super) fn get(&self, note: usize) -> &Note {
        self.0.get(note).expect("indices come from begin")
    }
}
