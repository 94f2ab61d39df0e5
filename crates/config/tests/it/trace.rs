//! The trace: what is understood, and what is refused.

use forebay_cache::PathPattern;
use forebay_config::{Config, Settings};
use forebay_telemetry::{Sample, TraceOptions};
use std::path::Path;

fn parse(text: &str) -> Result<Config, String> {
    let text = format!("export = [{{ directory = \"/srv\" }}]\n{text}");
    Settings::parse(Path::new("f.toml"), text).map(|settings| settings.config).map_err(|error| error.to_string())
}

#[test]
fn a_trace_is_kept_where_a_path_says() {
    assert_eq!(parse("[trace]\nsample = \"1/10\"").unwrap().trace, None);
    let (directory, sample, only) = ("/t".into(), Sample::ALL, Vec::new());
    let plain = TraceOptions { directory, sample, only, file_bytes: 256 << 20, files_max: 8 };
    assert_eq!(parse("trace.path = \"/t\"").unwrap().trace, Some(plain.clone()));
    let all = "[trace]\npath = \"/t\"\nsample = \"2/3\"\nonly = [\"/a/**\"]\nfile_size = \"64KiB\"\nfiles = 1";
    let only = vec![PathPattern::parse("/a/**").unwrap()];
    let options = TraceOptions { sample: Sample { of: 2, per: 3 }, only, file_bytes: 64 << 10, files_max: 1, ..plain };
    assert_eq!(parse(all).unwrap().trace, Some(options));
}

#[test]
fn wrong_values_are_refused() {
    for (text, needle) in [
        ("trace.path = \"\"", "not a path"),
        ("trace.sample = \"10%\"", "write 1/1, or 1/10"),
        ("trace.sample = \"0/3\"", "write 1/1, or 1/10"),
        ("trace.only = [\"a\"]", "matches no path"),
        ("trace.file_size = \"63KiB\"", "out of range: write 64KiB to 64GiB"),
        ("trace.files = 0", "write a number from 1 to 100000"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(needle), "{text}: {error}");
    }
    let many = format!("trace.only = [{}]", vec!["\"/a\""; 257].join(", "));
    assert!(parse(&many).unwrap_err().contains("257 elements: write at most 256"));
}
