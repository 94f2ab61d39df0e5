//! Requests to the admin port, one connection each.

use super::address::Address;
use crate::failure::AdminError;
use anyhow::Context;
use bytes::Bytes;
use forebay_admin::model::ProblemDocument;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, StatusCode,
    client::conn::http1,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{fmt::Display, future::Future, io, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};

/// Time limit of a request: longer than the server's own limit.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(40);

/// A client of the admin port; each request has its own connection.
pub(super) struct Connection {
    address: Address,
}

impl Connection {
    pub(super) const fn new(address: Address) -> Self {
        Self { address }
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.call(Method::GET, path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        self.call(Method::POST, path, body).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.call(Method::PUT, path, Some(body)).await
    }

    pub(super) async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.call(Method::DELETE, path, None).await
    }

    /// The text of an open path, such as `/metrics`.
    pub(super) async fn text(&self, path: &str) -> anyhow::Result<String> {
        let (status, content) = self.request(Method::GET, path, None).await?;
        let text = String::from_utf8_lossy(&content).into_owned();
        anyhow::ensure!(status.is_success(), "{path} at {}: status {status}: {text}", self.address);
        Ok(text)
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let (status, content) = self.request(method, path, body).await?;
        self.understand(status, &content)
    }

    async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<(StatusCode, Bytes)> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, "forebay");
        if let Address::Http { authority, token } = &self.address {
            request = request.header(HOST, authority);
            if let Some(token) = token {
                request = request.header(AUTHORIZATION, format!("Bearer {token}"));
            }
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let content = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(content))).context("building the request")?;
        let exchange = async {
            match &self.address {
                Address::Socket(path) => self.exchange(UnixStream::connect(path), request).await,
                Address::Http { authority, .. } => self.exchange(TcpStream::connect(authority), request).await,
            }
        };
        timeout(REQUEST_TIME_MAX, exchange).await.map_err(|_| self.broken("timeout"))?
    }

    async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        connecting: impl Future<Output = io::Result<S>>,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let stream = connecting.await.map_err(|source| {
            // The permissions of the socket deny the connection.
            if source.kind() == io::ErrorKind::PermissionDenied {
                return self.denied("the socket's permissions deny access: run as root or as the server's user, or set admin.socket_group");
            }
            let question = "is it running, and is this its admin port (--admin, FOREBAY_ADMIN, --config)?";
            let text = format!("cannot reach the server at {}: {source}; {question}", self.address);
            AdminError::new(AdminError::UNREACHABLE, text)
        })?;
        let broken = |error: hyper::Error| self.broken(error);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let driver = tokio::spawn(connection);
        let answer = sender.send_request(request).await.map_err(broken)?;
        let status = answer.status();
        let content = answer.into_body().collect().await.map_err(broken)?.to_bytes();
        driver.abort();
        Ok((status, content))
    }

    fn understand(&self, status: StatusCode, content: &Bytes) -> anyhow::Result<Value> {
        let strange = |reason: String| {
            let text = format!("{} is not a Forebay administration API: {reason}", self.address);
            AdminError::new(AdminError::FAILED, text)
        };
        if status.is_success() {
            if content.is_empty() {
                return Ok(Value::Null);
            }
            return Ok(serde_json::from_slice(content).map_err(|error| strange(error.to_string()))?);
        }
        let problem: ProblemDocument =
            serde_json::from_slice(content).map_err(|_| strange(format!("status {status}")))?;
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let advice = match &self.address {
                Address::Http { token: None, .. } => " (--token-file FILE)",
                _ => "",
            };
            return Err(self.denied(&format!("{}{advice}", problem.detail)).into());
        }
        let mut error = AdminError::new(AdminError::FAILED, problem.detail);
        error.problem = problem.r#type.rsplit(':').next().map(str::to_owned);
        Err(error.into())
    }

    fn denied(&self, detail: &str) -> AdminError {
        AdminError::new(AdminError::DENIED, format!("not authorized at {}: {detail}", self.address))
    }

    fn broken(&self, reason: impl Display) -> AdminError {
        let text = format!("connection to the server at {} failed: {reason}", self.address);
        AdminError::new(AdminError::UNREACHABLE, text)
    }
}

/// Converts an answer to its type.
pub(super) fn understood<T: DeserializeOwned>(answer: Value) -> anyhow::Result<T> {
    serde_json::from_value(answer).context("unexpected answer; the server may have another version")
}
