//! The dCap front.

use forebay_config::Settings;
use std::{path::Path, time::Duration};

/// Settings before those of a test: five lines.
const BEFORE: &str = r#"
[store]
path = "/var/cache/forebay"
[[export]]
path = "/store"
origins = ["root://origin.example.org"]
"#;

fn parse(text: &str) -> Result<Settings, String> {
    Settings::parse(Path::new("forebay.toml"), format!("{BEFORE}{text}")).map_err(|error| error.to_string())
}

#[test]
fn the_listener_has_its_limits() {
    let text = r#"[dcap]
listen = ["127.0.0.1:22125", "[::1]:22125"]
data_host = "cache.example.org"
data_connection_time_max = "5s"
request_time_max = "6s"
"#;
    let config = parse(text).unwrap().config.dcap;
    assert_eq!((config.listen.len(), config.options.host_name.as_deref()), (2, Some("cache.example.org")));
    assert_eq!(config.options.data_connection_time_max, Duration::from_secs(5));
    assert_eq!(config.options.request_time_max, Duration::from_secs(6));
    let unset = parse("").unwrap().config.dcap;
    assert!(unset.listen.is_empty());
    assert_eq!(unset.options.data_connection_time_max, forebay_dcap::Options::default().data_connection_time_max);
    assert_eq!(unset.options.request_time_max, forebay_dcap::Options::default().request_time_max);
}

#[test]
fn ports_that_clients_cannot_use_are_refused() {
    let listen = |port: u16| format!("[dcap]\nlisten = [\"127.0.0.1:{port}\"]");
    for (port, is_usable) in [(0, false), (1, true), (32_767, true), (32_768, false)] {
        let parsed = parse(&listen(port));
        assert_eq!(parsed.is_ok(), is_usable, "{port}");
        if let Err(error) = parsed {
            assert!(error.contains("forebay.toml:8:10: ") && error.contains("from 1 to 32767"), "{error}");
        }
    }
    let error = parse("[dcap]\nlisten = [\"22125\"]").unwrap_err();
    assert!(error.contains("forebay.toml:8:11: ") && error.contains("ADDRESS:PORT"), "{error}");
}
