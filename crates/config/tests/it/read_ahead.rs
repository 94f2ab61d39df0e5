//! Read-ahead: values and limits.

use forebay_cache::FillPolicy;
use forebay_config::{ConfigError, Settings};
use forebay_engine::ReadAheadOptions;
use std::path::Path;

fn read(text: &str) -> Result<ReadAheadOptions, ConfigError> {
    let text = format!("[store]\npath = \"/c\"\n[[export]]\norigins = [\"root://o\"]\n[read_ahead]\n{text}");
    Settings::parse(Path::new("test.toml"), text).map(|settings| settings.config.engine.read_ahead)
}

#[test]
fn an_empty_table_gives_the_defaults() {
    assert_eq!(read("").unwrap(), ReadAheadOptions::default());
}

#[test]
fn everything_can_be_set() {
    let text = "enabled = false\nwindow_max = \"64MiB\"\norigin_max = \"1GiB\"\nmemory_percent = 50\n\
                complete_after = 30\nfill = \"to-end\"";
    let options = read(text).unwrap();
    assert_eq!((options.origin_bytes_max, options.memory_percent), (1 << 30, 50));
    let settings = options.settings;
    assert_eq!((settings.enabled, settings.window_max), (false, 64 << 20));
    assert_eq!((settings.complete_after_percent, settings.fill), (Some(30), FillPolicy::ToEnd));
}

#[test]
fn limits_hold_on_both_sides_of_each_edge() {
    for (good, bad) in [
        ("memory_percent = 0", "memory_percent = 51"),
        ("complete_after = 1", "complete_after = 0"),
        ("complete_after = 100", "complete_after = 101"),
        ("window_max = \"64KiB\"", "window_max = \"63KiB\""),
        ("origin_max = \"16GiB\"", "origin_max = \"17GiB\""),
        ("fill = \"while-open\"", "fill = \"always\""),
    ] {
        assert!(read(good).is_ok(), "{good}");
        assert!(read(bad).is_err(), "{bad}");
    }
}
