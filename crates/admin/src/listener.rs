//! The listeners of the admin port: HTTP/1.1 over TCP and over a unix socket.
//!
//! One request per connection, with a time limit and a limit on connections, so that no client can block the port.

use crate::{access::Channel, api::Admin, body::AnswerBody, socket::AdminSocket};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    future::Future,
    io,
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
pub const ADMIN_CONNECTIONS_MAX: usize = 32;

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
        let slots = Arc::new(Semaphore::new(ADMIN_CONNECTIONS_MAX));
        let mut exchanges = JoinSet::new();
        let accept_all = async {
            while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
                match listener.accept().await {
                    Ok((stream, channel)) => {
                        let admin = self.clone();
                        exchanges.spawn(async move {
                            admin.serve_exchange(stream, channel).await;
                            drop(slot);
                        });
                    }
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
    use forebay_telemetry::{Metrics, Readiness};
    use forebay_types::Lfn;
    use std::net::SocketAddr;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        sync::oneshot,
        task::JoinHandle,
    };

    struct Port {
        address: SocketAddr,
        metrics: Metrics,
        readiness: Readiness,
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
            let served = async move { admin.serve_tcp(listener, async { drop(stopped.await) }).await };
            Self { address, metrics, readiness, stop, task: tokio::spawn(served) }
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
        for _ in 0..ADMIN_CONNECTIONS_MAX {
            idle.push(TcpStream::connect(admin.address).await.unwrap());
        }
        let (answer, ()) = tokio::join!(admin.get("/healthz"), async { drop(idle) });
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
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
