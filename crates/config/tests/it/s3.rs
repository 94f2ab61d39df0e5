//! The S3 front and its buckets.

use forebay_config::Settings;
use forebay_http::{Bucket, S3};
use forebay_types::Lfn;
use std::path::Path;

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
fn buckets_are_directories_with_names() {
    let text = r#"[s3]
listen = ["127.0.0.1:0"]
access_keys = "/etc/forebay/s3-clients"
domain = "s3.example.org"
[[bucket]]
name = "data"
path = "/store"
"#;
    let config = parse(text).unwrap().config;
    let S3 { buckets, domain } = &config.s3.options;
    assert_eq!((config.s3.listen.len(), domain.as_deref()), (1, Some("s3.example.org")));
    assert_eq!(*buckets, [Bucket { name: "data".to_owned(), path: Lfn::parse("/store").unwrap() }]);
    assert_eq!(config.security.access_keys.as_deref(), Some("/etc/forebay/s3-clients".as_ref()));
}

#[test]
fn mistakes_are_refused_with_their_place() {
    let bucket = |name: &str| format!("[[bucket]]\nname = \"{name}\"\npath = \"/a\"\n");
    for (text, place, remedy) in [
        ("[s3]\nlisten = [\"127.0.0.1:9000\"]".to_owned(), "8:10", "write a [[bucket]]"),
        ("[s3]\nlisten = [\"9000\"]".to_owned(), "8:11", "ADDRESS:PORT"),
        ("[[bucket]]\nname = \"data\"".to_owned(), "7:1", "bucket.path is missing"),
        ("[[bucket]]\nname = \"abc\"\npath = \"a\"".to_owned(), "9:8", "path"),
        (bucket("ab"), "8:8", "3 to 63 lower-case letters"),
        (bucket("-ab"), "8:8", "begins and ends with a letter or digit"),
        (bucket("Data"), "8:8", "lower-case letters"),
        (bucket(&"a".repeat(64)), "8:8", "3 to 63"),
        (format!("{0}{0}", bucket("abc")), "11:8", "two buckets `abc`"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(&format!("forebay.toml:{place}: ")) && error.contains(remedy), "{text}: {error}");
    }
    assert!(parse(&bucket(&"a".repeat(63))).is_ok());
}
