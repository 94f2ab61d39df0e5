//! Authentication and authorization of clients.

use super::{checker::Checker, issuers::read_issuers};
use crate::{
    config::Config,
    file::{Raw, RawBinding, RawGrant},
    value::CredentialMethod,
};
use forebay_auth::{
    Binding, Bindings, Conditions, GRANTS_MAX, Grant, Grants, Rights, ScopeUse, SecurityProtocol, x509::Use,
};
use forebay_net::CrlPolicy;
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
