//! `forebay records anonymize`: access records that may be given away.

use super::records::RecordArgs;
use forebay_sizing::{Anonymizer, AnonymousAccess};
use std::io::{self, BufWriter, Write as _};

/// Replace the names of users and files in access records
///
/// Writes CSV. Names become numbers in the order of their appearance; only the tree of directories and the data tiers stay. Bytes are rounded
/// up to MiB, and times begin in the first week of 2001. Simulations with the result are the same except for that.
#[derive(Debug, clap::Args)]
pub(crate) struct AnonymizeArgs {
    #[command(flatten)]
    records: RecordArgs,
}

pub(crate) fn run(args: &AnonymizeArgs) -> anyhow::Result<()> {
    let records = args.records.read()?;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    writeln!(out, "time,path,size,read,hit,missed,user")?;
    Anonymizer::default().run(&records.accesses, |access| {
        let AnonymousAccess { at_ms, path, size, read, saved, user } = access;
        let (seconds, milliseconds) = (at_ms.div_euclid(1000), at_ms.rem_euclid(1000));
        write!(out, "{seconds}.{milliseconds:03},{path},{size},{read},")?;
        match saved {
            Some(saved) => writeln!(out, "{saved},{},user{user}", read.saturating_sub(saved)),
            None => writeln!(out, ",,user{user}"),
        }
    })?;
    Ok(out.flush()?)
}
