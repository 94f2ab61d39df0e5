//! `pss.*`.

use crate::translated::{settings, translated, translated_whole};
use forebay_adopt::Fate;

#[test]
fn origins_are_named_in_many_ways() {
    for (text, origins) in [
        ("Host.Example", r#"origins = ["root://host.example:1094"]"#),
        ("host.example:1095", r#"origins = ["root://host.example:1095"]"#),
        ("host.example+:1095", r#"origins = ["root://host.example:1095"]"#),
        ("host.example 1095", r#"origins = ["root://host.example:1095"]"#),
        ("xroot://host.example:1095/", r#"origins = ["root://host.example:1095"]"#),
        ("[2001:db8::1]:1095", r#"origins = ["root://[2001:db8::1]:1095"]"#),
        ("https://host.example", r#"origins = ["https://host.example:443"]"#),
        ("davs://host.example:8443/base", r#"origins = ["https://host.example:8443/base"]"#),
        ("http://host.example/", r#"origins = ["http://host.example:80"]"#),
        ("pelican://osg-htc.org/", r#"origins = ["pelican://osg-htc.org:443"]"#),
        ("/local/files", r#"directory = "/local/files""#),
    ] {
        let translation = translated(&format!("pss.origin {text}"));
        assert!(settings(&translation).contains(&origins), "{text}: {translation:?}");
    }
}

#[test]
fn unsupported_origins_are_refused() {
    for text in ["roots://host.example", "s3://bucket"] {
        let translation = translated(&format!("pss.origin {text}"));
        assert_eq!((translation.file, translation.refusals.len()), (None, 1), "{text}");
    }
    for text in ["", "host:port:1", ":1094"] {
        let translation = translated_whole(&format!("pss.cachelib default\noss.localroot /c\npss.origin {text}"));
        assert_eq!(translation.notes[2].fate, Fate::NotHonoured, "{text}");
        assert_eq!(translation.refusals.len(), 1);
    }
}

#[test]
fn forwarding_allows_permitted_hosts() {
    let translation = translated("pss.origin =");
    assert!(settings(&translation).contains(&r#"allow = ["*:*"]"#));
    assert!(!settings(&translation).contains(&"[[export]]"));
    let translation = translated("pss.origin = origin.example\npss.permit / *.a\npss.permit b\npss.permit * c");
    assert!(settings(&translation).contains(&r#"allow = ["*.a:*", "b:*"]"#));
    assert!(settings(&translation).contains(&"[[export]]"));
    let translation = translated("pss.origin =https,root,gsiftp");
    assert!(settings(&translation).contains(&r#"allow = ["*:*", "https://*:*"]"#));
    let translation = translated("pss.origin =https,davs origin.example\npss.permit / *.a");
    assert!(settings(&translation).contains(&r#"allow = ["*.a:*", "https://*.a:*"]"#));
    let translation = translated("pss.origin = s3://origin.example");
    assert!(!settings(&translation).contains(&"[[export]]"));
    let translation = translated("pss.permit a");
    assert_eq!(translation.notes.last().unwrap().fate, Fate::NotNeeded);
    assert!(!settings(&translation).contains(&"[forwarding]"));
}

#[test]
fn options_of_the_client_library_are_limited() {
    for (text, setting) in [
        ("ConnectTimeout 20", r#"connect_timeout = "20s""#),
        ("RequestTimeout 0", r#"deadline = "1s""#),
        ("StreamTimeout 99999999", r#"first_byte_timeout = "366d""#),
        ("ConnectionRetry 0", "attempts = 1"),
    ] {
        let translation = translated(&format!("pss.setopt {text}"));
        assert!(settings(&translation).contains(&setting), "{text}");
    }
    let translation = translated("pss.setopt ConnectTimeout soon\npss.setopt ConnectTimeout");
    assert!(translation.notes.iter().rev().take(2).all(|note| note.fate == Fate::NotHonoured));
}
