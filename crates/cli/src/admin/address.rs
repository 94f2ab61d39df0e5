//! The address of the server's admin port.

use super::AdminArgs;
use crate::failure::UsageError;
use forebay_admin::TokenFile;
use forebay_config::Settings;
use std::{fmt, path::PathBuf};

/// The socket of the packaged systemd unit.
const SOCKET_DEFAULT: &str = "/run/forebay/admin.sock";

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Address {
    Socket(PathBuf),
    /// HTTP at `HOST:PORT`.
    Http {
        authority: String,
        token: Option<String>,
    },
}

impl Address {
    /// The admin port given by the arguments; default: the usual socket.
    pub(super) fn choose(args: &AdminArgs) -> anyhow::Result<Self> {
        let (mut address, mut token_file) = match (&args.admin, &args.config) {
            (Some(text), _) => (Self::parse(text)?, None),
            (None, Some(file)) => configured(&Settings::read(file)?)?,
            (None, None) => (Self::Socket(SOCKET_DEFAULT.into()), None),
        };
        if let Some(path) = &args.token_file {
            token_file = Some(path.clone());
        }
        if let (Self::Http { token, .. }, Some(path)) = (&mut address, token_file) {
            *token = Some(TokenFile::new(path).read().map_err(UsageError)?);
        }
        Ok(address)
    }

    /// The admin port of a configuration, or the usual socket if it has none.
    pub(super) fn of(settings: &Settings) -> anyhow::Result<Self> {
        let Ok((mut address, token_file)) = configured(settings) else {
            return Ok(Self::Socket(SOCKET_DEFAULT.into()));
        };
        if let (Self::Http { token, .. }, Some(path)) = (&mut address, token_file) {
            *token = Some(TokenFile::new(path).read().map_err(UsageError)?);
        }
        Ok(address)
    }

    /// Parses `http://HOST:PORT`, `unix:PATH` or a path.
    fn parse(text: &str) -> Result<Self, UsageError> {
        let usage = || {
            UsageError(format!(
                "invalid admin port `{text}`: the form of --admin and FOREBAY_ADMIN is /path/to/socket or http://HOST:PORT"
            ))
        };
        if let Some(rest) = text.strip_prefix("http://") {
            let authority = rest.trim_end_matches('/');
            let port = authority.rsplit_once(':').and_then(|(host, port)| Some(port).filter(|_| !host.is_empty()));
            return match port.map(str::parse::<u16>) {
                Some(Ok(1..)) if !authority.contains('/') => {
                    Ok(Self::Http { authority: authority.to_owned(), token: None })
                }
                _ => Err(usage()),
            };
        }
        let path = text.strip_prefix("unix:").unwrap_or(text);
        if path.is_empty() || path.contains("://") { Err(usage()) } else { Ok(Self::Socket(path.into())) }
    }
}

/// The admin port of a configuration: its socket, otherwise its address and token file.
fn configured(settings: &Settings) -> anyhow::Result<(Address, Option<PathBuf>)> {
    let admin = &settings.config.admin;
    match (&admin.socket, admin.listen) {
        (Some(socket), _) => Ok((Address::Socket(socket.clone()), None)),
        (None, Some(address)) if address.port() != 0 => {
            let authority = if address.ip().is_unspecified() {
                format!("localhost:{}", address.port())
            } else {
                address.to_string()
            };
            Ok((Address::Http { authority, token: None }, admin.token_file.clone()))
        }
        _ => Err(settings.error_at("admin.socket", "this server has no fixed admin port: set admin.socket").into()),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Http { authority, .. } => write!(f, "http://{authority}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_and_urls_are_distinguished() {
        let http = |authority: &str| Address::Http { authority: authority.to_owned(), token: None };
        for (text, address) in [
            ("/run/a.sock", Address::Socket("/run/a.sock".into())),
            ("unix:/run/a.sock", Address::Socket("/run/a.sock".into())),
            ("a.sock", Address::Socket("a.sock".into())),
            ("http://h:9090", http("h:9090")),
            ("http://[::1]:9090/", http("[::1]:9090")),
        ] {
            assert_eq!(Address::parse(text).unwrap(), address, "{text}");
        }
        for text in ["", "unix:", "http://", "http://h", "http://:9", "http://h:0", "http://h:9/x", "https://h:9"] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_socket_of_a_configuration_takes_precedence() {
        let of = |admin: &str| {
            let text = format!("[admin]\n{admin}\n[[export]]\ndirectory = \"/\"\n");
            configured(&Settings::parse("test.toml".as_ref(), text).unwrap())
        };
        let socket = (Address::Socket("/s".into()), None);
        assert_eq!(of("listen = \"127.0.0.1:9\"\nsocket = \"/s\"").unwrap(), socket);
        let (address, token_file) = of("listen = \"0.0.0.0:9\"\ntoken_file = \"/t\"").unwrap();
        assert_eq!((address.to_string().as_str(), token_file), ("http://localhost:9", Some("/t".into())));
        assert!(of("").is_err());
        assert!(of("listen = \"127.0.0.1:0\"").is_err());
    }
}
