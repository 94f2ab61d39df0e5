//! Values that are one of a few words.

use super::field::Parse;
use crate::base::{ClientCertificates, Role};
use forebay_auth::{Method, Right, ScopeUse, SecurityProtocol, SigningLevel, TokenProfile, x509::Use};
use forebay_cache::{Action, Policy};
use forebay_cluster::Placement;
use forebay_engine::{CheckPolicy, Miss, Writes};
use forebay_net::CrlPolicy;
use forebay_proto::TlsPolicy;
use forebay_telemetry::LogFormat;
use forebay_trust::VomsUse;
use forebay_types::named_enum;

/// A form that is one of a few words.
pub(crate) trait Choice {
    type Value: Clone;

    /// All words with their meanings.
    fn choices() -> Vec<(&'static str, Self::Value)>;
}

impl<C: Choice> Parse for C {
    type Toml = String;
    type Value = C::Value;

    fn kind() -> String {
        let words: Vec<_> = C::choices().iter().map(|(word, _)| format!("`{word}`")).collect();
        words.join(", ")
    }

    fn parse(text: String) -> Result<Self::Value, String> {
        let mut choices = C::choices();
        match choices.iter().position(|(word, _)| *word == text) {
            Some(index) => Ok(choices.swap_remove(index).1),
            None => {
                let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
                Err(format!("`{}` is not valid here: write {}", text.escape_default(), alternatives(&words)))
            }
        }
    }
}

/// `"a"`, `"a" or "b"`, `"a", "b" or "c"`.
fn alternatives(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, rest @ [_, ..])) => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// Whether tokens pass without TLS.
pub(crate) struct PlainTokens;

/// Whether records have an index for each day.
pub(crate) struct IndexNaming;

/// Whether clients prove that they see the store.
pub(crate) struct Probe;

/// Whether clients read complete files from the file system themselves.
pub(crate) struct Visibility;

named_enum! {
    /// The proof of identity that this cache shows to an origin.
    pub enum CredentialMethod {
        Proxy = "proxy",
        Certificate = "certificate",
        Token = "token",
        Secret = "secret",
        S3 = "s3",
        Client = "client",
        None = "none",
    }
}

/// Types that list their values and name each.
macro_rules! named {
    ($($type:ty: $all:expr;)+) => {
        $(impl Choice for $type {
            type Value = $type;

            fn choices() -> Vec<(&'static str, $type)> {
                $all.into_iter().map(|value| (value.as_str(), value)).collect()
            }
        })+
    };
}

named! {
    Role: Self::ALL;
    ClientCertificates: Self::ALL;
    TlsPolicy: Self::ALL.into_iter().filter(|&policy| policy != Self::None);
    CrlPolicy: Self::ALL;
    SecurityProtocol: Self::ALL;
    SigningLevel: Self::ALL;
    Method: Self::ALL;
    Right: Self::ALL;
    ScopeUse: [Self::Narrow, Self::Grant];
    Policy: Self::ALL;
    Action: Self::ALL;
    Placement: Self::ALL;
    CredentialMethod: Self::ALL;
}

/// Forms whose words are those of the file alone.
macro_rules! worded {
    ($($form:ty => $value:ty { $($word:literal => $meaning:expr),+ })+) => {
        $(impl Choice for $form {
            type Value = $value;

            fn choices() -> Vec<(&'static str, $value)> {
                vec![$(($word, $meaning)),+]
            }
        })+
    };
}

worded! {
    VomsUse => VomsUse { "ignore" => Self::Ignore, "extract" => Self::Extract, "require" => Self::Require }
    Use => Use { "ignore" => Self::Ignore, "if-present" => Self::IfPresent, "require" => Self::Require }
    TokenProfile => TokenProfile { "wlcg" => Self::Wlcg, "scitokens" => Self::SciTokens }
    PlainTokens => bool { "never" => false, "loopback" => true }
    IndexNaming => bool { "data-stream" => false, "daily" => true }
    Probe => bool { "none" => false, "client" => true }
    Visibility => bool { "never" => false, "complete" => true }
    CheckPolicy => CheckPolicy { "first-read" => Self::FirstRead, "never" => Self::Never }
    Miss => Miss { "proxy" => Self::Proxy, "redirect" => Self::Redirect }
    Writes => Writes { "refuse" => Self::Refuse, "redirect" => Self::Redirect }
    LogFormat => LogFormat { "text" => Self::Text, "json" => Self::Json }
}
