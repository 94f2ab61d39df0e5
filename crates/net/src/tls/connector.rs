//! The client side: verification of servers, and the client's certificate.

use super::{
    Credential, CrlPolicy, TlsError, TrustAnchors, WebAnchors,
    reloading::Reloading,
    session::{TlsSession, Wire},
    verdict::{Objection, Strictness, judge},
};
use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode, SslVersion};
use std::sync::Arc;

/// Files of TLS for clients.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClientTlsFiles {
    /// Trust anchors for server certificates.
    pub trust: TrustAnchors,
    /// Certificate and key for servers that request them.
    pub credential: Option<Credential>,
}

/// Connects to servers by TLS 1.2 and 1.3, and accepts only certificates of a trusted CA for the requested host. Cheap to clone;
/// clones share the loaded files.
#[derive(Clone, Debug)]
pub struct TlsConnector(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    files: ClientTlsFiles,
    /// Replaces the trust anchors of the files, if set.
    web: Option<WebAnchors>,
    connector: Reloading<SslConnector>,
}

impl TlsConnector {
    /// Reads the files.
    ///
    /// # Errors
    /// If one of them cannot be used; names the file.
    pub fn new(files: ClientTlsFiles) -> Result<Self, TlsError> {
        let mut paths = vec![files.trust.path().to_owned()];
        paths.extend(files.credential.iter().flat_map(|own| [own.certificate.clone(), own.key.clone()]));
        let connector = Reloading::new(paths, crate::clock::monotonic(), || build(&files, None))?;
        Ok(Self(Arc::new(Shared { files, web: None, connector })))
    }

    /// For web servers, without a client certificate.
    ///
    /// # Errors
    /// If the CA file cannot be used.
    pub fn for_web(anchors: WebAnchors) -> Result<Self, TlsError> {
        let paths = anchors.path().map(|path| vec![path.to_owned()]).unwrap_or_default();
        let trust = TrustAnchors { ca_dir: anchors.place().to_owned(), crl: CrlPolicy::Ignore };
        let files = ClientTlsFiles { trust, credential: None };
        let connector = Reloading::new(paths, crate::clock::monotonic(), || build(&files, Some(&anchors)))?;
        Ok(Self(Arc::new(Shared { files, web: Some(anchors), connector })))
    }

    /// Trust anchors for server certificates.
    pub(super) fn trust(&self) -> &TrustAnchors {
        &self.0.files.trust
    }

    /// Starts a session with `host`. May read files.
    pub(super) fn session(&self, host: &str) -> Result<TlsSession, TlsError> {
        let Shared { files, web, connector } = &*self.0;
        let connector = connector.current(crate::clock::monotonic(), || build(files, web.as_ref()));
        let mut ssl = connector.configure()?.into_ssl(host)?;
        Objection::make_room(&mut ssl)?;
        ssl.set_connect_state();
        TlsSession::new(ssl, Wire::default())
    }
}

fn build(files: &ClientTlsFiles, web: Option<&WebAnchors>) -> Result<SslConnector, TlsError> {
    let mut builder = SslConnector::builder(SslMethod::tls_client())?;
    builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
    match web {
        // A new builder trusts these, if OpenSSL is that of the system.
        Some(WebAnchors::System) => {
            if let Some(list) = WebAnchors::list_for_bundled_openssl() {
                builder.set_ca_file(list)?;
            }
        }
        Some(WebAnchors::File(file)) => builder.set_cert_store(WebAnchors::store(file)?),
        None => builder.set_cert_store(files.trust.store()?),
    }
    if let Some(credential) = &files.credential {
        credential.install(&mut builder)?;
    }
    let crl = files.trust.crl;
    builder.set_verify_callback(SslVerifyMode::PEER, move |is_good, context| {
        judge(is_good, context, crl, Strictness::Refuse)
    });
    Ok(builder.build())
}
