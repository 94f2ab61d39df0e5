//! Where an issuer keeps its keys: the documents that lead there (OpenID Connect Discovery 1.0, RFC 8414).

use super::jwt::shown;
use serde::Deserialize;

/// Longest document that is read, bytes.
pub const DISCOVERY_LEN_MAX: usize = 64 << 10;

/// Longest address that is followed, bytes.
const URL_LEN_MAX: usize = 2048;

/// Why an issuer's document was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DiscoveryError {
    #[error("the issuer's configuration has {len} bytes, at most {DISCOVERY_LEN_MAX} are read")]
    TooLong { len: usize },
    #[error("the issuer's configuration is not a JSON object with `issuer` and `jwks_uri`")]
    Json,
    #[error("the issuer's configuration is of `{found}`")]
    OtherIssuer { found: String },
    #[error("the issuer keeps its keys at `{url}`: only https is trusted")]
    Url { url: String },
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    jwks_uri: String,
}

/// The addresses at which an issuer's document may be, in the order in which they are tried; none for an issuer whose name is no
/// address of http.
#[must_use]
pub fn discovery_urls(issuer: &str) -> Vec<String> {
    let Some((scheme, rest)) = issuer.split_once("://").filter(|(scheme, _)| matches!(*scheme, "https" | "http"))
    else {
        return Vec::new();
    };
    let issuer = issuer.trim_end_matches('/');
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = path.trim_end_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    vec![
        format!("{issuer}/.well-known/openid-configuration"),
        format!("{scheme}://{host}/.well-known/oauth-authorization-server{slash}{path}"),
    ]
}

/// The address of the issuer's keys, from its document.
///
/// Keys are trusted over https only; an issuer that is itself named with http, which a configuration must allow, may keep them
/// there.
///
/// # Errors
/// Says why the document was refused.
pub fn parse_discovery(json: &[u8], issuer: &str) -> Result<String, DiscoveryError> {
    if json.len() > DISCOVERY_LEN_MAX {
        return Err(DiscoveryError::TooLong { len: json.len() });
    }
    let document: Document = serde_json::from_slice(json).map_err(|_| DiscoveryError::Json)?;
    // Some issuers forget their trailing slash here; tokens are held to the exact name all the same.
    if document.issuer.trim_end_matches('/') != issuer.trim_end_matches('/') {
        return Err(DiscoveryError::OtherIssuer { found: shown(&document.issuer) });
    }
    let url = document.jwks_uri;
    let is_secure = url.starts_with("https://") || (issuer.starts_with("http://") && url.starts_with("http://"));
    if !is_secure || url.len() > URL_LEN_MAX || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(DiscoveryError::Url { url: shown(&url) });
    }
    Ok(url)
}

/// How long an answer may be kept by what its header `Cache-Control` says, seconds; 0 when it is not to be kept, `None` when it does
/// not say.
#[must_use]
pub fn max_age(cache_control: &str) -> Option<u64> {
    let directives = || cache_control.split(',').map(str::trim);
    if directives().any(|it| it.eq_ignore_ascii_case("no-store") || it.eq_ignore_ascii_case("no-cache")) {
        return Some(0);
    }
    let max_age =
        directives().filter_map(|it| it.split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("max-age"));
    max_age?.1.trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_below_the_issuer_or_before_its_path() {
        assert_eq!(
            discovery_urls("https://wlcg.cloud.cnaf.infn.it/"),
            [
                "https://wlcg.cloud.cnaf.infn.it/.well-known/openid-configuration",
                "https://wlcg.cloud.cnaf.infn.it/.well-known/oauth-authorization-server",
            ]
        );
        assert_eq!(
            discovery_urls("https://scitokens.org/cms/prod"),
            [
                "https://scitokens.org/cms/prod/.well-known/openid-configuration",
                "https://scitokens.org/.well-known/oauth-authorization-server/cms/prod",
            ]
        );
        assert!(discovery_urls("issuer").is_empty());
        assert!(discovery_urls("file:///etc").is_empty());
    }

    #[test]
    fn documents_name_the_place_of_the_keys() {
        let parse = |issuer: &str, url: &str, of: &str| {
            parse_discovery(format!(r#"{{"issuer":"{issuer}","jwks_uri":"{url}","x":1}}"#).as_bytes(), of)
        };
        assert_eq!(parse("https://i", "https://k/jwks", "https://i"), Ok("https://k/jwks".to_owned()));
        assert!(parse("https://i", "https://k/jwks", "https://i/").is_ok());
        assert!(parse("http://i", "http://k/jwks", "http://i").is_ok());
        assert!(matches!(parse("https://j", "https://k", "https://i"), Err(DiscoveryError::OtherIssuer { .. })));
        for url in ["http://k/jwks", "file:///etc/passwd", "", "https://k/ x"] {
            assert!(matches!(parse("https://i", url, "https://i"), Err(DiscoveryError::Url { .. })), "{url}");
        }
        assert_eq!(parse_discovery(b"{}", "https://i"), Err(DiscoveryError::Json));
        let long = vec![b' '; DISCOVERY_LEN_MAX + 1];
        assert_eq!(parse_discovery(&long, "https://i"), Err(DiscoveryError::TooLong { len: DISCOVERY_LEN_MAX + 1 }));
    }

    #[test]
    fn answers_tell_how_long_they_may_be_kept() {
        for (header, expected) in [
            ("", None),
            ("public", None),
            ("max-age=300", Some(300)),
            ("public, Max-Age=\"60\" , must-revalidate", Some(60)),
            ("max-age=300, no-cache", Some(0)),
            ("no-store", Some(0)),
            ("max-age=-1", None),
            ("max-age=99999999999999999999", None),
            ("s-maxage=5", None),
        ] {
            assert_eq!(max_age(header), expected, "{header}");
        }
    }
}
