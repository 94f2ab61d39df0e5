//! The admin port of a server: a TCP listener, a unix socket, both, or none.

use super::unusable::unusable;
use anyhow::Context;
use forebay_admin::{AccessRules, Admin, AdminSocket, Popularity, TokenFile, Views};
use forebay_cluster::Locator;
use forebay_config::{Config, Settings};
use forebay_front::Backend;
use forebay_telemetry::Readiness;
use std::{future::pending, io, net::SocketAddr, os::unix::net::UnixListener, path::PathBuf, sync::Arc};
use tokio::{net::TcpListener, task::JoinSet};

/// Where the admin port is reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdminPort {
    /// TCP address, with the assigned port.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) socket: Option<PathBuf>,
}

/// The listeners of the admin port.
pub(super) struct AdminListeners {
    tcp: Option<TcpListener>,
    socket: Option<AdminSocket>,
    pub(super) port: AdminPort,
    /// Whether a service manager passed the socket: its unit determines the permissions.
    is_handed_over: bool,
}

/// Listens on the admin port; `handed_over` replaces the configured socket.
pub(super) async fn listen(settings: &Settings, handed_over: Option<UnixListener>) -> anyhow::Result<AdminListeners> {
    let config = &settings.config.admin;
    let tcp = match config.listen {
        Some(address) => Some(TcpListener::bind(address).await.map_err(|error| {
            let is_passing = error.kind() == io::ErrorKind::AddrInUse;
            unusable(settings, "admin.listen", format_args!("cannot listen on {address}: {error}"), is_passing)
        })?),
        None => None,
    };
    let is_handed_over = handed_over.is_some();
    let socket = match (handed_over, &config.socket) {
        (Some(listener), path) => Some(AdminSocket::handed_over(listener, path.as_deref())),
        (None, Some(path)) => Some(AdminSocket::bind(path, config.socket_group)),
        (None, None) => None,
    };
    let socket =
        socket.transpose().map_err(|error| unusable(settings, "admin.socket", &error, error.is_retryable()))?;
    let address = tcp.as_ref().map(TcpListener::local_addr).transpose().context("the admin listener")?;
    let port = AdminPort { address, socket: socket.as_ref().map(|socket| socket.path().to_owned()) };
    Ok(AdminListeners { tcp, socket, port, is_handed_over })
}

impl AdminListeners {
    /// Serves them until the tasks are aborted.
    pub(super) fn serve(
        self,
        backend: Backend,
        readiness: Readiness,
        config: &Config,
        (views, popularity): (Views, Option<Popularity>),
        locator: Option<Locator>,
    ) -> JoinSet<()> {
        let config = &config.admin;
        let rules = AccessRules {
            token_file: config.token_file.clone().map(|path| Arc::new(TokenFile::new(path))),
            is_group_allowed: config.socket_group.is_some() || self.is_handed_over,
        };
        if let (Some(address), true) = (self.port.address, config.token_file.is_some())
            && !address.ip().is_loopback()
        {
            tracing::warn!(%address, "the token of the administration API is sent unencrypted; use a tunnel");
        }
        let recorder = views.recorder().clone();
        let mut admin = Admin::new(backend.clone(), readiness, rules).with_views(views);
        if let Some(locator) = locator {
            admin = admin.with_locator(locator);
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { recorder.run(backend).await });
        if let Some(popularity) = popularity {
            admin = admin.with_popularity(popularity.clone());
            tasks.spawn(popularity.run());
        }
        if let Some(listener) = self.tcp {
            let admin = admin.clone();
            tasks.spawn(async move { admin.serve_tcp(listener, pending()).await });
        }
        if let Some(socket) = self.socket {
            tasks.spawn(async move { admin.serve_unix(socket, pending()).await });
        }
        tasks
    }
}
