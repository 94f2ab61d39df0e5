//! Where redirects may lead, and what is shown there.

use crate::setup::{bounded, options, path, pool};
use forebay_auth::{CredentialSource, CredentialUse, Credentials, Token};
use forebay_origin::{ListDetail, Origin, OriginError, OwnAddresses, RedirectTargets, Redirects};
use forebay_origin_root::{Options, Pool, PoolOptions, RootOrigin};
use forebay_proto::RequestCode;
use forebay_telemetry::Metrics;
use forebay_testkit::{Facts, Reply, ScriptedOrigin};
use forebay_types::{Endpoint, OriginId};
use std::sync::Arc;

/// A server that redirects every request to `target`.
async fn door_to(target: Endpoint) -> ScriptedOrigin {
    let script = move |seen: &forebay_testkit::Seen| match seen.code {
        RequestCode::LOGIN | RequestCode::LOCATE => Reply::Good,
        _ => Reply::Redirect(target.clone(), String::new()),
    };
    ScriptedOrigin::start(Facts { flags: forebay_proto::ServerFlags::IS_SERVER, ..Facts::default() }, script)
        .await
        .unwrap()
}

fn origin_at(door: &ScriptedOrigin, redirects: RedirectTargets, pool: Arc<Pool>) -> RootOrigin {
    let redirects = Redirects { to: redirects, setting: "export.redirects" };
    RootOrigin::new(vec![door.endpoint().clone()], Options { redirects, ..options() }, pool, &Metrics::new())
}

#[tokio::test]
async fn no_request_follows_a_redirect_out_of_the_domain() {
    let worker = ScriptedOrigin::start(Facts::default(), |_| Reply::Good).await.unwrap();
    // Another name of the same server: this machine.
    let target = Endpoint::new("0.0.0.0", worker.endpoint().port());
    let door = door_to(target.clone()).await;
    let origin = origin_at(&door, RedirectTargets::SameDomain, pool());
    let file = path("/f");
    let errors = [
        bounded(origin.open(&file)).await.err(),
        bounded(origin.stat(&file)).await.err(),
        bounded(origin.list(&file, ListDetail::Names)).await.err(),
        bounded(origin.checksum(&file, None)).await.err(),
    ];
    for error in errors {
        let error = error.expect("it is refused");
        assert!(
            matches!(&error, OriginError::RedirectRefused { target: refused, .. } if *refused == target),
            "{error}"
        );
        let text = error.to_string();
        for part in [door.endpoint().to_string(), target.to_string(), "export.redirects".to_owned()] {
            assert!(text.contains(&part), "{part}: {text}");
        }
    }
    assert!(worker.seen().is_empty() && worker.connections() == 0);
    let named = RedirectTargets::Named(vec!["0.0.0.0".parse().unwrap()]);
    assert!(bounded(origin_at(&door, named, pool()).stat(&file)).await.is_ok());
    let other = RedirectTargets::Named(vec!["*.example.org".parse().unwrap()]);
    let error = bounded(origin_at(&door, other, pool()).stat(&file)).await.unwrap_err();
    assert!(matches!(error, OriginError::RedirectRefused { .. }), "{error}");
}

#[tokio::test]
async fn connections_to_this_process_itself_are_refused() {
    let own = ScriptedOrigin::start(Facts::default(), |_| Reply::Good).await.unwrap();
    let address = own.endpoint().to_string().parse().unwrap();
    let pool = || {
        Pool::new(PoolOptions {
            own: OwnAddresses { addresses: vec![address], ..Default::default() },
            ..Default::default()
        })
    };
    for host in ["127.0.0.1", "localhost", "127.1", "0.0.0.0"] {
        let endpoint = Endpoint::new(host, own.endpoint().port());
        let origin = RootOrigin::new(vec![endpoint], options(), pool(), &Metrics::new());
        let error = bounded(origin.stat(&path("/f"))).await.unwrap_err();
        assert!(matches!(error, OriginError::Itself { .. }), "{host}: {error}");
    }
    let door = door_to(own.endpoint().clone()).await;
    let error = bounded(origin_at(&door, RedirectTargets::Any, pool()).stat(&path("/f"))).await.unwrap_err();
    assert!(matches!(error, OriginError::Itself { .. }), "{error}");
    let name = Endpoint::new("cache.example.org", 1094);
    let named =
        Pool::new(PoolOptions { own: OwnAddresses { names: vec![name], ..Default::default() }, ..Default::default() });
    let endpoint = Endpoint::new("Cache.example.org.", 1094);
    let error = bounded(RootOrigin::new(vec![endpoint], options(), named, &Metrics::new()).stat(&path("/f"))).await;
    assert!(matches!(error, Err(OriginError::Itself { .. })), "{error:?}");
    assert!(own.seen().is_empty());
}

/// A token for each port, which may be sent in clear.
#[derive(Debug)]
struct Tokens(Vec<(u16, &'static str)>);

impl CredentialSource for Tokens {
    fn towards(&self, server: &OriginId) -> CredentialUse {
        let token = self.0.iter().find(|(port, _)| *port == server.endpoint.port());
        let credentials = Credentials::anonymous("cache").allowing_plain_tokens_on_loopback();
        CredentialUse::Own(Arc::new(match token {
            Some((_, token)) => credentials.with_token(Token::parse(token.as_bytes()).unwrap()),
            None => credentials,
        }))
    }
}

#[tokio::test]
async fn a_credential_is_used_after_a_redirect_only_if_the_first_server_has_it() {
    let worker = ScriptedOrigin::start(Facts::default(), |_| Reply::Good).await.unwrap();
    let door = door_to(worker.endpoint().clone()).await;
    let (first, second) = (door.endpoint().port(), worker.endpoint().port());
    for (tokens, is_shown) in [
        (vec![(second, "a.b.c")], false),
        (vec![(first, "x.y.z"), (second, "a.b.c")], false),
        (vec![(first, "a.b.c"), (second, "a.b.c")], true),
        (vec![(first, "a.b.c")], false),
    ] {
        let pool = Pool::secured(PoolOptions::default(), None, Arc::new(Tokens(tokens.clone())));
        bounded(origin_at(&door, RedirectTargets::SameDomain, pool).stat(&path("/f"))).await.unwrap();
        let asked = worker.seen().into_iter().rfind(|seen| seen.code == RequestCode::STAT).unwrap();
        assert_eq!(asked.path.contains("authz"), is_shown, "{tokens:?}: {}", asked.path);
    }
}
