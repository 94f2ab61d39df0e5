//! Objections to a peer's certificate, found while OpenSSL verifies it.

use super::{
    DistrustReason, TlsError,
    trust::{CrlPolicy, TrustAnchors, is_missing_list, is_outdated_list},
};
use openssl::{
    error::ErrorStack,
    ex_data::Index,
    nid::Nid,
    ssl::{Ssl, SslRef},
    x509::{X509NameRef, X509Ref, X509StoreContext, X509StoreContextRef, X509VerifyResult},
};
use std::sync::OnceLock;

/// The first objection to a peer's certificates.
#[derive(Clone, Debug)]
pub(super) struct Objection {
    result: X509VerifyResult,
    /// Subject of the certificate.
    subject: String,
    /// Hosts of the certificate.
    hosts: Vec<String>,
}

/// Slot of a session for its [`Objection`].
type Slot = OnceLock<Objection>;

/// Treatment of a peer with a rejected certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Strictness {
    Refuse,
    /// Treated as a peer without a certificate.
    Note,
}

impl Objection {
    /// Prepares a new session for an objection.
    pub(super) fn make_room(ssl: &mut SslRef) -> Result<(), ErrorStack> {
        ssl.set_ex_data(index()?, Slot::new());
        Ok(())
    }

    pub(super) fn of(ssl: &SslRef) -> Option<&Self> {
        ssl.ex_data(index().ok()?)?.get()
    }

    /// The objection as an error; `wanted` is the requested host.
    pub(super) fn to_error(&self, trust: &TrustAnchors, wanted: &str) -> TlsError {
        let ca_dir = trust.ca_dir.clone();
        let reason = match self.result.as_raw() {
            // Issuer unknown or not to be found, the last certificate sent is self-signed, or cannot be verified.
            2 | 18..=21 => DistrustReason::UnknownCa { ca_dir },
            9 => DistrustReason::NotYetValid,
            10 => DistrustReason::Expired,
            23 => DistrustReason::Revoked,
            62 | 64 => DistrustReason::OtherHost { wanted: wanted.to_owned(), hosts: self.hosts.clone() },
            _ if is_missing_list(self.result) || is_outdated_list(self.result) => {
                DistrustReason::NoRevocationList { ca_dir }
            }
            _ => DistrustReason::Other(self.result.error_string().to_owned()),
        };
        TlsError::Distrusted { subject: self.subject.clone(), reason }
    }
}

/// OpenSSL's callback for one certificate of a chain; returns whether the verification continues.
pub(super) fn judge(is_good: bool, context: &mut X509StoreContextRef, crl: CrlPolicy, strictness: Strictness) -> bool {
    if is_good {
        return true;
    }
    let found = context.error();
    if crl.overlooks(found) {
        context.set_error(X509VerifyResult::OK);
        return true;
    }
    let slot = X509StoreContext::ssl_idx().ok().and_then(|ssl| context.ex_data(ssl)?.ex_data(index().ok()?));
    let Some(slot) = slot else { return false };
    slot.get_or_init(|| Objection {
        result: found,
        subject: context.current_cert().map_or_else(String::new, |certificate| subject_of(certificate.subject_name())),
        hosts: context.current_cert().map_or_else(Vec::new, hosts_of),
    });
    strictness == Strictness::Note
}

fn index() -> Result<Index<Ssl, Slot>, ErrorStack> {
    static INDEX: OnceLock<Index<Ssl, Slot>> = OnceLock::new();
    match INDEX.get() {
        Some(index) => Ok(*index),
        None => {
            let index = Ssl::new_ex_index()?;
            Ok(*INDEX.get_or_init(|| index))
        }
    }
}

/// A printable name in the one-line format of the grid.
pub(super) fn subject_of(name: &X509NameRef) -> String {
    let mut text = String::new();
    for entry in name.entries() {
        let key = entry.object().nid().short_name().unwrap_or("?");
        let value = entry.data().to_string().unwrap_or_else(|_| "?".to_owned());
        text.extend(['/']);
        text.push_str(key);
        text.push('=');
        text.extend(value.chars().map(|c| if c.is_control() { '?' } else { c }).take(SHOWN_CHARS_MAX));
    }
    text
}

/// Most characters shown of one part of a name.
const SHOWN_CHARS_MAX: usize = 128;

/// Most host names shown of a certificate.
const SHOWN_HOSTS_MAX: usize = 8;

fn hosts_of(certificate: &X509Ref) -> Vec<String> {
    let names: Vec<String> = certificate.subject_alt_names().map_or_else(Vec::new, |names| {
        names.iter().filter_map(|name| name.dnsname()).take(SHOWN_HOSTS_MAX).map(str::to_owned).collect()
    });
    if !names.is_empty() {
        return names;
    }
    let common_name = certificate.subject_name().entries_by_nid(Nid::COMMONNAME).last();
    common_name.and_then(|name| name.data().to_string().ok()).into_iter().collect()
}
