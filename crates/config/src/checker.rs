//! Collects problems while values are read, so that one start tells all of them.

use crate::{
    duration::{DurationError, parse_duration},
    error::Problem,
    source::Source,
};
use std::{fmt, ops::Range, time::Duration};
use toml::Spanned;

/// Collects problems while values are read.
#[derive(Debug)]
pub(crate) struct Checker<'a> {
    source: &'a Source,
    problems: Vec<Problem>,
}

impl<'a> Checker<'a> {
    pub(crate) const fn new(source: &'a Source) -> Self {
        Self { source, problems: Vec::new() }
    }

    /// Where settings were written.
    pub(crate) const fn source(&self) -> &'a Source {
        self.source
    }

    /// Notes what is wrong with `setting`, which is written at `span` if at all.
    pub(crate) fn refuse(&mut self, setting: &str, span: Option<&Range<usize>>, text: impl fmt::Display) {
        self.problems.push(self.source.problem(setting, span, text));
    }

    /// What `parse` makes of a value that is written; notes why it is none.
    pub(crate) fn read<R, T, E: fmt::Display>(
        &mut self,
        setting: &str,
        raw: Option<&Spanned<R>>,
        parse: impl FnOnce(&R) -> Result<T, E>,
    ) -> Option<T> {
        let raw = raw?;
        parse(raw.get_ref()).map_err(|error| self.refuse(setting, Some(&raw.span()), error)).ok()
    }

    /// Puts a value that is written into `target`.
    pub(crate) fn set<R, T, E: fmt::Display>(
        &mut self,
        target: &mut T,
        setting: &str,
        raw: Option<&Spanned<R>>,
        parse: impl FnOnce(&R) -> Result<T, E>,
    ) {
        if let Some(value) = self.read(setting, raw, parse) {
            *target = value;
        }
    }

    /// Puts a duration that is written into `target`.
    pub(crate) fn set_duration(&mut self, target: &mut Duration, setting: &str, raw: Option<&Spanned<String>>) {
        self.set(target, setting, raw, |text: &String| -> Result<Duration, DurationError> { parse_duration(text) });
    }

    /// Puts a number that is written, and lies in `min..=max`, into `target`.
    pub(crate) fn set_number<T: TryFrom<u64>>(
        &mut self,
        target: &mut T,
        setting: &str,
        raw: Option<&Spanned<u64>>,
        (min, max): (u64, u64),
    ) {
        self.set(target, setting, raw, |&number| {
            let in_range = (min..=max).contains(&number).then(|| T::try_from(number).ok()).flatten();
            in_range.ok_or_else(|| format!("{number} is out of range: write a number from {min} to {max}"))
        });
    }

    /// The elements of a list that is written, each read by `parse`; bad ones are noted where they stand.
    pub(crate) fn read_list<T, E: fmt::Display>(
        &mut self,
        setting: &str,
        raw: Option<&Spanned<Vec<Spanned<String>>>>,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<T>> {
        let elements = raw?.get_ref();
        Some(elements.iter().filter_map(|element| self.read(setting, Some(element), |text| parse(text))).collect())
    }

    pub(crate) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }
}
