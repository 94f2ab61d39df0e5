//! `forebay check-config`: checks a configuration file without starting anything.

use crate::node::gate;
use forebay_config::{Config, ConfigError, DEFAULT_FILE, ExportFiles, Settings, example_file, reference};
use forebay_proto::TlsUse;
use std::{
    io::{self, Write},
    path::PathBuf,
};

/// Check a configuration file, or print an example
#[derive(Debug, clap::Args)]
pub(crate) struct CheckConfigArgs {
    /// The file to check
    #[arg(default_value = DEFAULT_FILE)]
    file: PathBuf,
    /// Print an example file with every setting
    #[arg(long, conflicts_with_all = ["file", "reference"])]
    example: bool,
    /// Print the reference of all settings, as Markdown
    #[arg(long, conflicts_with = "file")]
    reference: bool,
}

pub(crate) fn run(args: &CheckConfigArgs) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if args.example {
        out.write_all(example_file().as_bytes())?;
        return Ok(());
    }
    if args.reference {
        out.write_all(reference().as_bytes())?;
        return Ok(());
    }
    let file = &args.file;
    let settings = Settings::read(file)?;
    check_machine(&settings)?;
    for warning in settings.warnings().iter().chain(&gate::doubts(&settings)) {
        writeln!(io::stderr(), "warning: {warning}")?;
    }
    writeln!(out, "{}: good", file.display())?;
    for line in summary(&settings.config) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// Reports all problems of the configuration on this machine.
fn check_machine(settings: &Settings) -> Result<(), ConfigError> {
    let mut errors: Vec<_> = settings.check_environment().err().into_iter().collect();
    match gate::origin_credentials(settings) {
        Ok(credentials) => {
            errors.extend(gate::open(settings, &credentials).err());
            let unusable = credentials.report().filter_map(|(_, _, problem)| problem);
            errors.extend(unusable.map(|problem| settings.error_at("credential", problem)));
        }
        Err(error) => errors.push(error),
    }
    let problems: Vec<_> = errors.into_iter().flat_map(|error| error.problems).collect();
    if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
}

/// A summary of the configuration.
fn summary(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    for address in &config.server.listen {
        let protocols = if config.http.is_shared { "root, http" } else { "root" };
        lines.push(format!("listen      {address} ({protocols})"));
    }
    for address in &config.http.listen {
        lines.push(format!("listen      {address} (http)"));
    }
    for address in &config.s3.listen {
        lines.push(format!("listen      {address} (s3)"));
    }
    if let Some(clients) = &config.tls.clients {
        let certificate = clients.files.credential.certificate.display();
        lines.push(format!("tls         {}, as {certificate}", clients.policy.as_str()));
    }
    if let Some(address) = config.admin.listen {
        let api = if config.admin.token_file.is_some() { ", API with token" } else { "" };
        lines.push(format!("admin       {address}{api}"));
    }
    if let Some(socket) = &config.admin.socket {
        lines.push(format!("admin       {}", socket.display()));
    }
    for export in &config.exports {
        let files = files_text(&export.files);
        lines.push(format!("export      {} from {files}", export.path));
    }
    if !config.forwarding.is_empty() {
        lines.push("forwarding  to allowed origins".to_owned());
    }
    for disk in &config.disks {
        let weight = if config.disks.len() > 1 { format!(", weight {}", disk.weight) } else { String::new() };
        lines.push(format!("disk        {}{weight}, blocks of {}", disk.path.display(), config.engine.block_size));
    }
    if let Some(files) = &config.records.files {
        lines.push(format!("records     {}", files.directory.display()));
    }
    if let Some(search) = &config.records.search {
        let servers: Vec<_> = search.urls.iter().map(ToString::to_string).collect();
        lines.push(format!("records     {} at {}", search.stream, servers.join(", ")));
    }
    lines
}

/// The source of the files of an export.
fn files_text(files: &ExportFiles) -> String {
    match files {
        ExportFiles::Origins { first, others, tls } => {
            let scheme = if *tls == TlsUse::Always { "roots" } else { "root" };
            let servers = std::iter::once(first).chain(others).map(|server| format!("{scheme}://{server}"));
            servers.collect::<Vec<_>>().join(", ")
        }
        ExportFiles::HttpOrigins { first, others } => {
            std::iter::once(first).chain(others).map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        ExportFiles::Alternatives(files) => files.iter().map(files_text).collect::<Vec<_>>().join(", "),
        ExportFiles::Directory(directory) => directory.display().to_string(),
    }
}
