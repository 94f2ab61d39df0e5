//! The `forebay` binary: reads arguments and environment, and wires the crates together.

mod accounts;
mod admin;
mod adopt;
mod authz;
mod check_config;
mod client;
mod doctor;
mod documents;
mod failure;
mod get;
mod inspect;
mod ls;
mod node;
mod progress;
mod root_layout;
mod serve;
mod sizing;
mod text;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A disk-caching XRootD proxy.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, long_version = env!("FOREBAY_VERSION"), max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::ServeArgs>),
    CheckConfig(check_config::CheckConfigArgs),
    Doctor(doctor::DoctorArgs),
    Authz(authz::AuthzArgs),
    Adopt(adopt::AdoptArgs),
    Inspect(inspect::InspectArgs),
    Get(get::GetArgs),
    Ls(ls::LsArgs),
    Stat(ls::StatArgs),
    RootLayout(root_layout::RootLayoutArgs),
    Efficiency(sizing::efficiency::EfficiencyArgs),
    Records(sizing::RecordsArgs),
    Simulate(Box<sizing::simulate::SimulateArgs>),
    Sizing(admin::sizing::SizingArgs),
    Status(admin::status::StatusArgs),
    Top(admin::top::TopArgs),
    Locate(admin::locate::LocateArgs),
    Evict(admin::evict::EvictArgs),
    Pin(admin::pin::PinArgs),
    Unpin(admin::pin::UnpinArgs),
    Prefetch(admin::prefetch::PrefetchArgs),
    Purge(admin::maintenance::PurgeArgs),
    Rucio(admin::rucio::RucioArgs),
    Scrub(admin::maintenance::ScrubArgs),
    Jobs(admin::jobs::JobsArgs),
    Drain(admin::maintenance::DrainArgs),
    Completions(documents::CompletionsArgs),
    Man(documents::ManArgs),
    Openapi(documents::OpenapiArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Adopt(args) => return adopt::run(&args).unwrap_or_else(|error| failure::report(&error)),
        Command::Doctor(args) => return doctor::run(&args).unwrap_or_else(|error| failure::report(&error)),
        Command::Serve(args) => serve::run(*args),
        Command::CheckConfig(args) => check_config::run(&args),
        Command::Authz(args) => authz::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Stat(args) => ls::stat(&args),
        Command::RootLayout(args) => root_layout::run(&args),
        Command::Efficiency(args) => sizing::efficiency::run(&args),
        Command::Records(args) => sizing::records(&args),
        Command::Simulate(args) => sizing::simulate::run(&args),
        Command::Sizing(args) => admin::sizing::run(&args),
        Command::Status(args) => admin::status::run(&args),
        Command::Top(args) => admin::top::run(&args),
        Command::Locate(args) => admin::locate::run(&args),
        Command::Evict(args) => admin::evict::run(&args),
        Command::Pin(args) => admin::pin::pin(&args),
        Command::Unpin(args) => admin::pin::unpin(&args),
        Command::Purge(args) => admin::maintenance::purge(&args),
        Command::Rucio(args) => admin::rucio::run(args),
        Command::Scrub(args) => admin::maintenance::scrub(&args),
        Command::Prefetch(args) => admin::prefetch::run(&args),
        Command::Jobs(args) => admin::jobs::run(&args),
        Command::Drain(args) => admin::maintenance::drain(&args),
        Command::Completions(args) => documents::completions(&args),
        Command::Man(args) => documents::man(&args),
        Command::Openapi(args) => documents::openapi(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
