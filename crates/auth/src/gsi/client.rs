//! The client's side of the handshake.

use crate::gsi::buffer::{Buffer, bucket, step, write_buffer};
use crate::gsi::error::GsiError;
use crate::gsi::exchange::{Exchange, KnownGroups, PeerValues};
use crate::gsi::raw_rsa::rsa_of;
use crate::gsi::secret::{Tag, TagForm, cipher_of, open_main, sign_tag, text_of};
use crate::gsi::{GSI_VERSION, GSI_VERSION_MIN, GSI_VERSION_SIGNED, HANDSHAKE_S_MAX, raw_rsa};
use crate::x509::{Chain, Credential, TrustAnchors, TrustRules, check_host, sign_request};
use crate::{InitVector, SessionCipher, SessionKey, UnixTime, session_key::VECTOR_LEN};
use openssl::pkey::Public;
use openssl::rsa::Rsa;
use std::sync::Arc;

/// The client is willing to sign a request for a proxy.
const OPTION_SIGNS_REQUESTS: u32 = 0x04;

/// The client shows a proxy: at least two certificates come.
const OPTION_HAS_PROXY: u32 = 0x80;

/// Longest offer of a server that is read, bytes.
const OFFER_LEN_MAX: usize = 4096;

/// Digests that we name if the server does, the best first; nothing in the handshake uses one.
const DIGESTS: [&str; 3] = ["sha256", "sha1", "md5"];

/// Settings of a client for its handshakes with one kind of server.
#[derive(Debug)]
pub struct GsiClientSettings {
    pub credential: Arc<Credential>,
    pub trust: Arc<TrustAnchors>,
    pub rules: TrustRules,
    /// Whether Diffie-Hellman groups from 512 bits on are accepted: XRootD 5 and dCache send such. An attacker who records the traffic
    /// can then compute the key, and learns the certificates and the key for signed requests, but not the private key of the credential.
    pub allow_weak_groups: bool,
    /// Whether servers of versions before 10400 are accepted, whose keys an attacker on the way can exchange.
    pub allow_unsigned: bool,
    /// Whether a proxy is signed for a server that asks.
    pub allow_delegation: bool,
    pub groups: KnownGroups,
}

impl GsiClientSettings {
    /// Identifies us by `credential`, and servers by `trust`. Weak groups, unsigned exchanges and delegation are off.
    pub fn new(credential: Arc<Credential>, trust: Arc<TrustAnchors>, rules: TrustRules) -> Self {
        let (allow_weak_groups, allow_unsigned, allow_delegation) = (false, false, false);
        let groups = KnownGroups::default();
        Self { credential, trust, rules, allow_weak_groups, allow_unsigned, allow_delegation, groups }
    }
}

/// Our handshake with one server: [`GsiClient::start`] gives the first message, [`GsiClient::handle`] one for each challenge, and
/// when the server has accepted, [`GsiClient::finish`] gives the key.
pub struct GsiClient {
    settings: Arc<GsiClientSettings>,
    host: String,
    is_signed: bool,
    form: TagForm,
    is_padded: bool,
    started_at: UnixTime,
    state: State,
}

enum State {
    /// The server's certificate was asked for.
    Asked(Tag),
    Shown(Box<Shown>),
    Over,
}

struct Shown {
    session_key: SessionKey,
    server: Rsa<Public>,
    tag: Tag,
}

impl GsiClient {
    /// Begins a handshake with the server that one reaches as `host`, which offers `gsi` with the parameters after `&P=gsi,`. Gives
    /// the first message too.
    ///
    /// # Errors
    /// When the offer is not understood, or the server is too old.
    pub fn start(
        settings: Arc<GsiClientSettings>,
        offer: &str,
        host: &str,
        now: UnixTime,
    ) -> Result<(Self, Vec<u8>), GsiError> {
        let shown_offer = || GsiError::Offer(offer.chars().take(200).collect());
        let items = || offer.get(..OFFER_LEN_MAX.min(offer.len())).unwrap_or_default().split(',');
        let item = |key: &str| items().find_map(|item| item.strip_prefix(key));
        let version = item("v:").and_then(|version| version.parse::<u32>().ok()).ok_or_else(shown_offer)?;
        let modules = item("c:").unwrap_or_default();
        let module = modules.split('|').find(|module| matches!(*module, "ssl" | "sslnopad"));
        let module = module.ok_or_else(shown_offer)?;
        let is_signed = version >= GSI_VERSION_SIGNED;
        if version < GSI_VERSION_MIN || (!is_signed && !settings.allow_unsigned) {
            return Err(GsiError::Version { version });
        }
        let tag = Tag::new()?;
        let message = first_message(&settings, &tag, is_signed);
        let is_padded = is_signed && !module.ends_with("nopad");
        let (state, form) = (State::Asked(tag), TagForm::of_version(version));
        Ok((Self { settings, host: host.to_owned(), is_signed, form, is_padded, started_at: now, state }, message))
    }

    /// Takes a challenge, and gives the answer. Costs milliseconds of computing; much more the first time that a server's group is seen.
    ///
    /// # Errors
    /// Why the server is refused, or what went wrong.
    pub fn handle(&mut self, message: &[u8], now: UnixTime) -> Result<Vec<u8>, GsiError> {
        if now.seconds_since(self.started_at) > HANDSHAKE_S_MAX {
            return Err(GsiError::TooSlow);
        }
        let message = Buffer::parse(message)?;
        match (std::mem::replace(&mut self.state, State::Over), message.step) {
            (State::Asked(tag), step::SERVER_CERT) => self.show(&message, &tag, now),
            (State::Shown(shown), step::SERVER_PXYREQ) => self.delegate(&message, *shown, now),
            (State::Asked(_), found) => Err(GsiError::Step { expected: step::SERVER_CERT, found }),
            (State::Shown(_), found) => Err(GsiError::Step { expected: step::SERVER_PXYREQ, found }),
            (State::Over, found) => Err(GsiError::Step { expected: 0, found }),
        }
    }

    /// The server has accepted: gives the key that both sides share, for signed requests.
    ///
    /// # Errors
    /// When the server has not proved who it is.
    pub fn finish(self) -> Result<SessionKey, GsiError> {
        match self.state {
            State::Shown(shown) => Ok(shown.session_key),
            State::Asked(_) | State::Over => Err(GsiError::Early),
        }
    }

    /// Takes the server's certificate, and sends ours.
    fn show(&mut self, message: &Buffer<'_>, tag: &Tag, now: UnixTime) -> Result<Vec<u8>, GsiError> {
        let server = self.check_server(message, tag, now)?;
        let settings = &*self.settings;
        let values = if self.is_signed {
            let signed = message.get(bucket::CIPHER).ok_or(GsiError::Missing("signed key values"))?;
            PeerValues::parse(&raw_rsa::recover(&server, signed).ok_or(GsiError::Signature)?)?
        } else {
            PeerValues::parse(message.get(bucket::PUBLIC_KEY).ok_or(GsiError::Missing("key values"))?)?
        };
        let exchange = Exchange::with(&values, &settings.groups, settings.allow_weak_groups)?;
        let secret = exchange.secret(&values, self.is_padded)?;
        let cipher = common_cipher(text_of(message, bucket::CIPHER_NAMES, "ciphers")?)?;
        let init_vector = if self.is_signed { InitVector::Sent } else { InitVector::Zero };
        let session_key = SessionKey::new(cipher, &secret, init_vector)?;

        let main = Buffer::parse(message.get(bucket::MAIN).ok_or(GsiError::Missing("a main part"))?)?;
        let key = settings.credential.key().rsa()?;
        let our_tag = Tag::new()?;
        let (signed_tag, chain) = (sign_tag(&main, self.form, &key)?, settings.credential.chain().to_pem()?);
        let main = write_buffer(
            step::CLIENT_CERT,
            &[(bucket::SIGNED_TAG, &signed_tag), (bucket::CERTIFICATES, &chain), (bucket::TAG, our_tag.as_bytes())],
        );
        let sealed = session_key.seal(&main)?;
        let answer = self.certificate_message(message, &sealed, &exchange.values()?, cipher)?;
        self.state = State::Shown(Box::new(Shown { session_key, server, tag: our_tag }));
        Ok(answer)
    }

    /// Verifies the server: its certificate leads to an authority, names the host, and its key has signed our tag.
    fn check_server(&self, message: &Buffer<'_>, tag: &Tag, now: UnixTime) -> Result<Rsa<Public>, GsiError> {
        let chain = message.get(bucket::CERTIFICATES).ok_or(GsiError::Missing("a certificate"))?;
        let chain = Chain::from_pem(chain)?;
        if !chain.proxies().is_empty() {
            return Err(GsiError::ServerProxy { subject: chain.leaf().subject().to_owned() });
        }
        self.settings.trust.verify(&chain, &self.settings.rules, now)?;
        check_host(chain.end_entity(), &self.host)?;
        let server = rsa_of(chain.end_entity())?;
        let main = message.get(bucket::MAIN).ok_or(GsiError::Missing("a main part"))?;
        tag.check(&Buffer::parse(main)?, self.form, &server)?;
        Ok(server)
    }

    fn certificate_message(
        &self,
        question: &Buffer<'_>,
        sealed: &[u8],
        values: &[u8],
        cipher: SessionCipher,
    ) -> Result<Vec<u8>, GsiError> {
        let offered = text_of(question, bucket::DIGEST_NAMES, "digests").unwrap_or_default();
        let is_offered = |digest: &&str| offered.split(':').any(|name| name == *digest);
        let digest = DIGESTS.into_iter().find(is_offered).unwrap_or("sha256");
        let credential = &self.settings.credential;
        let (signed_values, public_key, cipher_name);
        let mut buckets: Vec<(u32, &[u8])> = vec![(bucket::CRYPTO_MODULE, b"ssl")];
        if self.is_signed {
            signed_values = raw_rsa::sign(&*credential.key().rsa()?, values)?;
            public_key = credential.key().public_key_to_pem()?;
            cipher_name = format!("{}#{VECTOR_LEN}", cipher.as_str());
            buckets.push((bucket::CIPHER, &signed_values));
            buckets.push((bucket::PUBLIC_KEY, &public_key));
            buckets.push((bucket::CIPHER_NAMES, cipher_name.as_bytes()));
        } else {
            buckets.push((bucket::PUBLIC_KEY, values));
            buckets.push((bucket::CIPHER_NAMES, cipher.as_str().as_bytes()));
        }
        buckets.push((bucket::DIGEST_NAMES, digest.as_bytes()));
        buckets.push((bucket::MAIN, sealed));
        Ok(write_buffer(step::CLIENT_CERT, &buckets))
    }

    /// Answers a request for a proxy, with a proxy or an excuse.
    fn delegate(&mut self, message: &Buffer<'_>, shown: Shown, now: UnixTime) -> Result<Vec<u8>, GsiError> {
        let main = open_main(message, &shown.session_key)?;
        let main = Buffer::parse(&main)?;
        shown.tag.check(&main, self.form, &shown.server)?;
        let credential = &self.settings.credential;
        let request = main.get(bucket::PROXY_REQUEST).ok_or(GsiError::Missing("a request for a proxy"))?;
        let proxy = match (self.settings.allow_delegation, self.is_signed) {
            (true, true) => sign_request(credential, request, now).map_err(|error| error.to_string()),
            (true, false) => Err("not to a server of a version before 10400".to_owned()),
            (false, _) => Err("delegation is not configured".to_owned()),
        };
        let signed_tag = sign_tag(&main, self.form, &*credential.key().rsa()?)?;
        let main = match &proxy {
            Ok(proxy) => {
                write_buffer(step::CLIENT_SIGPXY, &[(bucket::CERTIFICATES, proxy), (bucket::SIGNED_TAG, &signed_tag)])
            }
            Err(excuse) => write_buffer(step::CLIENT_SIGPXY, &[(bucket::MESSAGE, excuse.as_bytes())]),
        };
        let sealed = shown.session_key.seal(&main)?;
        let answer = write_buffer(step::CLIENT_SIGPXY, &[(bucket::CRYPTO_MODULE, b"ssl"), (bucket::MAIN, &sealed)]);
        self.state = State::Shown(Box::new(shown));
        Ok(answer)
    }
}

/// Asks for the server's certificate.
fn first_message(settings: &GsiClientSettings, tag: &Tag, is_signed: bool) -> Vec<u8> {
    let chain = settings.credential.chain();
    let version = if is_signed { GSI_VERSION } else { GSI_VERSION_SIGNED - 100 };
    let has_proxy = if chain.proxies().is_empty() { 0 } else { OPTION_HAS_PROXY };
    let signs_requests = if settings.allow_delegation && is_signed { OPTION_SIGNS_REQUESTS } else { 0 };
    let main = write_buffer(step::CLIENT_CERTREQ, &[(bucket::TAG, tag.as_bytes())]);
    write_buffer(
        step::CLIENT_CERTREQ,
        &[
            (bucket::CRYPTO_MODULE, b"ssl"),
            (bucket::VERSION, &version.to_be_bytes()),
            (bucket::ISSUER_HASHES, chain.end_entity().issuer_hashes().join("|").as_bytes()),
            (bucket::OPTIONS, &(has_proxy | signs_requests).to_be_bytes()),
            (bucket::MAIN, &main),
        ],
    )
}

/// The strongest of our ciphers that the server offers.
fn common_cipher(offered: &str) -> Result<SessionCipher, GsiError> {
    let is_offered = |cipher: &SessionCipher| offered.split(':').any(|name| cipher_of(name) == Some(*cipher));
    let common = SessionCipher::ALL.into_iter().filter(is_offered).max_by_key(|cipher| cipher.key_len());
    common.ok_or_else(|| GsiError::Cipher(offered.chars().take(200).collect()))
}

impl std::fmt::Debug for GsiClient {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "GsiClient({:?} at {}, keys not shown)", self.settings.credential, self.host)
    }
}
