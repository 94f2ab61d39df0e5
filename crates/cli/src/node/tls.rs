//! Encryption, made from the configuration.

use forebay_config::Settings;
use forebay_net::TlsAcceptor;
use forebay_server::Tls;

/// Encryption towards clients, if it is configured.
///
/// # Errors
/// When a file cannot be used.
pub(super) fn towards_clients(settings: &Settings) -> anyhow::Result<Option<Tls>> {
    let Some(clients) = &settings.config.tls.clients else { return Ok(None) };
    let acceptor =
        TlsAcceptor::new(clients.files.clone()).map_err(|error| settings.error_at("tls.certificate", error))?;
    if clients.files.trust.is_none() {
        tracing::info!(ca_dir = %settings.config.tls.trust.ca_dir.display(), "clients are not asked for certificates");
    }
    Ok(Some(Tls { acceptor, policy: clients.policy, handshake_time_max: clients.handshake_time_max }))
}
