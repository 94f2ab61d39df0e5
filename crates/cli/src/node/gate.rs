//! Authentication, authorization and TLS from the configuration.

use forebay_auth::UnixTime;
use forebay_config::{ClientCertificates, ConfigError, Problem, Settings};
use forebay_net::{ClientTlsFiles, TlsAcceptor, TlsConnector};
use forebay_server::Tls;
use forebay_trust::{Gate, GateFiles, OriginCredentials};
use std::{net::UdpSocket, sync::Arc};
use tokio::{sync::watch, task::JoinSet, time::interval};

/// The gate of a configuration.
pub(crate) fn open(settings: &Settings, credentials: &Arc<OriginCredentials>) -> Result<Arc<Gate>, ConfigError> {
    let config = &settings.config;
    let credential = config.tls.clients.as_ref().map(|clients| {
        let credential = &clients.files.credential;
        (credential.certificate.clone(), credential.key.clone())
    });
    let ca_dir = config.tls.trust.ca_dir.clone();
    let host = host_name(settings);
    let files = GateFiles { credential, ca_dir, host };
    let gate = Gate::open(config.security.clone(), &files);
    let gate = gate.map_err(|error| settings.error_at("authentication.methods", error))?;
    Ok(Arc::new(gate.delegating_to(Arc::clone(credentials))))
}

/// Credentials for origins.
pub(crate) fn origin_credentials(settings: &Settings) -> Result<Arc<OriginCredentials>, ConfigError> {
    let options = settings.config.credentials.clone();
    let opened = OriginCredentials::open(options, UnixTime(forebay_net::clock::now_unix()));
    Ok(Arc::new(opened.map_err(|error| settings.error_at("credential", error))?))
}

/// The name under which clients reach this host.
pub(crate) fn host_name(settings: &Settings) -> String {
    settings.config.server.options.host_name.clone().unwrap_or_else(own_host_name)
}

/// The name of this machine.
pub(crate) fn own_host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Doubtful settings on access, on this machine.
pub(crate) fn doubts(settings: &Settings) -> Vec<Problem> {
    // The address that this machine shows to others, of each family. Connecting sends nothing.
    let own = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")].into_iter().filter_map(|(own, other)| {
        let socket = UdpSocket::bind(own).ok()?;
        socket.connect(other).ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    settings.doubts(&own.collect::<Vec<_>>())
}

/// TLS for clients, if configured.
pub(super) fn tls_towards_clients(settings: &Settings) -> anyhow::Result<Option<Tls>> {
    let Some(clients) = &settings.config.tls.clients else { return Ok(None) };
    let acceptor =
        TlsAcceptor::new(clients.files.clone()).map_err(|error| settings.error_at("tls.certificate", error))?;
    if clients.files.trust.is_none() {
        tracing::info!(ca_dir = %settings.config.tls.trust.ca_dir.display(), "client certificates are not requested");
    }
    Ok(Some(Tls { acceptor, policy: clients.policy, handshake_time_max: clients.handshake_time_max }))
}

/// TLS for clients of HTTP, if configured.
pub(super) fn https(settings: &Settings) -> anyhow::Result<Option<forebay_http::Tls>> {
    let Some(clients) = &settings.config.tls.clients else { return Ok(None) };
    let mut files = clients.files.clone();
    if settings.config.http.client_certificates == ClientCertificates::Off {
        files.trust = None;
    }
    files.offers_http2 = settings.config.http.offers_http2;
    let acceptor = TlsAcceptor::new(files).map_err(|error| settings.error_at("tls.certificate", error))?;
    Ok(Some(forebay_http::Tls { acceptor, handshake_time_max: clients.handshake_time_max }))
}

/// TLS to origins; `None` if it is not configured and the usual CA directory of the grid is missing.
pub(crate) fn tls_towards_origins(settings: &Settings) -> Result<Option<TlsConnector>, ConfigError> {
    let tls = &settings.config.tls;
    let files = ClientTlsFiles { trust: tls.trust.clone(), credential: tls.own.clone() };
    if files.credential.is_none() && !files.trust.ca_dir.is_dir() {
        return Ok(None);
    }
    let setting = if tls.own.is_some() { "origin.certificate" } else { "tls.ca_dir" };
    Ok(Some(TlsConnector::new(files).map_err(|error| settings.error_at(setting, error))?))
}

/// Reloads changed files of both, and fetches keys of issuers, until the server stops.
pub(super) fn keep_current(
    gate: &Arc<Gate>,
    credentials: &Arc<OriginCredentials>,
    tasks: &mut JoinSet<()>,
    mut stop: watch::Receiver<bool>,
) {
    let (fetching, mut stopped) = (Arc::clone(gate), stop.clone());
    tasks.spawn(async move {
        tokio::select! {
            () = fetching.keep_keys_current() => {}
            _ = stopped.wait_for(|is_stopping| *is_stopping) => {}
        }
    });
    let (gate, credentials) = (Arc::clone(gate), Arc::clone(credentials));
    tasks.spawn(async move {
        let mut ticks = interval(gate.options().refresh_interval);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.wait_for(|is_stopping| *is_stopping) => return,
            }
            let (gate, credentials) = (Arc::clone(&gate), Arc::clone(&credentials));
            let refreshed = tokio::task::spawn_blocking(move || {
                gate.refresh();
                credentials.refresh(UnixTime(forebay_net::clock::now_unix()));
            });
            if let Err(error) = refreshed.await {
                tracing::error!(%error, "internal error while checking files for changes");
            }
        }
    });
}
