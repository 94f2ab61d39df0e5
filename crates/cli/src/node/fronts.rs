//! The fronts, on their listeners.

use super::gate;
use forebay_config::{ClientCertificates, Config, Settings};
use forebay_dcap::DcapFront;
use forebay_front::{Front, SecondProtocol};
use forebay_http::HttpFront;
use forebay_net::Listener;
use forebay_proto::TlsPolicy;
use forebay_server::{Server, Shared, Tls};
use std::{net::SocketAddr, sync::Arc};
use tokio::{sync::watch, task::JoinSet};

/// Listeners of `root://` with HTTP, of HTTP only, of S3, and of dCap.
pub(super) struct Listeners {
    pub(super) of_root: Vec<Listener>,
    pub(super) of_http: Vec<Listener>,
    pub(super) of_s3: Vec<Listener>,
    pub(super) of_dcap: Vec<Listener>,
}

impl Listeners {
    /// The addresses of the four kinds.
    pub(super) fn addresses(&self) -> [Vec<SocketAddr>; 4] {
        [&self.of_root, &self.of_http, &self.of_s3, &self.of_dcap]
            .map(|kind| kind.iter().map(Listener::address).collect())
    }
}

/// Serves the clients of `listeners` until `stop` is true.
pub(super) fn serve(
    settings: &Settings,
    front: Arc<Front>,
    tls: Option<Tls>,
    listeners: Listeners,
    stop: &watch::Sender<bool>,
) -> anyhow::Result<JoinSet<()>> {
    let config = &settings.config;
    let options = http_options(settings)?;
    let s3 = forebay_http::Options { s3: Some(config.s3.options.clone()), ..options.clone() };
    let http: Arc<dyn SecondProtocol> = Arc::new(HttpFront::new(Arc::clone(&front), options));
    let s3: Arc<dyn SecondProtocol> = Arc::new(HttpFront::new(Arc::clone(&front), s3));
    let dcap: Arc<dyn SecondProtocol> = Arc::new(DcapFront::new(Arc::clone(&front), dcap_options(config)));
    let server = Server::new(front, forebay_server::Options { tls, ..config.server.options.clone() });
    let beside = config.http.is_shared.then(|| Arc::clone(&http));
    let of_root = listeners
        .of_root
        .into_iter()
        .map(|listener| (listener, Shared { with: beside.clone(), is_without_root: false }));
    let alone = |protocol: &Arc<dyn SecondProtocol>| Shared { with: Some(Arc::clone(protocol)), is_without_root: true };
    let of_http = listeners.of_http.into_iter().map(|listener| (listener, alone(&http)));
    let of_s3 = listeners.of_s3.into_iter().map(|listener| (listener, alone(&s3)));
    let of_dcap = listeners.of_dcap.into_iter().map(|listener| (listener, alone(&dcap)));
    let mut fronts = JoinSet::new();
    for (listener, shared) in of_root.chain(of_http).chain(of_s3).chain(of_dcap) {
        let (server, stopped) = (server.clone(), super::wait_for(stop.subscribe()));
        fronts.spawn(async move { server.serve_shared(listener, shared, stopped).await });
    }
    Ok(fronts)
}

fn dcap_options(config: &Config) -> forebay_dcap::Options {
    forebay_dcap::Options { write_stall_max: config.server.options.write_stall_max, ..config.dcap.options.clone() }
}

fn http_options(settings: &Settings) -> anyhow::Result<forebay_http::Options> {
    let Config { http, server, tls: files, .. } = &settings.config;
    Ok(forebay_http::Options {
        tls: gate::https(settings)?,
        requires_certificate: http.client_certificates == ClientCertificates::Require,
        // A client that must encrypt with one protocol must do so with the other.
        requires_tls: files
            .clients
            .as_ref()
            .is_some_and(|clients| !matches!(clients.policy, TlsPolicy::None | TlsPolicy::Capable)),
        write_stall_max: server.options.write_stall_max,
        host_name: gate::host_name(settings),
        ..http.options.clone()
    })
}
