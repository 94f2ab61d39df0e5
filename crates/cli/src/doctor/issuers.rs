//! Token issuers, and the clock compared with theirs.

use super::{Patient, finding::Findings};
use forebay_auth::KeySet;
use forebay_trust::{FetchError, FetchedKeys, IssuerClient, IssuerDiscovery, read};

const CHECK: &str = "issuer";

/// Seconds between two clocks that nobody need look at, and those beyond which tokens are refused whatever their issuer's leeway.
const CLOCKS_APART_S: i64 = 10;
const CLOCKS_APART_MAX_S: i64 = 300;

/// Keys that are in files.
pub(super) fn check_files(patient: &Patient<'_>, findings: &mut Findings) {
    for (url, path) in &patient.settings.config.security.key_files {
        let parsed = read(path).map_err(|error| error.to_string());
        let parsed = parsed.and_then(|bytes| KeySet::parse(&bytes).map_err(|error| error.to_string()));
        match parsed {
            Ok(keys) => findings.ok(CHECK, url, format!("{} keys in {}", keys.len(), path.display())),
            Err(error) => {
                let advice = format!(
                    "its tokens are refused: mend {}, or leave issuer.keys out to have them fetched",
                    path.display()
                );
                findings.fail(CHECK, url, error, advice);
            }
        }
    }
}

/// Keys that are fetched.
pub(super) async fn check_network(patient: &Patient<'_>, findings: &mut Findings) {
    for discovery in &patient.settings.config.security.discoveries {
        match fetch(discovery).await {
            Ok(fetched) => {
                findings.ok(CHECK, &discovery.url, format!("{} keys fetched", fetched.keys.len()));
                if let Some(issuer_time) = fetched.issuer_time {
                    check_clock(&discovery.url, issuer_time.saturating_sub(patient.now.0), findings);
                }
            }
            Err(error) => {
                let advice = "its tokens are refused once the keys in use are too old: is the issuer up, and can this machine reach it?";
                findings.fail(CHECK, &discovery.url, error, advice);
            }
        }
    }
}

async fn fetch(discovery: &IssuerDiscovery) -> Result<FetchedKeys, FetchError> {
    let unusable = |source| FetchError::Tls { url: discovery.url.clone(), source };
    IssuerClient::new(discovery).map_err(unusable)?.fetch().await
}

/// Judges this machine's clock, which a clock elsewhere is `ahead_s` ahead of.
fn check_clock(place: &str, ahead_s: i64, findings: &mut Findings) {
    let found = format!("its clock is {ahead_s} s ahead of this machine's");
    let advice = "is time synchronised here (timedatectl)?";
    let apart_s = ahead_s.saturating_abs();
    if apart_s <= CLOCKS_APART_S {
        findings.ok("clock", place, "agrees with this machine's");
    } else if apart_s <= CLOCKS_APART_MAX_S {
        findings.warn("clock", place, found, advice);
    } else {
        findings.fail("clock", place, found, advice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_be_a_little_apart() {
        for (ahead_s, status) in [(0, 0), (10, 0), (-10, 0), (11, 1), (-300, 1), (301, 2), (-301, 2), (i64::MAX, 2)] {
            let mut findings = Findings::default();
            check_clock("https://i", ahead_s, &mut findings);
            assert_eq!(findings.exit_status(), status, "{ahead_s}");
        }
    }
}
