//! The settings of a cache, in terms of Forebay.

use super::{
    authdb::Grant,
    document::string,
    item::Item,
    note::{Fate::Honoured, Verdict},
    scitokens::TokenIssuer,
    usage::{Amount, Quota, Usage},
    values::{limited, time, time_text},
};
use std::{collections::BTreeMap, time::Duration};

/// A value and the note of the directive that set it.
#[derive(Clone, Debug)]
pub(super) struct Written<T> {
    pub(super) value: T,
    pub(super) note: usize,
}

/// A setting that a directive may set.
pub(super) type Setting<T> = Option<Written<T>>;

/// Settings of a cache of Pelican that depend on each other.
#[derive(Debug, Default)]
pub(super) struct PelicanCache {
    pub(super) is_one: bool,
    pub(super) low: Setting<Amount>,
    pub(super) high: Setting<Amount>,
    pub(super) nominal: Setting<Amount>,
    pub(super) max: Setting<Amount>,
    pub(super) names: Setting<String>,
    pub(super) storage: Setting<String>,
}

/// The settings of a cache.
#[derive(Debug, Default)]
pub(super) struct Site {
    /// Settings that depend on no others: `table.key` to the value in TOML.
    pub(super) plain: BTreeMap<&'static str, Written<String>>,
    pub(super) port: Setting<u16>,
    pub(super) exports: Vec<Written<Export>>,
    pub(super) origin: Setting<Origin>,
    pub(super) permits: Vec<Written<String>>,
    pub(super) is_write_through: Setting<bool>,
    pub(super) prefetch: Setting<u64>,
    pub(super) usage: Setting<Usage>,
    /// The list of the last directive that names one.
    pub(super) quotas: Setting<Vec<Quota>>,
    /// Patterns of files that are not cached.
    pub(super) uncached: Vec<Written<Vec<String>>>,
    pub(super) cache: Setting<()>,
    pub(super) local_root: Setting<String>,
    pub(super) block_size: Setting<u64>,
    pub(super) ram: Setting<u64>,
    pub(super) security: Security,
    pub(super) http: Http,
    pub(super) pelican: PelicanCache,
    /// Of accounting streams, and of summary reports.
    pub(super) collectors: Vec<Written<String>>,
    pub(super) summary_collectors: Vec<Written<String>>,
}

/// Access to the cache and to origins.
#[derive(Debug, Default)]
pub(super) struct Security {
    pub(super) library: Setting<()>,
    /// Notes of `sec.*`, which have no effect without the library.
    pub(super) notes: Vec<usize>,
    pub(super) methods: Vec<Written<&'static str>>,
    /// Protocols that are not served.
    pub(super) others: Vec<usize>,
    pub(super) bindings: Vec<Written<(String, Vec<String>)>>,
    /// Settings of `gsi` that directives of TLS override.
    pub(super) gsi: BTreeMap<&'static str, Written<String>>,
    pub(super) authorizes: Setting<()>,
    /// `None` if the file cannot be read.
    pub(super) authdb: Setting<Option<Vec<Grant>>>,
    pub(super) issuers: Setting<Vec<TokenIssuer>>,
    pub(super) persona: Setting<()>,
    /// Method, and keys with paths.
    pub(super) credential: BTreeMap<&'static str, Written<String>>,
}

/// The service for clients of HTTP.
#[derive(Debug, Default)]
pub(super) struct Http {
    /// Set by the directive that serves HTTP: its port, if it has one.
    pub(super) port: Setting<Option<u16>>,
    /// Settings of the front: key to the value in TOML.
    pub(super) front: BTreeMap<&'static str, Written<String>>,
    /// Settings of TLS that `xrd.tls` and `sec.protocol` override.
    pub(super) tls: BTreeMap<&'static str, Written<String>>,
    pub(super) cors_origins: Vec<String>,
}

/// The form of a value of [`Site::set`].
#[derive(Clone, Copy)]
pub(super) enum Form {
    Text,
    /// From a second to a year.
    Time,
    /// From 1 to the number.
    Number(u64),
}

/// Limits of times in settings.
const TIME_MIN: Duration = Duration::from_secs(1);
const TIME_MAX: Duration = Duration::from_secs(366 * 86_400);

impl Site {
    /// Sets `key` to a value in TOML.
    pub(super) fn write(&mut self, key: &'static str, toml: String, item: &mut Item<'_>) {
        let earlier = self.plain.insert(key, item.written(toml));
        item.overrides(earlier);
    }

    /// Sets `key` to the value in `text`. A value out of range is replaced by the limit.
    pub(super) fn set(&mut self, key: &'static str, form: Form, text: &str, item: &mut Item<'_>) -> Verdict {
        let value = match form {
            Form::Text => (!text.is_empty()).then(|| (string(text), None)),
            Form::Time => time(text).map(|time| {
                let (time, bound) = limited(time, &(TIME_MIN..=TIME_MAX));
                (string(&time_text(time)), bound)
            }),
            Form::Number(max) => text.parse().ok().map(|number| {
                let (number, bound) = limited(number, &(1..=max));
                (number.to_string(), bound)
            }),
        };
        let Some((toml, bound)) = value else { return Verdict::malformed() };
        let text = bound.map_or_else(String::new, |bound| format!("{bound} is {}", toml.trim_matches('"')));
        self.write(key, toml, item);
        Honoured.because(text)
    }

    /// Whether clients may name the origin.
    pub(super) fn is_forwarding(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.value.is_forwarding)
    }
}

/// A part of the name space.
#[derive(Clone, Debug)]
pub(super) struct Export {
    pub(super) path: String,
    pub(super) is_read_only: bool,
}

/// The source of files.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// Whether clients may name the origin.
    pub(super) is_forwarding: bool,
    /// Protocols of HTTP that clients may name.
    pub(super) http_schemes: Vec<&'static str>,
    /// The one for clients that name none.
    pub(super) fixed: Option<FixedOrigin>,
}

/// An origin that the configuration names.
#[derive(Clone, Debug)]
pub(super) enum FixedOrigin {
    /// A server, by its URL.
    Server(String),
    Directory(String),
    /// A URL that is not translated.
    Unserved(String),
}
