//! Paths of rules: prefixes in which names of the client may stand.

use forebay_types::{LFN_COMPONENT_LEN_MAX, LFN_LEN_MAX, Lfn, LfnError, canonical_forwarded};
use std::fmt;

/// A path and everything below it, in which `{user}` and the like stand for names of the client.
///
/// A name that is empty, is a dot or two, or holds `/` or a control character stands for nothing: then the path matches
/// nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathTemplate {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Part {
    Text(String),
    /// One of [`NAMES`].
    Name(&'static str),
}

/// Names of the client that a path may hold.
const NAMES: [&str; 5] = ["user", "subject", "vo", "group", "role"];

/// The client's names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Names<'a> {
    pub(super) user: Option<&'a str>,
    pub(super) subject: Option<&'a str>,
    pub(super) vo: Option<&'a str>,
    pub(super) group: Option<&'a str>,
    pub(super) role: Option<&'a str>,
}

/// Why a text was refused as the path of a rule.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PathTemplateError {
    #[error("`{text}` is not a path of a rule: {problem}")]
    Path { text: String, problem: LfnError },
    #[error(
        "`{text}` is not a path of a rule: in braces write user, subject, vo, group or role, and no brace elsewhere"
    )]
    Braces { text: String },
}

impl<'a> Names<'a> {
    /// The name, if it can be part of a path's component.
    fn of(&self, name: &str) -> Option<&'a str> {
        let value = match name {
            "user" => self.user,
            "subject" => self.subject,
            "vo" => self.vo,
            "group" => self.group,
            _ => self.role,
        }?;
        let is_plain = |value: &str| !value.contains(|c: char| c == '/' || c.is_control());
        let fits = (1..=LFN_COMPONENT_LEN_MAX).contains(&value.len());
        (fits && is_plain(value) && !matches!(value, "." | "..")).then_some(value)
    }
}

impl PathTemplate {
    /// Reads `/path/with/{user}`; squeezes slashes as paths of requests are squeezed.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, PathTemplateError> {
        let excerpt = || text.chars().take(80).collect::<String>();
        let error = |problem| PathTemplateError::Path { text: excerpt(), problem };
        let path = Lfn::parse(text).map_err(error)?;
        // Names of forwarded files have one spelling of the host, and so a rule for one holds for all.
        let path = Lfn::parse(&canonical_forwarded(path.as_str())).map_err(error)?;
        if path.as_str().contains(char::is_control) {
            return Err(error(LfnError::Nul));
        }
        let parts = parts_of(path.as_str()).ok_or_else(|| PathTemplateError::Braces { text: excerpt() })?;
        Ok(Self { text: path.as_str().to_owned(), parts })
    }

    /// Bytes of `path` that the prefix takes up when `path` is it or lies below it.
    pub(super) fn prefix_len(&self, path: &Lfn, names: &Names<'_>) -> Option<usize> {
        if self.text == "/" {
            return Some(0);
        }
        let whole = path.as_str();
        let mut rest = whole;
        for part in &self.parts {
            let text = match part {
                Part::Text(text) => text,
                Part::Name(name) => names.of(name)?,
            };
            rest = rest.strip_prefix(text)?;
        }
        (rest.is_empty() || rest.starts_with('/')).then(|| whole.len() - rest.len())
    }

    /// The prefix itself, when `path` is a directory that leads to it.
    pub(super) fn expanded_below(&self, path: &Lfn, names: &Names<'_>) -> Option<Lfn> {
        let first = self.parts.first().map_or("/", |part| match part {
            Part::Text(text) => text,
            Part::Name(_) => "/",
        });
        if !first.starts_with(path.as_str()) && !path.as_str().starts_with(first) {
            return None;
        }
        let mut expanded = String::new();
        for part in &self.parts {
            expanded.push_str(match part {
                Part::Text(text) => text,
                Part::Name(name) => names.of(name)?,
            });
            if expanded.len() > LFN_LEN_MAX {
                return None;
            }
        }
        let expanded = Lfn::parse(&expanded).ok()?;
        (expanded != *path && expanded.is_within(path)).then_some(expanded)
    }

    /// Whether `path` begins with the constant prefix: a fast check before all others.
    pub(super) fn begins(&self, path: &Lfn) -> bool {
        match self.parts.first() {
            Some(Part::Text(text)) => self.text == "/" || path.as_str().starts_with(text.as_str()),
            Some(Part::Name(_)) | None => true,
        }
    }

    /// Whether names of the client stand in it.
    pub fn uses_names(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Name(_)))
    }

    /// Whether one of the names of a group stands in it: then each group of a client is tried.
    pub(super) fn names_groups(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Name("vo" | "group" | "role")))
    }
}

impl fmt::Display for PathTemplate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

fn parts_of(mut text: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    while let Some((before, after)) = text.split_once('{') {
        let (name, rest) = after.split_once('}')?;
        if before.contains('}') {
            return None;
        }
        if !before.is_empty() {
            parts.push(Part::Text(before.to_owned()));
        }
        parts.push(Part::Name(NAMES.into_iter().find(|known| *known == name)?));
        text = rest;
    }
    if text.contains('}') {
        return None;
    }
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JANE: Names<'static> =
        Names { user: Some("jane"), subject: Some("a/b"), vo: Some("atlas"), group: Some("higgs"), role: None };

    #[test]
    fn prefixes_end_at_slashes_and_names_of_the_client_stand_in() {
        for (template, path, len) in [
            ("/", "/a/b", Some(0)),
            ("/a", "/a", Some(2)),
            ("/a/", "/a/b", Some(2)),
            ("/a", "/ab", None),
            ("/a/b", "/a", None),
            ("/atlas/user/{user}", "/atlas/user/jane/f", Some(16)),
            ("/atlas/user/{user}", "/atlas/user/janet/f", None),
            ("/atlas/user/{user}", "/atlas/user/{user}/f", None),
            ("/{vo}/{group}-data", "/atlas/higgs-data/f", Some(17)),
            ("/x/{subject}", "/x/a/b", None),
            ("/x/{role}", "/x", None),
        ] {
            let template = PathTemplate::parse(template).unwrap();
            assert_eq!(template.prefix_len(&Lfn::parse(path).unwrap(), &JANE), len, "{template} {path}");
        }
    }

    #[test]
    fn names_that_cannot_be_components_match_nothing() {
        for user in ["", ".", "..", "a/b", "a\0b", "a\nb", &"n".repeat(256)] {
            let names = Names { user: Some(user), ..JANE };
            let template = PathTemplate::parse("/x/{user}").unwrap();
            for path in ["/x", "/x/a/b", "/x/a"] {
                let path = Lfn::parse(path).unwrap();
                assert_eq!(template.prefix_len(&path, &names), None, "{user:?} {path}");
                assert_eq!(template.expanded_below(&path, &names), None, "{user:?} {path}");
            }
        }
        let names = Names { user: Some("."), vo: Some("."), ..JANE };
        let template = PathTemplate::parse("/x/{user}{vo}/y").unwrap();
        assert_eq!(template.prefix_len(&Lfn::parse("/y").unwrap(), &names), None);
        assert_eq!(template.expanded_below(&Lfn::parse("/").unwrap(), &names), None);
    }

    #[test]
    fn directories_that_lead_to_a_prefix_are_known() {
        let template = PathTemplate::parse("/atlas/user/{user}/x").unwrap();
        let expanded = |path: &str| template.expanded_below(&Lfn::parse(path).unwrap(), &JANE);
        for path in ["/", "/atlas", "/atlas/user", "/atlas/user/jane"] {
            assert_eq!(expanded(path).unwrap().as_str(), "/atlas/user/jane/x", "{path}");
        }
        for path in ["/atl", "/atlas/user/joe", "/atlas/user/jane/x", "/atlas/user/jane/x/y", "/cms"] {
            assert_eq!(expanded(path), None, "{path}");
        }
    }

    #[test]
    fn texts_that_are_no_paths_are_refused() {
        for text in ["", "a", "/a/../b", "/a\0", "/a\nb"] {
            assert!(matches!(PathTemplate::parse(text), Err(PathTemplateError::Path { .. })), "{text:?}");
        }
        for text in ["/{", "/}", "/{}", "/{User}", "/{user}}", "/{host}", "/a}b{user}"] {
            assert!(matches!(PathTemplate::parse(text), Err(PathTemplateError::Braces { .. })), "{text:?}");
        }
    }
}
