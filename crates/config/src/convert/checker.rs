//! Collects problems, so that one start reports all of them.

use super::unknown;
use crate::{
    base::Problem,
    file::{Raw, Source},
    value::{Fault, Field, Form},
};
use std::{fmt, ops::Range};
use toml::Spanned;

pub(crate) struct Checker<'a> {
    source: &'a Source,
    broken: &'a [Fault],
    /// Each with its position in the file.
    problems: Vec<(usize, Problem)>,
}

impl<'a> Checker<'a> {
    /// Begins with the faults of names and single values.
    pub(crate) fn new(source: &'a Source, raw: &'a Raw) -> Self {
        let mut checker = Self { source, broken: &raw.broken, problems: Vec::new() };
        for (span, text) in &raw.mistakes.faults {
            checker.refuse("", Some(span), text);
        }
        for name in &raw.mistakes.unknown {
            checker.refuse("", Some(&name.span), unknown::message(name));
        }
        for setting in raw.written() {
            for (span, text) in setting.faults {
                checker.refuse(&setting.name, Some(span), text);
            }
        }
        checker
    }

    /// The user's name of a setting: the flag, or `table.key`.
    pub(crate) fn name<'s>(&self, setting: &'s str) -> &'s str {
        self.source.name(setting)
    }

    pub(crate) fn place(&self, setting: &str, span: &Range<usize>) -> String {
        self.source.place(setting, Some(span))
    }

    /// Notes a problem of `setting`. Without a place it is one of the whole file.
    pub(crate) fn refuse(&mut self, setting: &str, span: Option<&Range<usize>>, text: impl fmt::Display) {
        let position = span.map_or(usize::MAX, |span| span.start);
        self.problems.push((position, self.source.problem(setting, span, text)));
    }

    /// The value of a setting that a table must have; `None` if it is wrong, too.
    pub(crate) fn need<F: Form, T>(&mut self, setting: &str, field: &Field<F>, table: &Spanned<T>) -> Option<F::Value> {
        if !field.is_set() {
            let name = self.name(setting);
            self.refuse(setting, Some(&table.span()), format_args!("{name} is missing"));
        }
        field.value()
    }

    /// The first `max` tables of a list; notes that there are more.
    pub(crate) fn at_most<'t, T>(&mut self, max: usize, list: &str, tables: &'t [Spanned<T>]) -> &'t [Spanned<T>] {
        if let Some(first_too_many) = tables.get(max) {
            let text = format_args!("{} tables [[{list}]]: write {max} at most", tables.len());
            self.refuse(list, Some(&first_too_many.span()), text);
        }
        tables.get(..max).unwrap_or(tables)
    }

    /// All problems in the order of the file. Those that may follow from a violation of the syntax are left out.
    pub(crate) fn into_problems(mut self) -> Vec<Problem> {
        if !self.broken.is_empty() {
            let broken: Vec<_> = self.broken.iter().map(|(span, _)| self.source.passage(span.start)).collect();
            let is_doubtful = |position| position == usize::MAX || broken.iter().any(|lines| lines.contains(&position));
            self.problems.retain(|(position, _)| !is_doubtful(*position));
            for (span, text) in self.broken {
                self.refuse("", Some(span), text);
            }
        }
        self.problems.sort_by_key(|(position, _)| *position);
        self.problems.into_iter().map(|(_, problem)| problem).collect()
    }
}
