//! Token issuers, and the difference of their clocks.

use super::finding::{Findings, Subject};
use forebay_auth::KeySet;
use forebay_trust::{FetchError, FetchedKeys, IssuerClient, IssuerDiscovery, read};

const CHECK: &str = "issuer";

/// Clock difference in seconds above which there is a warning, and above which tokens are refused regardless of the leeway.
const CLOCKS_APART_S: i64 = 10;
const CLOCKS_APART_MAX_S: i64 = 300;

/// Keys in files.
pub(super) fn check_files(subject: &Subject<'_>, findings: &mut Findings) {
    for (url, path) in &subject.settings.config.security.key_files {
        let parsed = read(path).map_err(|error| error.to_string());
        let parsed = parsed.and_then(|bytes| KeySet::parse(&bytes).map_err(|error| error.to_string()));
        match parsed {
            Ok(keys) => findings.ok(CHECK, url, format!("{} keys in {}", keys.len(), path.display())),
            Err(error) => {
                let advice =
                    format!("its tokens are refused: fix {}, or remove issuer.keys to fetch the keys", path.display());
                findings.fail(CHECK, url, error, advice);
            }
        }
    }
}

/// Fetched keys.
pub(super) async fn check_network(subject: &Subject<'_>, findings: &mut Findings) {
    for discovery in &subject.settings.config.security.discoveries {
        match fetch(discovery).await {
            Ok(fetched) => {
                findings.ok(CHECK, &discovery.url, format!("{} keys fetched", fetched.keys.len()));
                if let Some(issuer_time) = fetched.issuer_time {
                    check_clock(&discovery.url, issuer_time.saturating_sub(subject.now.0), findings);
                }
            }
            Err(error) => {
                let advice = "its tokens are refused when the cached keys expire: check that the issuer is up and reachable from this machine";
                findings.fail(CHECK, &discovery.url, error, advice);
            }
        }
    }
}

async fn fetch(discovery: &IssuerDiscovery) -> Result<FetchedKeys, FetchError> {
    let unusable = |source| FetchError::Tls { url: discovery.url.clone(), source };
    IssuerClient::new(discovery).map_err(unusable)?.fetch().await
}

/// Checks this machine's clock against one that is `ahead_s` ahead of it.
fn check_clock(place: &str, ahead_s: i64, findings: &mut Findings) {
    let found = format!("its clock is {ahead_s} s ahead of this machine's");
    let advice = "check the time synchronization of this machine (timedatectl)";
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
