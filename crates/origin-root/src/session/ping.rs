//! Whether a server answers at all: the first step of a connection, without a login.

use forebay_net::connect;
use forebay_origin::BoxFuture;
use forebay_proto::HANDSHAKE;
use forebay_types::Endpoint;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Length in bytes of the answer to the handshake: a header and two numbers.
const REPLY_LEN: usize = 16;

/// Bytes after the header of that answer.
const REPLY_BODY_LEN: [u8; 4] = [0, 0, 0, 8];

/// Connects to `endpoint` and exchanges handshakes within `limit`. The connection is good for nothing but noticing its end,
/// which comes when the server stops. `None` when no server answers, or one of another protocol.
#[must_use]
pub fn ping(endpoint: Endpoint, limit: Duration) -> BoxFuture<'static, Option<TcpStream>> {
    let answered = async move {
        let mut stream = connect(&endpoint, limit).await.ok()?;
        stream.write_all(&HANDSHAKE).await.ok()?;
        let mut reply = [0; REPLY_LEN];
        stream.read_exact(&mut reply).await.ok()?;
        // Stream id 0, status 0 and 8 bytes: the answer of any server, whatever its version and role.
        let is_answer = reply.starts_with(&[0; 4]) && reply.get(4..8) == Some(REPLY_BODY_LEN.as_slice());
        is_answer.then_some(stream)
    };
    Box::pin(async move { timeout(limit, answered).await.ok().flatten() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    const LIMIT: Duration = Duration::from_secs(20);

    async fn server(answer: &'static [u8]) -> (Endpoint, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint::new("127.0.0.1", listener.local_addr().unwrap().port());
        let task = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut handshake = [0; 20];
            stream.read_exact(&mut handshake).await.unwrap();
            stream.write_all(answer).await.unwrap();
        });
        (endpoint, task)
    }

    #[tokio::test]
    async fn a_server_answers_and_its_end_is_noticed() {
        let (endpoint, task) = server(&[0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 5, 0x11, 0, 0, 0, 1]).await;
        let mut stream = ping(endpoint, LIMIT).await.expect("it answers");
        task.await.unwrap();
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn other_protocols_and_closed_connections_do_not_count() {
        for answer in [b"HTTP/1.1 400 Bad".as_slice(), b""] {
            let (endpoint, task) = server(answer).await;
            assert!(ping(endpoint.clone(), LIMIT).await.is_none());
            task.await.unwrap();
            assert!(ping(endpoint, LIMIT).await.is_none(), "no server listens any more");
        }
    }
}
