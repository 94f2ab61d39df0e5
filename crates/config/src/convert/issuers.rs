//! Issuers of tokens, and the sources of their keys.

use super::checker::Checker;
use crate::file::RawIssuer;
use forebay_auth::{Issuer, Issuers};
use forebay_trust::{IssuerAuthorities, IssuerDiscovery, SecurityOptions, check_issuer_url};
use std::path::PathBuf;
use toml::Spanned;

enum Keys {
    File(PathBuf),
    Fetched(IssuerDiscovery),
}

pub(crate) fn read_issuers(raw: &[Spanned<RawIssuer>], config: &mut SecurityOptions, checker: &mut Checker<'_>) {
    let mut issuers = Vec::new();
    for (issuer, keys) in raw.iter().filter_map(|table| read_issuer(table, checker)) {
        match keys {
            Keys::File(path) => config.key_files.push((issuer.url.clone(), path)),
            Keys::Fetched(discovery) => config.discoveries.push(discovery),
        }
        issuers.push(issuer);
    }
    match Issuers::new(issuers) {
        Ok(issuers) => config.issuers = issuers,
        Err(error) => checker.refuse("issuer", raw.first().map(Spanned::span).as_ref(), error),
    }
}

fn read_issuer(table: &Spanned<RawIssuer>, checker: &mut Checker<'_>) -> Option<(Issuer, Keys)> {
    let raw = table.get_ref();
    let is_plain = raw.plain_http.value().unwrap_or(false);
    let url = checker.need("issuer.url", &raw.url, table)?;
    if let Err(error) = check_issuer_url(&url, is_plain) {
        checker.refuse("issuer.url", raw.url.span(), format_args!("not an issuer: {error}"));
        return None;
    }
    let mut issuer = Issuer::new(&url);
    raw.apply(&mut issuer);
    if let Some(leeway) = raw.leeway.get() {
        issuer.leeway_seconds = i64::try_from(leeway.as_secs()).unwrap_or(i64::MAX);
    }
    if !raw.keys.is_set() {
        return Some((issuer, Keys::Fetched(read_discovery(&url, raw, is_plain))));
    }
    for (setting, is_set) in [
        ("issuer.ca", raw.ca.is_set()),
        ("issuer.grace", raw.grace.is_set()),
        ("issuer.plain_http", raw.plain_http.is_set()),
    ] {
        if is_set {
            let text =
                format_args!("{setting} is about fetching keys, but they are in a file: leave out one of the two");
            checker.refuse("issuer.keys", raw.keys.span(), text);
        }
    }
    Some((issuer, Keys::File(raw.keys.value()?)))
}

fn read_discovery(url: &str, raw: &RawIssuer, is_plain: bool) -> IssuerDiscovery {
    let mut discovery = IssuerDiscovery { allows_plain_http: is_plain, ..IssuerDiscovery::new(url) };
    if let Some(path) = raw.ca.value() {
        discovery.authorities = IssuerAuthorities::Path(path);
    }
    raw.grace.store(&mut discovery.grace, None);
    discovery
}
