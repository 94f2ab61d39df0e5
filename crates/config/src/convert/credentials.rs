//! Certificates of this server, TLS for clients, and credentials for origins.

use super::checker::Checker;
use crate::{
    config::{ClientsTls, Config},
    file::{Raw, RawCredential},
    value::{CredentialMethod as Method, Field},
};
use forebay_net::{Credential, ServerTlsFiles, TrustAnchors};
use forebay_proto::TlsPolicy;
use forebay_trust::{CredentialOptions, CredentialRule, OriginProof};
use std::{path::PathBuf, time::Duration};
use toml::Spanned;

/// Most tables: each request to an origin is compared with all of them.
const RULES_MAX: usize = 256;

/// Reads the list; TLS and authentication have been read.
pub(crate) fn read_credentials(raw: &Raw, config: &Config, checker: &mut Checker<'_>) -> CredentialOptions {
    let user = &config.origin.pool.username;
    let tables = checker.at_most(RULES_MAX, "credential", &raw.credential);
    let rules: Vec<_> = tables.iter().filter_map(|table| read_rule(table, user, checker)).collect();
    check_clients(raw, &rules, checker);
    CredentialOptions {
        rules,
        user: user.clone(),
        ca_dir: config.tls.trust.ca_dir.clone(),
        trust: config.security.trust,
        keeps_those_of_clients: raw.checks_origin(),
    }
}

/// The credentials of a client are prepared once, for all servers that they are sent to.
fn check_clients(raw: &Raw, rules: &[CredentialRule], checker: &mut Checker<'_>) {
    let mut clients = rules.iter().filter(|rule| rule.proof == OriginProof::OfClient);
    let switches = |rule: &CredentialRule| (rule.allows_weak_groups, rule.allows_unsigned, rule.allows_plain_tokens);
    let Some(first) = clients.next().map(switches) else { return };
    if clients.any(|rule| switches(rule) != first) {
        let place = raw.credential.first().map(Spanned::span);
        let text = "tables with method = \"client\" must agree on weak_groups, unsigned_gsi and plain_tokens";
        checker.refuse("credential", place.as_ref(), text);
    }
}

fn read_rule(table: &Spanned<RawCredential>, user: &str, checker: &mut Checker<'_>) -> Option<CredentialRule> {
    let raw = table.get_ref();
    let hosts = checker.need("credential.hosts", &raw.hosts, table);
    let method = checker.need("credential.method", &raw.method, table);
    let proof = read_proof(table, method?, checker);
    let mut rule = CredentialRule {
        hosts: hosts?,
        proof: proof?,
        user: user.to_owned(),
        allows_weak_groups: false,
        allows_unsigned: false,
        allows_plain_tokens: false,
    };
    raw.apply(&mut rule);
    Some(rule)
}

fn read_proof(table: &Spanned<RawCredential>, method: Method, checker: &mut Checker<'_>) -> Option<OriginProof> {
    let raw = table.get_ref();
    // A file that the method does not use is most likely a mistake in the method.
    for (setting, span, user) in [
        ("credential.proxy", raw.proxy.span(), Method::Proxy),
        ("credential.certificate", raw.certificate.span(), Method::Certificate),
        ("credential.key", raw.key.span(), Method::Certificate),
        ("credential.token", raw.token.span(), Method::Token),
        ("credential.keytab", raw.keytab.span(), Method::Secret),
        ("credential.key_name", raw.key_name.span(), Method::Secret),
        ("credential.access_keys", raw.access_keys.span(), Method::S3),
        ("credential.profile", raw.profile.span(), Method::S3),
        ("credential.region", raw.region.span(), Method::S3),
    ] {
        if span.is_some() && user != method {
            checker.refuse(setting, span, format_args!("used with method = \"{}\" only", user.as_str()));
        }
    }
    Some(match method {
        Method::None => OriginProof::Nothing,
        Method::Client => OriginProof::OfClient,
        Method::Proxy => OriginProof::Proxy(raw.proxy.value()),
        Method::Token => OriginProof::Token(raw.token.value()),
        Method::Certificate => {
            let certificate = checker.need("credential.certificate", &raw.certificate, table);
            let key = checker.need("credential.key", &raw.key, table);
            OriginProof::Certificate { certificate: certificate?, key: key? }
        }
        Method::S3 => OriginProof::AccessKey {
            file: raw.access_keys.value(),
            profile: raw.profile.value(),
            region: raw.region.value(),
        },
        Method::Secret => {
            let keytab = checker.need("credential.keytab", &raw.keytab, table);
            OriginProof::Secret { keytab: keytab?, key: raw.key_name.value() }
        }
    })
}

pub(crate) fn read_clients(raw: &Raw, trust: &TrustAnchors, checker: &mut Checker<'_>) -> Option<ClientsTls> {
    let raw = &raw.tls;
    let policy = raw.policy.value().unwrap_or(TlsPolicy::Capable);
    if raw.policy.is_set() && policy != TlsPolicy::Capable && !raw.certificate.is_set() {
        let text = "TLS is required without a certificate: write tls.certificate too";
        checker.refuse("tls.policy", raw.policy.span(), text);
    }
    let credential = read_credential(("tls.certificate", &raw.certificate), ("tls.key", &raw.key), checker)?;
    // Where the usual directory is missing, no certificate of a client can be verified.
    let has_trust = raw.ca_dir.is_set() || trust.ca_dir.is_dir();
    let requests_certificates = raw.client_certificates.value().unwrap_or(true);
    let trust = (requests_certificates && has_trust).then(|| trust.clone());
    let files = ServerTlsFiles { credential, trust, ciphers: raw.ciphers.value(), offers_http2: false };
    let handshake_time_max = raw.handshake_time_max.value().unwrap_or(Duration::from_secs(10));
    Some(ClientsTls { files, policy, handshake_time_max })
}

/// The certificate for origins.
pub(crate) fn read_own(raw: &Raw, checker: &mut Checker<'_>) -> Option<Credential> {
    let raw = &raw.origin;
    read_credential(("origin.certificate", &raw.certificate), ("origin.key", &raw.key), checker)
}

/// A certificate with its key. Without a file of its own, the key is in that of the certificate.
fn read_credential(
    (certificate_name, certificate): (&str, &Field<PathBuf>),
    (key_name, key): (&str, &Field<PathBuf>),
    checker: &mut Checker<'_>,
) -> Option<Credential> {
    if key.is_set() && !certificate.is_set() {
        let text = format_args!("a key without its certificate: write {certificate_name} too");
        checker.refuse(key_name, key.span(), text);
    }
    let certificate = certificate.value()?;
    Some(Credential { key: key.value().unwrap_or_else(|| certificate.clone()), certificate })
}
