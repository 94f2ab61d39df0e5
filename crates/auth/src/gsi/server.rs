//! The server's side of the handshake.

use crate::gsi::buffer::{Buffer, bucket, step, write_buffer};
use crate::gsi::error::GsiError;
use crate::gsi::exchange::PeerValues;
use crate::gsi::half::{Half, SharedHalf};
use crate::gsi::raw_rsa::{rsa_of, usual_rsa};
use crate::gsi::secret::{Tag, TagForm, cipher_of, number_of, open_main, sign_tag, text_of};
use crate::gsi::{GSI_VERSION, GSI_VERSION_MIN, GSI_VERSION_SIGNED, HANDSHAKE_S_MAX, raw_rsa};
use crate::x509::{Chain, Credential, ProxyRequest, TrustAnchors, TrustRules};
use crate::{InitVector, SessionCipher, SessionKey, UnixTime};
use openssl::pkey::PKey;
use std::error::Error;
use std::sync::Arc;

/// Digests that peers may name; nothing in the handshake uses one.
const DIGESTS: &[u8] = b"sha256:sha1";

/// The client is willing to sign a request for a proxy.
const OPTION_SIGNS_REQUESTS: u32 = 0x04;

/// Settings of a server for all its handshakes.
#[derive(Debug)]
pub struct GsiServerSettings {
    /// The host's certificate and key; no proxy.
    pub credential: Arc<Credential>,
    pub trust: Arc<TrustAnchors>,
    /// Requirements for clients.
    pub rules: TrustRules,
    /// Whether clients of versions before 10400 are accepted, whose keys an attacker on the way can exchange.
    pub allow_unsigned: bool,
    /// Whether clients that are willing are asked for a proxy.
    pub asks_delegation: bool,
    /// The key half that handshakes share for a while.
    pub half: Arc<SharedHalf>,
}

impl GsiServerSettings {
    /// The parameters after `&P=gsi,` in the answer to a login: version, crypto module, authority of our certificate.
    pub fn offer(&self) -> String {
        let hashes = self.credential.chain().end_entity().issuer_hashes().join("|");
        format!("v:{GSI_VERSION},c:ssl,ca:{hashes}")
    }
}

/// The next step of a server.
#[derive(Debug)]
pub enum ServerStep {
    /// Sends this, and waits for the client's next message.
    Continue(Vec<u8>),
    /// The client has proved who it is.
    Done(Box<GsiPeer>),
}

/// A client that has proved who it is.
#[derive(Debug)]
pub struct GsiPeer {
    pub chain: Chain,
    /// The key that both sides share, for signed requests.
    pub session_key: SessionKey,
    /// A proxy of the client with a key of ours, or why it gave none; `None` if it was not asked for one.
    pub delegated: Option<Result<Credential, String>>,
}

/// One client's handshake. Each message of the client goes to [`GsiServer::handle`]; after an error, or when it is done, the
/// handshake is over.
pub struct GsiServer {
    settings: Arc<GsiServerSettings>,
    state: State,
}

enum State {
    Start,
    /// Our certificate is out.
    Shown(Box<Shown>),
    /// The client is known, and was asked for a proxy.
    Asked(Box<Asked>),
    Over,
}

struct Shown {
    half: Arc<Half>,
    tag: Tag,
    is_signed: bool,
    form: TagForm,
    is_padded: bool,
    signs_requests: bool,
    started_at: UnixTime,
}

struct Asked {
    chain: Chain,
    session_key: SessionKey,
    request: ProxyRequest,
    tag: Tag,
    form: TagForm,
    started_at: UnixTime,
}

impl GsiServer {
    /// Waits for a client's first message.
    pub const fn new(settings: Arc<GsiServerSettings>) -> Self {
        Self { settings, state: State::Start }
    }

    /// Takes the client's next message. Costs milliseconds of computing, and a tenth of a second when it asks for a proxy.
    ///
    /// # Errors
    /// Why the client is refused.
    pub fn handle(&mut self, message: &[u8], now: UnixTime) -> Result<ServerStep, GsiError> {
        let message = Buffer::parse(message)?;
        match (std::mem::replace(&mut self.state, State::Over), message.step) {
            (State::Start, step::CLIENT_CERTREQ) => self.show(&message, now),
            (State::Shown(shown), step::CLIENT_CERT) => {
                check_time(shown.started_at, now)?;
                self.identify(&message, *shown, now)
            }
            (State::Asked(asked), step::CLIENT_SIGPXY) => {
                check_time(asked.started_at, now)?;
                Ok(self.finish(&message, *asked, now))
            }
            (State::Start, found) => Err(GsiError::Step { expected: step::CLIENT_CERTREQ, found }),
            (State::Shown(_), found) => Err(GsiError::Step { expected: step::CLIENT_CERT, found }),
            (State::Asked(_), found) => Err(GsiError::Step { expected: step::CLIENT_SIGPXY, found }),
            (State::Over, found) => Err(GsiError::Step { expected: 0, found }),
        }
    }

    /// Answers a request for our certificate.
    fn show(&mut self, message: &Buffer<'_>, now: UnixTime) -> Result<ServerStep, GsiError> {
        let module = text_of(message, bucket::CRYPTO_MODULE, "a crypto module")?;
        if !module.split('|').any(|module| matches!(module, "ssl" | "sslnopad")) {
            return Err(GsiError::Missing("the crypto module ssl"));
        }
        let version = number_of(message, bucket::VERSION).unwrap_or(GSI_VERSION_MIN);
        let is_signed = version >= GSI_VERSION_SIGNED;
        if version < GSI_VERSION_MIN || (!is_signed && !self.settings.allow_unsigned) {
            return Err(GsiError::Version { version });
        }
        let main = message.get(bucket::MAIN).ok_or(GsiError::Missing("a main part"))?;
        let form = TagForm::of_version(version);
        let key = self.settings.credential.key().rsa()?;
        let signed_tag = sign_tag(&Buffer::parse(main)?, form, &key)?;
        let is_padded = is_signed && !module.contains("nopad");
        // Without padding, the time of the computation reveals the length of a secret: one key for many would be guessed bit by bit.
        let half = match (is_signed, is_padded) {
            (true, true) => self.settings.half.at(now, &self.settings.credential)?,
            (true, false) => Arc::new(Half::signed(&self.settings.credential)?),
            (false, _) => Arc::new(Half::unsigned()?),
        };
        let tag = Tag::new()?;
        let main = write_buffer(step::SERVER_CERT, &[(bucket::SIGNED_TAG, &signed_tag), (bucket::TAG, tag.as_bytes())]);
        let values_bucket = if is_signed { bucket::CIPHER } else { bucket::PUBLIC_KEY };
        let ciphers = SessionCipher::ALL.map(SessionCipher::as_str).join(":");
        let certificate = self.settings.credential.chain().end_entity().x509.to_pem()?;
        let answer = write_buffer(
            step::SERVER_CERT,
            &[
                (bucket::CRYPTO_MODULE, b"ssl"),
                (bucket::MAIN, &main),
                (values_bucket, &half.values),
                (bucket::CIPHER_NAMES, ciphers.as_bytes()),
                (bucket::DIGEST_NAMES, DIGESTS),
                (bucket::CERTIFICATES, &certificate),
            ],
        );
        let options = number_of(message, bucket::OPTIONS).unwrap_or_default();
        self.state = State::Shown(Box::new(Shown {
            half,
            tag,
            is_signed,
            form,
            is_padded,
            signs_requests: options & OPTION_SIGNS_REQUESTS != 0,
            started_at: now,
        }));
        Ok(ServerStep::Continue(answer))
    }

    /// Takes the client's certificates.
    fn identify(&mut self, message: &Buffer<'_>, shown: Shown, now: UnixTime) -> Result<ServerStep, GsiError> {
        let cipher_name = text_of(message, bucket::CIPHER_NAMES, "a cipher")?;
        let cipher = cipher_of(cipher_name).ok_or_else(|| GsiError::Cipher(cipher_name.to_owned()))?;
        let public = message.get(bucket::PUBLIC_KEY).ok_or(GsiError::Missing("a public key"))?;
        let (values, signer) = if shown.is_signed {
            let signer = PKey::public_key_from_pem(public).map_err(|_| GsiError::Missing("a public key"))?;
            let signed = message.get(bucket::CIPHER).ok_or(GsiError::Missing("signed key values"))?;
            let values = raw_rsa::recover(&*usual_rsa(&signer)?, signed).ok_or(GsiError::Signature)?;
            (PeerValues::parse_value(&values)?, Some(signer))
        } else {
            (PeerValues::parse_value(public)?, None)
        };
        if !shown.half.take(&values)? {
            return Err(GsiError::Repeated);
        }
        let secret = shown.half.exchange.secret(&values, shown.is_padded)?;
        let init_vector = if shown.is_signed { InitVector::Sent } else { InitVector::Zero };
        let session_key = SessionKey::new(cipher, &secret, init_vector)?;

        // One error for all faults: details would reveal the content of an altered message to an attacker.
        let main = open_main(message, &session_key).map_err(|_| GsiError::Sealed)?;
        let main = Buffer::parse(&main).map_err(|_| GsiError::Sealed)?;
        let certificates = main.get(bucket::CERTIFICATES).ok_or(GsiError::Sealed)?;
        let chain = Chain::from_pem(certificates)?;
        self.settings.trust.verify(&chain, &self.settings.rules, now)?;
        if let Some(signer) = signer
            && !chain.leaf().public_key()?.public_eq(&signer)
        {
            return Err(GsiError::OtherKey);
        }
        shown.tag.check(&main, shown.form, &*rsa_of(chain.leaf())?)?;

        if self.settings.asks_delegation && shown.signs_requests && shown.is_signed {
            return self.ask(&main, chain, session_key, shown.form, shown.started_at);
        }
        Ok(done(chain, session_key, None))
    }

    /// Asks a client that is known for a proxy.
    fn ask(
        &mut self,
        main: &Buffer<'_>,
        chain: Chain,
        session_key: SessionKey,
        form: TagForm,
        started_at: UnixTime,
    ) -> Result<ServerStep, GsiError> {
        let tag = Tag::new()?;
        let signed_tag = |key| sign_tag(main, form, key).map_err(|error| error.to_string());
        let key = self.settings.credential.key().rsa()?;
        let request = ProxyRequest::new(&chain).map_err(|error| error.to_string());
        let (request, signed_tag) = match request.and_then(|request| Ok((request, signed_tag(&key)?))) {
            Ok(asked) => asked,
            Err(reason) => return Ok(done(chain, session_key, Some(Err(reason)))),
        };
        let main = write_buffer(
            step::SERVER_PXYREQ,
            &[(bucket::PROXY_REQUEST, request.pem()), (bucket::SIGNED_TAG, &signed_tag), (bucket::TAG, tag.as_bytes())],
        );
        let sealed = session_key.seal(&main)?;
        let question = write_buffer(step::SERVER_PXYREQ, &[(bucket::CRYPTO_MODULE, b"ssl"), (bucket::MAIN, &sealed)]);
        self.state = State::Asked(Box::new(Asked { chain, session_key, request, tag, form, started_at }));
        Ok(ServerStep::Continue(question))
    }

    /// Takes the client's proxy, or its excuse: the login succeeds in either case.
    fn finish(&self, message: &Buffer<'_>, asked: Asked, now: UnixTime) -> ServerStep {
        let delegated = self.delegated(message, &asked, now).map_err(|error| error.to_string());
        done(asked.chain, asked.session_key, Some(delegated))
    }

    fn delegated(&self, message: &Buffer<'_>, asked: &Asked, now: UnixTime) -> Result<Credential, Box<dyn Error>> {
        let main = open_main(message, &asked.session_key)?;
        let main = Buffer::parse(&main)?;
        let Some(proxy) = main.get(bucket::CERTIFICATES) else {
            let said = text_of(&main, bucket::MESSAGE, "a reason").unwrap_or("no reason given");
            return Err(said.chars().take(200).collect::<String>().escape_debug().to_string().into());
        };
        asked.tag.check(&main, asked.form, &*rsa_of(asked.chain.leaf())?)?;
        let credential = asked.request.take(proxy, &asked.chain)?;
        self.settings.trust.verify(credential.chain(), &self.settings.rules, now)?;
        Ok(credential)
    }
}

fn done(chain: Chain, session_key: SessionKey, delegated: Option<Result<Credential, String>>) -> ServerStep {
    ServerStep::Done(Box::new(GsiPeer { chain, session_key, delegated }))
}

fn check_time(started_at: UnixTime, now: UnixTime) -> Result<(), GsiError> {
    if now.seconds_since(started_at) > HANDSHAKE_S_MAX { Err(GsiError::TooSlow) } else { Ok(()) }
}
