//! Who comes in, and what they may do: made from the configuration.

use forebay_config::Settings;
use forebay_trust::{Gate, GateFiles};
use std::sync::Arc;
use tokio::{sync::watch, task::JoinSet, time::interval};

/// The gate that the configuration speaks of.
///
/// # Errors
/// When a file cannot be used.
pub(crate) fn open(settings: &Settings) -> anyhow::Result<Arc<Gate>> {
    let config = &settings.config;
    let credential = config.tls.clients.as_ref().map(|clients| {
        let credential = &clients.files.credential;
        (credential.certificate.clone(), credential.key.clone())
    });
    let ca_dir = config.tls.trust.ca_dir.clone();
    let host = config.server.options.host_name.clone().unwrap_or_else(own_host_name);
    let files = GateFiles { credential, ca_dir, host };
    let gate = Gate::open(config.security.clone(), &files);
    Ok(Arc::new(gate.map_err(|error| settings.error_at("authentication.methods", error))?))
}

fn own_host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Reads again what has changed in the gate's files, and fetches keys of issuers, until the server stops.
pub(super) fn keep_current(gate: &Arc<Gate>, tasks: &mut JoinSet<()>, mut stop: watch::Receiver<bool>) {
    let (fetching, mut stopped) = (Arc::clone(gate), stop.clone());
    tasks.spawn(async move {
        tokio::select! {
            () = fetching.keep_keys_current() => {}
            _ = stopped.wait_for(|is_stopping| *is_stopping) => {}
        }
    });
    let gate = Arc::clone(gate);
    tasks.spawn(async move {
        let mut ticks = interval(gate.options().refresh_interval);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.wait_for(|is_stopping| *is_stopping) => return,
            }
            let gate = Arc::clone(&gate);
            if let Err(error) = tokio::task::spawn_blocking(move || gate.refresh()).await {
                tracing::error!(%error, "a fault of our own while files were looked at for changes");
            }
        }
    });
}
