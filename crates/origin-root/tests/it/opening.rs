//! Opening files and asking about paths: redirects, waits, errors, lists of servers.

use crate::setup::{bounded, dead_endpoint, impatient_origin_of, open, options, origin_of, path, pool, read_right};
use forebay_origin::{Origin, OriginError};
use forebay_origin_root::{Options, Pool, PoolOptions, RootOrigin, refusal_kind};
use forebay_proto::{ErrorCode, RequestCode, ServerFlags};
use forebay_telemetry::Metrics;
use forebay_testkit::{Facts, Reply, ScriptedOrigin};
use forebay_types::ByteRange;
use std::{sync::Arc, time::Duration};

async fn good() -> ScriptedOrigin {
    ScriptedOrigin::start(Facts::default(), |_| Reply::Good).await.unwrap()
}

#[tokio::test]
async fn a_file_tells_its_identity() {
    let server = good().await;
    let identity = open(&origin_of(&[&server])).await.identity();
    assert_eq!((identity.size, identity.validator.mtime()), (1 << 20, Some(1_700_000_000)));
    assert_eq!(identity.origin.endpoint, *server.endpoint());
    assert_eq!(server.seen().iter().find(|seen| seen.code == RequestCode::OPEN).unwrap().path, "/store/file");
}

#[tokio::test]
async fn a_server_that_gives_no_stat_with_the_open_is_asked_for_it() {
    let facts = Facts { stat_with_open: false, ..Facts::default() };
    let server = ScriptedOrigin::start(facts, |_| Reply::Good).await.unwrap();
    assert_eq!(open(&origin_of(&[&server])).await.identity().size, 1 << 20);
    assert_eq!(server.count(RequestCode::STAT), 1);
}

#[tokio::test]
async fn many_askers_share_one_connection() {
    let server = good().await;
    let origin = Arc::new(origin_of(&[&server]));
    let opens: Vec<_> = (0..50)
        .map(|_| {
            let origin = Arc::clone(&origin);
            tokio::spawn(async move { open(&origin).await.identity().size })
        })
        .collect();
    for size in opens {
        assert_eq!(size.await.unwrap(), 1 << 20);
    }
    assert_eq!(server.count(RequestCode::LOGIN), 1);
    assert_eq!(server.count(RequestCode::OPEN), 50);
}

#[tokio::test]
async fn a_redirect_is_followed_with_its_opaque_data() {
    let pool = good().await;
    let target = pool.endpoint().clone();
    let door = ScriptedOrigin::start(Facts::redirector(), move |seen| match seen.code {
        RequestCode::LOGIN => Reply::Good,
        _ => Reply::Redirect(target.clone(), "org.dcache.uuid=abc&a=2".to_owned()),
    })
    .await
    .unwrap();
    let origin = origin_of(&[&door]);
    let file = bounded(origin.open(&path("/store/file?a=1&authz=secret"))).await.unwrap();
    assert_eq!(file.identity().origin.endpoint, *pool.endpoint());
    read_right(&file, ByteRange::at(0, 100)).await;
    let seen = pool.seen();
    let opened = seen.iter().find(|seen| seen.code == RequestCode::OPEN).unwrap();
    assert_eq!(opened.path, "/store/file?authz=secret&org.dcache.uuid=abc&a=2");
}

#[tokio::test]
async fn a_redirect_to_a_url_replaces_the_path() {
    let pool = good().await;
    let url = format!("root://{}//disk/7?cap=%2F", pool.endpoint());
    let door = ScriptedOrigin::start(Facts::redirector(), move |seen| match seen.code {
        RequestCode::LOGIN => Reply::Good,
        _ => Reply::RedirectUrl(url.clone()),
    })
    .await
    .unwrap();
    let stat = bounded(origin_of(&[&door]).stat(&path("/store/file"))).await.unwrap();
    assert_eq!(stat.size, 1 << 20);
    assert_eq!(pool.seen().last().unwrap().path, "/disk/7?cap=%2F");
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let server = ScriptedOrigin::start(Facts::redirector(), |_| Reply::Good).await.unwrap();
    let target = server.endpoint().clone();
    let door = ScriptedOrigin::start(Facts::redirector(), move |seen| match seen.code {
        RequestCode::LOGIN => Reply::Good,
        _ => Reply::Redirect(target.clone(), String::new()),
    })
    .await
    .unwrap();
    drop(server);
    let own = Arc::new(std::sync::OnceLock::new());
    let told = Arc::clone(&own);
    let circle = ScriptedOrigin::start(Facts::redirector(), move |seen| match seen.code {
        RequestCode::LOGIN => Reply::Good,
        _ => Reply::Redirect(told.get().cloned().unwrap(), String::new()),
    })
    .await
    .unwrap();
    own.set(circle.endpoint().clone()).unwrap();
    let error = bounded(origin_of(&[&circle]).stat(&path("/f"))).await.unwrap_err();
    assert!(matches!(error, OriginError::RedirectLoop { .. }), "{error}");
    let error = bounded(origin_of(&[&door]).stat(&path("/f"))).await.unwrap_err();
    assert!(matches!(error, OriginError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn ever_new_redirects_end_at_the_limit() {
    let own = Arc::new(std::sync::OnceLock::new());
    let told = Arc::clone(&own);
    let server = ScriptedOrigin::start(Facts::redirector(), move |seen| match seen.code {
        RequestCode::LOGIN => Reply::Good,
        _ => Reply::Redirect(told.get().cloned().unwrap(), format!("n={}", seen.nth)),
    })
    .await
    .unwrap();
    own.set(server.endpoint().clone()).unwrap();
    let origin =
        RootOrigin::new(vec![server.endpoint().clone()], Options { attempts: 1, ..options() }, pool(), &Metrics::new());
    let error = bounded(origin.stat(&path("/f"))).await.unwrap_err();
    assert!(matches!(error, OriginError::RedirectLoop { limit: 16, .. }), "{error}");
    assert_eq!(server.count(RequestCode::STAT), 17);
}

#[tokio::test]
async fn redirects_to_what_we_cannot_read_are_errors() {
    for url in ["file://localhost/data/f", "https://door.example/f"] {
        let server = ScriptedOrigin::start(Facts::default(), move |seen| match seen.code {
            RequestCode::OPEN => Reply::RedirectUrl(url.to_owned()),
            _ => Reply::Good,
        })
        .await
        .unwrap();
        let origin = origin_of(&[&server]);
        let Err(error) = bounded(origin.open(&path("/f"))).await else { panic!("{url} was opened") };
        assert!(matches!(error, OriginError::Protocol { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_redirector_is_asked_again_when_its_server_fails() {
    let dead = dead_endpoint().await;
    let alive = good().await;
    let target = alive.endpoint().clone();
    let door = ScriptedOrigin::start(Facts::redirector(), move |seen| match seen.code {
        RequestCode::LOGIN => Reply::Good,
        _ if seen.path.contains("tried=127.0.0.1&triedrc=ioerr") => Reply::Redirect(target.clone(), String::new()),
        _ => Reply::Redirect(dead.clone(), String::new()),
    })
    .await
    .unwrap();
    let file = open(&origin_of(&[&door])).await;
    assert_eq!(file.identity().origin.endpoint, *alive.endpoint());
}

#[tokio::test]
async fn an_origins_error_keeps_its_meaning_and_is_not_retried_when_final() {
    for (code, requests) in [(ErrorCode::NOT_FOUND, 1), (ErrorCode::NOT_AUTHORIZED, 1), (ErrorCode::OVERLOADED, 3)] {
        let server = ScriptedOrigin::start(Facts::default(), move |seen| match seen.code {
            RequestCode::OPEN => Reply::Error(code, "for a reason"),
            _ => Reply::Good,
        })
        .await
        .unwrap();
        let origin = origin_of(&[&server]);
        let Err(error) = bounded(origin.open(&path("/f"))).await else { panic!("opened") };
        let OriginError::Refused { kind, text, .. } = error else { panic!("{error}") };
        assert_eq!((kind, text.as_str()), (refusal_kind(code), "for a reason"));
        assert_eq!(server.count(RequestCode::OPEN), requests, "{code}");
    }
}

#[tokio::test]
async fn a_dead_server_is_passed_over_for_the_next() {
    let alive = good().await;
    let servers = vec![dead_endpoint().await, alive.endpoint().clone()];
    let origin = RootOrigin::new(servers, options(), pool(), &Metrics::new());
    let file = open(&origin).await;
    read_right(&file, ByteRange::at(0, 1000)).await;
    assert_eq!(file.identity().origin.endpoint, *alive.endpoint());
}

#[tokio::test]
async fn when_nobody_can_be_reached_the_error_says_so() {
    let origin = RootOrigin::new(vec![dead_endpoint().await], options(), pool(), &Metrics::new());
    let error = bounded(origin.stat(&path("/f"))).await.unwrap_err();
    let OriginError::Unreachable { reason, .. } = &error else { panic!("{error}") };
    assert!(reason.contains("refused"), "{reason}");
}

#[tokio::test]
async fn a_server_that_never_answers_costs_no_more_than_the_timeout() {
    let server = ScriptedOrigin::start(Facts::default(), |seen| match seen.code {
        RequestCode::STAT => Reply::Silence,
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let error = bounded(impatient_origin_of(&server).stat(&path("/f"))).await.unwrap_err();
    assert!(matches!(error, OriginError::TimedOut { .. }), "{error}");
    assert_eq!(server.count(RequestCode::STAT), 3);
}

#[tokio::test]
async fn a_server_that_keeps_us_waiting_ends_at_the_deadline() {
    let server = ScriptedOrigin::start(Facts::default(), |seen| match seen.code {
        RequestCode::STAT => Reply::Wait(3),
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let options = Options { deadline: Duration::from_millis(500), ..options() };
    let origin = RootOrigin::new(vec![server.endpoint().clone()], options, pool(), &Metrics::new());
    let error = bounded(origin.stat(&path("/f"))).await.unwrap_err();
    assert!(matches!(error, OriginError::TimedOut { .. }), "{error}");
}

#[tokio::test]
async fn a_port_that_accepts_and_stays_silent_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = forebay_types::Endpoint::new("127.0.0.1", listener.local_addr().unwrap().port());
    let pool = forebay_origin_root::Pool::new(forebay_origin_root::PoolOptions {
        connect_timeout: Duration::from_millis(200),
        ..Default::default()
    });
    let origin = RootOrigin::new(vec![endpoint], options(), pool, &Metrics::new());
    let error = bounded(origin.stat(&path("/f"))).await.unwrap_err();
    assert!(matches!(error, OriginError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_wants_tls_is_told_from_a_dead_one() {
    let flags = ServerFlags::IS_SERVER.with(ServerFlags::TLS_LOGIN);
    let server = ScriptedOrigin::start(Facts { flags, ..Facts::default() }, |_| Reply::Good).await.unwrap();
    let error = bounded(origin_of(&[&server]).stat(&path("/f"))).await.unwrap_err();
    let OriginError::Tls { reason, .. } = &error else { panic!("{error}") };
    assert!(reason.contains("tls.ca_dir"), "{reason}");
}

#[tokio::test]
async fn an_open_that_nobody_waits_for_is_closed_when_it_comes() {
    let server = ScriptedOrigin::start(Facts::default(), |seen| match seen.code {
        RequestCode::OPEN | RequestCode::STAT => Reply::Hold(2),
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let origin = origin_of(&[&server]);
    let file_path = path("/f");
    let is_asked = bounded(async {
        while server.count(RequestCode::OPEN) == 0 {
            tokio::task::yield_now().await;
        }
    });
    tokio::select! {
        biased;
        _ = origin.open(&file_path) => panic!("the answer is held back"),
        () = is_asked => {}
    }
    // The stat lets both answers go; the open's is discarded and its file closed.
    bounded(origin.stat(&path("/f"))).await.unwrap();
    bounded(async {
        while server.count(RequestCode::CLOSE) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_checksum_of_another_kind_than_asked_for_is_an_error() {
    let server = good().await;
    let origin = origin_of(&[&server]);
    assert_eq!(bounded(origin.checksum(&path("/f"), None)).await.unwrap().algorithm, "adler32");
    assert!(bounded(origin.checksum(&path("/f?x=1"), Some("md5"))).await.is_err());
    assert_eq!(server.seen().last().unwrap().path, "/f?x=1&cks.type=md5");
}

#[tokio::test]
async fn a_redirector_that_knows_no_checksums_names_a_server_that_does() {
    let server = good().await;
    let target = server.endpoint().clone();
    let door = ScriptedOrigin::start(Facts::redirector(), move |seen| match seen.code {
        RequestCode::LOGIN => Reply::Good,
        RequestCode::QUERY => Reply::Error(ErrorCode::UNSUPPORTED, "query chksum is not supported"),
        _ => Reply::Redirect(target.clone(), String::new()),
    })
    .await
    .unwrap();
    let checksum = bounded(origin_of(&[&door]).checksum(&path("/f"), None)).await.unwrap();
    assert_eq!(checksum.value, "001a2b3c");
}

#[tokio::test]
async fn idle_connections_are_closed_and_those_of_open_files_kept() {
    let (idle, used) = (good().await, good().await);
    let options = PoolOptions { idle_timeout: Duration::from_millis(50), ..PoolOptions::default() };
    let (pool, metrics) = (Pool::new(options), Metrics::new());
    let origin = |server: &ScriptedOrigin| {
        RootOrigin::new(vec![server.endpoint().clone()], crate::setup::options(), Arc::clone(&pool), &metrics)
    };
    let file = open(&origin(&used)).await;
    bounded(origin(&idle).stat(&path("/f"))).await.unwrap();
    assert_eq!(idle.connections(), 1);
    bounded(async {
        while idle.connections() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    read_right(&file, ByteRange::at(0, 10)).await;
    assert_eq!((used.connections(), used.count(RequestCode::LOGIN)), (1, 1));
    bounded(origin(&idle).stat(&path("/f"))).await.unwrap();
    assert_eq!(idle.count(RequestCode::LOGIN), 2);
}

#[tokio::test]
async fn the_number_of_servers_is_bounded() {
    let servers = [good().await, good().await, good().await];
    let pool = Pool::new(PoolOptions { servers_max: 1, ..PoolOptions::default() });
    for server in &servers {
        let origin = RootOrigin::new(vec![server.endpoint().clone()], options(), Arc::clone(&pool), &Metrics::new());
        bounded(origin.stat(&path("/f"))).await.unwrap();
    }
    bounded(async {
        while servers.iter().map(ScriptedOrigin::connections).sum::<usize>() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
