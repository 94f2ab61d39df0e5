//! From what is written about reading ahead to what it means.

use crate::{checker::Checker, raw::RawReadAhead};
use forebay_cache::FillPolicy;
use forebay_engine::ReadAheadOptions;
use forebay_types::{ByteSize, ByteSizeError};
use std::convert::Infallible;

/// Bytes ahead: less than a block is of no use, more than this is a slip of the finger.
const BYTES: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(16 << 30));

const MEMORY_PERCENT: (u64, u64) = (0, 50);
const COMPLETE_AFTER: (u64, u64) = (1, 100);

/// Reads the table about reading ahead.
pub(crate) fn read_read_ahead(raw: &RawReadAhead, options: &mut ReadAheadOptions, checker: &mut Checker<'_>) {
    let settings = &mut options.settings;
    checker.set(&mut settings.enabled, "read_ahead.enabled", raw.enabled.as_ref(), |&on| Ok::<_, Infallible>(on));
    checker.set(&mut settings.window_max, "read_ahead.window_max", raw.window_max.as_ref(), |text| parse_bytes(text));
    checker
        .set(&mut options.origin_bytes_max, "read_ahead.origin_max", raw.origin_max.as_ref(), |text| parse_bytes(text));
    let percent = raw.memory_percent.as_ref();
    checker.set_number(&mut options.memory_percent, "read_ahead.memory_percent", percent, MEMORY_PERCENT);
    let mut percent = 0;
    checker.set_number(&mut percent, "read_ahead.complete_after", raw.complete_after.as_ref(), COMPLETE_AFTER);
    settings.complete_after_percent = raw.complete_after.is_some().then_some(percent);
    checker.set(&mut settings.fill, "read_ahead.fill", raw.fill.as_ref(), |text| text.parse::<FillPolicy>());
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    let size: ByteSize = text.parse().map_err(|error: ByteSizeError| error.to_string())?;
    let (min, max) = BYTES;
    (min..=max)
        .contains(&size)
        .then_some(size.0)
        .ok_or_else(|| format!("`{text}` is out of range: write {min} to {max}"))
}

#[cfg(test)]
mod tests {
    use crate::{ConfigError, Settings};
    use forebay_cache::FillPolicy;
    use forebay_engine::ReadAheadOptions;
    use std::path::Path;

    fn read(text: &str) -> Result<ReadAheadOptions, ConfigError> {
        let text = format!("[store]\npath = \"/c\"\n[[export]]\norigins = [\"root://o\"]\n[read_ahead]\n{text}");
        Settings::parse(Path::new("test.toml"), text).map(|settings| settings.config.engine.read_ahead)
    }

    #[test]
    fn an_empty_table_means_the_defaults() {
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
}
