//! A connection to a server, in clear or encrypted.

use anyhow::{Context as _, Result, anyhow};
use openssl::ssl::{ShutdownState, SslConnector, SslMethod, SslSession, SslSessionCacheMode, SslStream};
use parking_lot::Mutex;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

/// A client's side of TLS: the authorities it trusts, and whether it resumes earlier sessions. Clones share the
/// sessions.
#[derive(Clone)]
pub(crate) struct TlsClient {
    connector: SslConnector,
    /// The newest session that a server has given a ticket for, where sessions are to be resumed.
    session: Option<Arc<Mutex<Option<SslSession>>>>,
}

#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<SslStream<TcpStream>>),
}

/// The name that servers of the benchmark prove to have.
pub(crate) const SERVER_NAME: &str = "localhost";

impl TlsClient {
    /// Trusts the authorities in `ca_file`. `resumes`: each connection resumes the session of an earlier one.
    pub(crate) fn new(ca_file: &Path, resumes: bool) -> Result<Self> {
        let mut builder = SslConnector::builder(SslMethod::tls_client())?;
        builder.set_ca_file(ca_file).with_context(|| format!("cannot use {}", ca_file.display()))?;
        let session = resumes.then(Arc::default);
        if let Some(session) = &session {
            let kept: Arc<Mutex<Option<SslSession>>> = Arc::clone(session);
            builder.set_session_cache_mode(SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL);
            builder.set_new_session_callback(move |_, session| {
                *kept.lock() = Some(session);
            });
        }
        Ok(Self { connector: builder.build(), session })
    }

    fn encrypt(&self, socket: TcpStream) -> Result<SslStream<TcpStream>> {
        let mut ssl = self.connector.configure()?.into_ssl(SERVER_NAME)?;
        let kept = self.session.as_ref().and_then(|kept| kept.lock().clone());
        if let Some(session) = &kept {
            #[expect(unsafe_code, reason = "OpenSSL's way to resume a session")]
            // SAFETY: the session was made by a connection of the same connector, whose context is the same.
            unsafe {
                ssl.set_session(session)?;
            }
        }
        let stream = ssl.connect(socket).map_err(|error| anyhow!("the TLS handshake failed: {error}"))?;
        anyhow::ensure!(kept.is_none() || stream.ssl().session_reused(), "the server does not resume TLS sessions");
        Ok(stream)
    }
}

impl std::fmt::Debug for TlsClient {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "TlsClient(resumes: {})", self.session.is_some())
    }
}

impl Transport {
    /// Goes through the TLS handshake.
    pub(super) fn encrypt(self, tls: &TlsClient) -> Result<Self> {
        match self {
            Self::Plain(socket) => Ok(Self::Tls(Box::new(tls.encrypt(socket)?))),
            Self::Tls(_) => Err(anyhow!("the connection is encrypted")),
        }
    }

    /// The socket, for polling it.
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref(),
        }
    }

    /// The socket of a connection in clear.
    pub(super) fn into_socket(self) -> Result<TcpStream> {
        match self {
            Self::Plain(socket) => Ok(socket),
            Self::Tls(_) => Err(anyhow!("the connection is encrypted")),
        }
    }

    /// Closes the connection without a TLS close notification: after one, XRootD 5.5.3 sometimes resets other
    /// connections.
    pub(super) fn close(self) {
        if let Self::Tls(mut stream) = self {
            // Otherwise OpenSSL would not resume the session later.
            stream.set_shutdown(ShutdownState::SENT | ShutdownState::RECEIVED);
        }
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
