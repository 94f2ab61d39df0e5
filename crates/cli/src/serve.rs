//! `forebay serve`: runs the server until it is stopped.

mod descriptors;
mod handed_over;
mod privileges;
mod signals;

use crate::node::{self, Bound, Node};
use anyhow::{Context, bail};
use forebay_config::{Flags, Settings, setting_help};
use forebay_telemetry::{LogControl, init_logging};
use signals::Signals;
use std::{
    io::{self, Write},
    path::PathBuf,
};

/// Run the server, from a configuration file or from flags alone
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Use either --config or the other flags. The file has more settings: see `forebay check-config --example`."
)]
pub(crate) struct ServeArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: ServeFlags,
}

#[derive(Debug, clap::Args)]
struct ServeFlags {
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "config", help = setting_help("server.listen"))]
    listen: Vec<String>,
    #[arg(long, value_name = "URL", conflicts_with = "config", help = setting_help("export.origins"))]
    origin: Vec<String>,
    #[arg(long, value_name = "DIR", conflicts_with = "config", help = setting_help("store.path"))]
    store: Option<String>,
    #[arg(long, value_name = "PATTERN", conflicts_with = "config", help = setting_help("forwarding.allow"))]
    forwarding: Vec<String>,
    #[arg(long, value_name = "SIZE", conflicts_with = "config", help = setting_help("store.block_size"))]
    block_size: Option<String>,
    #[arg(long, value_name = "SIZE", conflicts_with = "config", help = setting_help("memory.budget"))]
    memory: Option<String>,
    #[arg(long, value_name = "SIZE", conflicts_with = "config", help = setting_help("purge.budget"))]
    budget: Option<String>,
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "config", help = setting_help("admin.listen"))]
    admin_listen: Option<String>,
    #[arg(long, value_name = "FILE", conflicts_with = "config", help = setting_help("admin.socket"))]
    admin_socket: Option<String>,
    #[arg(long, value_name = "DIR", conflicts_with = "config", help = setting_help("export.directory"))]
    export_dir: Option<String>,
    #[arg(long, value_name = "never|complete", conflicts_with = "config", help = setting_help("export.direct"))]
    direct: Option<String>,
    #[arg(long, value_name = "proxy|redirect", conflicts_with = "config", help = setting_help("export.miss"))]
    miss: Option<String>,
    #[arg(long, value_name = "on-demand-blocks|while-open|to-end", conflicts_with = "config", help = setting_help("export.fill"))]
    fill: Option<String>,
    #[arg(long, value_name = "refuse|redirect", conflicts_with = "config", help = setting_help("export.writes"))]
    writes: Option<String>,
    #[arg(long, value_name = "FILTER", conflicts_with = "config", help = setting_help("logging.filter"))]
    log: Option<String>,
}

pub(crate) fn run(args: ServeArgs) -> anyhow::Result<()> {
    let mut settings = match &args.config {
        Some(file) => Settings::read(file)?,
        None => Settings::from_flags(args.flags.into())?,
    };
    settings.check_needed()?;
    let logging = &settings.config.logging;
    let log =
        init_logging(logging.format, &logging.filter).map_err(|error| settings.error_at("logging.filter", error))?;
    warn_of_old_keys(&settings);
    let front = &mut settings.config.server.front;
    front.connections_max = descriptors::raise_limit(front.connections_max);
    let admin_socket = handed_over::admin_socket()?;
    let bound = Bound { admin_socket, ..node::bind(&settings)? };
    let user = settings.config.server.user.as_ref();
    if privileges::give_up(user).map_err(|error| settings.error_at("server.user", error))? {
        // Files that root can read may be inaccessible to this user.
        settings.check_needed()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(serve(&settings, bound, args.config, &log))
}

async fn serve(settings: &Settings, bound: Bound, file: Option<PathBuf>, log: &LogControl) -> anyhow::Result<()> {
    let mut signals = Signals::listen().context("installing signal handlers")?;
    let node = Node::start(settings, bound).await?;
    announce(&node).context("printing the addresses to standard output")?;
    let mut is_lost = false;
    loop {
        tokio::select! {
            request = signals.stop_or_reload() => if request != signals::Request::Reload { break },
            () = node.store_lost() => {
                is_lost = true;
                break;
            }
        }
        match &file {
            Some(file) => reload(settings, file, &node, log),
            None => tracing::warn!("nothing to reload: the server was configured by flags"),
        }
    }
    tracing::info!("stopping");
    node.stop(settings.config.server.shutdown_time_max, signals.stop()).await;
    tracing::info!("stopped");
    if is_lost { bail!("another filler has taken over the store; see the log") } else { Ok(()) }
}

/// Prints the addresses of the server. Scripts that start it wait for these lines.
fn announce(node: &Node) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if let Some(address) = node.admin.address {
        writeln!(out, "admin http://{address}")?;
    }
    if let Some(socket) = &node.admin.socket {
        writeln!(out, "admin unix:{}", socket.display())?;
    }
    if let Some(address) = node.addresses.first() {
        writeln!(out, "ready root://{address}")?;
    }
    for address in &node.addresses {
        tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "accepting connections");
    }
    out.flush()
}

fn warn_of_old_keys(settings: &Settings) {
    for warning in settings.warnings() {
        tracing::warn!(
            place = warning.place,
            problem = warning.text,
            "the configuration uses a key of an earlier release"
        );
    }
}

/// Reloads the file. An invalid file changes nothing.
fn reload(started_with: &Settings, file: &std::path::Path, node: &Node, log: &LogControl) {
    let reread = || {
        let new = Settings::read(file)?;
        new.check_needed()?;
        node.reload(&new)?;
        log.set_filter(&new.config.logging.filter)?;
        anyhow::Ok(new)
    };
    match reread() {
        Ok(new) => {
            tracing::info!(file = %file.display(), "configuration reloaded: exports, forwarding and log filter are in effect");
            warn_of_old_keys(&new);
            let restart_needed = started_with.restart_needed(&new);
            if !restart_needed.is_empty() {
                tracing::warn!(
                    settings = restart_needed.join(", "),
                    "some changed settings take effect at the next start only"
                );
            }
        }
        Err(error) => {
            for problem in format!("{error:#}").lines() {
                tracing::error!(problem, "configuration not reloaded; the old one stays in effect");
            }
        }
    }
}

impl From<ServeFlags> for Flags {
    fn from(flags: ServeFlags) -> Self {
        Self {
            listen: flags.listen,
            origins: flags.origin,
            store: flags.store,
            forwarding: flags.forwarding,
            block_size: flags.block_size,
            memory: flags.memory,
            budget: flags.budget,
            admin_listen: flags.admin_listen,
            admin_socket: flags.admin_socket,
            export_dir: flags.export_dir,
            writes: flags.writes,
            direct: flags.direct,
            miss: flags.miss,
            fill: flags.fill,
            log: flags.log,
        }
    }
}
