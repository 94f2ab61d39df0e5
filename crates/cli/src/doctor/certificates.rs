//! Certificates, keys and other secrets: of this server, and for origins.

use super::finding::{Findings, Level, Subject};
use crate::{node::gate, text};
use forebay_auth::{
    AccessKey, AccessKeys, Keytab, SecurityProtocol, Token, UnixTime,
    x509::{Credential, check_host},
};
use forebay_trust::{Authorities, OriginProof, read, read_secret};
use std::path::Path;

const CHECK: &str = "certificate";
const SECRET: &str = "secret";

/// Seconds before the end of a certificate, and of a proxy, in which it should have been renewed.
const CERTIFICATE_RENEWAL_S: i64 = 14 * 86_400;
const PROXY_RENEWAL_S: i64 = 3600;

/// Longest RSA key with which handshakes are not slow.
const RSA_BITS_CHEAP: u32 = 2048;

pub(super) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    let config = &subject.settings.config;
    if let Some(clients) = &config.tls.clients {
        let own = &clients.files.credential;
        if let Some(credential) = read_credential(&own.certificate, &own.key, findings) {
            check_time(&own.certificate, &credential, CERTIFICATE_RENEWAL_S, subject.now, findings);
            check_name(&own.certificate, &credential, &gate::host_name(subject.settings), findings);
            check_trust(&own.certificate, &credential, subject, findings);
            check_key(&own.key, &credential, findings);
        }
    }
    if let Some(own) = &config.tls.own
        && let Some(credential) = read_credential(&own.certificate, &own.key, findings)
    {
        check_time(&own.certificate, &credential, CERTIFICATE_RENEWAL_S, subject.now, findings);
    }
    for rule in &config.credentials.rules {
        let (certificate, key, renewal_s) = match &rule.proof {
            OriginProof::Proxy(Some(proxy)) => (proxy, proxy, PROXY_RENEWAL_S),
            OriginProof::Certificate { certificate, key } => (certificate, key, CERTIFICATE_RENEWAL_S),
            _ => continue,
        };
        if let Some(credential) = read_credential(certificate, key, findings) {
            check_time(certificate, &credential, renewal_s, subject.now, findings);
        }
    }
}

/// Reads a certificate and the key that belongs to it.
fn read_credential(certificate: &Path, key: &Path, findings: &mut Findings) -> Option<Credential> {
    let key_pem = read_secret(key, true).map_err(|error| {
        findings.fail(CHECK, key.display(), error, "make it readable for the server's user only");
    });
    let chain_pem = read(certificate).map_err(|error| {
        findings.fail(CHECK, certificate.display(), error, "make it readable for the server's user");
    });
    let (key_pem, chain_pem) = (key_pem.ok()?, chain_pem.ok()?);
    let credential = Credential::from_pem(&chain_pem, &key_pem).map_err(|error| {
        findings.fail(CHECK, certificate.display(), error, "install a certificate and its matching key");
    });
    credential.ok()
}

fn check_time(place: &Path, credential: &Credential, renewal_s: i64, now: UnixTime, findings: &mut Findings) {
    let begin = credential.chain().certificates().iter().map(|certificate| certificate.valid_from).max();
    let (end, subject) = (credential.valid_until(), credential.chain().subject());
    let until = format!("of {subject}, until {} UTC", text::utc(end.0));
    if end < now {
        findings.fail(CHECK, place.display(), format!("{until}: expired"), "renew it; it is reloaded automatically");
    } else if let Some(begin) = begin.filter(|begin| *begin > now) {
        let found = format!("of {subject}, not valid before {} UTC", text::utc(begin.0));
        findings.fail(CHECK, place.display(), found, "check the clock of this machine");
    } else if end.seconds_since(now) < renewal_s {
        findings.warn(
            CHECK,
            place.display(),
            format!("{until}: expires soon"),
            "renew it; it is reloaded automatically",
        );
    } else {
        findings.ok(CHECK, place.display(), until);
    }
}

/// Whether handshakes with this key are cheap. Measured with OpenSSL 3.0: a signature takes 0.35 ms with RSA of 2048 bits, 4.7 ms with 4096, and 0.02 ms with
/// ECDSA P-256.
fn check_key(place: &Path, credential: &Credential, findings: &mut Findings) {
    let Some(bits) = credential.rsa_bits() else {
        return findings.ok(CHECK, place.display(), "handshakes with this key are cheap");
    };
    if bits <= RSA_BITS_CHEAP {
        let found =
            format!("RSA of {bits} bits: handshakes with a P-256 key (ECDSA) take a sixteenth of the processor time");
        findings.ok(CHECK, place.display(), found);
    } else {
        let found = format!("RSA of {bits} bits: each TLS handshake takes milliseconds of processor time");
        let advice = "get a certificate for a P-256 key (ECDSA), or for RSA of 2048 bits";
        findings.warn(CHECK, place.display(), found, advice);
    }
}

fn check_name(place: &Path, credential: &Credential, host: &str, findings: &mut Findings) {
    if let Err(error) = check_host(credential.chain().leaf(), host) {
        let advice =
            "clients refuse it for that name: set server.host_name to the name clients use, or get another certificate";
        findings.warn(CHECK, place.display(), error, advice);
    }
}

/// Whether the certificate is trusted by the configured authorities.
fn check_trust(place: &Path, credential: &Credential, subject: &Subject<'_>, findings: &mut Findings) {
    let config = &subject.settings.config;
    let Ok(authorities) = Authorities::read(&config.tls.trust.ca_dir) else { return };
    if let Err(error) = authorities.anchors.verify(credential.chain(), &config.security.trust, subject.now) {
        let advice = "clients with the same authorities refuse it: append its intermediate certificates to the file";
        findings.add(Level::Warn, CHECK, place.display(), error, advice);
    }
}

/// Checks shared secrets, and tokens for origins.
pub(super) fn check_secrets(subject: &Subject<'_>, findings: &mut Findings) {
    let config = &subject.settings.config;
    if config.security.methods.contains(&SecurityProtocol::Sss)
        && let Some(keytab) = &config.security.keytab
    {
        check_keytab(keytab, findings);
    }
    if let Some(keys) = &config.security.access_keys {
        let parse = |bytes: &[u8]| AccessKeys::parse(bytes).map(drop).map_err(|error| error.to_string());
        check_secret(keys, "file of access keys", parse, "write it as ~/.aws/credentials has it", findings);
    }
    for rule in &config.credentials.rules {
        match &rule.proof {
            OriginProof::Secret { keytab, .. } => check_keytab(keytab, findings),
            OriginProof::Token(Some(file)) => {
                let parse =
                    |bytes: &[u8]| Token::parse(bytes.trim_ascii()).map(drop).map_err(|error| error.to_string());
                check_secret(file, "token", parse, "check the service that renews it", findings);
            }
            OriginProof::AccessKey { file: Some(file), profile, region } => {
                let profile = profile.as_deref().unwrap_or("default");
                let parse = |bytes: &[u8]| {
                    AccessKey::parse(bytes, profile, region.as_deref()).map(drop).map_err(|error| error.to_string())
                };
                check_secret(file, "access key", parse, "write it as ~/.aws/credentials has it", findings);
            }
            _ => {}
        }
    }
}

fn check_keytab(path: &Path, findings: &mut Findings) {
    let parse = |bytes: &[u8]| Keytab::parse(bytes).map(drop).map_err(|error| error.to_string());
    let advice = "create it with xrdsssadmin, readable for the server's user only";
    check_secret(path, "keytab", parse, advice, findings);
}

fn check_secret(
    path: &Path,
    kind: &str,
    parse: impl FnOnce(&[u8]) -> Result<(), String>,
    advice: &str,
    findings: &mut Findings,
) {
    let read = read_secret(path, true).map_err(|error| error.to_string());
    match read.and_then(|bytes| parse(&bytes)) {
        Ok(()) => findings.ok(SECRET, path.display(), format_args!("is a {kind} that no other user can read")),
        Err(error) => findings.fail(SECRET, path.display(), error, advice),
    }
}
