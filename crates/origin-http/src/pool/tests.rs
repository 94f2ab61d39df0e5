//! Requests that wait for a connection, at a server whose queue of connections is full.

use super::*;
use crate::options::WARM_LEN;
use std::time::Duration;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task::yield_now,
    time::timeout,
};

const LONG: Duration = Duration::from_secs(20);

/// A server that completes no connection but those of its queue.
struct FullServer {
    id: OriginId,
    listener: TcpListener,
    queued: Vec<TcpStream>,
}

impl FullServer {
    async fn start() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let id = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        Self { id, listener, queued: Vec::new() }
    }

    async fn fill(&mut self) {
        let address = self.listener.local_addr().unwrap();
        while let Ok(connected) = timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
            self.queued.push(connected.unwrap());
        }
    }
}

async fn kept(pool: &Arc<Pool>, server: &FullServer) -> (Connection, TcpStream) {
    let (connection, accepted) = tokio::join!(pool.connection(&server.id, None, true), server.listener.accept());
    (connection.unwrap(), accepted.unwrap().0)
}

fn waiting_at(pool: &Pool, server: &FullServer) -> bool {
    let contact = Contact { server: server.id.clone(), may_be_here: true };
    pool.connections.lock().is_awaited(&contact)
}

#[tokio::test]
async fn a_connection_that_becomes_unused_serves_a_request_that_waits_for_a_new_one() {
    let (pool, mut server) = (Pool::anonymous(PoolOptions::default()), FullServer::start().await);
    let (connection, _accepted) = kept(&pool, &server).await;
    server.fill().await;
    let (request, ()) = tokio::join!(timeout(LONG, pool.connection(&server.id, None, true)), async {
        while !waiting_at(&pool, &server) {
            yield_now().await;
        }
        pool.park(connection);
    });
    assert!(request.unwrap().unwrap().is_reused);
    assert!(!waiting_at(&pool, &server));
}

#[tokio::test]
async fn a_connection_is_not_given_to_a_request_that_has_ended() {
    let (pool, mut server) = (Pool::anonymous(PoolOptions::default()), FullServer::start().await);
    let (connection, _accepted) = kept(&pool, &server).await;
    server.fill().await;
    timeout(Duration::from_millis(1), pool.connection(&server.id, None, true)).await.unwrap_err();
    assert!(!waiting_at(&pool, &server));
    pool.park(connection);
    assert!(timeout(LONG, pool.connection(&server.id, None, true)).await.unwrap().unwrap().is_reused);
}

#[tokio::test]
async fn the_new_connection_is_kept_for_the_next_request() {
    let (pool, mut server) = (Pool::anonymous(PoolOptions::default()), FullServer::start().await);
    let (connection, _accepted) = kept(&pool, &server).await;
    server.fill().await;
    let (request, ()) = tokio::join!(pool.connection(&server.id, None, true), async {
        while !waiting_at(&pool, &server) {
            yield_now().await;
        }
        pool.park(connection);
    });
    let _first = request.unwrap();
    // Room in the queue: the second connection is completed.
    let accept_all = async {
        loop {
            server.queued.push(server.listener.accept().await.unwrap().0);
        }
    };
    let second = async {
        loop {
            if let Some(connection) = pool.kept(&server.id, None) {
                break connection;
            }
            yield_now().await;
        }
    };
    tokio::select! {
        second = timeout(LONG, second) => assert!(second.unwrap().is_reused),
        () = accept_all => {}
    }
}

#[tokio::test]
async fn connections_that_have_carried_much_are_taken_first_and_the_last_of_them() {
    let (pool, server) = (Pool::anonymous(PoolOptions::default()), FullServer::start().await);
    let mut accepted = Vec::new();
    let mut connections = Vec::new();
    for received in [WARM_LEN, 5 * WARM_LEN, 2 * WARM_LEN, 100, 0] {
        let (mut connection, stream) =
            tokio::join!(pool.connection(&server.id, None, false), async { server.listener.accept().await.unwrap().0 });
        connection.as_mut().unwrap().received = received;
        connections.push(connection.unwrap());
        accepted.push(stream);
    }
    connections.into_iter().for_each(|connection| pool.park(connection));
    let taken: Vec<u64> = std::iter::from_fn(|| pool.kept(&server.id, None)).map(|taken| taken.received).collect();
    assert_eq!(taken, [2 * WARM_LEN, 5 * WARM_LEN, WARM_LEN, 100, 0]);
}

#[tokio::test]
async fn connections_are_prepared_once() {
    let (pool, server) = (Pool::anonymous(PoolOptions::default()), FullServer::start().await);
    let contact = Contact { server: server.id.clone(), may_be_here: true };
    let (first, _accepted) = kept(&pool, &server).await;
    pool.park(first);
    assert_eq!(pool.connections.lock().prepare(&contact, 4), 3, "one is there");
    assert_eq!(pool.connections.lock().prepare(&contact, 4), 0, "three are being made");
    let _one = pool.kept(&server.id, None).unwrap();
    let (mut waiting, is_to_dial) = pool.connections.lock().wait(&contact);
    assert!(!is_to_dial, "one of the three is for it");
    let refused = || Err(unreachable(&server.id.endpoint, "no"));
    for _ in 0..2 {
        assert!(!pool.connections.lock().dialled(&contact, refused()));
        assert!(waiting.try_recv().is_err(), "another attempt is left for it");
    }
    assert!(!pool.connections.lock().dialled(&contact, refused()));
    assert!(waiting.try_recv().unwrap().is_err());
}

#[tokio::test]
async fn connections_are_those_of_their_server() {
    let (pool, server) = (Pool::anonymous(PoolOptions::default()), FullServer::start().await);
    let (connection, _accepted) = kept(&pool, &server).await;
    let redirected = Redirected { by: Endpoint::new("h", 1), setting: "redirects" };
    let tls = server.id.to_string().replace("http:", "https:").parse().unwrap();
    assert!(connection.is_to(&server.id, None));
    assert!(!connection.is_to(&server.id, Some(&redirected)) && !connection.is_to(&tls, None));
}

#[tokio::test]
async fn the_error_of_an_attempt_is_that_of_one_request() {
    let pool = Pool::anonymous(PoolOptions::default());
    // Nothing listens at the port of a listener that has gone.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let server: OriginId = format!("http://{address}").parse().unwrap();
    let (first, second) = tokio::join!(pool.connection(&server, None, true), pool.connection(&server, None, true));
    for refused in [first, second] {
        assert!(matches!(refused, Err(OriginError::Unreachable { .. })));
    }
    let contact = Contact { server, may_be_here: true };
    assert_eq!(pool.connections.lock().prepare(&contact, 1), 1, "nothing is under way");
}
