//! Whether a server's certificate is that of the host one wanted to reach.

use crate::x509::certificate::Certificate;
use crate::x509::name;
use std::net::IpAddr;

/// Why a certificate is not the host's.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the certificate of {subject} is not that of the host {host}; it is for {}", .names.join(", "))]
pub struct HostError {
    /// Whom one wanted to reach.
    pub host: String,
    /// Whose certificate it is.
    pub subject: String,
    /// The hosts that it is for.
    pub names: Vec<String>,
}

/// Checks that the certificate is for `host`: a host name, or an address without brackets.
///
/// The alternative names decide, if there are any: DNS names, `*` standing for one whole first label of three or more; for an
/// address the IP addresses. Only a certificate without alternative names may name the host in its last common name, by itself
/// or after `service/`.
///
/// # Errors
/// When it is not.
pub fn check_host(certificate: &Certificate, host: &str) -> Result<(), HostError> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let address = host.parse::<IpAddr>().ok();
    let mut names = Vec::new();
    let mut is_host = false;
    match certificate.x509.subject_alt_names() {
        Some(alternatives) => {
            for alternative in &alternatives {
                if let Some(name) = alternative.dnsname() {
                    is_host |= address.is_none() && is_name_of(name, host);
                    names.push(name.to_owned());
                } else if let Some(bytes) = alternative.ipaddress().and_then(address_of) {
                    is_host |= address == Some(bytes);
                    names.push(bytes.to_string());
                }
            }
        }
        None => {
            if let Some(name) =
                name::last_common_name(certificate.subject_name()).and_then(|name| std::str::from_utf8(name).ok())
            {
                let name = name.split_once('/').map_or(name, |(_, name)| name);
                is_host = is_name_of(name, host);
                names.push(name.to_owned());
            }
        }
    }
    if is_host {
        return Ok(());
    }
    if names.is_empty() {
        names.push("no host".to_owned());
    }
    Err(HostError { host: host.to_owned(), subject: certificate.subject().to_owned(), names })
}

/// Whether the name in a certificate, perhaps with a wildcard, is the host's.
fn is_name_of(name: &str, host: &str) -> bool {
    if name.is_empty() || name.contains('\0') {
        return false;
    }
    match name.strip_prefix("*.") {
        None => !name.contains('*') && name.eq_ignore_ascii_case(host),
        Some(domain) => host.split_once('.').is_some_and(|(label, rest)| {
            !label.is_empty() && !domain.contains('*') && domain.contains('.') && domain.eq_ignore_ascii_case(rest)
        }),
    }
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_one_whole_label() {
        for (name, host, is_match) in [
            ("a.site.org", "a.site.org", true),
            ("A.Site.org", "a.site.ORG", true),
            ("a.site.org", "b.site.org", false),
            ("*.site.org", "a.site.org", true),
            ("*.site.org", "a.b.site.org", false),
            ("*.site.org", "site.org", false),
            ("*.site.org", ".site.org", false),
            ("*.org", "site.org", false),
            ("a*.site.org", "ab.site.org", false),
            ("*.*.org", "a.b.org", false),
            ("*", "a", false),
            ("", "", false),
            ("a.site.org\0.evil.org", "a.site.org", false),
        ] {
            assert_eq!(is_name_of(name, host), is_match, "{name} {host}");
        }
    }
}
