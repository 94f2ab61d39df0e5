//! Tokio's reader and writer traits for a connection, for protocols implemented by other libraries.

use super::Stream;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_receive(context, room)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let taken_len = self.try_send(bytes)?;
            if taken_len > 0 || bytes.is_empty() {
                return Poll::Ready(Ok(taken_len));
            }
            ready!(self.socket.poll_write_ready(context))?;
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.has_unsent() {
            self.try_send(&[])?;
            if !self.has_unsent() {
                break;
            }
            ready!(self.socket.poll_write_ready(context))?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(context))?;
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
