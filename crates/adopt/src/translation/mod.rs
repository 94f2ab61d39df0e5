//! From directives to a configuration of Forebay, with a note for each of them.

mod authdb;
mod cache;
mod compose;
mod directives;
mod document;
mod http;
mod item;
mod lists;
mod monitoring;
mod note;
mod pelican;
mod protection;
mod proxy;
mod scitokens;
mod security;
mod server;
mod site;
mod usage;
mod values;

pub use note::{Fate, Note};

use crate::reader::{Directive, Instance, Machine};
use item::Item;
use note::Notes;
use site::Site;

/// A configuration of Forebay.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Translation {
    /// The file; comments name the directive of each setting and the directives that are not honoured. `None` if there are
    /// refusals.
    pub file: Option<String>,
    /// Reasons why the configuration cannot be adopted.
    pub refusals: Vec<String>,
    /// One per directive, in their order.
    pub notes: Vec<Note>,
    /// The directory of the cache.
    pub store: Option<String>,
}

impl Translation {
    /// Whether a directive that protects the site is not honoured.
    #[must_use]
    pub fn is_unprotected(&self) -> bool {
        self.notes.iter().any(|note| note.fate == Fate::Unprotected)
    }
}

/// Translates the directives of `instance`; `source` names their file. Lists that they name are read from
/// `machine`, and the owner of the cache directory.
#[must_use]
pub fn translate(directives: &[Directive], instance: &Instance, source: &str, machine: &dyn Machine) -> Translation {
    let (mut site, mut notes) = (Site::default(), Notes::default());
    for directive in directives {
        let note = notes.begin(directive);
        let words: Vec<_> =
            directive.words.iter().map(String::as_str).take_while(|word| !word.starts_with('#')).collect();
        let (family, name) = directive.name.split_once('.').unwrap_or(("", &directive.name));
        let item = &mut Item { name, words: &words, note, notes: &mut notes, machine };
        let verdict = if let Some(variable) = directive.name.strip_prefix("setenv ") {
            security::environment(variable, item, &mut site)
        } else {
            let known = directives::translate(family, item, &mut site);
            known
                .or_else(|| pelican::translate(family, item, &mut site))
                .unwrap_or_else(|| Fate::Unknown.because(unknown(family)))
        };
        notes.decide(note, verdict);
    }
    pelican::settle(&mut site, &mut notes);
    let refusals = compose::refusals(&site);
    let file = refusals.is_empty().then(|| {
        compose::settle(&site, &mut notes);
        let protection = protection::settle(&mut site, &mut notes);
        let owner = site.local_root.as_ref().and_then(|root| machine.owner(&root.value));
        compose::compose(&site, &protection, &notes, instance, source, owner.as_deref())
    });
    Translation { file, refusals, notes: notes.0, store: site.local_root.map(|root| root.value) }
}

fn unknown(family: &str) -> &'static str {
    match family {
        "pfc" => "not a known directive of XCache, which does not start with it",
        "" => "xrootd reads no directives without a dot in their name",
        _ => "not a known directive; check whether the site relies on it",
    }
}
