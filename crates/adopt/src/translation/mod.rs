//! From directives to our own configuration, with a note for each of them.

mod cache;
mod compose;
mod document;
mod fixed;
mod item;
mod lists;
mod note;
mod proxy;
mod server;
mod site;
mod storage;
mod usage;
mod values;

pub use note::{Fate, Note};

use crate::reader::{Directive, Instance, Machine};
use item::Item;
use note::Verdict;
use site::{Notes, Site};

/// A configuration in our terms.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Translation {
    /// The file, with comments that tell where each setting comes from and what could not be honoured. `None` when
    /// there are reasons against it.
    pub file: Option<String>,
    /// Why the configuration cannot be taken over.
    pub refusals: Vec<String>,
    /// A note for each directive, in their order.
    pub notes: Vec<Note>,
    /// The directory of the cache.
    pub store: Option<String>,
}

impl Translation {
    /// Whether the site would be served without something that protects it now.
    #[must_use]
    pub fn is_unprotected(&self) -> bool {
        self.notes.iter().any(|note| note.fate == Fate::Unprotected)
    }
}

/// Says the directives of `instance` in our terms; `source` names their file. Lists that they name are read from `machine`.
#[must_use]
pub fn translate(directives: &[Directive], instance: &Instance, source: &str, machine: &dyn Machine) -> Translation {
    let (mut site, mut notes) = (Site::default(), Notes::default());
    for directive in directives {
        let note = notes.begin(directive);
        let words: Vec<_> =
            directive.words.iter().map(String::as_str).take_while(|word| !word.starts_with('#')).collect();
        let verdict = if let Some(variable) = directive.name.strip_prefix("setenv ") {
            server::environment(variable)
        } else {
            let (family, name) = directive.name.split_once('.').unwrap_or(("", &directive.name));
            judge(family, Item { name, words: &words, note, machine }, &mut site, &mut notes)
        };
        notes.decide(note, verdict);
    }
    compose::compose(&site, notes, instance, source)
}

/// Takes what a directive says, and tells what becomes of it.
fn judge(family: &str, item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Verdict {
    let taken = match family {
        "pfc" => cache::take(item, site, notes),
        "pss" => proxy::take(item, site, notes),
        "ofs" | "oss" => storage::take(family, item, site, notes),
        "xrd" | "xrootd" | "all" => server::take(item, site, notes),
        _ => None,
    };
    taken
        .or_else(|| fixed::look_up(family, item.name))
        .unwrap_or_else(|| Verdict { fate: Fate::Unknown, text: unknown(family).to_owned() })
}

fn unknown(family: &str) -> &'static str {
    match family {
        "pfc" => "no directive of XCache that is known; XCache does not start with one",
        "" => "no component of xrootd reads directives without a dot in their name",
        _ => "no directive that is known; see whether anybody at the site relies on it",
    }
}
