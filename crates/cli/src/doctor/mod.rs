//! `forebay doctor`: whether everything that a configuration needs is there and in order, and what to do where it is not.

mod authorities;
mod certificates;
mod disks;
mod finding;
mod issuers;
mod machine;
mod origins;
mod secrets;

use anyhow::Context;
use finding::Findings;
use forebay_auth::UnixTime;
use forebay_config::{ConfigError, Settings};
use std::{io, path::PathBuf, process::ExitCode};

/// Look for what is wrong, or soon will be, with all that a configuration needs
///
/// Checks certificates and keys, authorities and their revocation lists, organizations, secrets, token issuers, disks, limits,
/// ports and origins. Exits with 0 when all is well, 1 with warnings and 2 with failures, as monitoring systems expect.
/// Changes nothing. Run it as the server's user, as it tells what this user can use.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DoctorArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Ask nobody over the network: neither origins nor token issuers
    #[arg(long)]
    offline: bool,
    /// How findings are printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// One line for each, those to look at first
    Text,
    /// One JSON object
    Json,
}

/// What is looked at, and when.
pub(crate) struct Patient<'a> {
    settings: &'a Settings,
    now: UnixTime,
}

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let mut findings = Findings::default();
    match Settings::read(&args.config) {
        Ok(settings) => {
            findings.ok("configuration", args.config.display(), "is understood");
            for warning in settings.warnings() {
                findings.warn("configuration", &warning.place, &warning.text, "change it before the next upgrade");
            }
            let patient = Patient { settings: &settings, now: UnixTime(forebay_net::clock::now_unix()) };
            examine(&patient, args.offline, &mut findings)?;
        }
        Err(error) => refuse(&error, &mut findings),
    }
    let mut out = io::stdout().lock();
    match args.format {
        Format::Text => findings.print(&mut out)?,
        Format::Json => findings.print_json(&mut out)?,
    }
    Ok(ExitCode::from(findings.exit_status()))
}

fn examine(patient: &Patient<'_>, is_offline: bool, findings: &mut Findings) -> anyhow::Result<()> {
    let settings = patient.settings;
    if let Err(error) = settings.check_environment() {
        refuse(&error, findings);
    }
    certificates::check(patient, findings);
    authorities::check(patient, findings);
    authorities::check_organizations(patient, findings);
    secrets::check(patient, findings);
    issuers::check_files(patient, findings);
    disks::check(patient, findings);
    machine::check_limits(patient, findings);
    machine::check_ports(patient, findings);
    if is_offline {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        issuers::check_network(patient, findings).await;
        origins::check(patient, findings).await;
    });
    runtime.shutdown_background();
    Ok(())
}

/// Tells each problem of a configuration by itself.
fn refuse(error: &ConfigError, findings: &mut Findings) {
    for problem in error.problems() {
        findings.fail(
            "configuration",
            &problem.place,
            &problem.text,
            "mend it: forebay check-config tells when it is good",
        );
    }
}
