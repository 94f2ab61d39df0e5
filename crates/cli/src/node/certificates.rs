//! Exports how long certificates and credentials of the server are valid.

use forebay_auth::x509::Credential;
use forebay_config::Config;
use forebay_telemetry::{CertificateEnd, Metrics};
use forebay_trust::{OriginProof, read, read_secret};
use std::path::{Path, PathBuf};

/// Reads the files at each scrape: they are renewed while the server runs. Files that cannot be read are missing; `forebay doctor`
/// reports them.
pub(super) fn watch(config: &Config, metrics: &Metrics) {
    let files = files(config);
    metrics.watch_certificates(move || {
        let now = forebay_net::clock::now_unix();
        let end = |(certificate, key): &(PathBuf, PathBuf)| {
            let credential = read_credential(certificate, key)?;
            Some(CertificateEnd {
                file: certificate.display().to_string(),
                is_proxy: !credential.chain().proxies().is_empty(),
                seconds: credential.valid_until().0.saturating_sub(now),
            })
        };
        files.iter().filter_map(end).collect()
    });
}

/// The certificates, each with its key.
fn files(config: &Config) -> Vec<(PathBuf, PathBuf)> {
    let of_server = config.tls.clients.iter().map(|clients| &clients.files.credential).chain(&config.tls.own);
    let of_server = of_server.map(|own| (own.certificate.clone(), own.key.clone()));
    let of_origins = config.credentials.rules.iter().filter_map(|rule| match &rule.proof {
        OriginProof::Proxy(Some(proxy)) => Some((proxy.clone(), proxy.clone())),
        OriginProof::Certificate { certificate, key } => Some((certificate.clone(), key.clone())),
        _ => None,
    });
    let mut files: Vec<_> = of_server.chain(of_origins).collect();
    files.sort();
    files.dedup();
    files
}

fn read_credential(certificate: &Path, key: &Path) -> Option<Credential> {
    let (chain, key) = (read(certificate).ok()?, read_secret(key, true).ok()?);
    Credential::from_pem(&chain, &key).ok()
}
