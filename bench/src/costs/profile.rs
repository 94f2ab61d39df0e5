//! The output of callgrind: instructions by function.

use anyhow::{Context as _, Result, bail};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Instructions by the function they belong to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Profile(BTreeMap<String, u64>);

impl Profile {
    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Whether any belongs to function `name`.
    pub(crate) fn has_function(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Adds those of `other`.
    pub(crate) fn add(&mut self, other: Self) {
        for (function, spent) in other.0 {
            *self.0.entry(function).or_insert(0) += spent;
        }
    }

    /// Functions and what they spent themselves, the most expensive one first.
    pub(crate) fn by_cost(&self) -> Vec<(&str, u64)> {
        let mut functions: Vec<_> = self.0.iter().map(|(name, spent)| (name.as_str(), *spent)).collect();
        functions.sort_by_key(|&(_, spent)| Reverse(spent));
        functions
    }

    /// Reads callgrind's format, version 1, with one event, as `--compress-strings` and `--compress-pos` shape it by default.
    ///
    /// # Errors
    /// When a line makes no sense.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut names = HashMap::new();
        let mut own: HashMap<&str, u64> = HashMap::new();
        let mut function = None;
        let mut is_call = false;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("fn=") {
                function = Some(numbered(name, &mut names)?);
            } else if let Some(name) = line.strip_prefix("cfn=") {
                numbered(name, &mut names)?;
            } else if line.starts_with("calls=") {
                is_call = true;
            } else if line.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '*')) {
                // The line after a call holds the cost of the callee, which is counted there.
                if !std::mem::take(&mut is_call) {
                    let spent = line.split_whitespace().nth(1).and_then(|field| field.parse::<u64>().ok());
                    let number = function.context("a cost belongs to a function")?;
                    *own.entry(number).or_insert(0) += spent.with_context(|| format!("no cost in {line:?}"))?;
                }
            }
        }
        let mut profile = Self::default();
        for (number, spent) in own {
            let name = names.get(number).copied().unwrap_or_default().to_owned();
            *profile.0.entry(name).or_insert(0) += spent;
        }
        Ok(profile)
    }
}

/// The number in `(7) name` or `(7)`; the first form says which name it stands for.
fn numbered<'a>(text: &'a str, names: &mut HashMap<&'a str, &'a str>) -> Result<&'a str> {
    let Some((number, name)) = text.strip_prefix('(').and_then(|rest| rest.split_once(')')) else {
        bail!("{text:?} is not a numbered name");
    };
    if let Some(name) = name.strip_prefix(' ') {
        names.insert(number, name);
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_costs_are_summed_and_those_of_callees_are_not() {
        let text = "version: 1\npositions: line\nevents: Ir\nsummary: 99\n\nob=(1) /bin/x\nfl=(1) a.rs\nfn=(1) outer\n\
                    10 5\n+2 3\ncfi=(2) b.rs\ncfn=(2) inner\ncalls=2 20\n* 40\nfi=(2)\n-4 2\n\nfl=(2)\nfn=(2)\n20 30\n\
                    * 10\n\ntotals: 50\n";
        let profile = Profile::parse(text).unwrap();
        assert_eq!(profile.by_cost(), [("inner", 40), ("outer", 10)]);
        assert_eq!(profile.total(), 50);
        assert!(profile.has_function("inner") && !profile.has_function("inn"));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["fn=outer\n", "10 5\n", "fn=(1) a\n10\n", "fn=(1) a\n10 many\n"] {
            assert!(Profile::parse(text).is_err(), "{text:?}");
        }
    }
}
