//! Authentication and authorization of clients; issuers of tokens, and the sources of their keys.

use super::checker::Checker;
use crate::{
    config::Config,
    file::{Raw, RawBinding, RawGrant, RawIssuer},
    value::CredentialMethod,
};
use forebay_auth::{
    Binding, Bindings, Conditions, GRANTS_MAX, Grant, Grants, Issuer, Issuers, Rights, ScopeUse, SecurityProtocol,
    x509::Use,
};
use forebay_net::CrlPolicy;
use forebay_trust::{IssuerAuthorities, IssuerDiscovery, SecurityOptions, check_issuer_url};
use std::path::PathBuf;
use toml::Spanned;

/// Reads the lists; TLS has been read.
pub(crate) fn read_security(raw: &Raw, config: &mut Config, checker: &mut Checker<'_>) {
    let security = &mut config.security;
    security.trust.crls = match config.tls.trust.crl {
        CrlPolicy::Ignore => Use::Ignore,
        CrlPolicy::Try => Use::IfPresent,
        CrlPolicy::Require => Use::Require,
    };
    let bindings = raw.binding.iter().filter_map(|table| read_binding(table, &security.methods, checker)).collect();
    match Bindings::new(bindings) {
        Ok(bindings) => security.bindings = bindings,
        Err(error) => checker.refuse("binding", raw.binding.first().map(Spanned::span).as_ref(), error),
    }
    read_issuers(&raw.issuer, security, checker);
    if !raw.grant.is_empty() {
        let grants = raw.grant.iter().filter_map(|table| read_grant(table, checker)).collect();
        match Grants::new(grants) {
            Ok(grants) => security.grants = Some(grants),
            Err(error) => checker.refuse("grant", raw.grant.get(GRANTS_MAX).map(Spanned::span).as_ref(), error),
        }
    }
    check_methods(raw, config, checker);
    check_delegation(raw, config, checker);
}

fn read_binding(
    table: &Spanned<RawBinding>,
    configured: &[SecurityProtocol],
    checker: &mut Checker<'_>,
) -> Option<Binding> {
    let raw = table.get_ref();
    let protocols = checker.need("binding.methods", &raw.methods, table);
    if let Some(other) = protocols.iter().flatten().find(|protocol| !configured.contains(protocol)) {
        let text = format_args!("`{}` is not one of authentication.methods", other.as_str());
        checker.refuse("binding.methods", raw.methods.span(), text);
    }
    checker.need("binding.host", &raw.host, table);
    let mut binding = Binding { hosts: String::new(), protocols: Vec::new() };
    raw.apply(&mut binding);
    Some(binding)
}

fn read_grant(table: &Spanned<RawGrant>, checker: &mut Checker<'_>) -> Option<Grant> {
    let raw = table.get_ref();
    let rights = checker.need("grant.rights", &raw.rights, table);
    let path = checker.need("grant.path", &raw.path, table);
    let mut grant = Grant {
        name: String::new(),
        who: Conditions::default(),
        path: path?,
        rights: Rights::from_iter(rights?),
        scopes: ScopeUse::default(),
    };
    raw.apply(&mut grant);
    Some(grant)
}

/// Each method needs settings of other tables.
fn check_methods(raw: &Raw, config: &Config, checker: &mut Checker<'_>) {
    let uses = |protocol| config.security.methods.contains(&protocol);
    let mut refuse = |text| checker.refuse("authentication.methods", raw.authentication.methods.span(), text);
    let clients = config.tls.clients.as_ref();
    if uses(SecurityProtocol::Gsi) && clients.is_none() {
        refuse("\"gsi\" needs tls.certificate and tls.key: the certificate of this host");
    }
    if uses(SecurityProtocol::Tls) && clients.is_none_or(|clients| clients.files.trust.is_none()) {
        refuse(
            "\"tls\" needs tls.certificate, tls.key, tls.ca_dir and tls.client_certificates: clients must be asked for theirs",
        );
    }
    if uses(SecurityProtocol::Sss) && !raw.authentication.keytab.is_set() {
        refuse("\"sss\" needs authentication.keytab: the file with the shared secrets");
    }
    if uses(SecurityProtocol::Ztn) && raw.issuer.is_empty() {
        refuse("\"ztn\" needs an [[issuer]]: without one no token is accepted");
    }
    if !config.security.methods.is_empty() && raw.grant.is_empty() {
        refuse("clients are authenticated, but no table grants them rights: write a [[grant]]");
    }
}

fn check_delegation(raw: &Raw, config: &Config, checker: &mut Checker<'_>) {
    let shows_clients =
        raw.credential.iter().any(|table| table.get_ref().method.value() == Some(CredentialMethod::Client));
    if config.security.takes_delegations && !shows_clients && !raw.checks_origin() {
        let text =
            "no origin would get the proxies: write a [[credential]] with method = \"client\", or export.origin_check";
        checker.refuse("authentication.delegation", raw.authentication.delegation.span(), text);
    }
}

enum Keys {
    File(PathBuf),
    Fetched(IssuerDiscovery),
}

fn read_issuers(raw: &[Spanned<RawIssuer>], config: &mut SecurityOptions, checker: &mut Checker<'_>) {
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
