//! The cache refuses what an origin would refuse: it asks with the client's own credentials, once in a while.

use crate::house::{caller, check, options, request, run};
use forebay_auth::{Credentials, Token};
use forebay_cache::AllowList;
use forebay_engine::{
    Caller, Checksum, Delegation, Engine, Error, Export, ExportSource, ListDetail, Options, Routes, Writes,
};
use forebay_origin::{Origin, OriginError, OriginFile, OriginFuture, OriginPath, RefusalKind};
use forebay_telemetry::Metrics;
use forebay_testkit::{FaultyDisk, MemoryOrigin};
use forebay_types::{ByteRange, DirEntry, FileStat, Lfn, Outcome};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

/// An origin that gives its files only to clients that show it a certain token.
struct Guarded {
    files: MemoryOrigin,
    wanted: Arc<Credentials>,
    acts_for_clients: bool,
    asked: AtomicU64,
    is_away: AtomicBool,
}

impl Guarded {
    fn new(acts_for_clients: bool) -> Arc<Self> {
        let asked = AtomicU64::new(0);
        let is_away = AtomicBool::new(false);
        Arc::new(Self {
            files: MemoryOrigin::new(1 << 20),
            wanted: credentials("good"),
            acts_for_clients,
            asked,
            is_away,
        })
    }

    /// Whether what is shown with a request is good enough. A service's own is, which tests know by showing nothing.
    fn admit(&self, path: &OriginPath) -> Result<(), OriginError> {
        let endpoint = MemoryOrigin::endpoint();
        if self.is_away.load(SeqCst) {
            return Err(OriginError::Unreachable { endpoint, reason: "away".to_owned() });
        }
        let is_service = !self.acts_for_clients && !path.delegation.is_for_client();
        if is_service {
            return Ok(());
        }
        self.asked.fetch_add(1, SeqCst);
        let is_good = path.delegation.credentials().is_some_and(|shown| shown.name() == self.wanted.name());
        let refusal = || OriginError::Refused { endpoint, kind: RefusalKind::Denied, text: "not for you".to_owned() };
        is_good.then_some(()).ok_or_else(refusal)
    }
}

impl Origin for Guarded {
    fn label(&self) -> &str {
        "guarded"
    }

    fn acts_for_clients(&self) -> bool {
        self.acts_for_clients
    }

    fn open<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        Box::pin(async move {
            self.admit(path)?;
            self.files.open(path).await
        })
    }

    fn stat<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, FileStat> {
        Box::pin(async move {
            self.admit(path)?;
            self.files.stat(path).await
        })
    }

    fn list<'a>(&'a self, path: &'a OriginPath, detail: ListDetail) -> OriginFuture<'a, Vec<DirEntry>> {
        Box::pin(async move {
            self.admit(path)?;
            self.files.list(path, detail).await
        })
    }

    fn checksum<'a>(&'a self, path: &'a OriginPath, algorithm: Option<&'a str>) -> OriginFuture<'a, Checksum> {
        Box::pin(async move {
            self.admit(path)?;
            self.files.checksum(path, algorithm).await
        })
    }
}

fn credentials(text: &str) -> Arc<Credentials> {
    Arc::new(Credentials::of_client().with_token(Token::parse(text.as_bytes()).expect("a token")))
}

fn engine(root: &Path, origin: &Arc<Guarded>, options: Options) -> Engine {
    let (disk, _) = FaultyDisk::open(root).expect("a fresh directory is a store");
    let source = ExportSource::Origin { origin: Arc::clone(origin) as _, server: MemoryOrigin::endpoint().into() };
    let prefix = Lfn::parse("/").expect("a root");
    let export = Export {
        prefix,
        source,
        writes: Writes::Refuse,
        validity: Default::default(),
        authorizes_at_origin: true,
        service: forebay_engine::Service::default(),
    };
    let routes = Routes::new(vec![export], AllowList::default(), Arc::new(|_| unreachable!("no forwarding")))
        .expect("one export");
    Engine::start(options, Some(disk), routes, Metrics::new())
}

fn client(credentials: Option<Arc<Credentials>>) -> Arc<Caller> {
    let caller = Caller::operator("tester").as_ref().clone();
    Arc::new(Caller { delegation: Delegation::Client(credentials), ..caller })
}

async fn open(engine: &Engine, path: &str, caller: &Arc<Caller>) -> Result<forebay_engine::Handle, Error> {
    engine.open(&request(path), caller).await
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Origin(OriginError::Refused { kind: RefusalKind::Denied, .. }))
}

#[test]
fn hits_are_given_to_those_whom_the_origin_would_give_the_file() {
    for acts_for_clients in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let origin = Guarded::new(acts_for_clients);
        run(async {
            let engine = engine(root.path(), &origin, options());
            let good = client(Some(credentials("good")));
            for who in [client(Some(credentials("bad"))), client(None)] {
                assert!(is_refusal(&open(&engine, "/f", &who).await.err().unwrap()), "cold, {acts_for_clients}");
            }
            let handle = open(&engine, "/f", &good).await.unwrap();
            check(&handle, ByteRange::at(0, 1000)).await;
            for who in [client(Some(credentials("bad"))), client(None)] {
                assert!(
                    is_refusal(&open(&engine, "/f", &who).await.err().unwrap()),
                    "while it is open, {acts_for_clients}"
                );
                assert!(is_refusal(&engine.stat(&request("/f"), &who).await.unwrap_err()));
                assert!(is_refusal(&engine.checksum(&request("/f"), &who, None).await.unwrap_err()));
                assert!(is_refusal(&engine.list(&request("/"), &who, ListDetail::Names).await.unwrap_err()));
            }
            assert!(engine.stat(&request("/f"), &good).await.is_ok());
            let missed = engine.metrics().client_bytes(Outcome::Missed);
            check(&open(&engine, "/f", &good).await.unwrap(), ByteRange::at(0, 1000)).await;
            assert_eq!(engine.metrics().client_bytes(Outcome::Missed), missed, "a hit");
            engine.shutdown().await;
        });
    }
}

#[test]
fn an_origin_is_asked_once_for_many_opens_and_a_leave_outlives_its_absence() {
    let root = tempfile::tempdir().unwrap();
    let origin = Guarded::new(false);
    run(async {
        let engine = engine(root.path(), &origin, options());
        let good = client(Some(credentials("good")));
        let (first, second) = tokio::join!(open(&engine, "/f", &good), open(&engine, "/f", &good));
        check(&first.unwrap(), ByteRange::at(0, 1000)).await;
        check(&second.unwrap(), ByteRange::at(0, 1000)).await;
        assert_eq!(origin.asked.load(SeqCst), 1);
        origin.is_away.store(true, SeqCst);
        check(&open(&engine, "/f", &good).await.unwrap(), ByteRange::at(0, 1000)).await;
        let other = client(Some(credentials("other")));
        let error = open(&engine, "/f", &other).await.err().unwrap();
        assert!(matches!(error, Error::Origin(OriginError::Unreachable { .. })), "no origin can authorize it: {error}");
        let asked = origin.asked.load(SeqCst);
        assert!(open(&engine, "/f", &other).await.is_err());
        assert_eq!(origin.asked.load(SeqCst), asked, "not every hit waits for a dead server");
        engine.shutdown().await;
    });
}

#[test]
fn who_operates_the_server_needs_no_leave() {
    let root = tempfile::tempdir().unwrap();
    let origin = Guarded::new(false);
    run(async {
        let engine = engine(root.path(), &origin, options());
        check(&open(&engine, "/f", &caller()).await.unwrap(), ByteRange::at(0, 1000)).await;
        assert_eq!(origin.asked.load(SeqCst), 0);
        engine.shutdown().await;
    });
}
