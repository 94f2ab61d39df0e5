//! Certificates of this server, and TLS for clients.

use super::checker::Checker;
use crate::{config::ClientsTls, file::Raw, value::Field};
use forebay_net::{Credential, ServerTlsFiles, TrustAnchors};
use forebay_proto::TlsPolicy;
use std::{path::PathBuf, time::Duration};

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
    let files = ServerTlsFiles { credential, trust, ciphers: raw.ciphers.value(), resumes: true };
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
