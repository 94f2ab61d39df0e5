//! `forebay pin` and `forebay unpin`: protects files from purges.

use super::{
    AdminArgs,
    connection::{Connection, understood},
    files::{Named, encoded, matching, pin_path_of},
};
use crate::{failure::UsageError, text};
use anyhow::bail;
use forebay_admin::model::Pin;
use serde_json::json;

/// Protect files of a running cache from purges for a time
#[derive(Debug, clap::Args)]
pub(crate) struct PinArgs {
    /// A file as clients request it, or a full URL; or a pattern such as '/store/**.root', which selects files currently in the
    /// cache
    #[arg(value_name = "PATH|PATTERN")]
    what: String,
    /// Duration from now: 12h, 7d, 4w
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_seconds)]
    seconds: u32,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Remove the pins of files of a running cache
#[derive(Debug, clap::Args)]
pub(crate) struct UnpinArgs {
    /// A file as clients request it, or a full URL; or a pattern such as '/store/**.root'
    #[arg(value_name = "PATH|PATTERN")]
    what: String,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn pin(args: &PinArgs) -> anyhow::Result<()> {
    let body = json!({ "seconds": args.seconds });
    let pins = args.admin.run(async |server| {
        let mut pins: Vec<Pin> = Vec::new();
        for name in names(server, &args.what).await? {
            pins.push(understood(server.put(&pin_path_of(&name)?, &body).await?)?);
        }
        Ok(pins)
    })?;
    if args.admin.json {
        return super::print_json(&mut std::io::stdout().lock(), &json!({ "pins": pins }));
    }
    for Pin { name, until } in pins {
        println!("{} until {} UTC", text::printable(&name), text::utc(until));
    }
    Ok(())
}

pub(crate) fn unpin(args: &UnpinArgs) -> anyhow::Result<()> {
    args.admin.run(async |server| {
        for name in names(server, &args.what).await? {
            server.delete(&pin_path_of(&name)?).await?;
        }
        Ok(())
    })
}

async fn names(server: &Connection, what: &str) -> anyhow::Result<Vec<String>> {
    match Named::parse(what)? {
        Named::File(name) => Ok(vec![name]),
        Named::Pattern(pattern) => {
            let mut names = Vec::new();
            matching(server, &format!("&pattern={}", encoded(&pattern)), |file| {
                names.push(file.name);
                Ok(())
            })
            .await?;
            if names.is_empty() {
                bail!("no file of the cache matches {}", text::printable(what));
            }
            Ok(names)
        }
    }
}

/// Parses a number and `s`, `min`, `h`, `d` or `w`.
fn parse_seconds(text: &str) -> Result<u32, UsageError> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit_seconds = match unit.trim() {
        "s" => Some(1),
        "min" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        "w" => Some(604_800),
        _ => None,
    };
    let seconds = unit_seconds.and_then(|unit: u32| digits.parse::<u32>().ok()?.checked_mul(unit));
    let in_range = seconds.filter(|seconds| (1..=forebay_admin::model::PIN_SECONDS_MAX).contains(seconds));
    in_range.ok_or_else(|| {
        UsageError(format!("invalid duration `{text}`: examples are 12h, 7d or 4w; the limit is ten years"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        for (text, seconds) in [("1s", 1), ("5min", 300), ("12h", 43_200), ("7d", 604_800), ("4 w", 2_419_200)] {
            assert_eq!(parse_seconds(text).unwrap(), seconds);
        }
        for text in ["", "7", "d", "0d", "-1d", "7m", "99999d", "99999999999w"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }
}
