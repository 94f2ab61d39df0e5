//! The records of accesses: what is understood, and what is refused.

use forebay_config::{Config, Settings};
use forebay_record_outputs::FileOptions;
use std::{path::Path, time::Duration};

fn parse(text: &str) -> Result<Config, String> {
    let text = format!("export = [{{ directory = \"/srv\" }}]\n{text}");
    Settings::parse(Path::new("f.toml"), text).map(|settings| settings.config).map_err(|error| error.to_string())
}

#[test]
fn records_are_written_where_a_path_says() {
    let none = parse("[records]\nsite = \"LAB\"").unwrap().records;
    assert_eq!((none.files.as_ref(), none.server.site.as_str(), none.has_output()), (None, "LAB", false));
    let plain = FileOptions { directory: "/r".into(), ..FileOptions::default() };
    assert_eq!(parse("records.path = \"/r\"").unwrap().records.files, Some(plain.clone()));
    let all =
        "[records]\npath = \"/r\"\nfile_size = \"1MiB\"\nfile_age = \"1h\"\ntotal_size = \"2MiB\"\nage_max = \"365d\"";
    let (file_age, age_max) = (Duration::from_secs(3600), Some(Duration::from_secs(365 * 86_400)));
    let options = FileOptions { file_bytes: 1 << 20, file_age, total_bytes: 2 << 20, age_max, ..plain };
    assert_eq!(parse(all).unwrap().records.files, Some(options));
}

#[test]
fn wrong_values_are_refused() {
    for (text, needle) in [
        ("records.path = \"\"", "not a path"),
        ("records.file_size = \"63KiB\"", "out of range: write 64KiB to 64GiB"),
        ("records.file_age = \"59s\"", "1min"),
        ("records.age_max = \"59s\"", "1min"),
        ("[records]\nfile_size = \"1MiB\"\ntotal_size = \"2047KiB\"", "must have room for two"),
        ("records.file_size = \"3GiB\"", "must have room for two"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(needle), "{text}: {error}");
    }
}
