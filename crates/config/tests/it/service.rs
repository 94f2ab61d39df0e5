//! Service of exports and of forwarding.

use forebay_cache::FillPolicy;
use forebay_config::{ConfigError, Settings};
use forebay_engine::{Miss, Service};
use std::path::Path;

fn parse(text: &str) -> Result<Settings, ConfigError> {
    let whole = format!("store.path = \"/s\"\n[[export]]\norigins = [\"root://o\"]\n{text}");
    Settings::parse(Path::new("test.toml"), whole)
}

#[test]
fn exports_and_forwarding_configure_their_service() {
    assert_eq!(parse("").unwrap().config.exports[0].service, Service::default());
    let text = "direct = \"complete\"\nfill = \"while-open\"\n[forwarding]\nmiss = \"redirect\"";
    let config = parse(text).unwrap().config;
    assert_eq!(
        config.exports[0].service,
        Service { direct: true, miss: Miss::Proxy, fill: Some(FillPolicy::WhileOpen) }
    );
    assert_eq!(config.decisions.forwarding_service, Service { miss: Miss::Redirect, ..Service::default() });
}

#[test]
fn wrong_values_are_refused() {
    for (text, problem) in [
        ("direct = \"always\"", "write \"never\""),
        ("fill = \"sometimes\"", "is not a fill policy"),
        ("miss = \"wait\"", "write \"proxy\""),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("test.toml:"), "{text}: {error}");
    }
}
