//! Client and server of the GSI handshake with each other, and every reason to refuse.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use crate::pki;
use crate::pki::{Authority, DAY, HOUR, Holder, LIMITED, NOW};
use forebay_auth::gsi::{
    Buffer, BufferError, ExchangeError, GsiClient, GsiClientSettings, GsiError, GsiPeer, GsiServer, GsiServerSettings,
    HALF_S_MAX, ServerStep, write_buffer,
};
use forebay_auth::x509::{Credential, TrustAnchors, TrustError, TrustRules};
use forebay_auth::{InitVector, Method, SessionCipher, SessionKey, UnixTime};
use openssl::dh::Dh;
use openssl::rsa::Padding;
use openssl::sha::sha256;
use std::sync::Arc;

const HOST: &str = "cache.site.org";
const CERTREQ: u32 = 1000;
const CERT: u32 = 1001;
const MODULE: u32 = 3000;
const MAIN: u32 = 3001;
const KEY: u32 = 3004;
const VALUES: u32 = 3005;
const TAG: u32 = 3006;
const SIGNED_TAG: u32 = 3007;
const VERSION: u32 = 3014;
const CERTIFICATES: u32 = 3022;
const CIPHERS: u32 = 3025;

/// Both sides, which trust one authority.
struct Site {
    authority: Authority,
    server: GsiServerSettings,
}

impl Site {
    fn new() -> Self {
        let authority = Authority::new("CA");
        let server = server_settings(authority.host(HOST).credential(), authority.anchors());
        Self { authority, server }
    }

    fn client(&self, holder: &Holder) -> GsiClientSettings {
        GsiClientSettings::new(Arc::new(holder.credential()), Arc::new(self.authority.anchors()), TrustRules::default())
    }

    fn server(self) -> GsiServer {
        GsiServer::new(Arc::new(self.server))
    }
}

fn server_settings(credential: Credential, trust: TrustAnchors) -> GsiServerSettings {
    GsiServerSettings {
        credential: Arc::new(credential),
        trust: Arc::new(trust),
        rules: TrustRules::default(),
        allow_unsigned: false,
        asks_delegation: false,
        half: Arc::default(),
    }
}

/// What a login has ended in, at the server and at the client.
type Outcome = Result<(Box<GsiPeer>, SessionKey), GsiError>;

fn log_in(server: GsiServerSettings, client: GsiClientSettings, offer: &str) -> Outcome {
    let (mut client, mut message) = GsiClient::start(Arc::new(client), offer, HOST, NOW)?;
    let mut server = GsiServer::new(Arc::new(server));
    loop {
        match server.handle(&message, NOW)? {
            ServerStep::Done(peer) => return Ok((peer, client.finish()?)),
            ServerStep::Continue(answer) => message = client.handle(&answer, NOW)?,
        }
    }
}

fn check_same_key(one: &SessionKey, other: &SessionKey) {
    assert_eq!(other.open(&one.seal(b"a digest").unwrap()).unwrap().as_slice(), b"a digest");
    assert_eq!((one.cipher, one.init_vector), (other.cipher, other.init_vector));
}

#[test]
fn a_proxy_logs_in_and_both_sides_share_a_key() {
    let site = Site::new();
    let client = site.client(&site.authority.person("Jane").proxy());
    let offer = site.server.offer();
    let (peer, key) = log_in(site.server, client, &offer).unwrap();
    check_same_key(&peer.session_key, &key);
    assert_eq!((key.cipher, key.init_vector), (SessionCipher::Aes256Cbc, InitVector::Sent));
    let identity = peer.chain.identity(Method::Gsi, "wn1", Vec::new());
    assert_eq!(identity.to_string(), "gsi \"/DC=org/DC=grid/CN=Jane\" at wn1");
    assert_eq!(identity.issuer.as_deref(), Some("/DC=org/DC=grid/CN=CA"));
    assert_eq!(identity.expires_at, Some(NOW.plus(DAY + 1)));
    assert!(peer.delegated.is_none());
}

#[test]
fn tags_are_signed_as_the_older_side_does() {
    for (version, signed_len) in [(10400_u32, 8), (10600, 8), (10700, 32)] {
        let ServerStep::Continue(answer) =
            Site::new().server().handle(&first_message(8, version, b"ssl"), NOW).unwrap()
        else {
            panic!("done too early")
        };
        let main = Buffer::parse(&answer).unwrap().get(MAIN).unwrap();
        let signed = Buffer::parse(main).unwrap().get(SIGNED_TAG).unwrap();
        let server = Site::new().authority.host(HOST).certificates[0].public_key().unwrap().rsa().unwrap();
        let mut text = vec![0; 256];
        let len = server.public_decrypt(signed, &mut text, Padding::PKCS1).unwrap();
        assert_eq!(len, signed_len, "{version}");
        let expected = if len == 8 { b"xxxxxxxx".to_vec() } else { sha256(b"XRD-GSI-RTAG-v1xxxxxxxx").to_vec() };
        assert_eq!(text[..len], expected);
    }
    for version in [10400, 10600, 10700] {
        let site = Site::new();
        let jane = site.authority.person("Jane").proxy();
        let offer = format!("v:{version},c:ssl");
        let (mut client, first) = GsiClient::start(Arc::new(site.client(&jane)), &offer, HOST, NOW).unwrap();
        let first =
            tampered(
                &first,
                |bucket, content| {
                    if bucket == VERSION { u32::to_be_bytes(version).to_vec() } else { content.to_vec() }
                },
            );
        let mut server = site.server();
        let ServerStep::Continue(answer) = server.handle(&first, NOW).unwrap() else { panic!("done too early") };
        let shown = client.handle(&answer, NOW).unwrap();
        assert!(matches!(server.handle(&shown, NOW), Ok(ServerStep::Done(_))), "{version}");
    }
}

/// The signed values that a server sends to a client with this module.
fn values_sent(settings: &Arc<GsiServerSettings>, module: &[u8], now: UnixTime) -> Vec<u8> {
    let first = first_message(8, 10700, module);
    let ServerStep::Continue(answer) = GsiServer::new(Arc::clone(settings)).handle(&first, now).unwrap() else {
        panic!("done too early")
    };
    Buffer::parse(&answer).unwrap().get(VALUES).unwrap().to_vec()
}

#[test]
fn one_key_serves_handshakes_for_a_minute_and_no_longer() {
    let server = Arc::new(Site::new().server);
    let sent = |now| values_sent(&server, b"ssl", now);
    let first = sent(NOW);
    assert_eq!(sent(NOW.plus(HALF_S_MAX - 1)), first);
    let second = sent(NOW.plus(HALF_S_MAX));
    assert_ne!(second, first);
    assert_ne!(sent(NOW), second, "a clock that was set back makes no key last longer");
}

#[test]
fn a_key_that_has_served_its_time_is_forgotten() {
    let server = Arc::new(Site::new().server);
    let first = values_sent(&server, b"ssl", NOW);
    server.half.forget_old(NOW.plus(HALF_S_MAX - 1));
    assert_eq!(values_sent(&server, b"ssl", NOW), first);
    server.half.forget_old(NOW.plus(HALF_S_MAX));
    assert_ne!(values_sent(&server, b"ssl", NOW), first);
}

#[test]
fn a_client_that_does_not_pad_gets_a_key_of_its_own() {
    let server = Arc::new(Site::new().server);
    let sent: Vec<_> = [&b"ssl"[..], b"sslnopad", b"sslnopad"].map(|module| values_sent(&server, module, NOW)).into();
    assert!(sent[0] != sent[1] && sent[0] != sent[2] && sent[1] != sent[2]);
    assert_eq!(values_sent(&server, b"ssl", NOW), sent[0]);
}

#[test]
fn a_new_certificate_signs_a_key_of_its_own() {
    let site = Site::new();
    let credential = Arc::new(site.authority.host(HOST).credential());
    let old = Arc::new(site.server);
    let half = Arc::clone(&old.half);
    let renewed = server_settings(site.authority.host(HOST).credential(), site.authority.anchors());
    let renewed = Arc::new(GsiServerSettings { credential, half, ..renewed });
    let first = values_sent(&old, b"ssl", NOW);
    let second = values_sent(&renewed, b"ssl", NOW);
    assert_ne!(first, second);
    assert_eq!(values_sent(&renewed, b"ssl", NOW), second);
}

#[test]
fn a_certificate_without_a_proxy_logs_in() {
    let site = Site::new();
    let client = site.client(&site.authority.host("robot.site.org"));
    let offer = site.server.offer();
    let (peer, _) = log_in(site.server, client, &offer).unwrap();
    assert_eq!(peer.chain.subject(), "/DC=org/DC=grid/CN=robot.site.org");
}

#[test]
fn the_offer_names_version_module_and_authority() {
    let offer = Site::new().server.offer();
    let (head, hashes) = offer.split_once(",ca:").unwrap();
    assert_eq!(head, "v:10700,c:ssl");
    for hash in hashes.split('|') {
        assert!(hash.len() == 10 && hash.ends_with(".0"), "{hash}");
    }
}

#[test]
fn the_unsigned_variant_needs_a_switch_on_each_side() {
    let site = Site::new();
    let jane = site.authority.person("Jane").proxy();
    let old = "v:10300,c:ssl,ca:00000000.0";
    let refused = GsiClient::start(Arc::new(site.client(&jane)), old, HOST, NOW).unwrap_err();
    assert!(matches!(refused, GsiError::Version { version: 10300 }));
    let settings = server_settings(site.authority.host(HOST).credential(), site.authority.anchors());
    let refused = log_in(settings, GsiClientSettings { allow_unsigned: true, ..site.client(&jane) }, old).unwrap_err();
    assert!(matches!(refused, GsiError::Version { version: 10300 }));
    let client = GsiClientSettings { allow_unsigned: true, ..site.client(&jane) };
    let (peer, key) = log_in(GsiServerSettings { allow_unsigned: true, ..site.server }, client, old).unwrap();
    check_same_key(&peer.session_key, &key);
    assert_eq!(key.init_vector, InitVector::Zero);
}

#[test]
fn clients_that_are_not_trusted_are_refused() {
    let site = Site::new();
    let (offer, jane) = (site.server.offer(), site.authority.person("Jane"));
    let stranger = Authority::new("Other").person("Jane").proxy();
    let refused = log_in(
        site.server,
        {
            let trust = Arc::new(site.authority.anchors());
            GsiClientSettings::new(Arc::new(stranger.credential()), trust, TrustRules::default())
        },
        &offer,
    );
    assert!(matches!(refused, Err(GsiError::Trust(TrustError::UnknownAuthority { .. }))));

    let mut server = server_settings(site.authority.host(HOST).credential(), site.authority.anchors());
    server.rules.allow_limited = false;
    let limited = jane.sign(jane.proxy_draft(LIMITED, None));
    let refused = log_in(server, site_client(&site.authority, &limited), &offer);
    assert!(matches!(refused, Err(GsiError::Trust(TrustError::Limited { .. }))));

    let server = server_settings(site.authority.host(HOST).credential(), site.authority.anchors());
    let mut draft = jane.proxy_draft(pki::INHERIT_ALL, None);
    draft.until = NOW.plus(-HOUR);
    let refused = log_in(server, site_client(&site.authority, &jane.sign(draft)), &offer);
    assert!(matches!(refused, Err(GsiError::Trust(TrustError::Expired { .. }))));

    let mut trust = site.authority.anchors();
    trust.add_crl(&site.authority.crl(&[&jane.certificates[0]], NOW.plus(-DAY), NOW.plus(DAY))).unwrap();
    let server = server_settings(site.authority.host(HOST).credential(), trust);
    let refused = log_in(server, site_client(&site.authority, &jane.proxy()), &offer);
    assert!(matches!(refused, Err(GsiError::Trust(TrustError::Revoked { .. }))));
}

fn site_client(authority: &Authority, holder: &Holder) -> GsiClientSettings {
    GsiClientSettings::new(Arc::new(holder.credential()), Arc::new(authority.anchors()), TrustRules::default())
}

#[test]
fn servers_that_are_not_the_host_are_refused() {
    let site = Site::new();
    let jane = site.authority.person("Jane").proxy();
    let offer = site.server.offer();
    let other_host = server_settings(site.authority.host("evil.site.org").credential(), site.authority.anchors());
    assert!(matches!(log_in(other_host, site.client(&jane), &offer), Err(GsiError::Host(_))));
    let stranger = server_settings(Authority::new("Other").host(HOST).credential(), site.authority.anchors());
    let refused = log_in(stranger, site.client(&jane), &offer);
    assert!(matches!(refused, Err(GsiError::Trust(TrustError::UnknownAuthority { .. }))));
}

/// The server's answer to a client's first message, with some buckets exchanged.
fn tampered_answer(site: Site, client: &[u8], change: impl Fn(u32, &[u8]) -> Vec<u8>) -> Vec<u8> {
    let ServerStep::Continue(answer) = site.server().handle(client, NOW).unwrap() else { panic!("done too early") };
    tampered(&answer, change)
}

fn tampered(message: &[u8], change: impl Fn(u32, &[u8]) -> Vec<u8>) -> Vec<u8> {
    let message = Buffer::parse(message).unwrap();
    let buckets: Vec<_> = message.buckets.iter().map(|&(bucket, content)| (bucket, change(bucket, content))).collect();
    let buckets: Vec<_> = buckets.iter().map(|(bucket, content)| (*bucket, content.as_slice())).collect();
    write_buffer(message.step, &buckets)
}

fn start(site: &Site) -> (GsiClient, Vec<u8>) {
    let jane = site.authority.person("Jane").proxy();
    GsiClient::start(Arc::new(site.client(&jane)), &site.server.offer(), HOST, NOW).unwrap()
}

#[test]
fn a_server_without_the_key_of_its_certificate_is_refused() {
    let site = Site::new();
    let (mut client, message) = start(&site);
    let answer = tampered_answer(site, &message, |bucket, content| {
        if bucket != MAIN {
            return content.to_vec();
        }
        tampered(
            content,
            |bucket, content| if bucket == SIGNED_TAG { signed_by(6, b"AAAAAAAA") } else { content.to_vec() },
        )
    });
    assert!(matches!(client.handle(&answer, NOW), Err(GsiError::Tag)));
}

#[test]
fn key_values_signed_by_a_stranger_are_refused() {
    let site = Site::new();
    let (mut client, message) = start(&site);
    let values =
        |bucket: u32, content: &[u8]| if bucket == VALUES { signed_by(6, b"values") } else { content.to_vec() };
    let answer = tampered_answer(site, &message, values);
    assert!(matches!(client.handle(&answer, NOW), Err(GsiError::Signature)));

    let site = Site::new();
    let (mut client, message) = start(&site);
    let mut server = site.server();
    let ServerStep::Continue(answer) = server.handle(&message, NOW).unwrap() else { panic!("done too early") };
    let shown = client.handle(&answer, NOW).unwrap();
    assert!(matches!(server.handle(&tampered(&shown, values), NOW), Err(GsiError::Signature)));
}

#[test]
fn a_client_that_signs_with_another_key_than_it_shows_is_refused() {
    let site = Site::new();
    let jane = site.authority.person("Jane").proxy();
    let (mut client, message) =
        GsiClient::start(Arc::new(site.client(&jane)), &site.server.offer(), HOST, NOW).unwrap();
    let mut server = site.server();
    let ServerStep::Continue(answer) = server.handle(&message, NOW).unwrap() else { panic!("done too early") };
    let shown = client.handle(&answer, NOW).unwrap();
    let values = {
        let shown = Buffer::parse(&shown).unwrap();
        let leaf = jane.certificates[0].public_key().unwrap().rsa().unwrap();
        let mut text = Vec::new();
        for block in shown.get(VALUES).unwrap().chunks(256) {
            let mut piece = vec![0; 256];
            let len = leaf.public_decrypt(block, &mut piece, Padding::PKCS1).unwrap();
            text.extend_from_slice(&piece[..len]);
        }
        text
    };
    let other_pem = pki::key(6).public_key_to_pem().unwrap();
    let resigned = tampered(&shown, |bucket, content| match bucket {
        KEY => other_pem.clone(),
        VALUES => signed_by(6, &values),
        _ => content.to_vec(),
    });
    assert!(matches!(server.handle(&resigned, NOW), Err(GsiError::OtherKey)));
}

/// A text signed with one of the tests' keys.
fn signed_by(key: usize, text: &[u8]) -> Vec<u8> {
    let key = pki::key(key).rsa().unwrap();
    let mut signature = Vec::new();
    for piece in text.chunks(245) {
        let mut block = vec![0; 256];
        key.private_encrypt(piece, &mut block, Padding::PKCS1).unwrap();
        signature.append(&mut block);
    }
    signature
}

/// Groups of 512 bits, as stock servers of version 5 send.
fn weak_values(key: usize) -> Vec<u8> {
    let group = Dh::generate_params(512, 2).unwrap();
    let mut text = group.params_to_pem().unwrap();
    let value = group.generate_key().unwrap().public_key().to_hex_str().unwrap().to_string();
    text.extend(format!("---BPUB---{value}---EPUB---").as_bytes());
    signed_by(key, &text)
}

#[test]
fn weak_groups_need_a_switch() {
    let weak = |bucket: u32, content: &[u8]| if bucket == VALUES { weak_values(2) } else { content.to_vec() };
    let site = Site::new();
    let (mut client, message) = start(&site);
    let answer = tampered_answer(site, &message, weak);
    let refused = client.handle(&answer, NOW).unwrap_err();
    assert!(matches!(refused, GsiError::Exchange(ExchangeError::Group { bits: 512 })), "{refused}");

    let site = Site::new();
    let settings = site.client(&site.authority.person("Jane").proxy());
    let settings = GsiClientSettings { allow_weak_groups: true, ..settings };
    let (mut client, message) = GsiClient::start(Arc::new(settings), &site.server.offer(), HOST, NOW).unwrap();
    let answer = tampered_answer(site, &message, weak);
    assert!(client.handle(&answer, NOW).is_ok());
}

#[test]
fn the_strongest_cipher_in_common_is_taken() {
    for (offered, announced) in
        [("aes-128-cbc:bf-cbc:des-ede3-cbc", "aes-128-cbc#16"), ("aes-256-cbc", "aes-256-cbc#16")]
    {
        let site = Site::new();
        let (mut client, message) = start(&site);
        let answer = tampered_answer(site, &message, |bucket, content| {
            if bucket == CIPHERS { offered.as_bytes().to_vec() } else { content.to_vec() }
        });
        let shown = client.handle(&answer, NOW).unwrap();
        assert_eq!(Buffer::parse(&shown).unwrap().get(CIPHERS), Some(announced.as_bytes()));
    }
    let site = Site::new();
    let (mut client, message) = start(&site);
    let answer = tampered_answer(
        site,
        &message,
        |bucket, content| {
            if bucket == CIPHERS { b"bf-cbc".to_vec() } else { content.to_vec() }
        },
    );
    assert!(matches!(client.handle(&answer, NOW), Err(GsiError::Cipher(_))));
}

#[test]
fn handshakes_that_take_too_long_end() {
    let site = Site::new();
    let (mut client, message) = start(&site);
    let mut server = site.server();
    let ServerStep::Continue(answer) = server.handle(&message, NOW).unwrap() else { panic!("done too early") };
    let shown = client.handle(&answer, NOW.plus(300)).unwrap();
    assert!(matches!(server.handle(&shown, NOW.plus(301)), Err(GsiError::TooSlow)));
    assert!(matches!(client.handle(&answer, NOW.plus(301)), Err(GsiError::TooSlow)));
}

#[test]
fn steps_out_of_turn_are_refused_and_end_the_handshake() {
    let site = Site::new();
    let (mut client, message) = start(&site);
    let mut server = site.server();
    let early = server.handle(&write_buffer(CERT, &[]), NOW).unwrap_err();
    assert!(matches!(early, GsiError::Step { expected: 1000, found: 1001 }));
    assert!(matches!(server.handle(&message, NOW), Err(GsiError::Step { expected: 0, .. })));
    assert!(matches!(client.handle(&message, NOW), Err(GsiError::Step { expected: 2001, found: 1000 })));
    assert!(matches!(client.finish(), Err(GsiError::Early)));
}

#[test]
fn a_client_that_proved_nothing_gets_no_key() {
    let (client, _) = start(&Site::new());
    assert!(matches!(client.finish(), Err(GsiError::Early)));
}

/// A first message with a tag of that length.
fn first_message(tag_len: usize, version: u32, module: &[u8]) -> Vec<u8> {
    let main = write_buffer(CERTREQ, &[(TAG, &vec![b'x'; tag_len])]);
    write_buffer(CERTREQ, &[(MODULE, module), (VERSION, &version.to_be_bytes()), (MAIN, &main)])
}

#[test]
fn long_tags_are_not_signed() {
    let answer = |tag_len| Site::new().server().handle(&first_message(tag_len, 10600, b"ssl"), NOW);
    assert!(answer(16).is_ok());
    assert!(matches!(answer(17), Err(GsiError::Missing(_))));
    assert!(matches!(answer(51), Err(GsiError::Missing(_))), "the length of a SHA-256 digest with its name");
    assert!(matches!(answer(0), Err(GsiError::Missing(_))));
}

#[test]
fn first_messages_that_lack_something_are_refused() {
    let refused = |message: &[u8]| Site::new().server().handle(message, NOW).unwrap_err();
    assert!(matches!(refused(b"unix"), GsiError::Buffer(BufferError::NotGsi)));
    assert!(matches!(refused(&write_buffer(CERTREQ, &[])), GsiError::Missing("a crypto module")));
    assert!(matches!(refused(&first_message(8, 10600, b"local")), GsiError::Missing("the crypto module ssl")));
    assert!(matches!(refused(&first_message(8, 9999, b"ssl")), GsiError::Version { version: 9999 }));
    let no_main = write_buffer(CERTREQ, &[(MODULE, b"ssl"), (VERSION, &10600_u32.to_be_bytes())]);
    assert!(matches!(refused(&no_main), GsiError::Missing("a main part")));
}

#[test]
fn damaged_messages_are_refused_and_never_panic() {
    let authority = Authority::new("CA");
    let settings = Arc::new(server_settings(authority.host(HOST).credential(), authority.anchors()));
    let client = Arc::new(site_client(&authority, &authority.person("Jane").proxy()));
    let (mut client, message) = GsiClient::start(client, &settings.offer(), HOST, NOW).unwrap();
    let mut server = GsiServer::new(Arc::clone(&settings));
    let ServerStep::Continue(answer) = server.handle(&message, NOW).unwrap() else { panic!("done too early") };
    let shown = client.handle(&answer, NOW).unwrap();
    for at in (0..shown.len()).step_by(shown.len() / 40) {
        let mut server = GsiServer::new(Arc::clone(&settings));
        server.handle(&message, NOW).unwrap();
        let mut damaged = shown.clone();
        damaged[at] ^= 0x40;
        assert!(server.handle(&damaged, NOW).is_err(), "byte {at}");
    }
    // Whoever has recorded a login learns nothing by trying it again and again.
    assert!(matches!(server.handle(&shown, NOW), Err(GsiError::Repeated)));
}

#[test]
fn offers_that_are_not_understood_are_refused() {
    let site = Site::new();
    let settings = Arc::new(site.client(&site.authority.person("Jane")));
    for offer in ["", "v:10600", "c:ssl,ca:x", "v:new,c:ssl", "v:10600,c:local", "v:-1,c:ssl"] {
        let refused = GsiClient::start(Arc::clone(&settings), offer, HOST, NOW).unwrap_err();
        assert!(matches!(refused, GsiError::Offer(_)), "{offer}");
    }
    assert!(GsiClient::start(settings, "v:10400,c:sslnopad|ssl", HOST, NOW).is_ok());
}

#[test]
fn a_willing_client_delegates_a_proxy() {
    let site = Site::new();
    let anchors = site.authority.anchors();
    let client = site.client(&site.authority.person("Jane").proxy());
    let client = GsiClientSettings { allow_delegation: true, ..client };
    let offer = site.server.offer();
    let server = GsiServerSettings { asks_delegation: true, ..site.server };
    let (peer, key) = log_in(server, client, &offer).unwrap();
    check_same_key(&peer.session_key, &key);
    let delegated = peer.delegated.unwrap().unwrap();
    anchors.verify(delegated.chain(), &TrustRules::default(), NOW).unwrap();
    assert_eq!((delegated.chain().subject(), delegated.chain().proxies().len()), ("/DC=org/DC=grid/CN=Jane", 2));
}

#[test]
fn a_client_that_does_not_delegate_logs_in_without() {
    let site = Site::new();
    let client = site.client(&site.authority.person("Jane").proxy());
    let offer = site.server.offer();
    let server = GsiServerSettings { asks_delegation: true, ..site.server };
    let (peer, _) = log_in(server, client, &offer).unwrap();
    assert!(peer.delegated.is_none(), "the client was not asked");
}

#[test]
fn an_excuse_instead_of_a_proxy_is_reported_and_the_login_succeeds() {
    let site = Site::new();
    let jane = site.authority.person("Jane").proxy();
    let (mut client, first) = GsiClient::start(Arc::new(site.client(&jane)), &site.server.offer(), HOST, NOW).unwrap();
    let first = with_options(&first, 0x84);
    let mut server = GsiServer::new(Arc::new(GsiServerSettings { asks_delegation: true, ..site.server }));
    let ServerStep::Continue(answer) = server.handle(&first, NOW).unwrap() else { panic!("done too early") };
    let shown = client.handle(&answer, NOW).unwrap();
    let ServerStep::Continue(question) = server.handle(&shown, NOW).unwrap() else { panic!("not asked") };
    let excuse = client.handle(&question, NOW).unwrap();
    let ServerStep::Done(peer) = server.handle(&excuse, NOW).unwrap() else { panic!("not done") };
    assert_eq!(peer.delegated.unwrap().unwrap_err(), "delegation is not configured");
    assert!(client.finish().is_ok());
}

fn with_options(message: &[u8], options: u32) -> Vec<u8> {
    tampered(message, |bucket, content| if bucket == 3019 { options.to_be_bytes().to_vec() } else { content.to_vec() })
}

#[test]
fn the_chain_goes_encrypted_and_keys_are_never_shown() {
    let site = Site::new();
    let (mut client, message) = start(&site);
    let mut server = site.server();
    let ServerStep::Continue(answer) = server.handle(&message, NOW).unwrap() else { panic!("done too early") };
    let shown = client.handle(&answer, NOW).unwrap();
    assert_eq!(Buffer::parse(&shown).unwrap().get(CERTIFICATES), None);
    let text = format!("{client:?}");
    assert!(text.contains("not shown") && !text.contains("BEGIN"), "{text}");
}
