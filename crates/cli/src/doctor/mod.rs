//! `forebay doctor`: checks everything a configuration depends on, and suggests remedies.

mod authorities;
mod bundle;
mod certificates;
mod disks;
mod finding;
mod issuers;
mod machine;
mod origins;

use crate::node::gate;
use anyhow::Context;
use finding::{Findings, Subject};
use forebay_auth::UnixTime;
use forebay_config::{ConfigError, DEFAULT_FILE, Settings};
use std::{io, path::PathBuf, process::ExitCode};

/// Check everything a configuration depends on
///
/// Checks certificates and keys, authorities and their revocation lists, organizations, secrets, token issuers, disks, limits,
/// ports and origins. The exit status is 0 if all checks pass, 1 with warnings and 2 with failures, as monitoring systems
/// expect. Nothing is changed. Run it as the server's user: it checks with the permissions of the current user.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DoctorArgs {
    /// The configuration file
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE)]
    config: PathBuf,
    /// Make no network connections to origins and token issuers
    #[arg(long)]
    offline: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write a report for support to a new file: versions, findings, configuration without secrets, status, metrics, recent log
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// The log for the report [default: the journal of the unit forebay]
    #[arg(long, value_name = "FILE", requires = "bundle")]
    log: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// One line per finding, the worst first
    Text,
    /// One JSON object
    Json,
}

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let mut findings = Findings::default();
    let settings = Settings::read(&args.config);
    match &settings {
        Ok(settings) => {
            findings.ok("configuration", args.config.display(), "is valid");
            for warning in settings.warnings() {
                findings.warn("configuration", &warning.place, &warning.text, "change it before the next upgrade");
            }
            for doubt in gate::doubts(settings) {
                findings.warn("access", &doubt.place, &doubt.text, "change the setting, unless it is meant so");
            }
            let subject = Subject { settings, now: UnixTime(forebay_net::clock::now_unix()) };
            examine(&subject, args.offline, &mut findings)?;
        }
        Err(error) => refuse(error, &mut findings),
    }
    if let Some(path) = &args.bundle {
        let (config, settings, log) = (args.config.as_path(), settings.as_ref().ok(), args.log.as_deref());
        bundle::write(path, &bundle::Subject { config, settings, findings: &findings, log })?;
    }
    let mut out = io::stdout().lock();
    match args.format {
        Format::Text => findings.print(&mut out)?,
        Format::Json => findings.print_json(&mut out)?,
    }
    Ok(ExitCode::from(findings.exit_status()))
}

fn examine(subject: &Subject<'_>, is_offline: bool, findings: &mut Findings) -> anyhow::Result<()> {
    let settings = subject.settings;
    if let Err(error) = settings.check_environment() {
        refuse(&error, findings);
    }
    certificates::check(subject, findings);
    authorities::check(subject, findings);
    authorities::check_organizations(subject, findings);
    certificates::check_secrets(subject, findings);
    issuers::check_files(subject, findings);
    disks::check(subject, findings);
    machine::check_limits(subject, findings);
    machine::check_ports(subject, findings);
    if is_offline {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        issuers::check_network(subject, findings).await;
        origins::check(subject, findings).await;
    });
    runtime.shutdown_background();
    Ok(())
}

/// Reports each problem of a configuration.
fn refuse(error: &ConfigError, findings: &mut Findings) {
    for problem in &error.problems {
        findings.fail(
            "configuration",
            &problem.place,
            &problem.text,
            "fix it, and verify it with forebay check-config",
        );
    }
}
