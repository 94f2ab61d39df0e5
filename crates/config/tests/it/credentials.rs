//! Credentials for origins.

use forebay_config::{ConfigError, Settings};
use forebay_trust::{CredentialOptions, OriginProof};
use std::path::{Path, PathBuf};

fn parse(text: &str) -> Result<CredentialOptions, ConfigError> {
    let whole = format!("store.path = \"/s\"\nexport = [{{ origins = [\"root://o\"] }}]\n{text}");
    Settings::parse(Path::new("test.toml"), whole).map(|settings| settings.config.credentials)
}

#[test]
fn each_method_has_its_files() {
    let options = parse(
        "[[credential]]\nhosts = [\"a.org\"]\nmethod = \"proxy\"\nweak_groups = true\n\
         [[credential]]\nhosts = [\"b.org\"]\nmethod = \"certificate\"\ncertificate = \"/c\"\nkey = \"/k\"\n\
         [[credential]]\nhosts = [\"c.org\"]\nmethod = \"token\"\ntoken = \"/t\"\nplain_tokens = \"loopback\"\n\
         [[credential]]\nhosts = [\"d.org\"]\nmethod = \"secret\"\nkeytab = \"/s\"\nuser = \"xrd\"\n\
         [[credential]]\nhosts = [\"e.org\"]\nmethod = \"s3\"\naccess_keys = \"/a\"\nprofile = \"p\"\nregion = \"r\"\n\
         [[credential]]\nhosts = [\"*\"]\nmethod = \"client\"\n",
    )
    .unwrap();
    let proofs: Vec<_> = options.rules.iter().map(|rule| rule.proof.clone()).collect();
    let path = |text: &str| PathBuf::from(text);
    let expected = [
        OriginProof::Proxy(None),
        OriginProof::Certificate { certificate: path("/c"), key: path("/k") },
        OriginProof::Token(Some(path("/t"))),
        OriginProof::Secret { keytab: path("/s"), key: None },
        OriginProof::AccessKey { file: Some(path("/a")), profile: Some("p".to_owned()), region: Some("r".to_owned()) },
        OriginProof::OfClient,
    ];
    assert_eq!(proofs, expected);
    let [first, _, third, fourth, _, last] = &options.rules[..] else { panic!() };
    assert!(first.allows_weak_groups && !last.allows_weak_groups && third.allows_plain_tokens);
    assert_eq!((fourth.user.as_str(), last.user.as_str()), ("xrd", "forebay"));
}

#[test]
fn wrong_values_are_refused_with_their_place() {
    for (text, problem) in [
        ("[[credential]]\nmethod = \"none\"", "credential.hosts"),
        ("[[credential]]\nhosts = []\nmethod = \"none\"", "write 1 to"),
        ("[[credential]]\nhosts = [\"*\"]", "credential.method"),
        ("[[credential]]\nhosts = [\"*\"]\nmethod = \"krb5\"", "write \"proxy\", \"certificate\""),
        ("[[credential]]\nhosts = [\"*\"]\nmethod = \"certificate\"\nkey = \"/k\"", "credential.certificate"),
        ("[[credential]]\nhosts = [\"*\"]\nmethod = \"secret\"", "credential.keytab"),
        (
            "[[credential]]\nhosts = [\"a\"]\nmethod = \"client\"\nweak_groups = true\n\
             [[credential]]\nhosts = [\"*\"]\nmethod = \"client\"",
            "must agree on weak_groups",
        ),
        ("[[credential]]\nhosts = [\"*\"]\nmethod = \"proxy\"\ntoken = \"/t\"", "method = \"token\" only"),
        ("[[credential]]\nhosts = [\"*\"]\nmethod = \"token\"\nregion = \"r\"", "method = \"s3\" only"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("test.toml:"), "{text}: {error}");
    }
}
