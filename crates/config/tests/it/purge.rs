//! Bounds of the cache: what is understood, and which contradictions are refused.

use forebay_cache::{Expiry, Mark, PathPattern, Policy};
use forebay_config::{Config, Settings};
use std::{path::Path, time::Duration};

fn parse(text: &str) -> Result<Config, String> {
    let text = format!("store.path = \"/s\"\nexport = [{{ origins = [\"root://o\"] }}]\n{text}");
    Settings::parse(Path::new("f.toml"), text).map(|settings| settings.config).map_err(|error| error.to_string())
}

#[test]
fn bounds_are_read() {
    let config = parse(
        "[purge]
policy = \"gdsf\"
budget = \"2GiB\"
high = \"92.5%\"
low = \"1GiB\"
budget_inodes = 1000
inodes_high = \"900\"
inodes_low = \"50%\"
free_min = \"1%\"
age_max = \"1h\"
interval = \"250ms\"
[[quota]]
path = \"/a\"
min = \"1MiB\"
[[quota]]
path = \"/a/b\"
max = \"2MiB\"
[[expiry]]
path = \"/store/user/**\"
vo = \"cms\"
unused = \"30d\"
[[expiry]]
unused = \"never\"
",
    );
    let purge = config.unwrap().engine.purge;
    let rules = &purge.rules;
    assert_eq!((rules.policy, purge.interval), (Policy::Gdsf, Duration::from_millis(250)));
    assert_eq!((rules.bytes.total, rules.inodes.total), (Some(2 << 30), Some(1000)));
    assert_eq!(rules.bytes.marks.high.of(1000), 925);
    assert_eq!(rules.bytes.marks.low, Mark::Amount(1 << 30));
    assert_eq!((rules.inodes.marks.high.of(1000), rules.inodes.marks.low.of(1000)), (900, 500));
    assert_eq!(rules.free_min.map(|mark| mark.of(1000)), Some(10));
    assert_eq!(rules.age_max, Some(Duration::from_secs(3600)));
    let quotas: Vec<_> =
        rules.quotas.iter().map(|quota| (quota.path.as_str(), quota.min_bytes, quota.max_bytes)).collect();
    assert_eq!(quotas, [("/a", 1 << 20, None), ("/a/b", 0, Some(2 << 20))]);
    let path = Some(PathPattern::parse("/store/user/**").unwrap());
    let of_users = Expiry { path, vo: Some("cms".to_owned()), unused: Some(Duration::from_secs(30 * 86_400)) };
    assert_eq!(rules.expiries, [of_users, Expiry::default()]);
}

#[test]
fn wrong_bounds_are_refused() {
    for (text, needle) in [
        ("purge.policy = \"fifo\"", "write \"lru\", \"s3-fifo\" or \"gdsf\""),
        ("purge.budget = \"0\"", "write 1 or more"),
        ("purge.budget = \"90%\"", "is not a size"),
        ("purge.high = \"101%\"", "is not a percentage"),
        ("purge.high = \"80%\"", "purge.low is above purge.high"),
        ("purge.inodes_high = \"1KiB\"", "neither a percentage nor a number"),
        ("purge = { inodes_high = \"10\", inodes_low = \"11\" }", "purge.inodes_low is above purge.inodes_high"),
        ("purge = { budget = \"1GiB\", low = \"1GiB\" }", "purge.low is above purge.high"),
        ("purge.interval = \"1ms\"", "write 100ms to 1h"),
        ("quota = [{ max = \"1GiB\" }]", "a quota without a path"),
        ("quota = [{ path = \"/a\" }]", "a quota without a limit"),
        ("quota = [{ path = \"/a\", min = \"2\", max = \"1\" }]", "less than the min"),
        ("quota = [{ path = \"/a\", max = \"1\" }, { path = \"/a\", max = \"1\" }]", "a second quota of /a"),
        ("purge.budget = \"1GiB\"\nquota = [{ path = \"/a\", min = \"1GiB\" }]", "the quotas guarantee 1GiB"),
        ("expiry = [{ path = \"/a/**\" }]", "an expiry without a time"),
        ("expiry = [{ path = \"a\", unused = \"1d\" }]", "matches no path"),
        ("expiry = [{ unused = \"999ms\" }]", "write 1s or more"),
        ("expiry = [{ vo = \"/cms\", unused = \"1s\" }]", "is not an organization"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(needle), "{text}: {error}");
    }
}

#[test]
fn rules_on_expiry_are_limited_in_number() {
    let many = |count| format!("expiry = [{}]", vec!["{ unused = \"1s\" }"; count].join(", "));
    assert_eq!(parse(&many(250)).unwrap().engine.purge.rules.expiries.len(), 250);
    assert!(parse(&many(251)).unwrap_err().contains("251 tables [[expiry]]: write 250 at most"));
}
