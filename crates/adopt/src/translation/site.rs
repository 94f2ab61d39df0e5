//! What a site has configured, in our terms.

use super::{
    note::{Fate, Note, NoteId, Verdict},
    usage::{Quota, Usage},
};
use crate::reader::Directive;
use forebay_types::Endpoint;
use std::time::Duration;

/// What a configuration says of a cache.
#[derive(Debug, Default)]
pub(super) struct Site {
    pub(super) port: Setting<u16>,
    pub(super) idle_time: Setting<Duration>,
    pub(super) login_time: Setting<Duration>,
    pub(super) name: Setting<String>,
    pub(super) checksums: Setting<Vec<String>>,
    pub(super) exports: Vec<Written<Export>>,
    pub(super) origin: Setting<Origin>,
    pub(super) permits: Vec<Written<String>>,
    pub(super) is_write_through: Setting<bool>,
    pub(super) client: ClientOptions,
    pub(super) page_reads: Setting<bool>,
    pub(super) prefetch: Setting<u64>,
    pub(super) usage: Setting<Usage>,
    /// The list of the last directive that names one.
    pub(super) quotas: Vec<Written<Vec<Quota>>>,
    pub(super) cached_size: Setting<u64>,
    pub(super) cached_fraction: Setting<f64>,
    /// Patterns of files that are not cached.
    pub(super) uncached: Vec<Written<Vec<String>>>,
    pub(super) cache: Setting<()>,
    pub(super) local_root: Setting<String>,
    pub(super) block_size: Setting<u64>,
    pub(super) ram: Setting<u64>,
}

/// What `pss.setopt` says of connections to origins.
#[derive(Debug, Default)]
pub(super) struct ClientOptions {
    pub(super) connect: Setting<Duration>,
    pub(super) request: Setting<Duration>,
    pub(super) stream: Setting<Duration>,
    pub(super) idle: Setting<Duration>,
    pub(super) pause: Setting<Duration>,
    pub(super) tries: Setting<u64>,
    pub(super) parallel: Setting<u64>,
}

/// A part of the name space that is offered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Export {
    pub(super) path: String,
    pub(super) is_read_only: bool,
}

/// Where files come from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Origin {
    /// Whether clients may name the origin.
    pub(super) is_forwarding: bool,
    /// The one for clients that name none.
    pub(super) fixed: Option<FixedOrigin>,
}

/// An origin that the configuration names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum FixedOrigin {
    /// A server.
    Server(Endpoint),
    /// A directory of this machine.
    Directory(String),
    /// One for which there is no client yet.
    Unserved(String),
}

/// Something that a directive says, unless nothing does.
#[derive(Clone, Debug)]
pub(super) struct Setting<T>(pub(super) Option<Written<T>>);

/// Something and the directive that says so.
#[derive(Clone, Debug)]
pub(super) struct Written<T> {
    pub(super) value: T,
    pub(super) note: NoteId,
}

impl<T> Default for Setting<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Setting<T> {
    /// Takes what the directive of `note` says. What an earlier one said is overridden.
    pub(super) fn write(&mut self, value: T, note: NoteId, notes: &mut Notes) {
        if let Some(earlier) = self.0.replace(Written { value, note }) {
            let text = format!("overridden at {}", notes.get(note).place);
            notes.decide(earlier.note, Verdict::not_needed(text));
        }
    }

    pub(super) const fn value(&self) -> Option<&T> {
        match &self.0 {
            Some(written) => Some(&written.value),
            None => None,
        }
    }
}

/// The notes of all directives, in their order.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<Note>);

impl Notes {
    /// Begins the note of a directive.
    pub(super) fn begin(&mut self, directive: &Directive) -> NoteId {
        self.0.push(Note {
            place: directive.place.clone(),
            directive: directive.to_string(),
            fate: Fate::Unknown,
            text: String::new(),
        });
        NoteId(self.0.len() - 1)
    }

    /// Says what becomes of the directive of `note`.
    pub(super) fn decide(&mut self, note: NoteId, verdict: Verdict) {
        if let Some(note) = self.0.get_mut(note.0) {
            (note.fate, note.text) = (verdict.fate, verdict.text);
        }
    }

    /// A note that was begun.
    ///
    /// # Panics
    /// With an id of other notes.
    pub(super) fn get(&self, note: NoteId) -> &Note {
        self.0.get(note.0).expect("ids come from begin")
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Note> {
        self.0.iter()
    }

    pub(super) fn into_vec(self) -> Vec<Note> {
        self.0
    }
}
