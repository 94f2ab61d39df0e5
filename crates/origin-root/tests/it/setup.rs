//! Origin clients for tests, and reading through them.

use forebay_origin::{Chunks, DelegatedCredentials, Origin, OriginError, OriginFile, OriginPath};
use forebay_origin_root::{Options, Pool, PoolOptions, RootOrigin};
use forebay_telemetry::Metrics;
use forebay_testkit::{ScriptedOrigin, bytes_at};
use forebay_types::{ByteRange, Endpoint, Lfn};
use std::{sync::Arc, time::Duration};

/// No case takes longer: whatever happens, the client answers.
pub(crate) const CASE_TIME_MAX: Duration = Duration::from_secs(20);

/// Quick retries; timeouts that a busy machine does not reach.
pub(crate) fn options() -> Options {
    Options {
        first_byte_timeout: Duration::from_secs(10),
        stall_timeout: Duration::from_secs(10),
        deadline: Duration::from_secs(15),
        wait_max: Duration::from_millis(50),
        attempts: 3,
        read_attempts: 4,
        back_off_min: Duration::from_millis(10),
        back_off_max: Duration::from_millis(40),
        ..Options::default()
    }
}

/// For servers that go silent.
pub(crate) fn impatient_options() -> Options {
    let (first_byte_timeout, stall_timeout) = (Duration::from_secs(2), Duration::from_secs(2));
    Options { first_byte_timeout, stall_timeout, ..options() }
}

pub(crate) fn pool() -> Arc<Pool> {
    Pool::new(PoolOptions { connect_timeout: Duration::from_secs(10), ..PoolOptions::default() })
}

pub(crate) fn origin_of(servers: &[&ScriptedOrigin]) -> RootOrigin {
    let endpoints = servers.iter().map(|server| server.endpoint().clone()).collect();
    RootOrigin::new(endpoints, options(), pool(), &Metrics::new())
}

pub(crate) fn impatient_origin_of(server: &ScriptedOrigin) -> RootOrigin {
    RootOrigin::new(vec![server.endpoint().clone()], impatient_options(), pool(), &Metrics::new())
}

/// An endpoint where nothing listens.
pub(crate) async fn dead_endpoint() -> Endpoint {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    Endpoint::new("127.0.0.1", listener.local_addr().unwrap().port())
}

pub(crate) fn path(text: &str) -> OriginPath {
    let (lfn, cgi) = text.split_once('?').unwrap_or((text, ""));
    OriginPath { lfn: Lfn::parse(lfn).unwrap(), cgi: cgi.to_owned(), delegation: DelegatedCredentials::default() }
}

/// Runs a case within [`CASE_TIME_MAX`].
pub(crate) async fn bounded<T>(case: impl Future<Output = T>) -> T {
    tokio::time::timeout(CASE_TIME_MAX, case).await.expect("the client answers in time")
}

pub(crate) async fn open(origin: &RootOrigin) -> Arc<dyn OriginFile> {
    bounded(origin.open(&path("/store/file"))).await.unwrap()
}

/// All bytes of a stream, or the error that ends it and what came before.
pub(crate) async fn drain(mut chunks: Chunks) -> Result<Vec<u8>, (Vec<u8>, OriginError)> {
    bounded(async {
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) => {
                    assert!(!chunk.bytes.is_empty(), "chunks are never empty");
                    bytes.extend_from_slice(&chunk.bytes);
                }
                Err(error) => return Err((bytes, error)),
            }
        }
        Ok(bytes)
    })
    .await
}

/// The bytes of `range`, which must be right.
pub(crate) async fn read_right(file: &Arc<dyn OriginFile>, range: ByteRange) {
    let bytes = drain(file.read(range)).await.unwrap_or_else(|(_, error)| panic!("{range}: {error}"));
    assert_right(range, &bytes);
}

/// The error of a read, before which only right bytes came.
pub(crate) async fn read_error(file: &Arc<dyn OriginFile>, range: ByteRange) -> OriginError {
    let (bytes, error) = drain(file.read(range)).await.expect_err("the read fails");
    assert_right(ByteRange::at(range.start(), bytes.len() as u64), &bytes);
    error
}

pub(crate) fn assert_right(range: ByteRange, bytes: &[u8]) {
    let right = bytes_at(range.start(), usize::try_from(range.len()).unwrap());
    assert_eq!(bytes.len(), right.len(), "{range}");
    assert!(bytes == right, "{range}: wrong bytes");
}
