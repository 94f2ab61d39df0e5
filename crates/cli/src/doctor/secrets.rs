//! Shared secrets, and tokens for origins.

use super::{finding::Findings, subject::Subject};
use forebay_auth::{Keytab, SecurityProtocol, Token};
use forebay_trust::{OriginProof, read_secret};
use std::path::Path;

const CHECK: &str = "secret";

pub(super) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    let config = &subject.settings.config;
    let uses_secrets = config.security.methods.contains(&SecurityProtocol::Sss);
    if let Some(keytab) = config.security.keytab.as_deref().filter(|_| uses_secrets) {
        check_keytab(keytab, findings);
    }
    for rule in &config.credentials.rules {
        match &rule.proof {
            OriginProof::Secret { keytab, .. } => check_keytab(keytab, findings),
            OriginProof::Token(Some(file)) => check_token(file, findings),
            _ => {}
        }
    }
}

fn check_keytab(path: &Path, findings: &mut Findings) {
    let read = read_secret(path, true).map_err(|error| error.to_string());
    match read.and_then(|bytes| Keytab::parse(&bytes).map_err(|error| error.to_string())) {
        Ok(_) => findings.ok(CHECK, path.display(), "is a keytab that no other user can read"),
        Err(error) => findings.fail(
            CHECK,
            path.display(),
            error,
            "create it with xrdsssadmin, readable for the server's user only",
        ),
    }
}

fn check_token(path: &Path, findings: &mut Findings) {
    let read = read_secret(path, true).map_err(|error| error.to_string());
    match read.and_then(|bytes| Token::parse(bytes.trim_ascii()).map(drop).map_err(|error| error.to_string())) {
        Ok(()) => findings.ok(CHECK, path.display(), "is a token that no other user can read"),
        Err(error) => findings.fail(CHECK, path.display(), error, "check the service that renews it"),
    }
}
