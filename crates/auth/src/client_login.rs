//! A login at a server that wants proof of who we are: its protocols are tried in its order, with what we have.

use crate::gsi::GsiClient;
use crate::{
    Credentials, HOST_MESSAGE, Offer, OffersError, SecurityProtocol, SessionKey, SssParams, UnixTime, ZtnParams,
    parse_offers, sss_message, unix_message, ztn_message,
};
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Challenges of one login that are answered: handshakes have at most three.
const CHALLENGES_MAX: u32 = 16;

/// Where a login takes place.
#[derive(Clone, Debug)]
pub struct LoginPlace {
    /// The name by which the server is reached, which it must prove to have.
    pub host: String,
    /// Our end of the connection, as the server sees it.
    pub local: SocketAddr,
    /// Whether the server is on this machine.
    pub is_loopback: bool,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
}

/// A message for the server.
pub struct AuthMessage {
    /// The protocol that it is of.
    pub protocol: SecurityProtocol,
    /// The message; may hold a secret.
    pub bytes: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for AuthMessage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "AuthMessage({}, {} bytes)", self.protocol, self.bytes.len())
    }
}

/// Why we could not log in.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LoginError {
    #[error("the server's list of security protocols: {0}")]
    Offers(#[from] OffersError),
    #[error("it accepts {offered}; {tried}")]
    NoWay { offered: String, tried: String },
    #[error("it still sends challenges after {CHALLENGES_MAX} answers")]
    Endless,
}

/// A login under way: [`ClientLogin::begin_next`] gives the first message, and another one when the server has refused it;
/// [`ClientLogin::answer`] one for each challenge. Costs milliseconds of computing with certificates.
pub struct ClientLogin {
    credentials: Arc<Credentials>,
    place: LoginPlace,
    offered: String,
    offers: std::vec::IntoIter<Offer>,
    current: Option<Current>,
    /// The failures of the protocols that were tried.
    tried: Vec<String>,
    challenges: u32,
}

struct Current {
    protocol: SecurityProtocol,
    gsi: Option<GsiClient>,
}

impl ClientLogin {
    /// A login at a server that has sent `list`.
    ///
    /// # Errors
    /// When the list cannot be understood.
    pub fn new(list: &[u8], credentials: Arc<Credentials>, place: LoginPlace) -> Result<Self, LoginError> {
        let names = String::from_utf8_lossy(list);
        let names: Vec<_> = names.split("&P=").skip(1).filter_map(|item| item.split(',').next()).collect();
        let offered = names.join(", ").chars().take(200).flat_map(char::escape_debug).collect();
        let offers = parse_offers(list)?.into_iter();
        Ok(Self { credentials, place, offered, offers, current: None, tried: Vec::new(), challenges: 0 })
    }

    /// The first message of the next protocol that we have something for.
    ///
    /// # Errors
    /// When there is none left.
    pub fn begin_next(&mut self, now: UnixTime) -> Result<AuthMessage, LoginError> {
        while let Some(offer) = self.offers.next() {
            match self.begin(&offer, now) {
                Ok(message) => return Ok(message),
                Err(reason) => self.tried.push(format!("{}: {reason}", offer.protocol)),
            }
        }
        Err(self.no_way())
    }

    fn no_way(&self) -> LoginError {
        let tried = if self.tried.is_empty() { "none of them is known here".to_owned() } else { self.tried.join("; ") };
        LoginError::NoWay { offered: self.offered.clone(), tried }
    }

    /// The server has refused what was tried last, with these words.
    pub fn note_refusal(&mut self, words: &str) {
        if let Some(current) = self.current.take() {
            let words: String = words.chars().take(300).flat_map(char::escape_debug).collect();
            self.tried.push(format!("{}: refused: {words}", current.protocol));
        }
    }

    /// The answer to a challenge.
    ///
    /// # Errors
    /// When it cannot be answered, as with a server that has not proven to be the one that is asked: no other protocol is tried then,
    /// which could prove less. Also if the server continues to send challenges.
    pub fn answer(&mut self, challenge: &[u8], now: UnixTime) -> Result<AuthMessage, LoginError> {
        self.challenges += 1;
        if self.challenges > CHALLENGES_MAX {
            return Err(LoginError::Endless);
        }
        let reason = match &mut self.current {
            Some(Current { gsi: Some(gsi), protocol }) => match gsi.handle(challenge, now) {
                Ok(message) => return Ok(AuthMessage { protocol: *protocol, bytes: Zeroizing::new(message) }),
                Err(error) => error.to_string(),
            },
            Some(_) => "it asks for more than the protocol has".to_owned(),
            None => "it asks where nothing was begun".to_owned(),
        };
        let protocol = self.current.take().map_or_else(String::new, |current| format!("{}: ", current.protocol));
        self.tried.push(format!("{protocol}{reason}"));
        Err(self.no_way())
    }

    /// The server has accepted us: gives the key for signed requests, if the protocol makes one.
    ///
    /// # Errors
    /// When the server has accepted without proving itself, as its protocol demands.
    pub fn finish(self) -> Result<Option<SessionKey>, LoginError> {
        let Some(Current { gsi: Some(gsi), .. }) = self.current else { return Ok(None) };
        let early = |error: crate::gsi::GsiError| LoginError::NoWay { offered: self.offered, tried: error.to_string() };
        gsi.finish().map(Some).map_err(early)
    }

    fn begin(&mut self, offer: &Offer, now: UnixTime) -> Result<AuthMessage, Box<dyn Error>> {
        let (credentials, place) = (&*self.credentials, &self.place);
        let mut handshake = None;
        let bytes = match offer.protocol {
            SecurityProtocol::Gsi => {
                let settings = credentials.gsi.as_ref().ok_or("no certificate or proxy is configured")?;
                let (gsi, message) = GsiClient::start(Arc::clone(settings), &offer.params, &place.host, now)?;
                handshake = Some(gsi);
                Zeroizing::new(message)
            }
            SecurityProtocol::Ztn => {
                let has_token = credentials.token.is_some();
                let missing = if has_token { "tokens are sent over TLS only" } else { "no token is configured" };
                let token = credentials.token_for(place.is_tls, place.is_loopback).ok_or(missing)?;
                ztn_message(token, ZtnParams::parse(&offer.params)?)?
            }
            SecurityProtocol::Sss => {
                let key = credentials.secret.as_ref().ok_or("no shared secret is configured")?;
                let params = SssParams::parse(&offer.params)?;
                Zeroizing::new(sss_message(key, &credentials.user, place.local, &params, now)?)
            }
            SecurityProtocol::Unix | SecurityProtocol::Host if credentials.proves_only => {
                return Err("a claim without proof does not identify the client".into());
            }
            SecurityProtocol::Unix => Zeroizing::new(unix_message(&credentials.user, None)),
            SecurityProtocol::Host => Zeroizing::new(HOST_MESSAGE.to_vec()),
            SecurityProtocol::Tls => return Err("certificates are sent in the TLS handshake".into()),
        };
        self.current = Some(Current { protocol: offer.protocol, gsi: handshake });
        Ok(AuthMessage { protocol: offer.protocol, bytes })
    }
}

impl fmt::Debug for ClientLogin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let current = self.current.as_ref().map(|current| current.protocol);
        write!(out, "ClientLogin({}, {:?}, {current:?})", self.place.host, self.credentials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Token;

    fn login(list: &str, credentials: Credentials, is_tls: bool) -> ClientLogin {
        let local = SocketAddr::from(([192, 0, 2, 1], 40_000));
        let place = LoginPlace { host: "origin.example".to_owned(), local, is_loopback: false, is_tls };
        ClientLogin::new(list.as_bytes(), Arc::new(credentials), place).unwrap()
    }

    fn with_token() -> Credentials {
        Credentials::anonymous("cache").with_token(Token::parse(b"a.b.c").unwrap())
    }

    const NOW: UnixTime = UnixTime(1_790_000_000);

    #[test]
    fn protocols_are_tried_in_the_servers_order_until_one_is_accepted() {
        let mut login = login("&P=gsi,v:10400,c:ssl,ca:1&P=ztn,0:4096:&P=unix", with_token(), true);
        let message = login.begin_next(NOW).unwrap();
        assert_eq!(message.protocol, SecurityProtocol::Ztn);
        assert!(message.bytes.windows(5).any(|window| window == b"a.b.c"));
        login.note_refusal("token expired");
        assert_eq!(login.begin_next(NOW).unwrap().protocol, SecurityProtocol::Unix);
        login.note_refusal("no");
        let error = login.begin_next(NOW).unwrap_err().to_string();
        for part in ["gsi, ztn, unix", "no certificate or proxy", "token expired"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn without_a_suitable_proof_there_is_no_login() {
        for (list, credentials, reasons) in [
            ("&P=ztn,0:4096:", with_token(), &["over TLS only"][..]),
            ("&P=krb5,a@b", Credentials::anonymous("cache"), &["krb5", "known"]),
            ("&P=unix&P=host", Credentials::of_client(), &["a claim without proof"]),
        ] {
            let error = login(list, credentials, false).begin_next(NOW).unwrap_err().to_string();
            assert!(reasons.iter().all(|reason| error.contains(reason)), "{error}");
        }
        assert!(login("&P=unix", Credentials::anonymous("cache"), false).finish().unwrap().is_none());
    }

    #[test]
    fn a_server_whose_challenge_makes_no_sense_gets_no_weaker_proof() {
        let mut login = login("&P=unix&P=host", Credentials::anonymous("cache"), false);
        login.begin_next(NOW).unwrap();
        assert!(login.answer(b"more", NOW).unwrap_err().to_string().contains("unix: it asks for more"));
    }
}
