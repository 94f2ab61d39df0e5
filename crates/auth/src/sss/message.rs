//! Messages of clients, and what they prove.

use super::cipher;
use super::keytab::{Keytab, NAME_LEN_MAX, SssKey};
use super::seen::SssSeen;
use crate::{Fqan, Identity, Method, UnixTime};
use openssl::error::ErrorStack;
use openssl::rand::rand_bytes;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use zeroize::Zeroizing;

/// Bytes before the key's name: protocol, padding, length of the name, cipher, number of the key.
const HEADER_LEN: usize = 16;

/// Bytes before the items, inside of the seal: random bytes, time, padding, option.
const INNER_HEADER_LEN: usize = 40;
const RANDOM_LEN: usize = 32;

/// Most bytes of items, and least of all that is sealed: shorter ones are filled up.
const ITEMS_LEN_MAX: usize = 16_344;
const INNER_LEN_MIN: usize = 128;

/// Most attributes that are taken from a message.
const ATTRIBUTES_MAX: usize = 128;

/// The time that messages count from: 2008-09-23 16:58:00 UTC.
const EPOCH: UnixTime = UnixTime(1_222_183_880);

const BLOWFISH: u8 = b'0';

/// Options: the message says who its sender is, or asks how it is called here.
const OPTION_DATA: u8 = 0;
const OPTION_ASKS_LOGIN: u8 = 1;

const NAME: u8 = 0x01;
const GROUPS: u8 = 0x04;
const ENDORSEMENTS: u8 = 0x05;
const FILLER: u8 = 0x07;
const LOGIN: u8 = 0x10;
const HOST: u8 = 0x20;

/// The parameters of a server in the list of security protocols: `0.+LIFETIME:KEYTAB`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SssParams {
    /// Whether it knows the second version of the protocol: names of keys.
    pub is_v2: bool,
    /// How long messages are good, seconds.
    pub lifetime_seconds: u32,
    /// The keytab that the stock client uses by default.
    pub keytab: String,
}

/// Where a client is.
#[derive(Clone, Copy, Debug)]
pub struct SssPeer<'a> {
    /// Where its connection comes from.
    pub address: SocketAddr,
    /// Host name, if the resolver knows it.
    pub host: &'a str,
}

/// The result of a message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SssStep {
    /// It proves who the client is.
    Done(Box<Identity>),
    /// The client asks under which name it logged in: this is the answer, and another message follows.
    Answer(Vec<u8>),
}

/// Why a message was refused.
#[derive(Debug, thiserror::Error)]
pub enum SssError {
    #[error("sss: the message is cut off")]
    Truncated,
    #[error("sss: the message has {len} bytes, which is too long")]
    TooLong { len: usize },
    #[error("sss: the message is of another protocol, cipher or version")]
    Foreign,
    #[error("sss: the keytab has no valid key {id}; do both sides use the same keytab?")]
    UnknownKey { id: i64 },
    #[error("sss: the message was not sealed with key {id} of this keytab")]
    Seal { id: i64 },
    #[error(
        "sss: the message was made {age_seconds} s ago, and is good for {lifetime_seconds}: are both clocks right?"
    )]
    Expired { age_seconds: i64, lifetime_seconds: u32 },
    #[error("sss: the sender in the message is malformed")]
    Items,
    #[error("sss: the message does not say who its sender is")]
    Anonymous,
    #[error("sss: the message was made at {made_at}, and comes from {from}")]
    Host { made_at: String, from: SocketAddr },
    #[error("sss: the message was used before")]
    Replayed,
    #[error("sss: the message is a server's answer")]
    Reflected,
    #[error("sss: too many logins at the same time, try again in some seconds")]
    TooMany,
    #[error("sss: the server's parameters are not of the form 0.+LIFETIME:KEYTAB")]
    Params,
    #[error("the crypto library gave no random bytes")]
    Library(#[from] ErrorStack),
}

impl SssParams {
    /// The text in the server's list.
    pub fn to_text(&self) -> String {
        format!("0.{}{}:{}", if self.is_v2 { "+" } else { "" }, self.lifetime_seconds, self.keytab)
    }

    /// Reads the text in a server's list.
    ///
    /// # Errors
    /// When it is of another form.
    pub fn parse(text: &str) -> Result<Self, SssError> {
        let rest = text.strip_prefix("0.").ok_or(SssError::Params)?;
        let (lifetime, keytab) = rest.split_once(':').ok_or(SssError::Params)?;
        let seconds: u32 = lifetime.strip_prefix('+').unwrap_or(lifetime).parse().map_err(|_| SssError::Params)?;
        if seconds == 0 {
            return Err(SssError::Params);
        }
        Ok(Self { is_v2: lifetime.starts_with('+'), lifetime_seconds: seconds, keytab: keytab.to_owned() })
    }
}

/// The message of a client that is `user`, sealed with `key` at `now`. It is good for the server's lifetime only, and on the
/// connection from `local` only, which must be as the server sees it.
///
/// # Errors
/// When the crypto library fails.
pub fn sss_message(
    key: &SssKey,
    user: &str,
    local: SocketAddr,
    server: &SssParams,
    now: UnixTime,
) -> Result<Vec<u8>, SssError> {
    let mut items = Vec::new();
    push_item(&mut items, HOST, format!("[{}]:{}", as_ipv6(local.ip()), local.port()).as_bytes())?;
    push_item(&mut items, NAME, user.as_bytes())?;
    if let Some(missing) = INNER_LEN_MIN.checked_sub(INNER_HEADER_LEN + items.len()).filter(|&missing| missing > 0) {
        let mut filler = vec![0; missing];
        rand_bytes(&mut filler)?;
        // An item that begins with a NUL counts as empty.
        filler.iter_mut().for_each(|byte| *byte |= 1);
        push_item(&mut items, FILLER, &filler)?;
    }
    seal(key, server.is_v2.then_some(key.name.as_str()), OPTION_DATA, &items, now)
}

/// Verifies a client's message, which none of those `seen` may be. `login` is the name that the client logged in with, should it ask.
///
/// # Errors
/// Says why it was refused; nothing of it that is secret.
pub fn verify_sss_message(
    message: &[u8],
    keytab: &Keytab,
    lifetime_seconds: u32,
    seen: &SssSeen,
    peer: &SssPeer<'_>,
    login: &str,
    now: UnixTime,
) -> Result<SssStep, SssError> {
    if message.len() > HEADER_LEN + NAME_LEN_MAX + INNER_HEADER_LEN + ITEMS_LEN_MAX + cipher::OVERHEAD {
        return Err(SssError::TooLong { len: message.len() });
    }
    let (header, rest) = message.split_first_chunk::<HEADER_LEN>().ok_or(SssError::Truncated)?;
    let [b's', b's', b's', 0, _, _, name_len, BLOWFISH, id @ ..] = *header else { return Err(SssError::Foreign) };
    let (name, sealed) = rest.split_at_checked(usize::from(name_len)).ok_or(SssError::Truncated)?;
    let name = key_name(name)?;
    let id = i64::from_be_bytes(id);
    let key = keytab.named(id, name, now).ok_or(SssError::UnknownKey { id })?;
    let inner = cipher::open(&key.secret, sealed).ok_or(SssError::Seal { id })?;
    let (inner_header, items) = inner.split_first_chunk::<INNER_HEADER_LEN>().ok_or(SssError::Truncated)?;
    let [.., t0, t1, t2, t3, _, _, _, option] = *inner_header;
    let made_at = EPOCH.plus(u32::from_be_bytes([t0, t1, t2, t3]).into());
    let age_seconds = now.seconds_since(made_at);
    if age_seconds.unsigned_abs() >= lifetime_seconds.into() {
        return Err(SssError::Expired { age_seconds, lifetime_seconds });
    }
    let (random, _) = inner_header.split_at(RANDOM_LEN);
    let note = || seen.note(id, random, made_at.plus(lifetime_seconds.into()), now);
    match option {
        OPTION_DATA => {
            let identity = Claims::parse(items)?.identity(key, peer)?;
            note()?;
            Ok(SssStep::Done(Box::new(identity)))
        }
        OPTION_ASKS_LOGIN => {
            note()?;
            let mut items = Vec::new();
            push_item(&mut items, LOGIN, if login.is_empty() { b"nobody" } else { login.as_bytes() })?;
            Ok(SssStep::Answer(seal(key, name, OPTION_DATA, &items, now)?))
        }
        _ => Err(SssError::Foreign),
    }
}

/// The sender in a message.
#[derive(Default)]
struct Claims<'a> {
    count: usize,
    name: Option<&'a str>,
    groups: Option<&'a str>,
    endorsements: Option<&'a str>,
    address: Option<&'a str>,
    host: Option<&'a str>,
}

impl<'a> Claims<'a> {
    fn parse(mut items: &'a [u8]) -> Result<Self, SssError> {
        let mut claims = Self::default();
        while let [kind, high, low, rest @ ..] = items {
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            let (value, rest) = rest.split_at_checked(len).ok_or(SssError::Items)?;
            items = rest;
            claims.count += usize::from(*kind != FILLER);
            match *kind {
                NAME => claims.name = Some(text(value)?),
                GROUPS => claims.groups = Some(text(value)?),
                ENDORSEMENTS => claims.endorsements = Some(text(value)?),
                LOGIN => return Err(SssError::Reflected),
                HOST if value.starts_with(b"[") => claims.address = Some(text(value)?),
                HOST => claims.host = Some(text(value)?),
                _ => {}
            }
        }
        if items.is_empty() { Ok(claims) } else { Err(SssError::Items) }
    }

    fn identity(&self, key: &SssKey, peer: &SssPeer<'_>) -> Result<Identity, SssError> {
        if self.count == 0 {
            return Err(SssError::Anonymous);
        }
        if !key.lets_come_from_anywhere() && !self.is_from(peer) {
            let made_at = self.address.or(self.host).unwrap_or_default().to_owned();
            return Err(SssError::Host { made_at, from: peer.address });
        }
        let mut identity = Identity::of(Method::Sss, peer.host);
        identity.issuer = Some(key.name.clone());
        identity.expires_at = key.expires_at;
        let says_who = key.lets_name_users();
        identity.user = Some(if says_who { self.name.unwrap_or("nobody") } else { &key.user }.to_owned());
        let groups = match key.group.as_str() {
            "usrgroup" | "nogroup" => "",
            "anygroup" => self.groups.unwrap_or_default(),
            group => group,
        };
        identity.groups = groups.split([' ', ',']).filter(|group| !group.is_empty()).map(str::to_owned).collect();
        if says_who && key.group == "anygroup" {
            let endorsements = self.endorsements.unwrap_or_default().split(',').map(Fqan::parse);
            identity.attributes = endorsements.filter_map(Result::ok).take(ATTRIBUTES_MAX).collect();
        }
        Ok(identity)
    }

    /// An address counts before a name: hosts have several names.
    fn is_from(&self, peer: &SssPeer<'_>) -> bool {
        match (self.address, self.host) {
            (Some(address), _) => is_address_of(address, peer.address),
            (None, Some(host)) => host.eq_ignore_ascii_case(peer.host),
            (None, None) => false,
        }
    }
}

/// Whether `text`, an address in brackets, is that of a peer; with a port after the brackets, only on that connection. Stock
/// clients write addresses of IPv4 in one of the two forms that they have in IPv6, and 5.5.3 writes the port.
fn is_address_of(text: &str, peer: SocketAddr) -> bool {
    let Some((made_at, port)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) else { return false };
    let Ok(made_at) = made_at.parse::<IpAddr>() else { return false };
    let is_port = port.is_empty() || port.strip_prefix(':').and_then(|port| port.parse().ok()) == Some(peer.port());
    let is_address = match (made_at.to_canonical(), peer.ip().to_canonical()) {
        (IpAddr::V6(made_at), IpAddr::V4(peer)) => made_at.to_ipv4() == Some(peer),
        (made_at, peer) => made_at == peer,
    };
    is_address && is_port
}

fn as_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// The name of the key in a header; messages of the first version have none.
fn key_name(padded: &[u8]) -> Result<Option<&str>, SssError> {
    if padded.is_empty() {
        return Ok(None);
    }
    if padded.len() > NAME_LEN_MAX || !padded.len().is_multiple_of(8) {
        return Err(SssError::Foreign);
    }
    let name = padded.split(|&byte| byte == 0).next().unwrap_or_default();
    std::str::from_utf8(name).map(Some).map_err(|_| SssError::Foreign)
}

fn text(value: &[u8]) -> Result<&str, SssError> {
    let text = value.strip_suffix(b"\0").and_then(|text| std::str::from_utf8(text).ok());
    text.filter(|text| !text.is_empty() && !text.contains(char::is_control)).ok_or(SssError::Items)
}

/// Appends an item; texts end with a NUL.
fn push_item(items: &mut Vec<u8>, kind: u8, value: &[u8]) -> Result<(), SssError> {
    let len = value.len() + 1;
    if items.len() + len + 3 > ITEMS_LEN_MAX {
        return Err(SssError::TooLong { len });
    }
    let len = u16::try_from(len).map_err(|_| SssError::TooLong { len })?;
    items.push(kind);
    items.extend(len.to_be_bytes());
    items.extend(value);
    items.push(0);
    Ok(())
}

fn seal(key: &SssKey, name: Option<&str>, option: u8, items: &[u8], now: UnixTime) -> Result<Vec<u8>, SssError> {
    let mut random = Zeroizing::new([0; RANDOM_LEN]);
    rand_bytes(random.as_mut())?;
    let time = u32::try_from(now.seconds_since(EPOCH)).unwrap_or_default();
    let inner = Zeroizing::new([random.as_slice(), &time.to_be_bytes(), &[0, 0, 0, option], items].concat());
    let sealed = cipher::seal(&key.secret, &inner).ok_or(SssError::Seal { id: key.id })?;
    // The name fills eights of bytes, of which the last is a NUL.
    let mut padded = name.unwrap_or_default().as_bytes().to_vec();
    if name.is_some() {
        padded.resize((padded.len() + 8) & !7, 0);
    }
    let name_len = u8::try_from(padded.len()).map_err(|_| SssError::TooLong { len: padded.len() })?;
    let id = key.id.to_be_bytes();
    Ok([b"sss\0\0\0".as_slice(), &[name_len, BLOWFISH], &id, &padded, &sealed].concat())
}
