//! Certification authorities, revocation lists, and organizations.

use super::finding::{Findings, Level, Subject};
use crate::text;
use forebay_auth::{
    SecurityProtocol,
    x509::{TrustAnchors, Use},
};
use forebay_trust::{Authorities, Organizations, VomsUse, list, read};
use std::path::{Path, PathBuf};

const AUTHORITY: &str = "authority";
const CRL: &str = "revocation list";
const ORGANIZATION: &str = "organization";

const FETCH_CRL: &str = "run fetch-crl periodically, and check that it succeeds";

pub(super) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    let config = &subject.settings.config;
    let directory = &config.tls.trust.ca_dir;
    let is_needed = config.security.methods.contains(&SecurityProtocol::Gsi);
    if !is_needed && !directory.is_dir() {
        return;
    }
    let authorities = match Authorities::read(directory) {
        Ok(authorities) => authorities,
        Err(error) => {
            let level = if is_needed { Level::Fail } else { Level::Warn };
            let advice = "install the CA certificates of your grid, with hashed names (openssl rehash)";
            return findings.add(level, AUTHORITY, directory.display(), error, advice);
        }
    };
    for fault in &authorities.faults {
        findings.warn(AUTHORITY, fault.path.display(), &fault.reason, "it is ignored: replace or remove it");
    }
    let files = list(directory).unwrap_or_default();
    let certificates: Vec<_> = files.iter().filter(|file| is_numbered(file, "")).collect();
    for file in &certificates {
        check_authority(file, subject, findings);
    }
    check_lists(directory, &files, certificates.len(), subject, findings);
    let count = authorities.anchors.authorities().count();
    findings.ok(AUTHORITY, directory.display(), format!("{count} authorities"));
}

/// Whether a file name ends in `.`, `letter` and a number.
fn is_numbered(file: &Path, letter: &str) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let number = extension.strip_prefix(letter).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn check_authority(file: &Path, subject: &Subject<'_>, findings: &mut Findings) {
    let mut anchors = TrustAnchors::default();
    // Unreadable files are reported above.
    let Some(Ok(count)) = read(file).ok().map(|pem| anchors.add_authorities(&pem)) else { return };
    if count == 0 {
        findings.warn(AUTHORITY, file.display(), "contains no PEM certificate", "replace or remove it");
    }
    for authority in anchors.authorities() {
        if authority.valid_until() < subject.now {
            let found = format!("{} expired at {} UTC", authority.subject(), text::utc(authority.valid_until().0));
            findings.warn(AUTHORITY, file.display(), found, "update the CA package of your grid");
        }
        let hash = format!("{:08x}", authority.x509.subject_name_hash());
        if file.file_stem().is_none_or(|stem| stem != hash.as_str()) {
            let found = format!("{} must be named {hash}.0: TLS does not find it", authority.subject());
            findings.warn(AUTHORITY, file.display(), found, "run openssl rehash on the directory");
        }
    }
    let policies = subject.settings.config.security.trust.signing_policies;
    if policies == Use::Require && !file.with_extension("signing_policy").exists() {
        let advice = "its certificates are refused: install its signing policy, or set authentication.signing_policy = \"if-present\"";
        findings.fail(AUTHORITY, file.display(), "has no signing policy", advice);
    }
}

fn check_lists(
    directory: &Path,
    files: &[PathBuf],
    authorities: usize,
    subject: &Subject<'_>,
    findings: &mut Findings,
) {
    let rule = subject.settings.config.security.trust.crls;
    let bad = match rule {
        Use::Ignore => return,
        Use::IfPresent => Level::Warn,
        Use::Require => Level::Fail,
    };
    let lists: Vec<_> = files.iter().filter(|file| is_numbered(file, "r")).collect();
    let mut current = 0;
    for file in &lists {
        let added = read(file).ok().map(|bytes| TrustAnchors::default().add_crl(&bytes));
        let Some(Ok(list)) = added else { continue };
        match list.next_at.filter(|next_at| *next_at < subject.now) {
            Some(next_at) => {
                let found = format!("should have been replaced by {} UTC", text::utc(next_at.0));
                findings.add(bad, CRL, file.display(), found, FETCH_CRL);
            }
            None => current += 1,
        }
    }
    if lists.len() < authorities {
        let found = format!("{} of {authorities} authorities have no revocation list", authorities - lists.len());
        findings.add(bad, CRL, directory.display(), found, FETCH_CRL);
    } else if current == lists.len() {
        findings.ok(CRL, directory.display(), format!("{current} current lists"));
    }
}

pub(super) fn check_organizations(subject: &Subject<'_>, findings: &mut Findings) {
    let security = &subject.settings.config.security;
    if !security.methods.contains(&SecurityProtocol::Gsi) || security.voms == VomsUse::Ignore {
        return;
    }
    let directory = &security.voms_dir;
    let found = match Organizations::read(directory) {
        Ok(found) => found,
        Err(error) => {
            return findings.fail(ORGANIZATION, directory.display(), error, "make it readable for the server's user");
        }
    };
    for fault in &found.faults {
        let advice = "write the server's name and its issuers, one per line, as published by the organization";
        findings.warn(ORGANIZATION, fault.path.display(), &fault.reason, advice);
    }
    let names: Vec<_> = found.dir.organizations().collect();
    if names.is_empty() {
        let level = if security.voms == VomsUse::Require { Level::Fail } else { Level::Warn };
        let advice = "no client gets attributes: install VO/HOST.lsc of your organizations, or set authentication.voms = \"ignore\"";
        findings.add(level, ORGANIZATION, directory.display(), "contains no organization", advice);
    } else {
        findings.ok(ORGANIZATION, directory.display(), names.join(", "));
    }
}
