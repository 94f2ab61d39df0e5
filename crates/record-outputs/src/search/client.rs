//! Requests to servers of OpenSearch and Elasticsearch.

use super::{SearchOptions, secret::read_secret};
use bytes::Bytes;
use forebay_net::{Stream, TlsConnector, TlsError, WebAnchors, connect};
use forebay_types::{OriginId, Scheme};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    client::conn::http1,
    header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::{task::JoinSet, time::timeout};

/// Longest time of a request, from the look-up of the name to the end of the answer.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// Longest answer in bytes: a hundred for each record of a request of ordinary size.
const ANSWER_LEN_MAX: usize = 4 << 20;

/// Sends requests to one of several servers.
pub(super) struct Client {
    servers: Vec<OriginId>,
    authorization: Authorization,
    tls: TlsConnector,
    /// Position of the server that is asked.
    current: usize,
}

/// The files with the credentials. They are read for each request, so that replacing them takes effect.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Authorization {
    #[default]
    None,
    /// The file has an API key, as the server has printed it.
    ApiKey(std::path::PathBuf),
    /// The name, and the file with the password.
    Basic(String, std::path::PathBuf),
}

/// Status and body of an answer.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl Client {
    /// # Errors
    /// If the file of authorities cannot be used.
    pub(super) fn new(options: &SearchOptions) -> Result<Self, TlsError> {
        let anchors = options.ca_file.clone().map_or(WebAnchors::System, WebAnchors::File);
        let (servers, authorization) = (options.urls.clone(), options.authorization.clone());
        Ok(Self { servers, authorization, tls: TlsConnector::for_web(anchors)?, current: 0 })
    }

    pub(super) const fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Sends further requests to the next server.
    pub(super) const fn next_server(&mut self) {
        self.current = (self.current + 1) % self.servers.len();
    }

    /// # Errors
    /// The reason why there is no answer.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Answer, String> {
        let server = self.servers.get(self.current).ok_or("no server is configured")?;
        let sent = self.send_unbounded(server, method, path, content_type, body);
        let answer = timeout(REQUEST_TIME_MAX, sent).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {REQUEST_TIME_MAX:?}")));
        answer.map_err(|reason| format!("{server}: {reason}"))
    }

    async fn send_unbounded(
        &self,
        server: &OriginId,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Answer, String> {
        let endpoint = &server.endpoint;
        let socket = connect(endpoint, REQUEST_TIME_MAX).await.map_err(|error| error.to_string())?;
        let mut stream = Stream::from(socket);
        if server.scheme == Scheme::Https {
            stream.connect_tls(&self.tls, endpoint.host()).await.map_err(|error| error.to_string())?;
        }
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", server.base()))
            .header(HOST, endpoint.to_string())
            .header(USER_AGENT, concat!("forebay/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, content_type)
            .header(CONNECTION, "close");
        if let Some(value) = self.authorization.value()? {
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        let broken = |error: hyper::Error| format!("the connection broke: {error}");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        // The connection ends with this request.
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let (head, body) = sender.send_request(request).await.map_err(broken)?.into_parts();
        let body = Limited::new(body, ANSWER_LEN_MAX).collect().await.map_err(|error| error.to_string())?;
        Ok(Answer { status: head.status, body: body.to_bytes() })
    }
}

impl Authorization {
    /// The value of the header, read from the file.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub(crate) fn value(&self) -> Result<Option<String>, String> {
        Ok(match self {
            Self::None => None,
            Self::ApiKey(file) => Some(format!("ApiKey {}", read_secret(file)?)),
            Self::Basic(user, file) => {
                let pair = format!("{user}:{}", read_secret(file)?);
                Some(format!("Basic {}", openssl::base64::encode_block(pair.as_bytes())))
            }
        })
    }
}
