//! Rules, validity and other decisions about opens.

use forebay_cache::{Action, Decision, FillPolicy, Subject, ValidityCheck};
use forebay_config::{ConfigError, Settings};
use std::{path::Path, time::Duration};

fn parse(text: &str) -> Result<Settings, ConfigError> {
    let whole = format!("store.path = \"/s\"\n[[export]]\norigins = [\"root://o\"]\n{text}");
    Settings::parse(Path::new("test.toml"), whole)
}

#[test]
fn an_export_configures_the_validity_of_its_copies() {
    for (text, check, stale_max) in [
        ("", ValidityCheck::Never, Some(3600)),
        ("validity = \"immutable\"", ValidityCheck::Never, Some(3600)),
        ("validity = \"each-open\"\nstale_max = \"0s\"", ValidityCheck::EachOpen, Some(0)),
        ("validity = \"10min\"\nstale_max = \"unlimited\"", ValidityCheck::Every(Duration::from_secs(600)), None),
    ] {
        let validity = parse(text).unwrap().config.exports[0].validity;
        assert_eq!((validity.check, validity.stale_max), (check, stale_max.map(Duration::from_secs)), "{text}");
    }
    let forwarding = parse("[forwarding]\nvalidity = \"1h\"\ncompare_checksum = true").unwrap().config.decisions;
    assert_eq!(forwarding.forwarding_validity.check, ValidityCheck::Every(Duration::from_secs(3600)));
    assert!(forwarding.forwarding_validity.compares_checksum);
    assert!(!forwarding.shares_rucio_files);
    assert!(parse("[forwarding]\nshare_rucio_files = true").unwrap().config.decisions.shares_rucio_files);
}

#[test]
fn rules_are_read_in_order() {
    let config = parse(
        "[[rule]]\npath = \"/store/tmp/**\"\nsize_min = \"1GiB\"\naction = \"bypass\"\n\
         [[rule]]\nuser = \"prod*\"\ncgi = [\"a=1\", \"b\"]\nblock_size = \"1MiB\"\nfill = \"to-end\"\n",
    );
    let rules = config.unwrap().config.decisions.rules;
    let subject = Subject { path: "/store/tmp/a", user: "prod1", host: "h", cgi: "a=1&b=2", size: None };
    assert_eq!(rules.decide(&subject), Decision::NeedsSize);
    let Decision::Caching(large) = rules.decide(&Subject { size: Some(1 << 30), ..subject }) else { panic!() };
    assert_eq!(large.action, Action::Bypass);
    let Decision::Caching(small) = rules.decide(&Subject { size: Some(1), ..subject }) else { panic!() };
    assert_eq!(small.block_size.map(forebay_types::BlockSize::bytes), Some(1 << 20));
    assert_eq!((small.fill, small.read_ahead), (Some(FillPolicy::ToEnd), None));
}

#[test]
fn wrong_values_are_refused_with_their_place() {
    for (text, problem) in [
        ("validity = \"often\"", "is not a validity"),
        ("stale_max = \"long\"", "unlimited"),
        ("[[rule]]\npath = \"*.root\"", "matches no path"),
        ("[[rule]]\naction = \"drop\"", "write \"cache\", \"bypass\" or \"redirect\""),
        ("[[rule]]\nsize_min = \"2k\"\nsize_max = \"1k\"", "no file matches"),
        ("[[rule]]\ncgi = [\"a&b\"]", "is not a pair"),
        ("[[rule]]\nuser = \"\"", "1 to 300 bytes"),
        ("[[rule]]\naction = \"bypass\"\nblock_size = \"1MiB\"", "only files that are cached"),
        ("[[rule]]\nfill = \"later\"", "is not a fill policy"),
        ("[[rule]]\ncomplete_after = 0", "from 1 to 100"),
        ("[decision]\ncached_fraction_min = 1.5", "from 0.0 to 1.0"),
        ("[decision]\nnegative_time = \"soon\"", "is not a duration"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("test.toml:"), "{text}: {error}");
    }
    assert_eq!(parse("[decision]\nnegative_time = \"0s\"").unwrap().config.decisions.negative_time, Duration::ZERO);
}
