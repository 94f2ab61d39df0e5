//! Where origins may redirect.

use super::field::{Fault, Form, List, Parse};
use forebay_origin::{RedirectTargets, TargetPattern};
use toml::{Spanned, de::DeValue};

/// Most patterns of a list: each redirect is compared with them.
const PATTERNS_MAX: usize = 1024;

/// `same-domain`, `any`, or a list of hosts.
pub(crate) struct Redirects;

/// A host or network that origins may redirect to.
struct Target;

impl Parse for Target {
    type Toml = String;
    type Value = TargetPattern;

    fn kind() -> String {
        "host pattern".to_owned()
    }

    fn parse(text: String) -> Result<TargetPattern, String> {
        text.parse().map_err(|error: <TargetPattern as std::str::FromStr>::Err| error.to_string())
    }
}

type Targets = List<Target, 0, PATTERNS_MAX>;

impl Form for Redirects {
    type Value = RedirectTargets;

    fn kind() -> String {
        format!("`same-domain`, `any` or {}", Targets::kind())
    }

    fn range() -> Option<String> {
        None
    }

    fn read(toml: Spanned<DeValue<'_>>, sample: &str, faults: &mut Vec<Fault>) -> Option<RedirectTargets> {
        match toml.get_ref().as_str() {
            Some("same-domain") => Some(RedirectTargets::SameDomain),
            Some("any") => Some(RedirectTargets::Any),
            // A single host without a dot or wildcard is more likely a misspelt word.
            Some(word) if !word.contains(['.', '*', ':']) => {
                let word = word.escape_default();
                let text = format!("`{word}` is not valid here: write \"same-domain\", \"any\", or a list of hosts");
                faults.push((toml.span(), text));
                None
            }
            _ => Targets::read(toml, sample, faults).map(RedirectTargets::Named),
        }
    }
}
