//! Requests that wait for a connection, at a server whose queue of connections is full.

use super::*;
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
    pool.unused.lock().is_awaited(&contact)
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
