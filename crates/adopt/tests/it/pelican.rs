//! Settings of caches of Pelican.

use crate::{sandbox::Sandbox, translated::settings};
use forebay_adopt::{Fate, Instance, Translation, read_pelican, translate};

const CACHE: &str = "\
Federation:
  DiscoveryUrl: https://osg-htc.org
Cache:
  Port: 8443
  StorageLocation: /data/cache/
  HighWaterMark: 90
  LowWatermark: 80
  BlocksToPrefetch: 5
";

fn adopted(text: &str) -> Translation {
    let machine = Sandbox::default().with("pelican.yaml", text);
    let instance = Instance { host: "c.site.org".into(), name: "anon".into(), program: "pelican".into() };
    translate(&read_pelican("pelican.yaml", &machine).unwrap(), &instance, "pelican.yaml", &machine)
}

#[test]
fn a_cache_of_a_federation_stays_one() {
    let translation = adopted(&format!("{CACHE}Server:\n  TLSCertificateChain: /h.pem\n  TLSKey: /h.key\n"));
    assert!(translation.notes.iter().all(|note| note.fate == Fate::Honoured), "{:?}", translation.notes);
    assert_eq!(translation.store.as_deref(), Some("/data/cache/namespace"));
    let all = settings(&translation);
    for setting in [
        r#"path = "/""#,
        r#"origins = ["pelican://osg-htc.org:443"]"#,
        "origin_check = true",
        r#"path = "/data/cache/namespace""#,
        "shared = true",
        r#"certificate = "/h.pem""#,
        r#"key = "/h.key""#,
    ] {
        assert!(all.contains(&setting), "{setting}: {all:#?}");
    }
    assert!(all.iter().any(|line| line.starts_with("listen = ") && line.contains(":8443")), "{all:#?}");
    assert!(all.iter().any(|line| line.contains(r#""80%""#)) && all.iter().any(|line| line.contains(r#""90%""#)));
}

#[test]
fn namespaces_are_exports_and_keys_are_read_in_any_case() {
    let text = "cache:\n  storagelocation: /c\n  namespaceLocation: /n\n  permittedNamespaces: [/a, /b/]\nfederation.discoveryurl: h:8444\n";
    let translation = adopted(text);
    assert_eq!(translation.store.as_deref(), Some("/n"));
    let all = settings(&translation);
    let exports = all.iter().filter(|line| **line == r#"origins = ["pelican://h:8444"]"#).count();
    assert!(exports == 2 && all.contains(&r#"path = "/a""#) && all.contains(&r#"path = "/b""#), "{all:#?}");
}

#[test]
fn each_setting_has_a_fate() {
    for (text, fate) in [
        ("Cache.Concurrency: 4", Fate::NotHonoured),
        ("Cache.DataLocations: [/d]", Fate::NotHonoured),
        ("Cache.FilesBaseSize: 1g", Fate::NotNeeded),
        ("Cache.PermittedNamespaces: [a]", Fate::NotHonoured),
        ("Federation.DirectorUrl: https://d", Fate::NotNeeded),
        ("Server.TLSCACertificateFile: /ca.pem", Fate::NotHonoured),
        ("Server.TLSCACertificateDirectory: /ca", Fate::Honoured),
        ("Server.Hostname: c", Fate::NotNeeded),
        ("Logging.Level: debug", Fate::NotNeeded),
        ("Monitoring.MetricAuthorization: false", Fate::NotHonoured),
        ("IssuerKey: /k", Fate::NotHonoured),
        ("Origin.Port: 8444", Fate::NotNeeded),
        ("Unheard.Of: 1", Fate::Unknown),
    ] {
        let translation = adopted(&format!("{CACHE}{text}\n"));
        let note = translation.notes.last().unwrap();
        assert_eq!(note.fate, fate, "{note:?}");
        assert!(fate == Fate::Honoured || !note.text.is_empty(), "{note:?}");
    }
    let translation = adopted("Cache:\n  LowWatermark: 90\n  HighWaterMark: 80\n");
    assert_eq!(translation.notes[0].fate, Fate::NotHonoured);
    assert_eq!(translation.refusals.len(), 2, "no directory, no federation: {:?}", translation.refusals);
    assert!(adopted("Logging.Level: debug\n").refusals.concat().contains("no disk cache"));
}
