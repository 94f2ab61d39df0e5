//! The server's side: a host certificate, and what is asked of clients.

use super::{
    Credential, TlsError, TrustAnchors,
    error::reason_of,
    reloading::Reloading,
    session::{TlsSession, Wire},
    verdict::{Objection, Strictness, judge},
};
use openssl::ssl::{Ssl, SslAcceptor, SslContext, SslMethod, SslMode, SslOptions, SslSessionCacheMode, SslVerifyMode};
use std::sync::Arc;

/// What a server needs for TLS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServerTlsFiles {
    /// The host's certificate and key.
    pub credential: Credential,
    /// What certificates of clients are compared with; without it clients are asked for none.
    pub trust: Option<TrustAnchors>,
    /// Cipher suites for TLS 1.2 in OpenSSL's notation; `None` for those with forward secrecy and authenticated encryption.
    pub ciphers: Option<String>,
    /// Whether clients may go on with the keys of an earlier connection. Then the chain of their certificate is not known, nor
    /// whether it would still be accepted.
    pub resumes: bool,
}

/// Accepts TLS from clients: versions 1.2 and 1.3. Cheap to clone; clones share what was read.
///
/// Clients are asked for a certificate and need not have one. One that is not accepted counts as none: it says nothing about
/// who may do what, which is decided elsewhere.
#[derive(Clone, Debug)]
pub struct TlsAcceptor(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    files: ServerTlsFiles,
    context: Reloading<SslContext>,
}

/// Certificates between a client's and a CA's, at most.
const CHAIN_LEN_MAX: u32 = 16;

/// Suites of TLS 1.3, the cheapest first.
const SUITES: &str = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

impl TlsAcceptor {
    /// Reads the files.
    ///
    /// # Errors
    /// When one of them cannot be used; says which.
    pub fn new(files: ServerTlsFiles) -> Result<Self, TlsError> {
        let mut paths = vec![files.credential.certificate.clone(), files.credential.key.clone()];
        paths.extend(files.trust.as_ref().map(|trust| trust.path().to_owned()));
        let context = Reloading::new(paths, crate::clock::monotonic(), || build(&files))?;
        Ok(Self(Arc::new(Shared { files, context })))
    }

    /// What certificates of clients are compared with.
    pub(super) fn trust(&self) -> Option<&TrustAnchors> {
        self.0.files.trust.as_ref()
    }

    /// The beginning of a connection over `wire`, to which something may have come already. May read files.
    pub(super) fn session(&self, wire: Wire) -> Result<TlsSession, TlsError> {
        let context = self.0.context.current(crate::clock::monotonic(), || build(&self.0.files));
        let mut ssl = Ssl::new(&context)?;
        Objection::make_room(&mut ssl)?;
        ssl.set_accept_state();
        TlsSession::new(ssl, wire)
    }
}

fn build(files: &ServerTlsFiles) -> Result<SslContext, TlsError> {
    let mut builder = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server())?;
    builder.set_ciphersuites(SUITES)?;
    if let Some(ciphers) = &files.ciphers {
        let unknown = |errors| TlsError::SetUp { reason: format!("ciphers `{ciphers}`: {}", reason_of(&errors)) };
        builder.set_cipher_list(ciphers).map_err(unknown)?;
    }
    // Otherwise clients pick a suite that costs a third more. A client without AES in its processor gets what it prefers.
    builder.set_options(
        SslOptions::CIPHER_SERVER_PREFERENCE | SslOptions::PRIORITIZE_CHACHA | SslOptions::NO_RENEGOTIATION,
    );
    builder.set_session_id_context(b"forebay")?;
    if files.resumes {
        // Who resumes a session gets the next ticket; the second one that OpenSSL sends would be made for nobody.
        builder.set_num_tickets(1)?;
    } else {
        builder.set_options(SslOptions::NO_TICKET);
        builder.set_num_tickets(0)?;
        builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    }
    files.credential.install(&mut builder)?;
    // Otherwise OpenSSL looks for our authorities in each handshake: a tenth of its time.
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
    Ok(builder.build().into_context())
}
