//! A directive under translation.

use super::{
    note::{Fate::Honoured, Fate::NotNeeded, Notes, Verdict},
    site::{Setting, Written},
    values::{limited, size},
};
use crate::reader::Machine;
use forebay_types::ByteSize;
use std::ops::RangeInclusive;

/// A directive: the part of its name after the dot, and its words without a trailing comment.
pub(super) struct Item<'d> {
    pub(super) name: &'d str,
    pub(super) words: &'d [&'d str],
    pub(super) note: usize,
    pub(super) notes: &'d mut Notes,
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

    /// A value set by this directive.
    pub(super) fn written<T>(&self, value: T) -> Written<T> {
        Written { value, note: self.note }
    }

    /// Notes that this directive overrides an earlier one.
    pub(super) fn overrides<T>(&mut self, earlier: Option<Written<T>>) {
        if let Some(earlier) = earlier {
            let text = format!("overridden at {}", self.notes.get(self.note).place);
            self.notes.decide(earlier.note, NotNeeded.because(text));
        }
    }

    /// Takes `value`, if there is one.
    pub(super) fn take<T>(&mut self, value: Option<T>, setting: &mut Setting<T>) -> Verdict {
        let Some(value) = value else { return Verdict::malformed() };
        let earlier = setting.replace(self.written(value));
        self.overrides(earlier);
        Honoured.because("")
    }

    /// Takes the first word as a size. A value out of range is replaced by the limit.
    pub(super) fn take_size(&mut self, range: &RangeInclusive<u64>, setting: &mut Setting<u64>) -> Verdict {
        self.take_within(size(self.first()), range, setting, |bytes| ByteSize(bytes).to_string())
    }

    /// Takes the first word as a number. A value out of range is replaced by the limit.
    pub(super) fn take_number(&mut self, range: &RangeInclusive<u64>, setting: &mut Setting<u64>) -> Verdict {
        self.take_within(self.first().parse().ok(), range, setting, |number| number.to_string())
    }

    fn take_within(
        &mut self,
        value: Option<u64>,
        range: &RangeInclusive<u64>,
        setting: &mut Setting<u64>,
        shown: impl FnOnce(u64) -> String,
    ) -> Verdict {
        let Some((value, bound)) = value.map(|value| limited(value, range)) else { return Verdict::malformed() };
        self.take(Some(value), setting);
        Honoured.because(bound.map_or_else(String::new, |bound| format!("{bound} is {}", shown(value))))
    }
}
