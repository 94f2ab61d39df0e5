//! `forebay adopt`: converts the configuration of an XCache and checks its directory.

mod machine;
mod report;

use crate::{accounts, failure::UsageError, node::gate::own_host_name};
use anyhow::{Context, anyhow, bail};
use forebay_adopt::{Found, Instance, Machine, Translation, read, read_pelican, translate};
use forebay_config::Settings;
use forebay_net::clock;
use forebay_store::{Account, survey};
use machine::ThisMachine;
use std::{
    fs::OpenOptions,
    io::{self, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// Take over an XCache: convert its configuration and check its directory
///
/// Reads an xrootd configuration as xrootd does, or that of a Pelican cache, and prints the equivalent Forebay
/// configuration, or writes it to --output. Reports on standard error how each directive is converted and the state of the cache directory.
/// Nothing is changed there.
///
/// Exit status: 0 no action needed, 1 failure, 2 invalid arguments or configuration, 3 not written because the
/// site would be unprotected, 4 done, but the report needs attention.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct AdoptArgs {
    /// The xrootd configuration
    #[arg(long, value_name = "FILE", required_unless_present = "pelican_config")]
    xrootd_config: Option<PathBuf>,
    /// The configuration of a Pelican cache (pelican.yaml), instead of the xrootd configuration generated from it
    #[arg(long, value_name = "FILE", conflicts_with = "xrootd_config")]
    pelican_config: Option<PathBuf>,
    /// Name of the xrootd instance (option -n), for `if named` in the configuration
    #[arg(long, value_name = "NAME", default_value = "anon")]
    instance: String,
    /// Full name of the host, for `if HOST` in the configuration [default: the name of this host]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Write the configuration to this file, which must not exist, instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print everything and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the configuration even if it lacks access control or encryption of the original
    #[arg(long)]
    accept_unprotected: bool,
    /// Do not check the cache directory
    #[arg(long)]
    no_check: bool,
    /// User that will run Forebay, a name or a number: files it cannot access are reported
    #[arg(long, value_name = "USER", conflicts_with = "no_check")]
    user: Option<String>,
}

/// Exit status if the site would be unprotected, and if the report needs attention.
const EXIT_UNPROTECTED: u8 = 3;
const EXIT_ATTENTION: u8 = 4;

/// Interval of progress reports.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Names between two checks of the clock.
const NAMES_PER_LOOK: u64 = 256;

pub(crate) fn run(args: &AdoptArgs) -> anyhow::Result<ExitCode> {
    let path = args.pelican_config.as_ref().or(args.xrootd_config.as_ref());
    let path = path.ok_or_else(|| UsageError("no configuration is named".to_owned()))?;
    let source = path.to_str().ok_or_else(|| UsageError("the path is not UTF-8".to_owned()))?;
    let (program, flag) =
        if args.pelican_config.is_some() { ("pelican", "--pelican-config") } else { ("xrootd", "--xrootd-config") };
    if matches!(ThisMachine.find(source), Ok(Found::Nothing)) {
        return Err(UsageError(format!("{flag}: {source} does not exist")).into());
    }
    let instance = Instance {
        host: args.host.clone().unwrap_or_else(own_host_name),
        name: args.instance.clone(),
        program: program.to_owned(),
    };
    let directives = match program {
        "pelican" => read_pelican(source, &ThisMachine),
        _ => read(source, &instance, &ThisMachine),
    };
    let directives = directives.with_context(|| format!("{program} does not accept this configuration"))?;
    let translation = translate(&directives, &instance, source, &ThisMachine);
    let mut out = BufWriter::new(io::stderr().lock());
    report::notes(&mut out, &translation.notes)?;
    out.flush()?;
    let Some(file) = &translation.file else {
        bail!("this configuration cannot be converted:\n{}", translation.refusals.join("\n"));
    };
    Settings::parse(Path::new("the converted configuration"), file.clone())?;
    let has_defects = check(args, &translation, &mut out)?;
    out.flush()?;
    if translation.is_unprotected() && !args.accept_unprotected {
        if args.dry_run {
            io::stdout().lock().write_all(file.as_bytes())?;
        }
        writeln!(out, "{UNPROTECTED}")?;
        out.flush()?;
        return Ok(ExitCode::from(EXIT_UNPROTECTED));
    }
    write(args, file)?;
    let wants_attention = has_defects || translation.notes.iter().any(|note| note.fate.wants_attention());
    Ok(if wants_attention { ExitCode::from(EXIT_ATTENTION) } else { ExitCode::SUCCESS })
}

const UNPROTECTED: &str = "not written: the directives marked `unprotected` control access or encrypt, and are not converted. To write \
     the file without them, and to add the settings that the report names, use --accept-unprotected";

/// Checks the cache directory; returns whether it has defects.
fn check(args: &AdoptArgs, translation: &Translation, out: &mut impl Write) -> anyhow::Result<bool> {
    let Some(store) = translation.store.as_ref().filter(|_| !args.no_check) else { return Ok(false) };
    let user = args.user.as_deref().map(accounts::user).transpose()?;
    let is_terminal = io::stderr().is_terminal();
    let (mut names, mut told) = (0, clock::monotonic());
    let account = survey(Path::new(store), user, &mut |account: &Account| {
        names += 1;
        if is_terminal && names % NAMES_PER_LOOK == 0 && told.elapsed() >= PROGRESS_EVERY {
            told = clock::monotonic();
            eprintln!("{store}: {} records in {} directories so far", account.records, account.directories);
        }
    })
    .with_context(|| format!("checking {store}"))?;
    report::account(out, store, &account, clock::now_unix())?;
    Ok(!account.defects.is_empty())
}

fn write(args: &AdoptArgs, file: &str) -> anyhow::Result<()> {
    let Some(path) = args.output.as_ref().filter(|_| !args.dry_run) else {
        io::stdout().lock().write_all(file.as_bytes())?;
        return Ok(());
    };
    let mut output =
        OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => anyhow!("{} exists and was not changed", path.display()),
            _ => anyhow!(error).context(format!("creating {}", path.display())),
        })?;
    output.write_all(file.as_bytes()).with_context(|| format!("writing {}", path.display()))
}
