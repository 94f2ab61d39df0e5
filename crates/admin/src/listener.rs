//! The listeners of the admin port: HTTP/1.1 over TCP and over a unix socket.
//!
//! One request per connection, with a time limit and limits on connections, in total and of each address, so that no client can block
//! the port.

use crate::{access::Channel, api::Admin, body::AnswerBody, socket::AdminSocket};
use forebay_front::network_of;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, hash_map::Entry},
    convert::Infallible,
    future::Future,
    io,
    net::IpAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

/// Connections of one listener served at once; more wait in the kernel's queue.
pub const ADMIN_CONNECTIONS_MAX: usize = 128;

/// Those of one address; more are closed. A browser opens six, and several users may come from one address.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 32;

/// Time a client has to send its request's header.
pub const ADMIN_HEADER_TIME_MAX: Duration = Duration::from_secs(5);

/// Time of a whole exchange, after which the connection is closed. Longer operations are jobs.
pub const ADMIN_EXCHANGE_TIME_MAX: Duration = Duration::from_secs(30);

/// Header bytes of a request: enough for a name of 4096 four-byte characters in percent encoding.
const HEADER_LEN_MAX: usize = 65_536;

/// Pause after a failed accept, usually for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A source of connections.
trait Accept: Send + Sync {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Channel)>> + Send;
}

impl Admin {
    /// Serves the clients of a TCP listener until `shutdown` completes. Connections still open are then closed.
    pub async fn serve_tcp(&self, listener: TcpListener, shutdown: impl Future<Output = ()> + Send) {
        self.serve(listener, shutdown).await;
    }

    /// Serves the clients of a unix socket until `shutdown` completes. Connections still open are then closed.
    pub async fn serve_unix(&self, socket: AdminSocket, shutdown: impl Future<Output = ()> + Send) {
        self.serve(socket, shutdown).await;
    }

    async fn serve(&self, listener: impl Accept, shutdown: impl Future<Output = ()> + Send) {
        let (slots, addresses) = (Arc::new(Semaphore::new(ADMIN_CONNECTIONS_MAX)), Addresses::default());
        let mut exchanges = JoinSet::new();
        let accept_all = async {
            while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
                match listener.accept().await {
                    Ok((stream, channel)) => match addresses.place(channel) {
                        Some(place) => {
                            let admin = self.clone();
                            exchanges.spawn(async move {
                                admin.serve_exchange(stream, channel).await;
                                drop((slot, place));
                            });
                        }
                        None => tracing::debug!(caller = %channel, "too many admin connections of one address"),
                    },
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept admin connections; retrying");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
                while exchanges.try_join_next().is_some() {}
            }
        };
        tokio::select! {
            biased;
            () = shutdown => {}
            () = accept_all => {}
        }
    }

    async fn serve_exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, stream: S, channel: Channel) {
        let is_stream = AtomicBool::new(false);
        let service = service_fn(|request| async {
            let answer = self.respond(request, channel).await;
            is_stream.store(matches!(answer.body(), AnswerBody::Stream(_)), Relaxed);
            Ok::<_, Infallible>(answer)
        });
        let exchange = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(ADMIN_HEADER_TIME_MAX)
            .max_buf_size(HEADER_LEN_MAX)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        let mut exchange = pin!(exchange);
        let ended = match timeout(ADMIN_EXCHANGE_TIME_MAX, exchange.as_mut()).await {
            // A stream has its own limit.
            Err(_) if is_stream.load(Relaxed) => exchange.await,
            Err(_) => return tracing::debug!("admin connection timed out"),
            Ok(ended) => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "admin connection failed");
        }
    }
}

/// The number of connections of each address.
#[derive(Clone, Debug, Default)]
struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// Counts a connection until it is dropped.
#[derive(Debug)]
struct Place {
    addresses: Addresses,
    /// `None` if it is not limited.
    address: Option<IpAddr>,
}

impl Addresses {
    /// Counts a connection; `None` if its address has all that it may have. Users of the unix socket are not limited.
    fn place(&self, channel: Channel) -> Option<Place> {
        let address = match channel {
            Channel::Tcp { peer } => Some(network_of(peer.ip())),
            Channel::Unix { .. } => None,
        };
        if let Some(address) = address {
            let mut counts = self.0.lock();
            let count = counts.entry(address).or_default();
            if *count >= CONNECTIONS_PER_ADDRESS_MAX {
                return None;
            }
            *count += 1;
        }
        Some(Place { addresses: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        if let Entry::Occupied(mut count) = self.addresses.0.lock().entry(address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Channel)> {
        let (stream, peer) = Self::accept(self).await?;
        Ok((stream, Channel::Tcp { peer }))
    }
}

impl Accept for AdminSocket {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Channel)> {
        let (stream, _) = self.listener.accept().await?;
        let peer = stream.peer_cred()?;
        Ok((stream, Channel::Unix { uid: peer.uid(), pid: peer.pid() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessRules;
    use forebay_engine::{Engine, Export, ExportSource, Options, Routes, Writes};
    use forebay_front::RefusalLog;
    use forebay_telemetry::{Metrics, Readiness};
    use forebay_types::Lfn;
    use std::net::SocketAddr;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpSocket,
        sync::oneshot,
        task::JoinHandle,
    };

    struct Port {
        address: SocketAddr,
        metrics: Metrics,
        readiness: Readiness,
        refusal_log: RefusalLog,
        stop: oneshot::Sender<()>,
        task: JoinHandle<()>,
    }

    fn routes() -> Routes {
        let source = ExportSource::Directory("/".into());
        let export = Export {
            prefix: Lfn::parse("/").unwrap(),
            source,
            writes: Writes::Refuse,
            validity: forebay_cache::ValidityPolicy::default(),
            authorizes_at_origin: false,
            service: forebay_engine::Service::default(),
        };
        Routes::new(vec![export], forebay_cache::AllowList::default(), Arc::new(|_| unreachable!("no origin"))).unwrap()
    }

    impl Port {
        async fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (metrics, readiness) = (Metrics::new(), Readiness::new());
            let (stop, stopped) = oneshot::channel();
            let engine = Engine::start(Options::default(), None, routes(), metrics.clone());
            let admin = Admin::new(engine, readiness.clone(), AccessRules::default());
            let refusal_log = admin.refusal_log.clone();
            let served = async move { admin.serve_tcp(listener, async { drop(stopped.await) }).await };
            Self { address, metrics, readiness, refusal_log, stop, task: tokio::spawn(served) }
        }

        /// A connection from an address of this machine.
        async fn connect_from(&self, number: usize) -> TcpStream {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, u8::try_from(number).unwrap()], 0).into()).unwrap();
            socket.connect(self.address).await.unwrap()
        }

        /// The answer to `head`, until the server closes.
        async fn exchange(&self, head: &str) -> String {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        }

        async fn get(&self, path: &str) -> String {
            self.exchange(&format!("GET {path} HTTP/1.1\r\nHost: admin\r\n\r\n")).await
        }
    }

    #[tokio::test]
    async fn metrics_are_served_as_openmetrics() {
        let admin = Port::start().await;
        admin.metrics.add_fills_started(42);
        let answer = admin.get("/metrics?x=1").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(
            answer
                .to_ascii_lowercase()
                .contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"),
            "{answer}"
        );
        assert!(answer.contains("\nforebay_fills_started_total 42\n"), "{answer}");
        assert!(answer.ends_with("# EOF\n"));
    }

    #[tokio::test]
    async fn readiness_follows_the_switch_and_liveness_does_not() {
        let admin = Port::start().await;
        assert!(admin.get("/readyz").await.starts_with("HTTP/1.1 503 "));
        admin.readiness.set_ready();
        assert!(admin.get("/readyz").await.starts_with("HTTP/1.1 200 "));
        admin.readiness.set_draining();
        let answer = admin.get("/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.ends_with("draining\n"), "{answer}");
        assert!(admin.get("/healthz").await.starts_with("HTTP/1.1 200 "));
    }

    #[tokio::test]
    async fn other_paths_and_methods_are_refused() {
        let admin = Port::start().await;
        assert!(admin.get("/").await.starts_with("HTTP/1.1 404 "));
        let refused = admin.exchange("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await;
        assert!(refused.starts_with("HTTP/1.1 405 "), "{refused}");
        assert!(refused.to_ascii_lowercase().contains("allow: get, head\r\n"), "{refused}");
        let head = admin.exchange("HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.ends_with("\r\n\r\n"), "{head}");
    }

    #[tokio::test]
    async fn the_api_is_off_without_a_token_file() {
        let admin = Port::start().await;
        for path in ["/api", "/api/", "/api/v1/status", "/api/nonsense"] {
            let answer = admin.get(path).await;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
            assert!(answer.contains("application/problem+json"), "{answer}");
            assert!(answer.contains("set admin.token_file, or admin.socket"), "{answer}");
        }
        assert!(admin.get("/apis").await.starts_with("HTTP/1.1 404 "));
    }

    #[tokio::test]
    async fn a_header_beyond_the_limit_is_refused() {
        let admin = Port::start().await;
        let long = format!("GET /healthz HTTP/1.1\r\nX: {}", "x".repeat(HEADER_LEN_MAX));
        let answer = admin.exchange(&long).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }

    #[tokio::test]
    async fn a_waiting_connection_is_served_when_a_slot_becomes_free() {
        let admin = Port::start().await;
        let mut idle = Vec::new();
        for number in 0..ADMIN_CONNECTIONS_MAX {
            idle.push(admin.connect_from(2 + number / CONNECTIONS_PER_ADDRESS_MAX).await);
        }
        let (answer, ()) = tokio::join!(admin.get("/healthz"), async { drop(idle) });
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }

    #[tokio::test]
    async fn one_address_does_not_keep_others_out() {
        let admin = Port::start().await;
        let mut idle = Vec::new();
        for _ in 0..=CONNECTIONS_PER_ADDRESS_MAX {
            idle.push(admin.connect_from(2).await);
        }
        let mut surplus = idle.pop().unwrap();
        let closed = timeout(ADMIN_HEADER_TIME_MAX * 9 / 10, surplus.read(&mut [0])).await;
        assert!(!matches!(closed.unwrap(), Ok(1..)), "it is closed at once");
        assert!(admin.get("/healthz").await.starts_with("HTTP/1.1 200 "));
    }

    #[test]
    fn connections_of_an_address_count_until_they_end() {
        let addresses = Addresses::default();
        let from = |address: &str| Channel::Tcp { peer: SocketAddr::new(address.parse().unwrap(), 1) };
        let places: Vec<_> = (0..CONNECTIONS_PER_ADDRESS_MAX).map(|_| addresses.place(from("192.0.2.1"))).collect();
        assert!(places.iter().all(Option::is_some));
        assert!(addresses.place(from("::ffff:192.0.2.1")).is_none(), "the same address");
        assert!(addresses.place(from("192.0.2.2")).is_some());
        drop(places);
        assert!(addresses.0.lock().is_empty());
        let unix = Channel::Unix { uid: 0, pid: None };
        let places: Vec<_> = (0..ADMIN_CONNECTIONS_MAX).map(|_| addresses.place(unix)).collect();
        assert!(places.iter().all(Option::is_some));
    }

    #[tokio::test]
    async fn denied_requests_are_among_the_limited_lines_of_the_log() {
        let lines_left = |log: &RefusalLog| std::iter::repeat_with(|| log.has_room()).take_while(|&has| has).count();
        let all = lines_left(&RefusalLog::default());
        let is_counted = async || {
            let admin = Port::start().await;
            assert!(admin.get("/api/v1/status").await.starts_with("HTTP/1.1 403 "));
            lines_left(&admin.refusal_log) == all - 1
        };
        // The limit is for each second: a stalled machine may miss one.
        assert!(is_counted().await || is_counted().await || is_counted().await);
    }

    #[tokio::test]
    async fn shutdown_does_not_wait_for_idle_connections() {
        let admin = Port::start().await;
        let mut idle = TcpStream::connect(admin.address).await.unwrap();
        assert!(admin.get("/healthz").await.starts_with("HTTP/1.1 200 "));
        admin.stop.send(()).unwrap();
        admin.task.await.unwrap();
        assert!(!matches!(idle.read(&mut [0]).await, Ok(1..)));
    }
}
