//! How the contents of the disk are checked.

use crate::{checker::Checker, config::Config, duration::parse_duration, raw::RawIntegrity};
use forebay_engine::{CheckPolicy, ChecksumAlgorithm};
use forebay_types::ByteSize;
use std::{convert::Infallible, time::Duration};

/// Least and most bytes in a second that are read in the background: below, a disk would take years; above, no disk gives
/// more.
const RATE_MIN: ByteSize = ByteSize(64 << 10);
const RATE_MAX: ByteSize = ByteSize(1 << 40);

pub(crate) fn read_integrity(raw: &RawIntegrity, config: &mut Config, checker: &mut Checker<'_>) {
    let integrity = &mut config.engine.integrity;
    checker.set(&mut integrity.check, "integrity.check", raw.check.as_ref(), |text| parse_check(text));
    checker.set(&mut integrity.scrub_rate, "integrity.scrub_rate", raw.scrub_rate.as_ref(), |text| parse_rate(text));
    checker.set(&mut integrity.scrub_interval, "integrity.scrub_interval", raw.scrub_interval.as_ref(), |text| {
        parse_interval(text)
    });
    if let Some(checksums) = checker.read_list("integrity.checksums", raw.checksums.as_ref(), ChecksumAlgorithm::parse)
    {
        integrity.checksums = checksums;
    }
    checker.set(&mut integrity.checksum_rate, "integrity.checksum_rate", raw.checksum_rate.as_ref(), |text| {
        parse_rate(text)
    });
    checker.set(&mut integrity.compare, "integrity.compare", raw.compare.as_ref(), |&on| Ok::<_, Infallible>(on));
}

fn parse_check(text: &str) -> Result<CheckPolicy, String> {
    match text {
        "first-read" => Ok(CheckPolicy::FirstRead),
        "never" => Ok(CheckPolicy::Never),
        other => {
            Err(format!("`{}` is no time to check blocks: write \"first-read\" or \"never\"", other.escape_default()))
        }
    }
}

fn parse_rate(text: &str) -> Result<u64, String> {
    let rate: ByteSize = text.parse().map_err(|error: forebay_types::ByteSizeError| error.to_string())?;
    if (RATE_MIN..=RATE_MAX).contains(&rate) {
        Ok(rate.0)
    } else {
        Err(format!("`{text}` in a second is out of range: write {RATE_MIN} to {RATE_MAX}"))
    }
}

fn parse_interval(text: &str) -> Result<Option<Duration>, String> {
    if text == "off" {
        return Ok(None);
    }
    parse_duration(text).map(Some).map_err(|error| format!("{error}; or \"off\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_slips_are_caught() {
        assert_eq!(parse_check("never"), Ok(CheckPolicy::Never));
        assert!(parse_check("always").is_err());
        assert_eq!(parse_rate("20MiB"), Ok(20 << 20));
        assert!(parse_rate("20").is_err() && parse_rate("2TiB").is_err());
        assert_eq!(parse_interval("off"), Ok(None));
        assert_eq!(parse_interval("7d"), Ok(Some(Duration::from_secs(7 * 86_400))));
        assert!(parse_interval("never").unwrap_err().contains("\"off\""));
    }
}
