//! The server side: the host certificate, and certificates of clients.

use super::{
    Credential, TlsError, TrustAnchors,
    chains::Chains,
    error::reason_of,
    reloading::Reloading,
    session::{TlsSession, Wire},
    verdict::{Objection, Strictness, judge},
};
use openssl::ssl::{
    AlpnError, Ssl, SslAcceptor, SslContext, SslMethod, SslMode, SslOptions, SslVerifyMode, select_next_proto,
};
use std::sync::Arc;

/// Files and options of TLS for servers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServerTlsFiles {
    /// The host's certificate and key.
    pub credential: Credential,
    /// Trust anchors for client certificates; if unset, no client certificates are requested.
    pub trust: Option<TrustAnchors>,
    /// Cipher suites for TLS 1.2 in OpenSSL's notation; default: those with forward secrecy and authenticated encryption.
    pub ciphers: Option<String>,
    /// Whether HTTP/2 is offered to clients that ask for a protocol (ALPN). They get HTTP/1.1 otherwise.
    pub offers_http2: bool,
}

/// Accepts TLS 1.2 and 1.3 from clients. Cheap to clone; clones share the loaded files.
///
/// Client certificates are requested but optional. A rejected one counts as none: authorization is decided elsewhere.
#[derive(Clone, Debug)]
pub struct TlsAcceptor(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    files: ServerTlsFiles,
    context: Reloading<Loaded>,
}

/// The state that belongs to one version of the files. Their tickets are valid for it alone.
#[derive(Debug)]
struct Loaded {
    context: SslContext,
    chains: Arc<Chains>,
}

/// Most intermediate certificates of a client.
const CHAIN_LEN_MAX: u32 = 16;

/// Suites of TLS 1.3, the cheapest first.
const SUITES: &str = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

/// Names of protocols for ALPN, each after its length, the preferred one first.
const APPLICATIONS: &[u8] = b"\x02h2\x08http/1.1";

/// The name of HTTP/2 for ALPN.
pub(super) const HTTP2: &[u8] = b"h2";

impl TlsAcceptor {
    /// Reads the files.
    ///
    /// # Errors
    /// If one of them cannot be used; names the file.
    pub fn new(files: ServerTlsFiles) -> Result<Self, TlsError> {
        let mut paths = vec![files.credential.certificate.clone(), files.credential.key.clone()];
        paths.extend(files.trust.as_ref().map(|trust| trust.path().to_owned()));
        let context = Reloading::new(paths, crate::clock::monotonic(), || build(&files))?;
        Ok(Self(Arc::new(Shared { files, context })))
    }

    /// Trust anchors for client certificates.
    pub(super) fn trust(&self) -> Option<&TrustAnchors> {
        self.0.files.trust.as_ref()
    }

    /// Starts a session over `wire`, which may already hold received bytes; with the chains of the clients that may resume one. May read files.
    pub(super) fn session(&self, wire: Wire) -> Result<(TlsSession, Arc<Chains>), TlsError> {
        let loaded = self.0.context.current(crate::clock::monotonic(), || build(&self.0.files));
        let mut ssl = Ssl::new(&loaded.context)?;
        Objection::make_room(&mut ssl)?;
        ssl.set_accept_state();
        Ok((TlsSession::new(ssl, wire)?, Arc::clone(&loaded.chains)))
    }
}

fn build(files: &ServerTlsFiles) -> Result<Loaded, TlsError> {
    let mut builder = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server())?;
    builder.set_ciphersuites(SUITES)?;
    if let Some(ciphers) = &files.ciphers {
        let unknown = |errors| TlsError::SetUp { reason: format!("ciphers `{ciphers}`: {}", reason_of(&errors)) };
        builder.set_cipher_list(ciphers).map_err(unknown)?;
    }
    // Otherwise clients choose a suite that costs a third more. A client without AES instructions gets its preferred suite.
    builder.set_options(
        SslOptions::CIPHER_SERVER_PREFERENCE | SslOptions::PRIORITIZE_CHACHA | SslOptions::NO_RENEGOTIATION,
    );
    builder.set_session_id_context(b"forebay")?;
    // A resumed session gets a new ticket, so the second ticket OpenSSL sends by default would be unused.
    builder.set_num_tickets(1)?;
    if files.offers_http2 {
        // A client without one of these may speak HTTP/1.1 all the same.
        builder.set_alpn_select_callback(|_, offered| select_next_proto(APPLICATIONS, offered).ok_or(AlpnError::NOACK));
    }
    files.credential.install(&mut builder)?;
    // Otherwise OpenSSL searches the CA directory in each handshake, which costs a tenth of its time.
    builder.set_mode(SslMode::NO_AUTO_CHAIN);
    if let Some(trust) = &files.trust {
        for authority in files.credential.missing_authorities(trust)? {
            builder.add_extra_chain_cert(authority)?;
        }
        builder.set_cert_store(trust.store()?);
        builder.set_verify_depth(CHAIN_LEN_MAX);
        let crl = trust.crl;
        builder.set_verify_callback(SslVerifyMode::PEER, move |is_good, context| {
            judge(is_good, context, crl, Strictness::Note)
        });
    }
    Ok(Loaded { context: builder.build().into_context(), chains: Arc::default() })
}
