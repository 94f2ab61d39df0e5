//! `forebay doctor --bundle`: one text file for those who are asked for help.

use super::finding::Findings;
use crate::{admin::snapshot, client};
use anyhow::Context;
use forebay_config::{FILE_LEN_MAX, Settings, public_form};
use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::Command,
};

/// Lines of the journal.
const JOURNAL_LINES: &str = "--lines=5000";
/// Bytes of the log, the last ones.
const LOG_LEN_MAX: usize = 2 << 20;
/// Bytes of a file of the system.
const SYSTEM_FILE_LEN_MAX: u64 = 64 << 10;

const INTRODUCTION: &str = "\
Report of `forebay doctor --bundle`. It is plain text: read it before you send it.
Not in it: secrets (settings name their files, which are not read), comments of the configuration, cached data.
In it, as far as the log has them: names of files, users and clients.
";

/// Sources of the report.
pub(super) struct Subject<'a> {
    pub(super) config: &'a Path,
    /// Absent if the configuration is invalid.
    pub(super) settings: Option<&'a Settings>,
    pub(super) findings: &'a Findings,
    /// The log; the journal of the unit if absent.
    pub(super) log: Option<&'a Path>,
}

/// Writes the report to a new file, which only this user can read.
pub(super) fn write(path: &Path, subject: &Subject<'_>) -> anyhow::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path);
    let file =
        file.as_mut().map_err(|error| anyhow::anyhow!("cannot create the report {}: {error}", path.display()))?;
    let report = compose(subject)?;
    file.write_all(report.as_bytes())
        .and_then(|()| file.sync_all())
        .with_context(|| format!("writing {}", path.display()))
}

fn compose(subject: &Subject<'_>) -> anyhow::Result<String> {
    let mut findings = Vec::new();
    subject.findings.print(&mut findings)?;
    let mut report = Report(INTRODUCTION.to_owned());
    report.section("Versions", Ok(versions()));
    report.section("Findings", String::from_utf8(findings).context("findings"));
    report.section(&format!("Configuration {}", subject.config.display()), configuration(subject.config));
    let (status, metrics) = match subject.settings.map(|settings| client::block_on(snapshot::take(settings))) {
        Some(Ok(snapshot)) => (snapshot.status, snapshot.metrics),
        Some(Err(error)) => (Err(anyhow::anyhow!("{error:#}")), Err(error)),
        None => (Err(anyhow::anyhow!(INVALID)), Err(anyhow::anyhow!(INVALID))),
    };
    report.section("Status", status);
    report.section("Metrics", metrics);
    match subject.log {
        Some(log) => report.section(&format!("Log {}", log.display()), end_of_file(log)),
        None => report.section("Log of the unit forebay", journal()),
    }
    Ok(report.0)
}

const INVALID: &str = "the configuration is invalid, so the server's admin port is unknown";

struct Report(String);

impl Report {
    fn section(&mut self, title: &str, content: anyhow::Result<String>) {
        let content = content.unwrap_or_else(|error| format!("not available: {error:#}"));
        self.0.extend(["\n===== ", title, " =====\n\n", content.trim_end(), "\n"]);
    }
}

fn versions() -> String {
    let line = |what: &str, text: Option<String>| format!("{what}: {}\n", text.as_deref().map_or("unknown", str::trim));
    let system = rustix::system::uname();
    let release = system_file("/etc/os-release").unwrap_or_default();
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches('"').to_owned());
    let memory = system_file("/proc/meminfo").and_then(|text| text.lines().next().map(str::to_owned));
    [
        line("forebay", Some(env!("CARGO_PKG_VERSION").to_owned())),
        line("system", name),
        line("kernel", system.release().to_str().ok().map(str::to_owned)),
        line("machine", system.machine().to_str().ok().map(str::to_owned)),
        line("processors", std::thread::available_parallelism().ok().map(|count| count.to_string())),
        line("memory", memory),
        line("pressure", system_file("/proc/pressure/io").map(|text| text.replace('\n', "; "))),
    ]
    .concat()
}

fn system_file(path: &str) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(SYSTEM_FILE_LEN_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

fn configuration(path: &Path) -> anyhow::Result<String> {
    let len = fs::metadata(path)?.len();
    anyhow::ensure!(len <= FILE_LEN_MAX, "longer than {FILE_LEN_MAX} bytes");
    public_form(&fs::read_to_string(path)?).context("it is not TOML, and is not shown because it could hold a secret")
}

fn end_of_file(path: &Path) -> anyhow::Result<String> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(LOG_LEN_MAX as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(LOG_LEN_MAX as u64).read_to_end(&mut bytes)?;
    Ok(last_lines(&bytes))
}

fn journal() -> anyhow::Result<String> {
    let arguments = ["--unit=forebay", JOURNAL_LINES, "--output=short-iso", "--no-pager", "--quiet"];
    let output = Command::new("journalctl").args(arguments).output().context("journalctl: name a file with --log")?;
    let problem = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "journalctl: {}: {}", output.status, problem.trim());
    anyhow::ensure!(!output.stdout.is_empty(), "the journal has no entries of this unit: name a file with --log");
    Ok(last_lines(&output.stdout))
}

/// The last bytes of a log as whole lines.
fn last_lines(bytes: &[u8]) -> String {
    let cut = bytes.len().saturating_sub(LOG_LEN_MAX);
    let tail = bytes.get(cut..).unwrap_or_default();
    let text = String::from_utf8_lossy(tail);
    let whole = if cut == 0 { None } else { text.split_once('\n') };
    whole.map_or_else(|| text.to_string(), |(_, lines)| lines.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_cut_at_a_line() {
        assert_eq!(last_lines(b"a\nb\n"), "a\nb\n");
        let line = "x".repeat(99) + "\n";
        let cut = last_lines(line.repeat(LOG_LEN_MAX / 100 + 2).as_bytes());
        assert!(cut.len() <= LOG_LEN_MAX && cut.lines().all(|cut| cut.len() == 99), "{}", cut.len());
    }
}
