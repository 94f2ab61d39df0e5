//! The list of disks: what is understood, and what is refused where it stands.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use forebay_config::Settings;
use std::path::Path;

const EXPORT: &str = "\n[[export]]\norigins = [\"root://origin:1094\"]\n";

fn parse(disks: &str) -> Result<Settings, String> {
    Settings::parse(Path::new("forebay.toml"), format!("{disks}{EXPORT}")).map_err(|error| error.to_string())
}

#[test]
fn disks_are_read_in_their_order() {
    let disks = "[[disk]]\npath = \"/d1\"\n[[disk]]\npath = \"/d2\"\nweight = 3\nmounted = true\n";
    let read = parse(disks).unwrap().config.disks;
    let read_disks: Vec<_> = read
        .iter()
        .map(|disk| (disk.setting.as_str(), disk.path.to_str().unwrap(), disk.weight, disk.is_mounted))
        .collect();
    assert_eq!(read_disks, [("disk[0].path", "/d1", 1, false), ("disk[1].path", "/d2", 3, true)]);
    let short = parse("[store]\npath = \"/s\"\n").unwrap().config.disks;
    assert_eq!((short.len(), short[0].setting.as_str(), short[0].weight), (1, "store.path", 1));
}

#[test]
fn a_store_may_be_divided_into_parts() {
    let divided = parse("[store]\npath = \"/s\"\nparts = 64\npart_lease = \"10s\"\n").unwrap().config.parts;
    assert_eq!((divided.count, divided.lease.as_secs()), (Some(64), 10));
    let whole = parse("[store]\npath = \"/s\"\n").unwrap().config.parts;
    assert_eq!((whole.count, whole.lease.as_secs()), (None, 30));
    for (text, problem) in [
        ("[store]\npath = \"/s\"\nparts = 1\n", "from 2 to 256"),
        ("[store]\npath = \"/s\"\nparts = 257\n", "from 2 to 256"),
        ("[store]\npath = \"/s\"\nparts = 2\npart_lease = \"1s\"\n", "2s"),
        ("[store]\npath = \"/s\"\nparts = 2\n[purge]\nbudget = \"1TiB\"\n", "leave out purge.budget"),
        ("[store]\nparts = 2\n[[disk]]\npath = \"/d\"\n", "only one directory can be divided"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn contradictions_are_refused_with_their_place() {
    for (disks, place, text) in [
        ("[store]\npath = \"/s\"\n[[disk]]\npath = \"/d\"\n", "forebay.toml:2:", "both store.path and [[disk]]"),
        ("[[disk]]\nweight = 2\n", "forebay.toml:1:", "a disk without a directory"),
        ("[[disk]]\npath = \"/d\"\nweight = 0\n", "forebay.toml:3:", "out of range"),
        ("[[disk]]\npath = \"/d\"\n[[disk]]\npath = \"/d\"\n", "forebay.toml:4:", "not two disks"),
        ("[[disk]]\npath = \"/d\"\n[[disk]]\npath = \"/d/below\"\n", "forebay.toml:4:", "write separate directories"),
    ] {
        let error = parse(disks).unwrap_err();
        assert!(error.starts_with(place) && error.contains(text), "{error}");
    }
}

#[test]
fn disks_that_cannot_be_used_now_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().display();
    let absent = format!("[[disk]]\npath = \"{here}\"\nmounted = true\n[[disk]]\npath = \"/nonexistent/d\"\n");
    let error = parse(&absent).unwrap().check_environment().unwrap_err().to_string();
    assert!(error.contains("is not a mount point") && error.contains("/nonexistent/d is not a directory"), "{error}");
    parse(&absent).unwrap().check_needed().unwrap();
    let one = format!("[[disk]]\npath = \"{here}/new\"\n");
    parse(&one).unwrap().check_environment().unwrap();
}
