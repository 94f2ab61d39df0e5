//! Keys of token issuers, fetched from a server as issuers have one: what is believed, and what is not.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use forebay_auth::{
    Issuer, Issuers, MISSING_KEY_PAUSE_SECONDS, SecurityProtocol, Token, UnixTime, ZtnParams, ztn_message,
};
use forebay_testkit::TokenServer;
use forebay_trust::{
    ClientFacts, FetchError, Gate, GateFiles, IssuerAuthorities, IssuerClient, IssuerDiscovery, SecurityOptions, Step,
};
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;
use tokio::task::JoinHandle;

const DISCOVERY: &str = "/.well-known/openid-configuration";
/// However busy the machine is.
const PATIENCE: Duration = Duration::from_secs(600);
const GRACE: Duration = Duration::from_secs(4 * 3600);

/// An issuer, and a file with the authority for its certificate.
struct Site {
    server: TokenServer,
    scratch: TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self { server: TokenServer::start_tls("ES256").unwrap(), scratch: tempfile::tempdir().unwrap() };
        fs::write(site.authorities(), site.server.certificate().unwrap()).unwrap();
        site
    }

    fn authorities(&self) -> PathBuf {
        self.scratch.path().join("authorities.pem")
    }

    fn discovery(&self) -> IssuerDiscovery {
        IssuerDiscovery {
            authorities: IssuerAuthorities::Path(self.authorities()),
            grace: GRACE,
            login_wait_max: PATIENCE,
            ..IssuerDiscovery::new(&self.server.url())
        }
    }

    fn client(&self) -> IssuerClient {
        IssuerClient::new(&self.discovery()).unwrap()
    }

    async fn error(&self) -> String {
        self.client().fetch().await.unwrap_err().to_string()
    }

    /// A token that is good for an hour.
    fn token(&self) -> Token {
        token(&self.server, &self.server.url())
    }

    fn gate(&self, keys_dir: Option<&Path>) -> Arc<Gate> {
        gate(self.discovery(), keys_dir)
    }

    fn key_fetches(&self) -> usize {
        self.server.requests().iter().filter(|path| *path == "/jwks").count()
    }
}

fn now() -> UnixTime {
    UnixTime(forebay_net::clock::now_unix())
}

fn token(server: &TokenServer, issuer: &str) -> Token {
    let exp = now().0 + 3600;
    let claims =
        format!(r#"{{"iss":"{issuer}","sub":"ann","aud":"ANY","ver":"scitoken:2.0","exp":{exp},"scope":"read:/"}}"#);
    Token::parse(server.issuer().sign(&claims).as_bytes()).unwrap()
}

fn gate(discovery: IssuerDiscovery, keys_dir: Option<&Path>) -> Arc<Gate> {
    let options = SecurityOptions {
        methods: vec![SecurityProtocol::Ztn],
        issuers: Issuers::new(vec![Issuer::new(&discovery.url)]).unwrap(),
        discoveries: vec![discovery],
        keys_dir: keys_dir.map(Path::to_owned),
        ..SecurityOptions::default()
    };
    Arc::new(Gate::open(options, &GateFiles::default()).unwrap())
}

fn keep_current(gate: &Arc<Gate>) -> JoinHandle<()> {
    tokio::spawn(Arc::clone(gate).keep_keys_current())
}

/// Logs in with a token, `later` seconds from now as far as the gate knows.
async fn login(gate: &Arc<Gate>, token: &Token, later: i64) -> Result<String, String> {
    let client = ClientFacts { address: "127.0.0.1:1".parse().unwrap(), login: "ann".to_owned(), is_tls: true };
    let attempt = Box::new(gate.begin(SecurityProtocol::Ztn, &client).unwrap());
    let message = ztn_message(token, ZtnParams::default()).unwrap();
    let step = tokio::task::spawn_blocking(move || attempt.handle(&message, now().plus(later))).await.unwrap();
    match step {
        Step::Done(proof) => Ok(proof.identity.subject.unwrap()),
        Step::Refused(refusal) => Err(refusal.to_string()),
        Step::Continue(..) => panic!("tokens need one message"),
    }
}

fn ann() -> Result<String, String> {
    Ok("ann".to_owned())
}

/// The file with the keys, once there is one.
async fn kept_file(keys_dir: &Path) -> PathBuf {
    loop {
        let files = keys_dir.read_dir().into_iter().flatten().map(|file| file.unwrap().path());
        if let Some(file) = files.into_iter().find(|path| path.extension().is_some_and(|it| it == "keys")) {
            return file;
        }
        tokio::task::yield_now().await;
    }
}

fn set_fetched_at(file: &Path, fetched_at: i64) {
    let mut document: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    document["fetched_at"] = fetched_at.into();
    fs::write(file, document.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_waits_for_the_first_keys() {
    let site = Site::new();
    let gate = site.gate(None);
    let kept = keep_current(&gate);
    assert_eq!(login(&gate, &site.token(), 0).await, ann());
    kept.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_is_fetched_when_a_token_names_it_but_not_twice_a_minute() {
    let site = Site::new();
    let gate = site.gate(None);
    let kept = keep_current(&gate);
    let old = site.token();
    assert_eq!(login(&gate, &old, 0).await, ann());
    site.server.issuer().rotate();
    let new = site.token();
    for _ in 0..3 {
        let refusal = login(&gate, &new, 0).await.unwrap_err();
        assert!(refusal.contains("key"), "{refusal}");
    }
    assert_eq!(site.key_fetches(), 1);
    assert_eq!(login(&gate, &new, MISSING_KEY_PAUSE_SECONDS + 1).await, ann());
    assert_eq!(login(&gate, &old, 0).await, ann(), "the issuer still has the old key");
    assert_eq!(site.key_fetches(), 2);
    site.server.issuer().retire();
    site.server.issuer().rotate();
    assert_eq!(login(&gate, &site.token(), 2 * MISSING_KEY_PAUSE_SECONDS + 2).await, ann());
    assert!(login(&gate, &old, 0).await.is_err(), "its key was taken back");
    kept.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_is_away_at_the_start_is_asked_again() {
    let site = Site::new();
    site.server.set_failing(true);
    let gate = site.gate(None);
    let kept = keep_current(&gate);
    let refusal = login(&gate, &site.token(), 0).await.unwrap_err();
    assert!(refusal.contains("are not known yet"), "{refusal}");
    site.server.set_failing(false);
    assert_eq!(login(&gate, &site.token(), MISSING_KEY_PAUSE_SECONDS + 1).await, ann());
    kept.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_says_nothing_holds_up_no_login_for_ever() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let site = Site::new();
    let url = format!("https://{}", silent.local_addr().unwrap());
    let login_wait_max = Duration::from_millis(10);
    let gate = gate(IssuerDiscovery { url: url.clone(), login_wait_max, ..site.discovery() }, None);
    let kept = keep_current(&gate);
    let refusal = login(&gate, &token(&site.server, &url), 0).await.unwrap_err();
    assert!(refusal.contains("are not known yet"), "{refusal}");
    kept.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_outlive_a_restart_while_the_issuer_is_away_but_not_their_grace() {
    let site = Site::new();
    let keys_dir = site.scratch.path().join("keys");
    let gate = site.gate(Some(&keys_dir));
    let kept = keep_current(&gate);
    assert_eq!(login(&gate, &site.token(), 0).await, ann());
    let file = kept_file(&keys_dir).await;
    kept.abort();
    site.server.set_failing(true);

    assert_eq!(login(&site.gate(Some(&keys_dir)), &site.token(), 0).await, ann());
    let oldest = now().0 - i64::try_from(GRACE.as_secs()).unwrap();
    set_fetched_at(&file, oldest + 3);
    let restarted = site.gate(Some(&keys_dir));
    assert_eq!(login(&restarted, &site.token(), 0).await, ann());
    let kept = keep_current(&restarted);
    while login(&restarted, &site.token(), 0).await.is_ok() {}
    kept.abort();
    for (fetched_at, what) in [(oldest, "too old"), (now().0 + 3600, "from the future")] {
        set_fetched_at(&file, fetched_at);
        let restarted = site.gate(Some(&keys_dir));
        let kept = keep_current(&restarted);
        assert!(login(&restarted, &site.token(), 0).await.is_err(), "{what}");
        kept.abort();
    }
}

#[tokio::test]
async fn keys_say_how_long_they_may_be_kept() {
    let site = Site::new();
    let fetched = site.client().fetch().await.unwrap();
    assert_eq!((fetched.keys.len(), fetched.max_age, fetched.issuer_time), (1, None, None));
    let keys = site.server.issuer().key_set();
    let head = "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=900\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    site.server.set_answer("/jwks", &format!("{head}Connection: close\r\n\r\n{keys}"));
    let fetched = site.client().fetch().await.unwrap();
    assert_eq!((fetched.max_age, fetched.issuer_time), (Some(900), Some(784_111_777)));
}

#[tokio::test]
async fn only_servers_that_the_authorities_vouch_for_are_believed() {
    let site = Site::new();
    let system = IssuerDiscovery { authorities: IssuerAuthorities::System, ..site.discovery() };
    let error = IssuerClient::new(&system).unwrap().fetch().await.unwrap_err();
    assert!(matches!(error, FetchError::Tls { .. }), "{error}");
    assert!(site.server.requests().is_empty());
    fs::write(site.authorities(), "nothing").unwrap();
    let unusable = IssuerClient::new(&site.discovery()).unwrap_err();
    assert!(unusable.to_string().contains("authorities.pem"), "{unusable}");
}

#[tokio::test]
async fn documents_that_are_not_as_they_should_be_are_refused() {
    let site = Site::new();
    let url = site.server.url();
    let answer = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let document = |issuer: &str, keys: &str| answer(&format!(r#"{{"issuer":"{issuer}","jwks_uri":"{keys}"}}"#));
    let long = answer(&" ".repeat(70_000));
    // Without a length, so that it shows only as it comes.
    let endless = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", " ".repeat(70_000));
    for (answer, expected) in [
        (document("https://other.example", &format!("{url}/jwks")), "is of `https://other.example`"),
        (document(&url, "http://127.0.0.1/jwks"), "only https is trusted"),
        (document(&url, "file:///etc/passwd"), "only https is trusted"),
        (document(&url, "https://user@127.0.0.1/"), "user names"),
        (answer("{}"), "not a JSON object"),
        (long, "more than 65536 bytes"),
        (endless, "more than 65536 bytes"),
        ("HTTP/1.1 302 Found\r\nLocation: https://elsewhere/\r\n\r\n".to_owned(), "redirects to `https://elsewhere/`"),
        ("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n".to_owned(), "status 500"),
        ("HTTP/1.1 404 Gone\r\nContent-Length: 0\r\n\r\n".to_owned(), "openid-configuration returned status 404"),
        ("no HTTP\r\n\r\n".to_owned(), DISCOVERY),
        (String::new(), DISCOVERY),
    ] {
        site.server.set_answer(DISCOVERY, &answer);
        let error = site.error().await;
        assert!(error.contains(expected), "{expected}: {error}");
    }
    assert_eq!(site.key_fetches(), 0);
}

#[tokio::test]
async fn key_sets_that_are_none_are_refused() {
    let site = Site::new();
    for (body, expected) in [("{}", "not a JSON object"), (r#"{"keys":[]}"#, "none of the 0 keys")] {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        site.server.set_answer("/jwks", &answer);
        let error = site.error().await;
        assert!(error.contains(expected) && error.contains("/jwks"), "{error}");
    }
}

#[tokio::test]
async fn documents_may_be_at_the_place_of_authorization_servers() {
    let site = Site::new();
    let url = site.server.url();
    let body = format!(r#"{{"issuer":"{url}","jwks_uri":"{url}/jwks"}}"#);
    site.server.set_answer(DISCOVERY, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    site.server.set_answer("/.well-known/oauth-authorization-server", &answer);
    assert_eq!(site.client().fetch().await.unwrap().keys.len(), 1);
}

#[tokio::test]
async fn plain_http_is_good_for_this_machine_when_that_is_allowed() {
    let server = TokenServer::start("ES256").unwrap();
    let mut discovery = IssuerDiscovery { allows_plain_http: true, ..IssuerDiscovery::new(&server.url()) };
    assert_eq!(IssuerClient::new(&discovery).unwrap().fetch().await.unwrap().keys.len(), 1);
    discovery.allows_plain_http = false;
    let error = IssuerClient::new(&discovery).unwrap().fetch().await.unwrap_err();
    assert!(matches!(error, FetchError::Url { .. }), "{error}");
}
