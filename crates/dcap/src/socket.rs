//! Receiving and sending on the sockets of clients.

use crate::options::RECEIVE_LEN;
use forebay_front::{DeliveryError, deliver_within};
use forebay_net::{SendHint, send_all};
use std::{io, time::Duration};
use tokio::net::TcpStream;

/// Waits for bytes and passes them to `take`; `false` at the end of the stream. Cancel safe.
pub(crate) async fn receive(stream: &TcpStream, take: impl FnOnce(&[u8])) -> io::Result<bool> {
    loop {
        stream.readable().await?;
        let mut room = [0; RECEIVE_LEN];
        match stream.try_read(&mut room) {
            Ok(0) => return Ok(false),
            Ok(len) => {
                take(room.get(..len).unwrap_or_default());
                return Ok(true);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Sends a line, or several.
pub(crate) async fn send_text(stream: &TcpStream, text: &str, stall_max: Duration) -> Result<(), DeliveryError> {
    deliver_within(stall_max, send_all(stream, text.as_bytes(), SendHint::Last)).await
}
