//! TLS for clients and origins.

use forebay_config::{ConfigError, Settings};
use forebay_net::CrlPolicy;
use forebay_proto::TlsPolicy;
use std::path::Path;

fn settings(text: &str) -> Result<Settings, ConfigError> {
    let whole = format!("store.path = \"/s\"\n[[export]]\norigins = [\"root://o\"]\n{text}");
    Settings::parse(Path::new("forebay.toml"), whole)
}

#[test]
fn clients_get_tls_only_with_a_certificate() {
    assert_eq!(settings("").unwrap().config.tls.clients, None);
    let config = settings("[tls]\ncertificate = \"/c.pem\"\n").unwrap().config;
    let clients = config.tls.clients.unwrap();
    assert_eq!(clients.policy, TlsPolicy::Capable);
    assert_eq!(clients.files.credential.key, Path::new("/c.pem"));
    assert_eq!(config.tls.trust.crl, CrlPolicy::Try);
}

#[test]
fn settings_override_defaults() {
    let text = "[tls]\ncertificate = \"/c\"\nkey = \"/k\"\npolicy = \"data\"\nca_dir = \"/ca\"\ncrl = \"require\"\n\
                handshake_time_max = \"3s\"\n[origin]\ncertificate = \"/robot\"\n";
    let tls = settings(text).unwrap().config.tls;
    let clients = tls.clients.unwrap();
    assert_eq!((clients.policy, clients.handshake_time_max.as_secs()), (TlsPolicy::Data, 3));
    assert_eq!(clients.files.credential.key, Path::new("/k"));
    let trust = clients.files.trust.unwrap();
    assert_eq!((trust.ca_dir.as_path(), trust.crl), (Path::new("/ca"), CrlPolicy::Require));
    assert_eq!(tls.own.unwrap().key, Path::new("/robot"));
}

#[test]
fn certificates_of_clients_are_optional() {
    let text = "[tls]\ncertificate = \"/c\"\nca_dir = \"/ca\"\nclient_certificates = false\n";
    let tls = settings(text).unwrap().config.tls;
    assert_eq!(tls.clients.unwrap().files.trust, None);
    assert_eq!(tls.trust.ca_dir, Path::new("/ca"));
}

#[test]
fn mistakes_are_explained() {
    for (text, expected) in [
        ("[tls]\npolicy = \"all\"", "write tls.certificate too"),
        ("[tls]\nkey = \"/k\"", "write tls.certificate too"),
        ("[origin]\nkey = \"/k\"", "write origin.certificate too"),
        (
            "[tls]\ncertificate = \"/c\"\npolicy = \"none\"",
            "write \"capable\", \"login\", \"session\", \"data\" or \"all\"",
        ),
        ("[tls]\ncertificate = \"/c\"\ncrl = \"x\"", "write \"ignore\", \"try\" or \"require\""),
        ("[tls]\ncertificate = \"/c\"\nciphers = \"\"", "openssl ciphers"),
    ] {
        let error = settings(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
