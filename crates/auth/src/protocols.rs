//! The list of security protocols that a server sends at login, per client.

use forebay_types::{glob_matches, named_enum};

/// Longest list in bytes: stock clients keep it in 4096, with a NUL.
pub const OFFERS_LEN_MAX: usize = 4095;

/// Most protocols of a list that are read.
pub const OFFERS_MAX: usize = 16;

/// Most bindings of hosts to protocols.
pub const BINDINGS_MAX: usize = 1024;

/// Longest name of a protocol in bytes, as all peers have it.
const NAME_LEN_MAX: usize = 7;

/// Prefix of each protocol of a list.
const MARK: &str = "&P=";

named_enum! {
    /// A security protocol that is spoken here, the strongest first.
    pub enum SecurityProtocol {
        /// Certificates, in a handshake of its own.
        Gsi = "gsi",
        /// Certificates, in the TLS handshake: no part of a login, and never on a list.
        Tls = "tls",
        /// Tokens, over TLS only.
        Ztn = "ztn",
        Sss = "sss",
        Unix = "unix",
        Host = "host",
    }
}

impl SecurityProtocol {
    /// The protocol that credentials are of: its name, filled up with NULs.
    pub fn from_credential_type(padded: [u8; 4]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .filter(|protocol| protocol.is_of_login())
            .find(|protocol| protocol.credential_type() == padded)
    }

    /// The credential type of the protocol in requests.
    pub fn credential_type(self) -> [u8; 4] {
        let mut padded = [0; 4];
        padded.iter_mut().zip(self.as_str().bytes()).for_each(|(to, from)| *to = from);
        padded
    }

    /// Whether both sides use it over TLS only.
    pub const fn needs_tls(self) -> bool {
        matches!(self, Self::Ztn | Self::Tls)
    }

    /// Whether it is spoken at login.
    pub const fn is_of_login(self) -> bool {
        !matches!(self, Self::Tls)
    }
}

/// One protocol of a server's list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Offer {
    pub protocol: SecurityProtocol,
    /// Its parameters; may be empty.
    pub params: String,
}

/// Why a list was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OffersError {
    #[error("the list of security protocols has {len} bytes, at most {OFFERS_LEN_MAX} are possible")]
    TooLong { len: usize },
    #[error("the list of security protocols is malformed")]
    Malformed,
    #[error("the list of security protocols has more than {OFFERS_MAX}")]
    TooMany,
}

/// The list as a server sends it, in order of preference.
///
/// # Errors
/// When it gets too long, or parameters hold what would begin another protocol.
pub fn write_offers(offers: &[Offer]) -> Result<String, OffersError> {
    let mut text = String::new();
    for Offer { protocol, params } in offers {
        if params.contains(MARK) || !params.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
            return Err(OffersError::Malformed);
        }
        let comma = if params.is_empty() { "" } else { "," };
        text.push_str(&format!("{MARK}{protocol}{comma}{params}"));
    }
    if text.len() > OFFERS_LEN_MAX { Err(OffersError::TooLong { len: text.len() }) } else { Ok(text) }
}

/// The protocols of a server's list that are spoken here, in its order. A NUL ends the list.
///
/// # Errors
/// When it is too long or of another form.
pub fn parse_offers(list: &[u8]) -> Result<Vec<Offer>, OffersError> {
    let list = list.split(|&byte| byte == 0).next().unwrap_or_default();
    if list.len() > OFFERS_LEN_MAX {
        return Err(OffersError::TooLong { len: list.len() });
    }
    let text = std::str::from_utf8(list).map_err(|_| OffersError::Malformed)?.trim_ascii();
    let mut items = text.split(MARK);
    if items.next().is_some_and(|before| !before.is_empty()) {
        return Err(OffersError::Malformed);
    }
    let mut offers = Vec::new();
    for (item, number) in items.zip(1..) {
        if number > OFFERS_MAX {
            return Err(OffersError::TooMany);
        }
        let (name, params) = item.split_once(',').unwrap_or((item, ""));
        if !(1..=NAME_LEN_MAX).contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(OffersError::Malformed);
        }
        if let Some(protocol) = SecurityProtocol::from_name(name).filter(|protocol| protocol.is_of_login()) {
            offers.push(Offer { protocol, params: params.trim_ascii().to_owned() });
        }
    }
    Ok(offers)
}

/// Protocols for clients. The first matching binding applies; without one, all configured protocols are offered.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Bindings {
    bindings: Vec<Binding>,
}

/// Protocols for some clients. Others are neither offered to them nor accepted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Binding {
    /// Name or address of the hosts; `*` matches any run of characters.
    pub hosts: String,
    /// In order of preference; empty to admit these clients without authentication.
    pub protocols: Vec<SecurityProtocol>,
}

/// More bindings than [`BINDINGS_MAX`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{count} bindings of hosts to security protocols are more than {BINDINGS_MAX}")]
pub struct TooManyBindings {
    pub count: usize,
}

impl Bindings {
    /// A list of bindings; capitals in host patterns do not count.
    ///
    /// # Errors
    /// When there are too many.
    pub fn new(mut bindings: Vec<Binding>) -> Result<Self, TooManyBindings> {
        if bindings.len() > BINDINGS_MAX {
            return Err(TooManyBindings { count: bindings.len() });
        }
        bindings.iter_mut().for_each(|binding| binding.hosts.make_ascii_lowercase());
        Ok(Self { bindings })
    }

    /// The protocols for a client: known by its address and, if the resolver knows it, by its name. `configured` are all that
    /// there are, in order of preference; what is bound but not among them is left out, and what needs TLS as well when there
    /// is none. An empty result of a binding without protocols means that none is wanted; see [`Permitted`].
    #[must_use]
    pub fn permitted(
        &self,
        address: &str,
        host: Option<&str>,
        configured: &[SecurityProtocol],
        is_tls: bool,
    ) -> Permitted {
        let names = [Some(address), host].map(|name| name.map(str::to_ascii_lowercase));
        let is_for = |binding: &&Binding| {
            names.iter().flatten().any(|name| glob_matches(binding.hosts.as_bytes(), name.as_bytes()))
        };
        let bound = self.bindings.iter().find(is_for).map(|binding| binding.protocols.as_slice());
        let wanted = bound.unwrap_or(configured);
        if wanted.is_empty() {
            return Permitted::All;
        }
        let is_possible =
            |protocol: &SecurityProtocol| configured.contains(protocol) && (is_tls || !protocol.needs_tls());
        Permitted::Only(wanted.iter().copied().filter(is_possible).collect())
    }
}

/// The authentication that a client needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Permitted {
    All,
    /// With one of these protocols; if there are none, the client is refused.
    Only(Vec<SecurityProtocol>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use SecurityProtocol::{Gsi, Host, Sss, Tls, Unix, Ztn};

    fn offer(protocol: SecurityProtocol, params: &str) -> Offer {
        Offer { protocol, params: params.to_owned() }
    }

    #[test]
    fn lists_have_the_form_of_stock_servers_and_unknown_protocols_are_skipped() {
        let offers = [offer(Ztn, "0:4096:"), offer(Gsi, "v:10600,c:ssl,ca:7a6b8617.0|7949e599.0"), offer(Unix, "")];
        let text = write_offers(&offers).unwrap();
        assert_eq!(text, "&P=ztn,0:4096:&P=gsi,v:10600,c:ssl,ca:7a6b8617.0|7949e599.0&P=unix");
        assert_eq!(parse_offers(text.as_bytes()).unwrap(), offers);
        assert_eq!(parse_offers(format!("{text}\0rest").as_bytes()).unwrap(), offers);
        assert_eq!(parse_offers(b"&P=krb5,x&P=host&P=pwd&P=tls").unwrap(), [offer(Host, "")]);
        assert_eq!(parse_offers(b"").unwrap(), []);
        assert_eq!(parse_offers(b"&P=gsi, v:1 &P=krb5").unwrap(), [offer(Gsi, "v:1")]);
    }

    #[test]
    fn lists_of_other_forms_are_neither_read_nor_written() {
        for list in ["x", "gsi", "P=gsi", "&P=", "&P=,x", "&P=eightxxx", "&P=g i", "x&P=gsi"] {
            assert_eq!(parse_offers(list.as_bytes()), Err(OffersError::Malformed), "{list}");
        }
        assert_eq!(parse_offers(b"&P=gsi,\xff"), Err(OffersError::Malformed));
        assert!(parse_offers("&P=host".repeat(OFFERS_MAX).as_bytes()).is_ok());
        assert_eq!(parse_offers("&P=host".repeat(OFFERS_MAX + 1).as_bytes()), Err(OffersError::TooMany));
        let longest = format!("&P=gsi,{}", "x".repeat(OFFERS_LEN_MAX - 7));
        assert!(parse_offers(longest.as_bytes()).is_ok());
        assert_eq!(
            parse_offers(format!("{longest}x").as_bytes()),
            Err(OffersError::TooLong { len: OFFERS_LEN_MAX + 1 })
        );
        for params in ["a&P=b", "a\0", "a\n"] {
            assert_eq!(write_offers(&[offer(Sss, params)]), Err(OffersError::Malformed), "{params:?}");
        }
        assert!(write_offers(&[offer(Gsi, &longest[7..])]).is_ok());
        assert!(write_offers(&[offer(Gsi, &longest[6..])]).is_err());
    }

    #[test]
    fn credentials_name_their_protocol() {
        for protocol in SecurityProtocol::ALL {
            let expected = (protocol != Tls).then_some(protocol);
            assert_eq!(SecurityProtocol::from_credential_type(protocol.credential_type()), expected);
        }
        assert_eq!(SecurityProtocol::from_credential_type(*b"gsi\0"), Some(Gsi));
        assert_eq!(SecurityProtocol::from_credential_type(*b"gsix"), None);
        assert_eq!(SecurityProtocol::from_credential_type(*b"krb5"), None);
    }

    #[test]
    fn the_first_binding_that_matches_applies() {
        let binding = |hosts: &str, protocols: &[SecurityProtocol]| Binding {
            hosts: hosts.to_owned(),
            protocols: protocols.to_vec(),
        };
        let bindings = Bindings::new(vec![
            binding("192.0.2.*", &[]),
            binding("WN*.site.org", &[Sss, Ztn, Host]),
            binding("*.site.org", &[Gsi]),
        ])
        .unwrap();
        let permitted = |address: &str, host, is_tls| bindings.permitted(address, host, &[Ztn, Gsi, Sss], is_tls);
        assert_eq!(permitted("192.0.2.1", Some("wn1.site.org"), true), Permitted::All);
        assert_eq!(permitted("::1", Some("Wn1.Site.org"), true), Permitted::Only(vec![Sss, Ztn]));
        assert_eq!(permitted("::1", Some("wn1.site.org"), false), Permitted::Only(vec![Sss]));
        assert_eq!(permitted("::1", Some("ui.site.org"), true), Permitted::Only(vec![Gsi]));
        assert_eq!(permitted("::1", None, true), Permitted::Only(vec![Ztn, Gsi, Sss]));
        assert_eq!(permitted("::1", Some("ui.site.org.evil"), false), Permitted::Only(vec![Gsi, Sss]));
        // Protocols that are bound and cannot be used admit no client.
        let only_tokens = Binding { hosts: "*".to_owned(), protocols: vec![Ztn] };
        let bindings = Bindings::new(vec![only_tokens]).unwrap();
        assert_eq!(bindings.permitted("::1", None, &[Ztn, Gsi], false), Permitted::Only(vec![]));
        assert_eq!(Bindings::default().permitted("::1", None, &[], false), Permitted::All);
    }
}
