//! `forebay records`: access records that are generated or made anonymous.

use super::amount::Amount;
use crate::failure::UsageError;
use forebay_sizing::{GENERATE_DAYS_MAX, GENERATE_SCALE_MAX, GenerateOptions, Profile, generate, parse_time_ms};
use std::io::{self, BufWriter, Write as _};

/// Generate access records as a region's cache sees them
///
/// Writes CSV with the columns time, path, size, read and user. Profiles: `region` has accesses of which a cache of 2 PB saves 66 % of the
/// bytes; of `campaigns` it serves 67.6 % of the accesses and 35.4 % of the bytes. With --scale, the size of that cache is scaled, too. The
/// same arguments give the same records.
#[derive(Debug, clap::Args)]
pub(crate) struct GenerateArgs {
    /// Laws of sizes and popularity: region or campaigns
    #[arg(long, default_value_t, value_parser = profile)]
    profile: Profile,
    /// Days between the first and the last record
    #[arg(long, value_name = "DAYS", default_value_t = 365)]
    days: u32,
    /// Size relative to a cache of 2 PB with 23,000 accesses a day
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    scale: f64,
    /// Number that selects the records among all that are possible
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Time of the first record
    #[arg(long, value_name = "TIME", default_value = "2026-01-01")]
    start: String,
}

fn profile(text: &str) -> Result<Profile, String> {
    Profile::from_name(text).ok_or_else(|| "the profiles are region and campaigns".to_owned())
}

pub(crate) fn run(args: &GenerateArgs) -> anyhow::Result<()> {
    let GenerateArgs { profile, days, scale, seed, .. } = *args;
    if !(1..=GENERATE_DAYS_MAX).contains(&days) || !(0.0001..=GENERATE_SCALE_MAX).contains(&scale) {
        let text = format!("--days is 1 to {GENERATE_DAYS_MAX}, --scale 0.0001 to {GENERATE_SCALE_MAX}");
        return Err(UsageError(text).into());
    }
    let start = parse_time_ms(&args.start).ok_or_else(|| UsageError("--start: write 2026-01-01".to_owned()))?;
    let options = GenerateOptions { profile, seed, start: start.div_euclid(1000), days, scale };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    writeln!(out, "time,path,size,read,user")?;
    let mut written = Ok(());
    generate(options, |access| {
        if written.is_ok() {
            let (seconds, milliseconds) = (access.at_ms.div_euclid(1000), access.at_ms.rem_euclid(1000));
            let (path, size, read, user) = (access.path, access.size, access.read, access.user);
            written = writeln!(out, "{seconds}.{milliseconds:03},{path},{size},{read},{user}");
        }
    });
    written?;
    out.flush()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size within limits")]
    let cache = Amount((profile.cache_bytes() as f64 * scale) as u64);
    eprintln!("the cache that this profile is about has {cache}");
    Ok(())
}
