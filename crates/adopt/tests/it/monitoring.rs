//! Collectors of monitoring.

use crate::translated::{settings, translated};
use forebay_adopt::{Fate, Translation};

/// The settings of `[monitoring]`.
fn monitoring(translation: &Translation) -> Vec<&str> {
    let lines = settings(translation);
    lines
        .into_iter()
        .skip_while(|line| *line != "[monitoring]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .collect()
}

fn fate(text: &str) -> Fate {
    translated(text).notes.last().unwrap().fate
}

#[test]
fn destinations_of_the_accounting_are_collectors() {
    let translation = translated(
        "all.sitename SITE\n\
         xrootd.monitor all auth flush 30s fstat 60 lfn ops xfr 5 ident 5m \
         dest fstat info user pfc one.example:9930 dest files io two.example:9930 dest fstat user [::1]:9993",
    );
    let expected = [
        r#"collectors = ["one.example:9930", "[::1]:9993"]"#,
        r#"site = "SITE""#,
        r#"instance = "anon""#,
        r#"flush_interval = "1min""#,
        r#"progress_interval = "5min""#,
        r#"identity_interval = "5min""#,
    ];
    assert_eq!(monitoring(&translation), expected);
    let note = translation.notes.last().unwrap();
    assert_eq!(note.fate, Fate::Honoured);
    assert!(note.text.contains("two.example:9930 gets nothing"), "{}", note.text);
}

#[test]
fn summary_reports_keep_their_receivers_and_interval() {
    let translation = translated("xrd.report a.example:9931,b.example:9931 every 30s all sync");
    let receivers = r#"summary_collectors = ["a.example:9931", "b.example:9931"]"#;
    assert_eq!(monitoring(&translation), [receivers, r#"instance = "anon""#, r#"summary_interval = "30s""#]);
    assert!(monitoring(&translated("xrd.report a.example:9931")).contains(&r#"summary_interval = "10min""#));
}

#[test]
fn streams_of_the_cache_go_to_their_collector() {
    let translation = translated("xrootd.mongstream pfc tcpmon use flush 30s maxlen 32k c.example:9993");
    assert!(monitoring(&translation).contains(&r#"collectors = ["c.example:9993"]"#));
    // The same collector once.
    let both = "xrootd.monitor all fstat 30s dest fstat user c.example:9993\nxrootd.mongstream all use c.example:9993";
    assert!(monitoring(&translated(both)).contains(&r#"collectors = ["c.example:9993"]"#));
}

#[test]
fn what_is_not_sent_is_reported() {
    for (text, expected) in [
        ("xrootd.monitor all flush 30s", Fate::NotNeeded),
        ("xrootd.monitor all dest files io a.example:9930", Fate::NotHonoured),
        ("xrootd.monitor all fstat soon dest fstat a.example:9930", Fate::NotHonoured),
        ("xrootd.monitor all fstat 60s dest fstat a.example", Fate::NotHonoured),
        ("xrootd.mongstream tpc use a.example:9930", Fate::NotHonoured),
        ("xrootd.mongstream pfc use send json dflthdr a.example:9330", Fate::NotHonoured),
        ("xrootd.mongstream pfc use flush 30s maxlen 32k", Fate::NotNeeded),
        ("xrd.report a.example every 60s all", Fate::NotHonoured),
        ("xrd.report a.example:9931 every hour all", Fate::NotHonoured),
        ("xrd.tcpmonlib lib.so", Fate::NotHonoured),
    ] {
        assert_eq!(fate(text), expected, "{text}");
        assert_eq!(monitoring(&translated(text)), [""; 0], "{text}");
    }
    let many: Vec<String> = (1..=9).map(|number| format!("xrd.report a.example:{number}")).collect();
    assert_eq!(fate(&many.join("\n")), Fate::NotHonoured);
    assert_eq!(fate(&many[1..].join("\n")), Fate::Honoured);
}
