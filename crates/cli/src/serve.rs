//! `forebay serve`: runs the server until it is stopped.

mod descriptors;
mod notify;
mod passed_sockets;
mod privileges;
mod restart;

use crate::node::{self, Bound, Departure, Node, gate};
use anyhow::{Context, bail};
use clap::{Arg, ArgAction, ArgMatches};
use forebay_config::{DEFAULT_FILE, Flag, Settings, flags, setting_help};
use forebay_telemetry::{LogControl, init_logging};
use forebay_types::Endpoint;
use notify::ServiceManager;
use passed_sockets::PassedSockets;
use restart::Successor;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Run the server, from a configuration file or from flags alone
///
/// Without --config and without flags, the file is /etc/forebay/forebay.toml.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Use either --config or the other flags. The file has more settings: see `forebay check-config --example`."
)]
pub(crate) struct ServeArgs {
    /// Configuration file
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: SettingFlags,
}

/// The flags of settings, by the name of the setting.
#[derive(Debug)]
struct SettingFlags(Vec<(&'static str, Vec<String>)>);

impl clap::Args for SettingFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(flags().map(|flag| {
            let action = if flag.is_list { ArgAction::Append } else { ArgAction::Set };
            let arg = Arg::new(flag.setting).long(flag.name.trim_start_matches('-')).value_name(flag.placeholder);
            arg.action(action).help(setting_help(flag.setting)).conflicts_with("config")
        }))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = |flag: Flag| Some((flag.setting, matches.get_many(flag.setting)?.cloned().collect()));
        Ok(Self(flags().filter_map(values).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub(crate) fn run(args: ServeArgs) -> anyhow::Result<()> {
    let is_default = args.config.is_none() && args.flags.0.is_empty();
    let file = if is_default { Some(PathBuf::from(DEFAULT_FILE)) } else { args.config };
    let mut settings = match &file {
        Some(file) => Settings::read(file)?,
        None => Settings::from_flags(&args.flags.0)?,
    };
    settings.check_needed()?;
    let logging = &settings.config.logging;
    let log =
        init_logging(logging.format, &logging.filter).map_err(|error| settings.error_at("logging.filter", error))?;
    warn_of(&settings);
    let front = &mut settings.config.server.front;
    let room = descriptors::raise_limit(front.connections_max, front.open_files_max);
    (front.connections_max, front.open_files_max) = (room.connections, room.files);
    front.memory_budget_bytes = settings.config.engine.budget_bytes;
    settings.config.engine.open_files_max = room.files;
    let manager = ServiceManager::of_environment();
    let mut passed = PassedSockets::of_environment()?;
    let admin_socket = passed.take_admin();
    let bound = Bound { admin_socket, ..node::bind(&settings, |address| passed.take(address))? };
    passed.keep_for_the_next_process(&bound, &manager).map_err(|error| settings.error_at("server.listen", error))?;
    privileges::check_owner(&settings.config).map_err(|error| settings.error_at("server.user", error))?;
    let user = settings.config.server.user.as_ref();
    if privileges::give_up(user).map_err(|error| settings.error_at("server.user", error))? {
        // Files that root can read may be inaccessible to this user.
        settings.check_needed()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    let successor = Successor::of(&bound).context("copying the sockets for a restart")?;
    let serving = serve(&settings, (bound, successor), file, &log, &manager);
    let served = runtime.block_on(serving);
    // Threads that wait for a disk end with this program.
    runtime.shutdown_timeout(RUNTIME_END_TIME_MAX);
    match served? {
        Some(successor) => Err(successor.start()).context("running the program again"),
        None => Ok(()),
    }
}

/// Longest wait for threads before the program ends, or is run again.
const RUNTIME_END_TIME_MAX: Duration = Duration::from_secs(5);

/// Status for the service manager.
const SERVING: &str = "accepting connections";

/// Serves until the process has to stop. Returns the successor if it is to be started.
async fn serve(
    settings: &Settings,
    (bound, successor): (Bound, Successor),
    file: Option<PathBuf>,
    log: &LogControl,
    manager: &ServiceManager,
) -> anyhow::Result<Option<Successor>> {
    let mut signals = Signals::listen().context("installing signal handlers")?;
    let node = Node::start(settings, bound).await?;
    tokio::spawn(warn_of_unknown_origins(settings.config.origin_servers()));
    announce(&node).context("printing the addresses to standard output")?;
    manager.ready(SERVING);
    let end = loop {
        let asked = tokio::select! {
            asked = signals.next() => asked,
            () = node.store_lost() => break End::StoreLost,
        };
        match (asked, &file) {
            (Asked::Stop, _) => break End::Stop,
            (Asked::Restart, file) if may_restart(file.as_deref()) => break End::Restart,
            (Asked::Restart, _) => {}
            (Asked::Reload, Some(file)) => {
                manager.reloading();
                reload(settings, file, &node, log);
                manager.ready(SERVING);
            }
            (Asked::Reload, None) => tracing::warn!("nothing to reload: the server was configured by flags"),
        }
    };
    let patience = settings.config.server.shutdown_time_max;
    if let End::Restart = end {
        tracing::info!("restarting: new clients wait");
        manager.restarting();
        node.stop(Departure::Brief, patience, signals.stop()).await;
        return Ok(Some(successor));
    }
    // Without it new clients would wait in a queue that is never served.
    drop(successor);
    tracing::info!("stopping");
    manager.stopping();
    node.stop(Departure::Final, patience, signals.stop()).await;
    tracing::info!("stopped");
    if let End::StoreLost = end { bail!("another filler has taken over the store; see the log") } else { Ok(None) }
}

/// Why a server ends.
enum End {
    Stop,
    Restart,
    StoreLost,
}

/// A request that the operator makes by a signal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Asked {
    Stop,
    Reload,
    Restart,
}

/// Whether the next process would accept the configuration.
fn may_restart(file: Option<&Path>) -> bool {
    let Some(file) = file else { return true };
    let check = || anyhow::Ok(Settings::read(file)?.check_needed()?);
    if let Err(error) = check() {
        for problem in format!("{error:#}").lines() {
            tracing::error!(problem, "not restarted: the configuration has mistakes");
        }
        return false;
    }
    true
}

/// The signals of the operator that the server listens to.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    restart: Signal,
}

impl Signals {
    /// Replaces the default actions of the signals.
    fn listen() -> io::Result<Self> {
        let [terminate, interrupt, hang_up, restart] =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::user_defined2()]
                .map(signal);
        Ok(Self { terminate: terminate?, interrupt: interrupt?, hang_up: hang_up?, restart: restart? })
    }

    /// Waits for SIGTERM, SIGINT, SIGHUP or SIGUSR2.
    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.hang_up.recv() => Asked::Reload,
            _ = self.restart.recv() => Asked::Restart,
        }
    }

    /// The next request to stop; others are ignored.
    async fn stop(&mut self) {
        while self.next().await != Asked::Stop {}
    }
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
    if let Some(address) = node.http_addresses.first() {
        writeln!(out, "http http://{address}")?;
    }
    if let Some(address) = node.s3_addresses.first() {
        writeln!(out, "s3 http://{address}")?;
    }
    if let Some(address) = node.dcap_addresses.first() {
        writeln!(out, "dcap dcap://{address}")?;
    }
    if let Some(address) = node.addresses.first() {
        writeln!(out, "ready root://{address}")?;
    }
    let of_http = node.http_addresses.iter().chain(&node.s3_addresses);
    for address in node.addresses.iter().chain(of_http).chain(&node.dcap_addresses) {
        tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "accepting connections");
    }
    out.flush()
}

/// Logs keys of earlier releases and doubtful settings.
fn warn_of(settings: &Settings) {
    for warning in settings.warnings() {
        tracing::warn!(
            place = warning.place,
            problem = warning.text,
            "the configuration uses a key of an earlier release"
        );
    }
    for doubt in gate::doubts(settings) {
        tracing::warn!(place = doubt.place, problem = doubt.text, "check the access to this server");
    }
}

/// Logs the origins whose names do not resolve. They may resolve later: requests try again.
async fn warn_of_unknown_origins(servers: Vec<Endpoint>) {
    for server in servers {
        if let Err(error) = tokio::net::lookup_host((server.host(), server.port())).await {
            tracing::warn!(%server, %error, "the name of an origin cannot be resolved");
        }
    }
}

/// Reloads the file. An invalid file changes nothing.
fn reload(started_with: &Settings, file: &Path, node: &Node, log: &LogControl) {
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
            warn_of(&new);
            tokio::spawn(warn_of_unknown_origins(new.config.origin_servers()));
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
