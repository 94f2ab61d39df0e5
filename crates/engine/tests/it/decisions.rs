//! Rules decide where the bytes of a file go.

use crate::house;
use crate::house::{House, caller, check, options, request, run, until};
use forebay_cache::{Action, CachedCriteria, CachingDecision, PathPattern, Rule, Rules};
use forebay_engine::{DecisionOptions, Opening, Redirect, Redirects};
use forebay_telemetry::Metrics;
use forebay_testkit::MemoryOrigin;
use forebay_types::{BlockSize, ByteRange, Outcome};
use std::path::Path;

const SIZE: u64 = 1 << 20;
const WHOLE: ByteRange = ByteRange::at(0, SIZE);

fn rule(path: &str, action: Action) -> Rule {
    let caching = CachingDecision { action, ..CachingDecision::default() };
    Rule { path: Some(PathPattern::parse(path).expect("a good pattern")), caching, ..Rule::default() }
}

fn house(root: &Path, rules: Vec<Rule>) -> House {
    let decisions = DecisionOptions { rules: Rules::new(rules), ..DecisionOptions::default() };
    House::build_under(root, MemoryOrigin::new(SIZE), options(), decisions)
}

fn decided(metrics: &Metrics, action: &str) -> u64 {
    let rendered = metrics.render().expect("counters can be shown");
    let name = format!("forebay_decisions_total{{action=\"{action}\"}} ");
    rendered.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).expect("every action shows")
}

async fn redirect(house: &House, path: &str, redirects: Redirects) -> Option<Redirect> {
    match house.engine.open_or_redirect(&request(path), &caller(), redirects).await.expect("the origin has it") {
        Opening::Redirect(redirect) => Some(redirect),
        Opening::File(_) | Opening::Direct(_) => None,
    }
}

#[test]
fn a_bypassed_file_leaves_nothing_on_disk() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), vec![rule("/tmp/**", Action::Bypass)]);
        for _ in 0..2 {
            check(&house.open("/tmp/f").await, WHOLE).await;
        }
        assert!(!root.path().join("tmp").exists());
        assert_eq!((house.bytes(Outcome::Bypassed), house.bytes(Outcome::Missed)), (2 * SIZE, 0));
        check(&house.open("/f").await, WHOLE).await;
        until(|| root.path().join("f").exists()).await;
        assert_eq!((decided(house.engine.metrics(), "bypass"), decided(house.engine.metrics(), "cache")), (2, 1));
    });
}

#[test]
fn a_rule_gives_new_files_their_block_size_and_old_ones_keep_theirs() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let small = CachingDecision { block_size: Some(BlockSize::MIN), ..CachingDecision::default() };
        let small_rule = || Rule { caching: small, ..rule("/small/**", Action::Cache) };
        let block_of = |path: &str| {
            let bytes = std::fs::read(root.path().join(path)).ok()?;
            Some(forebay_cache::Cinfo::decode(&bytes).ok()?.geometry.block_size())
        };
        let first = house(root.path(), vec![small_rule()]);
        check(&first.open("/small/f").await, WHOLE).await;
        check(&first.open("/f").await, WHOLE).await;
        // Readers have their bytes before the files are created, and records are empty at first.
        until(|| ["small/f.cinfo", "f.cinfo"].iter().all(|path| block_of(path).is_some())).await;
        assert_eq!(block_of("small/f.cinfo"), Some(4096));
        assert_eq!(block_of("f.cinfo"), Some(house::BLOCK));
        first.engine.shutdown().await;
        drop(first);
        let second = house(root.path(), vec![]);
        check(&second.open("/small/f").await, WHOLE).await;
        assert_eq!(second.bytes(Outcome::Missed), 0);
        assert_eq!(block_of("small/f.cinfo"), Some(4096));
    });
}

#[test]
fn a_client_is_sent_to_the_origin_as_far_as_it_can_follow() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), vec![rule("/r/**", Action::Redirect), rule("/root:/**", Action::Redirect)]);
        let server = MemoryOrigin::endpoint();
        let plain = Some(Redirect { server: server.clone(), url: None });
        assert_eq!(redirect(&house, "/r/f", Redirects::ToServers).await, plain);
        assert_eq!(redirect(&house, "/r/f", Redirects::ToUrls).await, plain);
        let url = Some("root://memory:1094//a/f".to_owned());
        let named = "/root:/memory:1094/a/f";
        assert_eq!(redirect(&house, named, Redirects::ToUrls).await, Some(Redirect { server, url }));
        assert_eq!(redirect(&house, named, Redirects::ToServers).await, None);
        check(&house.open("/r/f").await, WHOLE).await;
        assert!(!root.path().join("r").exists(), "who cannot follow is served without keeping");
    });
}

#[test]
fn a_rule_on_size_is_decided_by_the_copy_or_by_the_origin() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let large = Rule { size_min: Some(SIZE + 1), ..rule("/**", Action::Bypass) };
        let house = house(root.path(), vec![large]);
        check(&house.open("/f").await, WHOLE).await;
        assert_eq!(house.origin.stats(), 1, "the size of a file that is not here is asked for");
        drop(house.open("/f").await);
        assert_eq!(house.origin.stats(), 1, "that of a copy is known");
        house.origin.script(|script| script.size = SIZE + 1);
        check(&house.open("/large").await, WHOLE).await;
        until(|| root.path().join("f").exists()).await;
        assert!(!root.path().join("large").exists());
    });
}

#[test]
fn clients_may_ask_what_counts_as_cached_by_its_stat() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let cached = CachedCriteria { size_min: 0, fraction_min: 0.25 };
        let decisions = DecisionOptions { cached, ..DecisionOptions::default() };
        let house = House::build_under(root.path(), MemoryOrigin::new(SIZE), options(), decisions);
        let handle = house.open("/f").await;
        let quarter = ByteRange::at(0, SIZE / 4);
        check(&handle, quarter).await;
        until(|| handle.hit(quarter).is_some()).await;
        assert!(handle.stat().cached);
        house.engine.shutdown().await;
        drop(handle);
        assert!(house.engine.stat(&request("/f"), &caller()).await.unwrap().cached);
        assert!(!house.engine.stat(&request("/other"), &caller()).await.unwrap().cached);
    });
}
