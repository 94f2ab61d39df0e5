//! A directive on the translator's desk.

use super::{
    note::{NoteId, Verdict},
    site::{Notes, Setting},
    values::{size, time, time_text},
};
use crate::reader::Machine;
use forebay_types::ByteSize;
use std::{ops::RangeInclusive, time::Duration};

/// A directive: the part of its name behind the dot, and its words without a comment at their end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'d> {
    pub(super) name: &'d str,
    pub(super) words: &'d [&'d str],
    pub(super) note: NoteId,
    pub(super) machine: &'d dyn Machine,
}

impl<'d> Item<'d> {
    /// The first word, or nothing.
    pub(super) fn first(&self) -> &'d str {
        self.words.first().copied().unwrap_or_default()
    }

    /// The words behind the first one.
    pub(super) fn rest(&self) -> &'d [&'d str] {
        self.words.get(1..).unwrap_or_default()
    }

    /// The word behind the word `key`.
    pub(super) fn behind(&self, key: &str) -> Option<&'d str> {
        let at = self.words.iter().position(|word| *word == key)?;
        self.words.get(at + 1).copied()
    }

    /// Whether `word` is one of the words.
    pub(super) fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// Takes the first word as a size. What exceeds the range of the setting is brought into it.
    pub(super) fn take_size(
        &self,
        range: RangeInclusive<u64>,
        setting: &mut Setting<u64>,
        notes: &mut Notes,
    ) -> Verdict {
        self.take_within(size(self.first()), range, setting, notes, |bytes| ByteSize(*bytes).to_string())
    }

    /// Takes `text` as a number. What exceeds the range of the setting is brought into it.
    pub(super) fn take_number(
        &self,
        text: &str,
        range: RangeInclusive<u64>,
        setting: &mut Setting<u64>,
        notes: &mut Notes,
    ) -> Verdict {
        self.take_within(text.parse().ok(), range, setting, notes, u64::to_string)
    }

    /// Takes `text` as a time. What exceeds the range of settings is brought into it.
    pub(super) fn take_time(&self, text: &str, setting: &mut Setting<Duration>, notes: &mut Notes) -> Verdict {
        self.take_within(time(text), TIMES, setting, notes, |time| time_text(*time))
    }

    fn take_within<T: Clone + Ord>(
        &self,
        value: Option<T>,
        range: RangeInclusive<T>,
        setting: &mut Setting<T>,
        notes: &mut Notes,
        told: impl FnOnce(&T) -> String,
    ) -> Verdict {
        let Some(value) = value else { return Verdict::malformed() };
        if range.contains(&value) {
            return self.take(Some(value), setting, notes);
        }
        let (limit, word) = if value < *range.start() { (range.start(), "least") } else { (range.end(), "most") };
        setting.write(limit.clone(), self.note, notes);
        Verdict::honoured(format!("at {word} {} here", told(limit)))
    }

    /// Takes `value`, if there is one.
    pub(super) fn take<T>(&self, value: Option<T>, setting: &mut Setting<T>, notes: &mut Notes) -> Verdict {
        let Some(value) = value else { return Verdict::malformed() };
        setting.write(value, self.note, notes);
        Verdict::honoured("")
    }
}

/// Times that settings take.
const TIMES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(366 * 86_400);
