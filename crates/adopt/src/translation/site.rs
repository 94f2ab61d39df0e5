//! The settings of a cache, in terms of Forebay.

use super::{
    document::string,
    note::{Fate, Note, NoteId, Verdict},
    usage::{Quota, Usage},
    values::{time, time_text},
};
use crate::reader::Directive;
use forebay_types::Endpoint;
use std::{collections::BTreeMap, time::Duration};

/// The settings of a cache.
#[derive(Debug, Default)]
pub(super) struct Site {
    /// Settings that depend on no others: `table.key` to the value in TOML.
    plain: BTreeMap<&'static str, Setting<String>>,
    pub(super) port: Setting<u16>,
    pub(super) exports: Vec<Written<Export>>,
    pub(super) origin: Setting<Origin>,
    pub(super) permits: Vec<Written<String>>,
    pub(super) is_write_through: Setting<bool>,
    pub(super) prefetch: Setting<u64>,
    pub(super) usage: Setting<Usage>,
    /// The list of the last directive that names one.
    pub(super) quotas: Vec<Written<Vec<Quota>>>,
    /// Patterns of files that are not cached.
    pub(super) uncached: Vec<Written<Vec<String>>>,
    pub(super) cache: Setting<()>,
    pub(super) local_root: Setting<String>,
    pub(super) block_size: Setting<u64>,
    pub(super) ram: Setting<u64>,
}

/// The form of a value of [`Site::set`].
#[derive(Clone, Copy)]
pub(super) enum Form {
    Text,
    /// From a second to a year.
    Time,
    /// From 1 to the number.
    Number(u64),
}

/// Limits of times in settings.
const TIME_MIN: Duration = Duration::from_secs(1);
const TIME_MAX: Duration = Duration::from_secs(366 * 86_400);

impl Site {
    /// Sets `key` to a value in TOML.
    pub(super) fn write(&mut self, key: &'static str, toml: String, note: NoteId, notes: &mut Notes) {
        self.plain.entry(key).or_default().write(toml, note, notes);
    }

    /// Sets `key` to the value in `text`. A value out of range is replaced by the limit.
    pub(super) fn set(
        &mut self,
        key: &'static str,
        form: Form,
        text: &str,
        note: NoteId,
        notes: &mut Notes,
    ) -> Verdict {
        let value = match form {
            Form::Text => (!text.is_empty()).then(|| (string(text), "")),
            Form::Time => time(text).map(|time| {
                let (time, bound) = limited(time, TIME_MIN, TIME_MAX);
                (string(&time_text(time)), bound)
            }),
            Form::Number(max) => text.parse().ok().map(|number| {
                let (number, bound) = limited(number, 1, max);
                (number.to_string(), bound)
            }),
        };
        let Some((toml, bound)) = value else { return Verdict::malformed() };
        let text = if bound.is_empty() { String::new() } else { format!("{bound} is {}", toml.trim_matches('"')) };
        self.write(key, toml, note, notes);
        Verdict::honoured(text)
    }

    pub(super) fn plain(&self, key: &str) -> Option<&Written<String>> {
        self.plain.get(key)?.0.as_ref()
    }
}

/// The value within the limits, and which of them replaced it.
fn limited<T: Ord>(value: T, min: T, max: T) -> (T, &'static str) {
    if value < min {
        (min, "the minimum")
    } else if value > max {
        (max, "the maximum")
    } else {
        (value, "")
    }
}

/// A part of the name space.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Export {
    pub(super) path: String,
    pub(super) is_read_only: bool,
}

/// The source of files.
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
    Server(Endpoint),
    Directory(String),
    /// A URL that this release does not support.
    Unserved(String),
}

/// A setting that a directive may set.
#[derive(Clone, Debug)]
pub(super) struct Setting<T>(pub(super) Option<Written<T>>);

/// A value and the directive that set it.
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
    /// Sets the value; overrides that of an earlier directive.
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
    /// Starts the note of a directive.
    pub(super) fn begin(&mut self, directive: &Directive) -> NoteId {
        self.0.push(Note {
            place: directive.place.clone(),
            directive: directive.to_string(),
            fate: Fate::Unknown,
            text: String::new(),
        });
        NoteId(self.0.len() - 1)
    }

    pub(super) fn decide(&mut self, note: NoteId, verdict: Verdict) {
        if let Some(note) = self.0.get_mut(note.0) {
            (note.fate, note.text) = (verdict.fate, verdict.text);
        }
    }

    /// The note of an id.
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
