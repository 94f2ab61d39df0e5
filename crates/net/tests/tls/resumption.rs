//! Sessions that clients go on with.

use crate::Site;
use forebay_net::{Listener, Stream};
use openssl::ssl::{ShutdownState, SslConnector, SslMethod, SslSession, SslSessionCacheMode};
use std::io::Read;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

/// A client's tickets, and the connector that fills them.
fn client(site: &Site) -> (Arc<Mutex<Vec<SslSession>>>, SslConnector) {
    let tickets: Arc<Mutex<Vec<SslSession>>> = Arc::default();
    let mut builder = SslConnector::builder(SslMethod::tls_client()).unwrap();
    builder.cert_store_mut().add_cert(site.ca.certificate.clone()).unwrap();
    builder.set_session_cache_mode(SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL);
    let kept = Arc::clone(&tickets);
    builder.set_new_session_callback(move |_, session| kept.lock().unwrap().push(session));
    (tickets, builder.build())
}

#[tokio::test]
async fn each_connection_brings_one_ticket_with_which_the_next_goes_on() {
    let site = Site::new(&["localhost"]);
    let (acceptor, (tickets, connector)) = (site.acceptor(), client(&site));
    let mut resumed = Vec::new();
    for number in 1..=3 {
        let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let socket = TcpStream::connect(listener.address()).unwrap();
        let mut served = Stream::from(listener.accept().await.0);
        let mut ssl = connector.configure().unwrap().into_ssl("localhost").unwrap();
        if let Some(session) = tickets.lock().unwrap().last() {
            #[expect(unsafe_code, reason = "OpenSSL's way to resume a session")]
            // SAFETY: the session was made by a connection of the same connector, whose context is the same.
            unsafe {
                ssl.set_session(session).unwrap();
            }
        }
        let client = tokio::task::spawn_blocking(move || {
            let mut stream = ssl.connect(socket).unwrap();
            // The ticket comes before what the server says.
            stream.read_exact(&mut [0; 5]).unwrap();
            stream.set_shutdown(ShutdownState::SENT | ShutdownState::RECEIVED);
            stream.ssl().session_reused()
        });
        let facts = served.accept_tls(&acceptor, &[]).await.unwrap().clone();
        served.send_all(b"hello").await.unwrap();
        assert_eq!(client.await.unwrap(), facts.is_resumed);
        assert_eq!(tickets.lock().unwrap().len(), number);
        resumed.push(facts.is_resumed);
    }
    assert_eq!(resumed, [false, true, true]);
}
