//! Messages about names that no setting has.

use crate::file::{SECTIONS, Section, Unknown};

/// Names the mistake and what to write.
pub(super) fn message(unknown: &Unknown) -> String {
    let (name, shown) = (unknown.name.as_str(), unknown.name.escape_default());
    match &unknown.section {
        Some(section) => format!("unknown key `{shown}` in {}: {}", section.header(), remedy_of_key(name, section)),
        None => format!("unknown name `{shown}`: {}", remedy_of_table(name)),
    }
}

fn remedy_of_key(key: &str, section: &Section) -> String {
    let keys = || section.settings.iter().map(|setting| setting.key);
    match (nearest(key, keys()), tables_with(key)) {
        (Some(known), _) => format!("did you mean `{known}`?"),
        (None, Some(tables)) => format!("it belongs to {tables}"),
        (None, None) => format!("the keys are {}", keys().collect::<Vec<_>>().join(", ")),
    }
}

fn remedy_of_table(name: &str) -> String {
    let known = nearest(name, SECTIONS.iter().map(|section| section.name));
    let known = SECTIONS.iter().find(|section| Some(section.name) == known);
    match (known, tables_with(name)) {
        (Some(known), _) => format!("did you mean {}?", known.header()),
        (None, Some(tables)) => format!("it is a key of {tables}: write it below that line"),
        (None, None) => {
            format!("the tables are {}", SECTIONS.iter().map(Section::header).collect::<Vec<_>>().join(", "))
        }
    }
}

/// The headers of the tables with this key.
fn tables_with(key: &str) -> Option<String> {
    let has_it = |section: &&Section| section.settings.iter().any(|setting| setting.key == key);
    let headers: Vec<_> = SECTIONS.iter().filter(has_it).map(Section::header).collect();
    (!headers.is_empty()).then(|| headers.join(" or "))
}

/// The most similar of the known names, if a third of its letters differ at most.
fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    if name.len() > NAME_LEN_MAX {
        return None;
    }
    let name = name.to_lowercase().replace('-', "_");
    let edits = known.map(|known| (strsim::osa_distance(&name, known), known));
    let (count, known) = edits.min_by_key(|(count, _)| *count)?;
    (count <= (known.len() / 3).max(1)).then_some(known)
}

/// Longest name in bytes that is compared with known ones; those are shorter.
const NAME_LEN_MAX: usize = 64;
