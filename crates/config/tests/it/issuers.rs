//! Issuers of tokens.

use forebay_auth::TokenProfile;
use forebay_config::{ConfigError, Settings};
use forebay_trust::{IssuerAuthorities, IssuerDiscovery, SecurityOptions};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

fn parse(text: &str) -> Result<SecurityOptions, ConfigError> {
    let whole = format!("store.path = \"/s\"\nexport = [{{ origins = [\"root://o\"] }}]\n[[issuer]]\n{text}");
    Settings::parse(Path::new("test.toml"), whole).map(|settings| settings.config.security)
}

#[test]
fn keys_are_in_a_file() {
    let text = "url = \"https://i.example.org/\"\nkeys = \"/k\"\nbase_path = \"/store\"\nleeway = \"1min\"\nprofile = \"wlcg\"\n";
    let config = parse(text).unwrap();
    let (issuer, _) = config.issuers.iter().next().unwrap();
    assert_eq!((issuer.url.as_str(), issuer.leeway_seconds), ("https://i.example.org/", 60));
    assert_eq!((issuer.base_path.as_str(), issuer.profile), ("/store", Some(TokenProfile::Wlcg)));
    assert_eq!(config.key_files, [("https://i.example.org/".to_owned(), PathBuf::from("/k"))]);
    assert!(config.discoveries.is_empty());
}

#[test]
fn keys_are_fetched_if_they_are_not_in_a_file() {
    let config = parse("url = \"https://i.example.org/\"\n").unwrap();
    assert_eq!(config.discoveries, [IssuerDiscovery::new("https://i.example.org/")]);
    let config = parse("url = \"http://127.0.0.1:1\"\nplain_http = true\nca = \"/ca.pem\"\ngrace = \"4h\"\n").unwrap();
    let [discovery] = config.discoveries.as_slice() else { panic!("one issuer") };
    assert!(discovery.allows_plain_http && config.key_files.is_empty());
    assert_eq!(discovery.authorities, IssuerAuthorities::Path(PathBuf::from("/ca.pem")));
    assert_eq!(discovery.grace, Duration::from_secs(4 * 3600));
}

#[test]
fn wrong_values_are_refused_with_their_place() {
    for (text, problem) in [
        ("keys = \"/k\"", "issuer.url is missing"),
        ("url = \"http://i\"", "only https:// is allowed"),
        ("url = \"http://i\"\nplain_http = true", "only https:// is allowed"),
        ("url = \"https://i i\"", "not an issuer"),
        ("url = \"https://i\"\nleeway = \"1h\"", "write 1ms to 5min"),
        ("url = \"https://i\"\ngrace = \"8d\"", "write 1ms to 7d"),
        ("url = \"https://i\"\nkeys = \"/k\"\nca = \"/ca\"", "leave out one"),
        ("url = \"https://i\"\nkeys = \"/k\"\n[[issuer]]\nurl = \"https://i\"\nkeys = \"/k\"", "twice"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("test.toml:"), "{text}: {error}");
    }
}
