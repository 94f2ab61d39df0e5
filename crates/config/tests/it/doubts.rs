//! Valid settings that are probably not what the administrator wants.

use forebay_config::Settings;
use std::{net::IpAddr, path::Path};

fn doubts(text: &str, own: &[&str]) -> Vec<String> {
    let whole = format!("store.path = \"/s\"\nexport = [{{ path = \"/atlas\", origins = [\"root://o\"] }}]\n{text}");
    let settings = Settings::parse(Path::new("test.toml"), whole).expect("settings without mistakes");
    let own: Vec<IpAddr> = own.iter().map(|address| address.parse().expect("an address")).collect();
    settings.doubts(&own).iter().map(ToString::to_string).collect()
}

#[test]
fn a_public_address_without_authentication_is_named() {
    for (listen, own, is_public) in [
        ("127.0.0.1:1094", &["192.0.2.7"][..], false),
        ("192.0.2.7:1094", &[], true),
        ("10.1.2.3:1094", &[], false),
        ("172.31.0.1:1094", &[], false),
        ("172.32.0.1:1094", &[], true),
        ("100.64.0.1:1094", &[], false),
        ("169.254.0.1:1094", &[], false),
        ("0.0.0.0:1094", &["10.1.2.3"], false),
        ("0.0.0.0:1094", &["10.1.2.3", "192.0.2.7"], true),
        ("0.0.0.0:1094", &["2001:db8::1"], false),
        ("[::]:1094", &["192.0.2.7"], true),
        ("[::]:1094", &["2001:db8::1"], true),
        ("[::ffff:10.0.0.1]:1094", &[], false),
        ("[fd00::1]:1094", &[], false),
        ("[2001:db8::1]:1094", &[], true),
    ] {
        let server = format!("[server]\nlisten = [\"{listen}\"]\n");
        let found = doubts(&server, own);
        assert_eq!(found.iter().any(|doubt| doubt.contains("is a public address")), is_public, "{listen}: {found:?}");
        assert_eq!(found.len(), usize::from(is_public), "{found:?}");
        let for_hosts = format!("{server}[[grant]]\npath = \"/\"\nrights = [\"read\"]\nhost = \"192.0.2.*\"\n");
        assert_eq!(doubts(&for_hosts, own), [""; 0]);
        let for_all = format!("{server}[[grant]]\npath = \"/\"\nrights = [\"read\"]\n");
        assert_eq!(doubts(&for_all, own).len(), usize::from(is_public), "{listen}");
    }
}

const TOKENS: &str = "server.listen = [\"127.0.0.1:1094\"]\nissuer = [{ url = \"https://i.example\" }]\n";
const TLS: &str = "tls = { certificate = \"/c\", key = \"/k\" }\n";
const READ: &str = "[[grant]]\npath = \"/\"\nrights = [\"read\"]\n";

#[test]
fn issuers_that_no_login_or_grant_uses_are_named() {
    let ztn = "authentication.methods = [\"ztn\"]\n";
    for (text, expected) in [
        (format!("{TOKENS}{TLS}"), "test.toml:4:19: tokens of this issuer are not examined"),
        (format!("{TOKENS}{TLS}{READ}"), "add \"ztn\" to authentication.methods"),
        (format!("{TOKENS}{TLS}{ztn}{READ}methods = [\"none\"]"), "no [[grant]] applies to clients with a token"),
        (format!("{TOKENS}{TLS}{ztn}{READ}"), ""),
        (format!("{TOKENS}{ztn}{READ}"), "\"ztn\" needs TLS, and clients are not offered any"),
    ] {
        let found = doubts(&text, &[]);
        assert_eq!(found.len(), usize::from(!expected.is_empty()), "{text}: {found:?}");
        assert!(found.iter().all(|doubt| doubt.contains(expected)), "{text}: {found:?}");
    }
    let local = doubts(
        &format!("{TOKENS}authentication = {{ methods = [\"ztn\"], plain_tokens = \"loopback\" }}\n{READ}"),
        &[],
    );
    assert!(matches!(&local[..], [doubt] if doubt.contains("other than those of this machine")), "{local:?}");
}

#[test]
fn grants_that_never_match_are_named() {
    let start = format!("{TOKENS}{TLS}authentication.methods = [\"ztn\"]\n");
    let unproven = "server.listen = [\"127.0.0.1:1094\"]\nauthentication.methods = [\"unix\"]\n";
    for (text, expected) in [
        (format!("{start}{READ}{READ}"), "table 1 of [[grant]] has the same path"),
        (format!("{start}{READ}host = \"10.*\"\n{READ}"), ""),
        (format!("{start}{READ}{READ}host = \"10.*\""), "table 1 of [[grant]] has the same path"),
        (format!("{start}{READ}{READ}methods = [\"gsi\"]"), "in one of its `methods`"),
        (
            format!("{start}{READ}[[grant]]\npath = \"/atlas/x\"\nrights = []\nissuer = \"https://j.*\""),
            "no [[issuer]] is its `issuer`",
        ),
        (format!("{start}{READ}[[grant]]\npath = \"/cms\"\nrights = []"), "no [[export]] has files there"),
        (format!("{start}{READ}[[grant]]\npath = \"/at{{vo}}/x\"\nrights = []"), ""),
        (format!("{unproven}{READ}vo = \"atlas\""), "needs a proof of who the client is"),
        (format!("{unproven}{READ}user = \"ann\"\nmethods = [\"unix\"]"), ""),
        (format!("{unproven}{READ}scopes = \"grant\""), "for clients with a token, which none has"),
    ] {
        let found = doubts(&text, &[]);
        assert_eq!(found.len(), usize::from(!expected.is_empty()), "{text}: {found:?}");
        assert!(found.iter().all(|doubt| doubt.contains(expected)), "{text}: {found:?}");
    }
}
