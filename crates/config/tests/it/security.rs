//! Authentication and authorization.

use forebay_auth::{Identity, Method, Permitted, Right, SecurityProtocol, UnixTime};
use forebay_config::{ConfigError, Settings};
use forebay_trust::SecurityOptions;
use forebay_types::Lfn;
use std::path::Path;

fn parse(text: &str) -> Result<SecurityOptions, ConfigError> {
    let whole = format!("store.path = \"/s\"\nexport = [{{ origins = [\"root://o\"] }}]\n{text}");
    Settings::parse(Path::new("test.toml"), whole).map(|settings| settings.config.security)
}

#[test]
fn without_settings_all_clients_may_do_everything_without_authentication() {
    let config = parse("").unwrap();
    assert!(config.methods.is_empty() && config.grants.is_none());
}

#[test]
fn grants_give_rights_to_matching_clients() {
    let config = parse(
        "[authentication]\nmethods = [\"unix\"]\n\
         [[grant]]\npath = \"/atlas/user/{user}\"\nrights = [\"read\"]\nmethods = [\"unix\"]\n\
         [[grant]]\npath = \"/atlas/secret\"\nrights = []\n",
    )
    .unwrap();
    assert_eq!(config.methods, [SecurityProtocol::Unix]);
    let grants = config.grants.unwrap();
    let ann = Identity { user: Some("ann".to_owned()), ..Identity::of(Method::Unix, "h") };
    for (path, is_allowed) in [("/atlas/user/ann/f", true), ("/atlas/user/bob/f", false), ("/atlas/secret", false)] {
        let decision = grants.decide(&ann, &Lfn::parse(path).unwrap(), Right::Read, UnixTime(0));
        assert_eq!(decision.is_allowed, is_allowed, "{path}: {decision}");
    }
}

#[test]
fn bindings_are_read() {
    let config = parse(
        "[authentication]\nmethods = [\"ztn\"]\nplain_tokens = \"loopback\"\n\
         [[binding]]\nhost = \"10.1.*\"\nmethods = []\n\
         [[issuer]]\nurl = \"https://i.example.org/\"\n\
         [[grant]]\npath = \"/store\"\nrights = [\"read\"]\nscopes = \"grant\"\n",
    )
    .unwrap();
    assert_eq!(config.bindings.permitted("10.1.2.3", None, &config.methods, true), Permitted::All);
    assert!(config.takes_plain_tokens_on_loopback);
}

#[test]
fn wrong_values_are_refused_with_their_place() {
    for (text, problem) in [
        ("[authentication]\nmethods = [\"krb5\"]", "is not valid"),
        ("[authentication]\nmethods = [\"unix\"]", "write a [[grant]]"),
        ("[authentication]\nmethods = [\"sss\"]\n[[grant]]\npath = \"/\"\nrights = []", "needs authentication.keytab"),
        ("[authentication]\nmethods = [\"ztn\"]\n[[grant]]\npath = \"/\"\nrights = []", "needs an [[issuer]]"),
        ("[authentication]\nmethods = [\"tls\"]\n[[grant]]\npath = \"/\"\nrights = []", "tls.client_certificates"),
        ("[authentication]\nvoms = \"maybe\"", "write \"ignore\""),
        ("[[grant]]\npath = \"/a\"", "grant.rights"),
        ("[[grant]]\nrights = [\"read\"]", "grant.path"),
        ("[[grant]]\npath = \"/a/{who}\"\nrights = []", "{"),
        ("[[grant]]\npath = \"/a\"\nrights = [\"write\"]", "write \"read\", \"list\""),
        ("[[grant]]\npath = \"/a\"\nrights = []\nmethods = [\"krb5\"]", "is not valid"),
        ("[[binding]]\nmethods = []", "binding.host"),
        ("[[binding]]\nhost = \"*\"", "binding.methods"),
        ("[[binding]]\nhost = \"*.site.org\"\nmethods = []", "is not an address"),
        ("[[binding]]\nhost = \"::1\"\nmethods = [\"gsi\"]", "is not one of"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("test.toml:"), "{text}: {error}");
    }
}
