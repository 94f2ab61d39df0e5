//! An issuer of tokens that serves its keys as issuers do: a discovery document and a key set, over HTTP or HTTPS.

use crate::TokenIssuer;
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::ssl::{SslAcceptor, SslMethod};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Name};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Path of the discovery document, and of the key set that it names.
const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";
const KEYS_PATH: &str = "/jwks";

/// Longest request that is read.
const REQUEST_LEN_MAX: usize = 16 << 10;

/// Longest wait for a client, so that a test that fails ends.
const CLIENT_TIME_MAX: Duration = Duration::from_secs(10);

/// A server on the loopback interface, one request after the other. Dropping it closes it.
pub struct TokenServer {
    address: SocketAddr,
    certificate: Option<String>,
    shared: Arc<Shared>,
    serving: Option<JoinHandle<()>>,
}

struct Shared {
    issuer: Mutex<TokenIssuer>,
    requests: Mutex<Vec<String>>,
    answers: Mutex<HashMap<String, String>>,
    is_failing: AtomicBool,
    is_closing: AtomicBool,
}

impl TokenServer {
    /// An issuer over HTTP that signs with `algorithm`.
    pub fn start(algorithm: &str) -> io::Result<Self> {
        Self::serve(algorithm, None)
    }

    /// An issuer over HTTPS that signs with `algorithm`; see [`TokenServer::certificate`].
    pub fn start_tls(algorithm: &str) -> io::Result<Self> {
        Self::serve(algorithm, Some(self_signed()))
    }

    fn serve(algorithm: &str, identity: Option<(PKey<Private>, X509)>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let scheme = if identity.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared {
            issuer: Mutex::new(TokenIssuer::new(&format!("{scheme}://{address}"), algorithm)),
            requests: Mutex::default(),
            answers: Mutex::default(),
            is_failing: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
        });
        let certificate = identity.as_ref().map(|(_, certificate)| pem(certificate));
        let acceptor = identity.map(|(key, certificate)| acceptor(&key, &certificate));
        let serving = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                while let Ok((stream, _)) = listener.accept() {
                    if shared.is_closing.load(Ordering::Acquire) {
                        break;
                    }
                    // A client that breaks off is its test's business.
                    let _ = shared.exchange(stream, acceptor.as_ref());
                }
            }
        });
        Ok(Self { address, certificate, shared, serving: Some(serving) })
    }

    /// The issuer's name, which is also its address.
    pub fn url(&self) -> String {
        self.issuer().url().to_owned()
    }

    /// The issuer: to sign tokens, and to rotate its keys.
    pub fn issuer(&self) -> MutexGuard<'_, TokenIssuer> {
        self.shared.issuer.lock()
    }

    /// The server's certificate as PEM, which clients must trust; `None` over HTTP.
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// Paths that were asked for, in order.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().clone()
    }

    /// Answers `answer` (a whole HTTP answer, head and body) to requests of `path`, instead of the usual document.
    pub fn set_answer(&self, path: &str, answer: &str) {
        let mut answers = self.shared.answers.lock();
        answers.insert(path.to_owned(), answer.to_owned());
    }

    /// Answers 503 to everything, or no longer.
    pub fn set_failing(&self, is_failing: bool) {
        self.shared.is_failing.store(is_failing, Ordering::Release);
    }
}

impl Drop for TokenServer {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::Release);
        // Wakes the server, which then sees that it is over.
        drop(TcpStream::connect(self.address));
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

impl Shared {
    fn exchange(&self, stream: TcpStream, acceptor: Option<&SslAcceptor>) -> io::Result<()> {
        stream.set_read_timeout(Some(CLIENT_TIME_MAX))?;
        match acceptor {
            None => self.answer(stream),
            Some(acceptor) => {
                let mut stream = acceptor.accept(stream).map_err(io::Error::other)?;
                self.answer(&mut stream)?;
                stream.shutdown().map(drop).map_err(io::Error::other)
            }
        }
    }

    fn answer(&self, mut stream: impl Read + Write) -> io::Result<()> {
        let mut request = Vec::new();
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            let mut piece = [0; 1024];
            let len = stream.read(&mut piece)?;
            if len == 0 || request.len() > REQUEST_LEN_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            request.extend(piece.iter().take(len));
        }
        let text = String::from_utf8_lossy(&request);
        let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
        let answer = self.answer_for(&path);
        self.requests.lock().push(path);
        stream.write_all(answer.as_bytes())?;
        stream.flush()
    }

    fn answer_for(&self, path: &str) -> String {
        if let Some(answer) = self.answers.lock().get(path) {
            return answer.clone();
        }
        let (status, body) = self.document(path);
        let len = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
        )
    }

    fn document(&self, path: &str) -> (&'static str, String) {
        let issuer = self.issuer.lock();
        let url = issuer.url();
        match path {
            _ if self.is_failing.load(Ordering::Acquire) => ("503 Service Unavailable", String::new()),
            DISCOVERY_PATH => ("200 OK", format!(r#"{{"issuer":"{url}","jwks_uri":"{url}{KEYS_PATH}"}}"#)),
            KEYS_PATH => ("200 OK", issuer.key_set()),
            _ => ("404 Not Found", String::new()),
        }
    }
}

/// A key and a certificate for 127.0.0.1 and localhost that signs itself.
fn self_signed() -> (PKey<Private>, X509) {
    let key = PKey::from_rsa(Rsa::generate(2048).expect("an RSA key")).expect("a key");
    let make = || {
        let mut name = X509Name::builder()?;
        name.append_entry_by_text("CN", "localhost")?;
        let name = name.build();
        let mut builder = X509::builder()?;
        builder.set_version(2)?;
        builder.set_serial_number(BigNum::from_u32(1)?.to_asn1_integer()?.as_ref())?;
        builder.set_subject_name(&name)?;
        builder.set_issuer_name(&name)?;
        builder.set_pubkey(&key)?;
        builder.set_not_before(Asn1Time::days_from_now(0)?.as_ref())?;
        builder.set_not_after(Asn1Time::days_from_now(1)?.as_ref())?;
        builder.append_extension(BasicConstraints::new().critical().ca().build()?)?;
        let names = SubjectAlternativeName::new()
            .dns("localhost")
            .ip("127.0.0.1")
            .build(&builder.x509v3_context(None, None))?;
        builder.append_extension(names)?;
        builder.sign(&key, MessageDigest::sha256())?;
        Ok::<_, openssl::error::ErrorStack>(builder.build())
    };
    let certificate = make().expect("a certificate");
    (key, certificate)
}

fn acceptor(key: &PKey<Private>, certificate: &X509) -> SslAcceptor {
    let mut builder = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).expect("a TLS context");
    builder.set_private_key(key).expect("a key of the certificate");
    builder.set_certificate(certificate).expect("a certificate");
    builder.build()
}

fn pem(certificate: &X509) -> String {
    String::from_utf8(certificate.to_pem().expect("a certificate")).expect("PEM is text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::ssl::SslConnector;

    fn get(stream: &mut (impl Read + Write), path: &str) -> String {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: issuer\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn documents_lead_to_the_keys() {
        let server = TokenServer::start("ES256").unwrap();
        let get = |path: &str| get(&mut TcpStream::connect(server.address).unwrap(), path);
        let url = server.url();
        assert!(get(DISCOVERY_PATH).ends_with(&format!(r#"{{"issuer":"{url}","jwks_uri":"{url}/jwks"}}"#)));
        assert!(get(KEYS_PATH).ends_with(&server.issuer().key_set()));
        assert!(get("/other").starts_with("HTTP/1.1 404 "));
        server.set_answer("/other", "HTTP/1.1 302 Found\r\nLocation: /jwks\r\n\r\n");
        assert!(get("/other").starts_with("HTTP/1.1 302 "));
        server.set_failing(true);
        assert!(get(KEYS_PATH).starts_with("HTTP/1.1 503 "));
        assert_eq!(server.requests(), [DISCOVERY_PATH, KEYS_PATH, "/other", "/other", KEYS_PATH]);
    }

    #[test]
    fn keys_are_served_over_tls() {
        let server = TokenServer::start_tls("ES256").unwrap();
        assert!(server.url().starts_with("https://127.0.0.1:"));
        let connect = |trusts: bool| {
            let mut builder = SslConnector::builder(SslMethod::tls_client()).unwrap();
            if trusts {
                let certificate = X509::from_pem(server.certificate().unwrap().as_bytes()).unwrap();
                builder.cert_store_mut().add_cert(certificate).unwrap();
            }
            builder.build().connect("127.0.0.1", TcpStream::connect(server.address).unwrap())
        };
        assert!(connect(false).is_err());
        assert!(get(&mut connect(true).unwrap(), KEYS_PATH).ends_with(&server.issuer().key_set()));
    }
}
