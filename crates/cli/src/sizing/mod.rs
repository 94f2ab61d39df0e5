//! The commands that work on records of accesses: how large a cache has to be, and what it is worth.

mod amount;
mod anonymize;
mod comparison;
pub(crate) mod efficiency;
mod generate;
mod records;
pub(crate) mod simulate;
mod simulate_report;
mod table;

pub(crate) use amount::decimal;
pub(crate) use records::RecordArgs;
pub(crate) use table::print as print_table;

/// Access records for simulations: generate them, or make real ones anonymous
#[derive(Debug, clap::Args)]
pub(crate) struct RecordsArgs {
    #[command(subcommand)]
    command: RecordsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum RecordsCommand {
    Generate(generate::GenerateArgs),
    Anonymize(anonymize::AnonymizeArgs),
}

pub(crate) fn records(args: &RecordsArgs) -> anyhow::Result<()> {
    match &args.command {
        RecordsCommand::Generate(args) => generate::run(args),
        RecordsCommand::Anonymize(args) => anonymize::run(args),
    }
}
