//! Certificates and keys: this server's, and those that origins are shown.

use super::{
    Patient,
    finding::{Findings, Level},
};
use crate::{node::gate, text};
use forebay_auth::{
    UnixTime,
    x509::{Credential, check_host},
};
use forebay_trust::{Authorities, OriginProof, read, read_secret};
use std::path::Path;

const CHECK: &str = "certificate";

/// Time before the end of a certificate, and of a proxy, in which it should be renewed by now, seconds.
const CERTIFICATE_RENEWAL_S: i64 = 14 * 86_400;
const PROXY_RENEWAL_S: i64 = 3600;

pub(super) fn check(patient: &Patient<'_>, findings: &mut Findings) {
    let config = &patient.settings.config;
    if let Some(clients) = &config.tls.clients {
        let own = &clients.files.credential;
        if let Some(credential) = read_credential(&own.certificate, &own.key, findings) {
            check_time(&own.certificate, &credential, CERTIFICATE_RENEWAL_S, patient.now, findings);
            check_name(&own.certificate, &credential, &gate::host_name(patient.settings), findings);
            check_trust(&own.certificate, &credential, patient, findings);
        }
    }
    if let Some(own) = &config.tls.own
        && let Some(credential) = read_credential(&own.certificate, &own.key, findings)
    {
        check_time(&own.certificate, &credential, CERTIFICATE_RENEWAL_S, patient.now, findings);
    }
    for rule in &config.credentials.rules {
        let (certificate, key, renewal_s) = match &rule.proof {
            OriginProof::Proxy(Some(proxy)) => (proxy, proxy, PROXY_RENEWAL_S),
            OriginProof::Certificate { certificate, key } => (certificate, key, CERTIFICATE_RENEWAL_S),
            _ => continue,
        };
        if let Some(credential) = read_credential(certificate, key, findings) {
            check_time(certificate, &credential, renewal_s, patient.now, findings);
        }
    }
}

/// Reads a certificate and the key that belongs to it.
fn read_credential(certificate: &Path, key: &Path, findings: &mut Findings) -> Option<Credential> {
    let key_pem = read_secret(key, true).map_err(|error| {
        findings.fail(CHECK, key.display(), error, "let the server's user read it, and nobody else");
    });
    let chain_pem = read(certificate).map_err(|error| {
        findings.fail(CHECK, certificate.display(), error, "let the server's user read it");
    });
    let (key_pem, chain_pem) = (key_pem.ok()?, chain_pem.ok()?);
    let credential = Credential::from_pem(&chain_pem, &key_pem).map_err(|error| {
        findings.fail(
            CHECK,
            certificate.display(),
            error,
            "put the certificate and the key that belongs to it in place",
        );
    });
    credential.ok()
}

fn check_time(place: &Path, credential: &Credential, renewal_s: i64, now: UnixTime, findings: &mut Findings) {
    let begin = credential.chain().certificates().iter().map(|certificate| certificate.valid_from()).max();
    let (end, subject) = (credential.valid_until(), credential.chain().subject());
    let until = format!("of {subject}, until {} UTC", text::utc(end.0));
    if end < now {
        findings.fail(
            CHECK,
            place.display(),
            format!("{until}: it has expired"),
            "renew it; it is read again by itself",
        );
    } else if let Some(begin) = begin.filter(|begin| *begin > now) {
        let found = format!("of {subject}, from {} UTC on only", text::utc(begin.0));
        findings.fail(CHECK, place.display(), found, "is the clock of this machine right?");
    } else if end.seconds_since(now) < renewal_s {
        findings.warn(CHECK, place.display(), format!("{until}: it ends soon"), "renew it; it is read again by itself");
    } else {
        findings.ok(CHECK, place.display(), until);
    }
}

fn check_name(place: &Path, credential: &Credential, host: &str, findings: &mut Findings) {
    if let Err(error) = check_host(credential.chain().leaf(), host) {
        let advice = "clients refuse it under that name: write server.host_name as they know this host, or get another certificate";
        findings.warn(CHECK, place.display(), error, advice);
    }
}

/// Whether who trusts the same authorities trusts the certificate.
fn check_trust(place: &Path, credential: &Credential, patient: &Patient<'_>, findings: &mut Findings) {
    let config = &patient.settings.config;
    let Ok(authorities) = Authorities::read(&config.tls.trust.ca_dir) else { return };
    if let Err(error) = authorities.anchors.verify(credential.chain(), &config.security.trust, patient.now) {
        let advice = "clients refuse it, too, unless they trust other authorities: put the certificates between it and its authority behind it";
        findings.add(Level::Warn, CHECK, place.display(), error, advice);
    }
}
