//! TLS from the configuration.

use forebay_config::Settings;
use forebay_net::{ClientTlsFiles, TlsAcceptor, TlsConnector};
use forebay_server::Tls;

/// TLS for clients, if configured.
pub(super) fn towards_clients(settings: &Settings) -> anyhow::Result<Option<Tls>> {
    let Some(clients) = &settings.config.tls.clients else { return Ok(None) };
    let acceptor =
        TlsAcceptor::new(clients.files.clone()).map_err(|error| settings.error_at("tls.certificate", error))?;
    if clients.files.trust.is_none() {
        tracing::info!(ca_dir = %settings.config.tls.trust.ca_dir.display(), "client certificates are not requested");
    }
    Ok(Some(Tls { acceptor, policy: clients.policy, handshake_time_max: clients.handshake_time_max }))
}

/// TLS to origins; `None` if it is not configured and the usual CA directory of the grid is missing.
pub(crate) fn towards_origins(settings: &Settings) -> anyhow::Result<Option<TlsConnector>> {
    let tls = &settings.config.tls;
    let files = ClientTlsFiles { trust: tls.trust.clone(), credential: tls.own.clone() };
    if files.credential.is_none() && !files.trust.ca_dir.is_dir() {
        return Ok(None);
    }
    let setting = if tls.own.is_some() { "origin.certificate" } else { "tls.ca_dir" };
    Ok(Some(TlsConnector::new(files).map_err(|error| settings.error_at(setting, error))?))
}
