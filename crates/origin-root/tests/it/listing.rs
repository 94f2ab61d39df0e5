//! Listings: of one server, with and without stats, and of a cluster.

use crate::setup::{bounded, dead_endpoint, open, options, origin_of, path, pool};
use forebay_origin::{ListDetail, Origin, OriginError, RefusalKind};
use forebay_origin_root::{Options, RootOrigin};
use forebay_proto::{ErrorCode, RequestCode};
use forebay_telemetry::Metrics;
use forebay_testkit::{Facts, Reply, ScriptedOrigin};
use std::time::Duration;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("file with a blank {number}")).collect()
}

async fn listed(origin: &impl Origin, detail: ListDetail) -> Vec<String> {
    let entries = bounded(origin.list(&path("/store"), detail)).await.unwrap();
    for entry in &entries {
        assert_eq!(entry.stat.is_some(), detail != ListDetail::Names, "{}", entry.name);
        assert_eq!(entry.checksum.is_some(), detail == ListDetail::Checksums, "{}", entry.name);
    }
    entries.into_iter().map(|entry| entry.name).collect()
}

#[tokio::test]
async fn a_directory_is_listed_with_any_detail_over_many_frames() {
    let facts = Facts { names: names(5000), ..Facts::default() };
    let server = ScriptedOrigin::start(facts, |_| Reply::Good).await.unwrap();
    let origin = origin_of(&[&server]);
    for detail in [ListDetail::Names, ListDetail::Stats, ListDetail::Checksums] {
        assert_eq!(listed(&origin, detail).await, names(5000));
    }
}

#[tokio::test]
async fn an_empty_directory_has_no_entries() {
    let server = ScriptedOrigin::start(Facts::default(), |_| Reply::Good).await.unwrap();
    assert!(listed(&origin_of(&[&server]), ListDetail::Names).await.is_empty());
}

#[tokio::test]
async fn stats_that_a_listing_lacks_are_asked_for_one_by_one() {
    let facts = Facts { names: names(50), stats_in_listing: false, ..Facts::default() };
    let server = ScriptedOrigin::start(facts, |seen| match seen.code {
        RequestCode::STAT if seen.path.ends_with(" 7") => Reply::Error(ErrorCode::NOT_FOUND, "gone"),
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let expected: Vec<_> = names(50).into_iter().filter(|name| !name.ends_with(" 7")).collect();
    assert_eq!(listed(&origin_of(&[&server]), ListDetail::Stats).await, expected);
    assert_eq!(server.count(RequestCode::STAT), 50);
}

#[tokio::test]
async fn a_cluster_is_listed_whole_and_each_name_told_once() {
    let member = |numbers: &[usize]| Facts {
        names: numbers.iter().map(|number| format!("f{number}")).collect(),
        ..Facts::default()
    };
    let first = ScriptedOrigin::start(member(&[1, 2, 3]), |_| Reply::Good).await.unwrap();
    let second = ScriptedOrigin::start(member(&[3, 4]), |_| Reply::Good).await.unwrap();
    let without = ScriptedOrigin::start(Facts::default(), |seen| match seen.code {
        RequestCode::DIRLIST => Reply::Error(ErrorCode::NOT_FOUND, "no such directory"),
        _ => Reply::Good,
    })
    .await
    .unwrap();
    // IPv4 addresses in the form in which servers send them.
    let tell = |server: &ScriptedOrigin| format!("Sr[::127.0.0.1]:{}", server.endpoint().port());
    let told = [tell(&first), tell(&second), tell(&without), format!("Sr{}", dead_endpoint().await)].join(" ");
    let door = ScriptedOrigin::start(Facts::redirector(), move |seen| match seen.code {
        RequestCode::LOCATE if seen.path == "*/store" => Reply::Body(format!("{told}\0").into_bytes()),
        RequestCode::LOGIN => Reply::Good,
        _ => Reply::Error(ErrorCode::ARG_INVALID, "unexpected"),
    })
    .await
    .unwrap();
    assert_eq!(listed(&origin_of(&[&door]), ListDetail::Stats).await, ["f1", "f2", "f3", "f4"]);
}

#[tokio::test]
async fn a_redirector_that_cannot_locate_is_followed() {
    let pool = ScriptedOrigin::start(Facts { names: names(3), ..Facts::default() }, |_| Reply::Good).await.unwrap();
    let target = pool.endpoint().clone();
    let door = ScriptedOrigin::start(Facts::redirector(), move |seen| match seen.code {
        RequestCode::LOCATE => Reply::Error(ErrorCode::UNSUPPORTED, "not here"),
        RequestCode::DIRLIST => Reply::Redirect(target.clone(), String::new()),
        _ => Reply::Good,
    })
    .await
    .unwrap();
    assert_eq!(listed(&origin_of(&[&door]), ListDetail::Names).await, names(3));
}

#[tokio::test]
async fn a_missing_directory_is_told_in_the_servers_words() {
    let server = ScriptedOrigin::start(Facts::default(), |seen| match seen.code {
        RequestCode::DIRLIST => Reply::Error(ErrorCode::NOT_FOUND, "no such directory"),
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let error = bounded(origin_of(&[&server]).list(&path("/store"), ListDetail::Names)).await.unwrap_err();
    assert_eq!(error.refusal(), Some(RefusalKind::NotFound));
}

#[tokio::test]
async fn a_listing_whose_stats_do_not_come_fails_and_leaves_the_session_alone() {
    let facts = Facts { names: names(1500), stats_in_listing: false, ..Facts::default() };
    let server = ScriptedOrigin::start(facts, |seen| match seen.code {
        RequestCode::STAT => Reply::Silence,
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let options = Options { deadline: Duration::from_secs(3), ..options() };
    let origin = RootOrigin::new(vec![server.endpoint().clone()], options, pool(), &Metrics::new());
    let error = bounded(origin.list(&path("/store"), ListDetail::Stats)).await.unwrap_err();
    assert!(matches!(error, OriginError::TimedOut { .. }), "{error}");
    assert!(server.count(RequestCode::STAT) <= 16, "{} stats", server.count(RequestCode::STAT));
    open(&origin).await;
    assert_eq!(server.count(RequestCode::LOGIN), 1);
}

#[tokio::test]
async fn a_listing_is_whole_but_for_names_that_are_gone() {
    for (code, is_listed) in [(ErrorCode::NOT_FOUND, true), (ErrorCode::IO_ERROR, false)] {
        let facts = Facts { names: names(100), stats_in_listing: false, ..Facts::default() };
        let server = ScriptedOrigin::start(facts, move |seen| match (seen.code, seen.nth) {
            (RequestCode::STAT, 50) => Reply::Error(code, "no"),
            _ => Reply::Good,
        })
        .await
        .unwrap();
        let listed = bounded(origin_of(&[&server]).list(&path("/store"), ListDetail::Stats)).await;
        assert_eq!(listed.is_ok_and(|entries| entries.len() == 99), is_listed, "{code}");
    }
}
