//! Where origins may redirect.

use super::field::{Fault, Form};
use forebay_origin_root::{RedirectTargets, TargetPattern};
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use toml::Spanned;

/// Most patterns of a list: each redirect is compared with them.
const PATTERNS_MAX: usize = 1024;

/// `same-domain`, `any`, or a list of hosts.
pub(crate) struct Redirects;

/// A word, or a list.
pub(crate) enum WordOrList {
    Word(String),
    List(Vec<Spanned<String>>),
}

impl Form for Redirects {
    type Toml = WordOrList;
    type Value = RedirectTargets;

    fn kind() -> String {
        "`same-domain`, `any` or list: host pattern".to_owned()
    }

    fn range() -> Option<String> {
        None
    }

    fn read(toml: Spanned<WordOrList>, faults: &mut Vec<Fault>) -> Option<RedirectTargets> {
        let span = toml.span();
        match toml.into_inner() {
            WordOrList::Word(word) => match word.as_str() {
                "same-domain" => Some(RedirectTargets::SameDomain),
                "any" => Some(RedirectTargets::Any),
                _ => {
                    let word = word.escape_default();
                    let text =
                        format!("`{word}` is not valid here: write \"same-domain\", \"any\", or a list of hosts");
                    faults.push((span, text));
                    None
                }
            },
            WordOrList::List(list) if list.len() > PATTERNS_MAX => {
                faults.push((span, format!("{} elements: write at most {PATTERNS_MAX}", list.len())));
                None
            }
            WordOrList::List(list) => {
                let parse = |element: Spanned<String>| {
                    let span = element.span();
                    element.into_inner().parse().map_err(|error: <TargetPattern as std::str::FromStr>::Err| {
                        faults.push((span, error.to_string()));
                    })
                };
                Some(RedirectTargets::Named(list.into_iter().map(parse).filter_map(Result::ok).collect()))
            }
        }
    }
}

impl<'de> Deserialize<'de> for WordOrList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = WordOrList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word or a list of texts")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<WordOrList, E> {
                Ok(WordOrList::Word(word.to_owned()))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<WordOrList, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = list.next_element()? {
                    elements.push(element);
                }
                Ok(WordOrList::List(elements))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}
