//! The admin listener: metrics, liveness and readiness over HTTP/1.1.
//!
//! One exchange per connection, each within a fixed time, a fixed number at once: nobody can hold it for long.

use crate::{metrics::Metrics, readiness::Readiness};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Body,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, future::Future, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

/// Connections served at once; more wait in the kernel's queue.
pub const ADMIN_CONNECTIONS_MAX: usize = 32;

/// Time a client has to send its request's header.
pub const ADMIN_HEADER_TIME_MAX: Duration = Duration::from_secs(5);

/// Time of a whole exchange, after which the connection is cut.
pub const ADMIN_EXCHANGE_TIME_MAX: Duration = Duration::from_secs(30);

/// Header bytes of a request; the least that hyper allows.
const HEADER_LEN_MAX: usize = 8192;

/// Pause after an accept failed, for want of descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// Serves `/metrics`, `/healthz` and `/readyz` until `shutdown` completes. Exchanges under way are then cut.
pub async fn serve_admin(
    listener: TcpListener,
    metrics: Metrics,
    readiness: Readiness,
    shutdown: impl Future<Output = ()> + Send,
) {
    let slots = Arc::new(Semaphore::new(ADMIN_CONNECTIONS_MAX));
    let mut exchanges = JoinSet::new();
    let accept_all = async {
        while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (metrics, readiness) = (metrics.clone(), readiness.clone());
                    exchanges.spawn(async move {
                        serve_exchange(stream, &metrics, &readiness).await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the admin listener cannot accept: waiting");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
            while exchanges.try_join_next().is_some() {}
        }
    };
    tokio::select! {
        () = shutdown => {}
        () = accept_all => {}
    }
}

async fn serve_exchange(stream: TcpStream, metrics: &Metrics, readiness: &Readiness) {
    let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(respond(&request, metrics, readiness))));
    let exchange = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ADMIN_HEADER_TIME_MAX)
        .max_buf_size(HEADER_LEN_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(ADMIN_EXCHANGE_TIME_MAX, exchange).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "admin connection failed"),
        Err(_) => tracing::debug!("admin connection was too slow"),
    }
}

/// Decides on the response. A query behind the path is ignored, as probes like to add one.
fn respond<B: Body>(request: &Request<B>, metrics: &Metrics, readiness: &Readiness) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    if !matches!(path, "/metrics" | "/healthz" | "/readyz") {
        return response(StatusCode::NOT_FOUND, TEXT_TYPE, "not found: try /metrics, /healthz or /readyz\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refusal = response(StatusCode::METHOD_NOT_ALLOWED, TEXT_TYPE, "only GET and HEAD are allowed\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    match path {
        "/metrics" => match metrics.render() {
            Ok(rendered) => response(StatusCode::OK, OPENMETRICS_TYPE, rendered),
            Err(_) => response(StatusCode::INTERNAL_SERVER_ERROR, TEXT_TYPE, "the metrics could not be written\n"),
        },
        "/readyz" => {
            let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            response(status, TEXT_TYPE, format!("{}\n", readiness.as_str()))
        }
        _ => response(StatusCode::OK, TEXT_TYPE, "ok\n"),
    }
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        sync::oneshot,
        task::JoinHandle,
    };

    struct Admin {
        address: SocketAddr,
        metrics: Metrics,
        readiness: Readiness,
        stop: oneshot::Sender<()>,
        task: JoinHandle<()>,
    }

    impl Admin {
        async fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (metrics, readiness) = (Metrics::new(), Readiness::new());
            let (stop, stopped) = oneshot::channel();
            let served = serve_admin(listener, metrics.clone(), readiness.clone(), async {
                let _ = stopped.await;
            });
            Self { address, metrics, readiness, stop, task: tokio::spawn(served) }
        }

        /// What comes back for `head`, until the server closes.
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
        let admin = Admin::start().await;
        admin.metrics.add_fills_started(42);
        let answer = admin.get("/metrics?x=1").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.to_ascii_lowercase().contains(&format!("content-type: {OPENMETRICS_TYPE}\r\n")), "{answer}");
        assert!(answer.contains("\nforebay_fills_started_total 42\n"), "{answer}");
        assert!(answer.ends_with("# EOF\n"));
    }

    #[tokio::test]
    async fn readiness_follows_the_switch_and_liveness_does_not() {
        let admin = Admin::start().await;
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
        let admin = Admin::start().await;
        assert!(admin.get("/").await.starts_with("HTTP/1.1 404 "));
        let refused = admin.exchange("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await;
        assert!(refused.starts_with("HTTP/1.1 405 "), "{refused}");
        assert!(refused.to_ascii_lowercase().contains("allow: get, head\r\n"), "{refused}");
        let head = admin.exchange("HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.ends_with("\r\n\r\n"), "{head}");
    }

    #[tokio::test]
    async fn a_header_beyond_the_limit_is_refused() {
        let admin = Admin::start().await;
        let long = format!("GET /healthz HTTP/1.1\r\nX: {}", "x".repeat(HEADER_LEN_MAX));
        let answer = admin.exchange(&long).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }

    #[tokio::test]
    async fn a_slot_that_becomes_free_serves_who_waited() {
        let admin = Admin::start().await;
        let mut idle = Vec::new();
        for _ in 0..ADMIN_CONNECTIONS_MAX {
            idle.push(TcpStream::connect(admin.address).await.unwrap());
        }
        let (answer, ()) = tokio::join!(admin.get("/healthz"), async { drop(idle) });
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }

    #[tokio::test]
    async fn shutdown_does_not_wait_for_idle_connections() {
        let admin = Admin::start().await;
        let mut idle = TcpStream::connect(admin.address).await.unwrap();
        assert!(admin.get("/healthz").await.starts_with("HTTP/1.1 200 "));
        admin.stop.send(()).unwrap();
        admin.task.await.unwrap();
        assert!(!matches!(idle.read(&mut [0]).await, Ok(1..)));
    }
}
