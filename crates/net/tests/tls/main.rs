//! TLS between both of our roles: who is trusted, what arrives, what is read again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

mod certificates;
mod resumption;

use bytes::BytesMut;
use certificates::Issued;
use forebay_net::{
    ClientTlsFiles, Credential, CrlPolicy, DistrustReason, Listener, PeerCertificate, RELOAD_CHECK_INTERVAL,
    ServerTlsFiles, Stream, TlsAcceptor, TlsConnector, TlsError, TrustAnchors, WebAnchors,
};
use std::{fs, io::IoSlice, os::unix::fs::PermissionsExt};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Far more than the buffers of a connection hold.
const LARGE: usize = 8 << 20;

struct Site {
    ca: Issued,
    trusted: TempDir,
    own: TempDir,
    credential: Credential,
}

impl Site {
    fn new(names: &[&str]) -> Self {
        let (ca, trusted, own) = (Issued::ca("CA"), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        ca.trust_in(trusted.path());
        let credential = ca.host(names).write(own.path());
        Self { ca, trusted, own, credential }
    }

    fn trust(&self) -> TrustAnchors {
        TrustAnchors { ca_dir: self.trusted.path().to_owned(), crl: CrlPolicy::Try }
    }

    fn acceptor(&self) -> TlsAcceptor {
        let (credential, trust) = (self.credential.clone(), Some(self.trust()));
        TlsAcceptor::new(ServerTlsFiles { credential, trust, ciphers: None, offers_http2: false }).unwrap()
    }

    fn connector(&self, credential: Option<Credential>) -> TlsConnector {
        TlsConnector::new(ClientTlsFiles { trust: self.trust(), credential }).unwrap()
    }
}

async fn pair() -> (Stream, Stream) {
    let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = TcpStream::connect(listener.address()).await.unwrap();
    (client.into(), listener.accept().await.0.into())
}

/// Both ends after the handshake, or what the client says against the server.
async fn encrypted(acceptor: &TlsAcceptor, connector: &TlsConnector, host: &str) -> Result<(Stream, Stream), TlsError> {
    let (mut client, mut served) = pair().await;
    let (accepted, connected) = tokio::join!(served.accept_tls(acceptor, &[]), client.connect_tls(connector, host));
    connected?;
    accepted.unwrap();
    Ok((client, served))
}

async fn refusal(site: &Site, host: &str) -> DistrustReason {
    match encrypted(&site.acceptor(), &site.connector(None), host).await {
        Err(TlsError::Distrusted { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// What arrives until the sender closes, or `len` bytes have.
async fn receive(stream: &Stream, len: usize) -> Vec<u8> {
    let mut received = BytesMut::new();
    while received.len() < len {
        match stream.try_receive(&mut received).unwrap() {
            Some(0) => break,
            Some(_) => {}
            None => stream.readable().await.unwrap(),
        }
    }
    received.to_vec()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from((i * 7 + i / 251) % 256).unwrap()).collect()
}

#[tokio::test]
async fn authorities_that_the_certificate_file_lacks_are_sent_along() {
    let mut site = Site::new(&["localhost"]);
    let below = site.ca.ca_below("CA below");
    site.credential = below.host(&["localhost"]).write(site.own.path());
    let connector = site.connector(None);
    let reason = refusal(&site, "localhost").await;
    assert!(matches!(reason, DistrustReason::UnknownCa { .. }), "nobody knows the CA between: {reason:?}");
    let known = tempfile::tempdir().unwrap();
    site.ca.trust_in(known.path());
    below.trust_in(known.path());
    let trust = Some(TrustAnchors { ca_dir: known.path().to_owned(), crl: CrlPolicy::Try });
    let files = ServerTlsFiles { credential: site.credential.clone(), trust, ciphers: None, offers_http2: false };
    let acceptor = TlsAcceptor::new(files).unwrap();
    encrypted(&acceptor, &connector, "localhost").await.unwrap();
}

#[tokio::test]
async fn bytes_arrive_in_order_both_ways_through_full_buffers() {
    let site = Site::new(&["localhost"]);
    let (client, served) = encrypted(&site.acceptor(), &site.connector(None), "localhost").await.unwrap();
    let bytes = pattern(LARGE);
    let (head, tail) = bytes.split_at(100_000);
    let mut slices = [IoSlice::new(head), IoSlice::new(tail)];
    let (_, _, at_client, at_server) = tokio::join!(
        async { served.send_slices(&mut slices).await.unwrap() },
        async { client.send_all(&bytes).await.unwrap() },
        receive(&client, LARGE),
        receive(&served, LARGE),
    );
    assert!(at_client == bytes && at_server == bytes);
    drop(client);
    assert!(receive(&served, 1).await.is_empty(), "the end is one");
}

#[tokio::test]
async fn what_does_not_fit_is_sent_later_and_not_lost() {
    let site = Site::new(&["localhost"]);
    let (client, served) = encrypted(&site.acceptor(), &site.connector(None), "localhost").await.unwrap();
    let bytes = pattern(LARGE);
    let mut taken = 0;
    loop {
        match client.try_send(&bytes[taken..]).unwrap() {
            0 => break,
            len => taken += len,
        }
    }
    assert!(client.has_unsent());
    let sender = tokio::spawn(async move {
        while client.has_unsent() {
            client.writable().await.unwrap();
            client.try_send(&[]).unwrap();
        }
        client
    });
    assert!(receive(&served, taken).await == bytes[..taken]);
    drop(sender.await.unwrap());
}

#[tokio::test]
async fn the_beginning_of_the_handshake_may_have_come_already() {
    let site = Site::new(&["localhost"]);
    let (acceptor, connector) = (site.acceptor(), site.connector(None));
    let (mut client, mut served) = pair().await;
    let accepting = async {
        let early = receive(&served, 1).await;
        assert!(!early.is_empty());
        served.accept_tls(&acceptor, &early).await.map(|facts| facts.version)
    };
    let (version, connected) = tokio::join!(accepting, client.connect_tls(&connector, "localhost"));
    assert_eq!(version.unwrap(), "TLSv1.3");
    assert_eq!(connected.unwrap().cipher, "TLS_AES_128_GCM_SHA256");
}

#[tokio::test]
async fn a_peer_that_vanishes_without_a_farewell_has_ended() {
    let site = Site::new(&["localhost"]);
    let (acceptor, connector) = (site.acceptor(), site.connector(None));
    let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let socket = std::net::TcpStream::connect(listener.address()).unwrap();
    let kept = socket.try_clone().unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut client = Stream::from(TcpStream::from_std(socket).unwrap());
    let mut served = Stream::from(listener.accept().await.0);
    let (accepted, connected) =
        tokio::join!(served.accept_tls(&acceptor, &[]), client.connect_tls(&connector, "localhost"));
    accepted.unwrap();
    connected.unwrap();
    kept.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(receive(&served, 1).await.is_empty());
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_refused() {
    let site = Site::new(&["localhost"]);
    fs::remove_dir_all(site.trusted.path()).unwrap();
    fs::create_dir(site.trusted.path()).unwrap();
    Issued::ca("other CA").trust_in(site.trusted.path());
    let reason = refusal(&site, "localhost").await;
    assert_eq!(reason, DistrustReason::UnknownCa { ca_dir: site.trusted.path().to_owned() });
    assert!(reason.to_string().contains("openssl rehash"));
}

#[tokio::test]
async fn servers_of_the_web_are_vouched_for_by_a_file_of_authorities() {
    let site = Site::new(&["localhost"]);
    let file = site.own.path().join("authorities.pem");
    let both =
        [Issued::ca("other CA"), Issued::ca("third CA")].map(|other| other.certificate.to_pem().unwrap()).concat();
    fs::write(&file, &both).unwrap();
    let refused = TlsConnector::for_web(WebAnchors::File(file.clone())).unwrap();
    let error = encrypted(&site.acceptor(), &refused, "localhost").await.unwrap_err();
    assert!(error.to_string().contains("authorities.pem"), "{error}");
    let error = encrypted(&site.acceptor(), &TlsConnector::for_web(WebAnchors::System).unwrap(), "localhost")
        .await
        .unwrap_err();
    assert!(matches!(error, TlsError::Distrusted { reason: DistrustReason::UnknownCa { .. }, .. }), "{error}");
    fs::write(&file, [both, site.ca.certificate.to_pem().unwrap()].concat()).unwrap();
    let trusting = TlsConnector::for_web(WebAnchors::File(file.clone())).unwrap();
    encrypted(&site.acceptor(), &trusting, "localhost").await.unwrap();
    fs::write(&file, "nothing").unwrap();
    let error = TlsConnector::for_web(WebAnchors::File(file)).unwrap_err();
    assert!(error.to_string().contains("contains no PEM certificate"), "{error}");
}

#[tokio::test]
async fn readers_and_writers_of_tokio_pass_more_than_the_buffers_hold() {
    let site = Site::new(&["localhost"]);
    let (mut client, mut served) = encrypted(&site.acceptor(), &site.connector(None), "localhost").await.unwrap();
    let bytes = pattern(LARGE);
    let mut received = Vec::new();
    let send = async {
        client.write_all(&bytes).await.unwrap();
        client.flush().await.unwrap();
        client.shutdown().await.unwrap();
    };
    let (_, read) = tokio::join!(send, served.read_to_end(&mut received));
    assert_eq!(read.unwrap(), LARGE);
    assert!(received == bytes);
}

#[tokio::test]
async fn a_server_must_be_the_host_that_was_wanted() {
    let site = Site::new(&["a.example", "*.b.example", "127.0.0.1"]);
    for host in ["a.example", "x.b.example", "127.0.0.1"] {
        encrypted(&site.acceptor(), &site.connector(None), host).await.unwrap();
    }
    for host in ["c.example", "b.example", "x.y.b.example", "127.0.0.2"] {
        let DistrustReason::OtherHost { wanted, hosts } = refusal(&site, host).await else { panic!("{host}") };
        assert_eq!((wanted.as_str(), hosts.len()), (host, 2));
    }
}

#[tokio::test]
async fn a_certificate_counts_in_its_time_only() {
    let mut site = Site::new(&["localhost"]);
    for (days, expected) in [((-9, -1), DistrustReason::Expired), ((1, 9), DistrustReason::NotYetValid)] {
        site.credential = site.ca.host_valid(&["localhost"], days).write(site.own.path());
        assert_eq!(refusal(&site, "localhost").await, expected);
    }
}

#[tokio::test]
async fn clients_are_known_by_their_certificate_or_not_at_all() {
    let site = Site::new(&["localhost"]);
    let (good, bad) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let known = site.ca.host(&["client.example"]).write(good.path());
    let stranger = Issued::ca("other CA").host(&["client.example"]).write(bad.path());
    let peer = async |credential| {
        let connector = site.connector(credential);
        let (client, served) = encrypted(&site.acceptor(), &connector, "localhost").await.unwrap();
        client.send_all(b"served all the same").await.unwrap();
        assert_eq!(receive(&served, 19).await, b"served all the same");
        served.tls().unwrap().peer.clone()
    };
    assert!(matches!(peer(None).await, PeerCertificate::None));
    let PeerCertificate::Verified(chain) = peer(Some(known)).await else { panic!("not verified") };
    let shown = fs::read(good.path().join("cert.pem")).unwrap();
    assert_eq!(chain.first().unwrap().to_pem().unwrap(), shown);
    let refused = peer(Some(stranger)).await;
    assert!(
        matches!(&refused, PeerCertificate::Refused(reason) if reason.contains("no trusted certification authority")),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_replaced_certificate_is_used_and_a_bad_one_is_not() {
    let site = Site::new(&["old.example"]);
    let (acceptor, connector) = (site.acceptor(), site.connector(None));
    encrypted(&acceptor, &connector, "old.example").await.unwrap();
    site.ca.host(&["new.example"]).write(site.own.path());
    encrypted(&acceptor, &connector, "old.example").await.unwrap();
    tokio::time::advance(RELOAD_CHECK_INTERVAL).await;
    encrypted(&acceptor, &connector, "new.example").await.unwrap();
    fs::write(&site.credential.certificate, "nothing").unwrap();
    tokio::time::advance(RELOAD_CHECK_INTERVAL).await;
    encrypted(&acceptor, &connector, "new.example").await.unwrap();
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let site = Site::new(&["localhost"]);
    let other = tempfile::tempdir().unwrap();
    let foreign = site.ca.host(&["localhost"]).write(other.path());
    let error_of = |credential: Credential, ciphers: Option<&str>| {
        let files =
            ServerTlsFiles { credential, trust: None, ciphers: ciphers.map(str::to_owned), offers_http2: false };
        TlsAcceptor::new(files).unwrap_err().to_string()
    };
    let own = site.credential.clone();
    let missing = Credential { certificate: "/nonexistent".into(), ..own.clone() };
    assert!(error_of(missing, None).starts_with("/nonexistent cannot be read"));
    let mixed = Credential { key: foreign.key.clone(), ..own.clone() };
    assert!(error_of(mixed, None).contains("does not contain the key of the certificate in"));
    let swapped = Credential { certificate: own.key.clone(), key: own.key.clone() };
    assert!(error_of(swapped, None).contains("contains no PEM certificate"));
    assert!(error_of(own.clone(), Some("NONSENSE")).contains("ciphers `NONSENSE`"));
    fs::set_permissions(&foreign.key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(error_of(foreign, None).contains("chmod o-rwx"));
    let trust = TrustAnchors { ca_dir: "/nonexistent".into(), crl: CrlPolicy::Ignore };
    let error = TlsConnector::new(ClientTlsFiles { trust, credential: None }).unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent is not a CA directory"));
}
