//! A directive under translation.

use super::{
    note::{NoteId, Verdict},
    site::{Notes, Setting},
    values::size,
};
use crate::reader::Machine;
use forebay_types::ByteSize;
use std::ops::RangeInclusive;

/// A directive: the part of its name after the dot, and its words without a trailing comment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'d> {
    pub(super) name: &'d str,
    pub(super) words: &'d [&'d str],
    pub(super) note: NoteId,
    pub(super) machine: &'d dyn Machine,
}

impl<'d> Item<'d> {
    /// The first word, or an empty one.
    pub(super) fn first(&self) -> &'d str {
        self.words.first().copied().unwrap_or_default()
    }

    /// The words after the first one.
    pub(super) fn rest(&self) -> &'d [&'d str] {
        self.words.get(1..).unwrap_or_default()
    }

    /// The word after the word `key`.
    pub(super) fn after(&self, key: &str) -> Option<&'d str> {
        let at = self.words.iter().position(|word| *word == key)?;
        self.words.get(at + 1).copied()
    }

    /// Whether a word names the library of xrootd's proxy.
    pub(super) fn names_proxy(&self) -> bool {
        self.words.iter().any(|word| word.contains("XrdPss"))
    }

    /// Takes the first word as a size. A value out of range is replaced by the limit.
    pub(super) fn take_size(
        &self,
        range: RangeInclusive<u64>,
        setting: &mut Setting<u64>,
        notes: &mut Notes,
    ) -> Verdict {
        self.take_within(size(self.first()), range, setting, notes, |bytes| ByteSize(*bytes).to_string())
    }

    /// Takes `text` as a number. A value out of range is replaced by the limit.
    pub(super) fn take_number(
        &self,
        text: &str,
        range: RangeInclusive<u64>,
        setting: &mut Setting<u64>,
        notes: &mut Notes,
    ) -> Verdict {
        self.take_within(text.parse().ok(), range, setting, notes, u64::to_string)
    }

    fn take_within<T: Clone + Ord>(
        &self,
        value: Option<T>,
        range: RangeInclusive<T>,
        setting: &mut Setting<T>,
        notes: &mut Notes,
        shown: impl FnOnce(&T) -> String,
    ) -> Verdict {
        let Some(value) = value else { return Verdict::malformed() };
        if range.contains(&value) {
            return self.take(Some(value), setting, notes);
        }
        let (limit, bound) = if value < *range.start() { (range.start(), "minimum") } else { (range.end(), "maximum") };
        setting.write(limit.clone(), self.note, notes);
        Verdict::honoured(format!("the {bound} is {}", shown(limit)))
    }

    /// Takes `value`, if there is one.
    pub(super) fn take<T>(&self, value: Option<T>, setting: &mut Setting<T>, notes: &mut Notes) -> Verdict {
        let Some(value) = value else { return Verdict::malformed() };
        setting.write(value, self.note, notes);
        Verdict::honoured("")
    }
}
