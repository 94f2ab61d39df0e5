//! `forebay rucio`: the complete files of a cache, for Rucio.

mod announce;
mod broker;
mod replicas;
mod stomp;

use super::AdminArgs;
use clap::{Subcommand, ValueEnum};
use replicas::{NameRule, replicas};
use std::io::{self, BufWriter, Write};

/// Report the complete files of a running cache to Rucio
#[derive(Debug, clap::Args)]
pub(crate) struct RucioArgs {
    #[command(subcommand)]
    command: RucioCommand,
}

#[derive(Debug, Subcommand)]
enum RucioCommand {
    Dump(DumpArgs),
    Announce(Box<announce::AnnounceArgs>),
}

/// Print the complete files, one per line, for a comparison with the catalogue
///
/// Files are those of Rucio's naming convention (…/rucio/SCOPE/xx/yy/NAME) and, with --scope, those below --path.
#[derive(Debug, clap::Args)]
struct DumpArgs {
    /// `path`: below the prefix of the storage element; `did`: SCOPE:NAME
    #[arg(long, value_enum, default_value_t = DumpFormat::Path)]
    format: DumpFormat,
    #[command(flatten)]
    rule: NameRule,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DumpFormat {
    Path,
    Did,
}

pub(crate) fn run(args: RucioArgs) -> anyhow::Result<()> {
    match args.command {
        RucioCommand::Dump(args) => dump(&args),
        RucioCommand::Announce(args) => announce::run(&args),
    }
}

fn dump(args: &DumpArgs) -> anyhow::Result<()> {
    let found = args.admin.run(async |server| replicas(server, &args.rule).await)?;
    let mut out = BufWriter::new(io::stdout().lock());
    for (did, replica) in &found {
        if args.admin.json {
            serde_json::to_writer(&mut out, &replica.described(did))?;
            writeln!(out)?;
        } else {
            match args.format {
                DumpFormat::Path => writeln!(out, "{}", replica.path)?,
                DumpFormat::Did => writeln!(out, "{did}")?,
            }
        }
    }
    Ok(out.flush()?)
}
