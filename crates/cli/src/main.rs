//! The `forebay` binary: reads arguments and environment, wires the crates together, and decides nothing else.

mod check_config;
mod client;
mod demo;
mod failure;
mod get;
mod inspect;
mod ls;
mod node;
mod progress;
mod serve;
mod stat;
mod text;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A disk-caching XRootD proxy.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::ServeArgs>),
    Demo(demo::DemoArgs),
    CheckConfig(check_config::CheckConfigArgs),
    Inspect(inspect::InspectArgs),
    Get(get::GetArgs),
    Ls(ls::LsArgs),
    Stat(stat::StatArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(*args),
        Command::Demo(args) => demo::run(&args),
        Command::CheckConfig(args) => check_config::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Stat(args) => stat::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
