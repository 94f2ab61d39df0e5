//! How servers are configured that encrypt, or want to know who comes.

use super::row::Security;
use crate::grid::{
    AUDIENCE, CA_DIR, CA_FILE, Grid, HOST_CERTIFICATE, HOST_KEY, ISSUER, KEYTAB, ORGANIZATION, TOKEN_CACHE, TOKEN_KEYS,
    TOKEN_LIBRARY, VOMS_DIR,
};
use crate::load::Entry;
use anyhow::Result;
use std::ffi::OsString;
use std::path::PathBuf;

/// The security of a server, with the files it needs.
#[derive(Clone, Copy)]
pub(crate) enum Guard<'a> {
    None,
    /// It encrypts for clients that ask for it.
    Tls(&'a Grid),
    /// It wants proof of who comes, and encrypts for clients that ask for it.
    Proof(&'a Grid),
}

impl<'a> Guard<'a> {
    /// The security of a row; it needs a grid unless there is none.
    pub(crate) fn new(security: Security, grid: Option<&'a Grid>) -> Option<Self> {
        match security {
            Security::None => Some(Self::None),
            Security::Tls => grid.map(Self::Tls),
            Security::Proof => grid.map(Self::Proof),
        }
    }

    const fn grid(self) -> Option<&'a Grid> {
        match self {
            Self::None => None,
            Self::Tls(grid) | Self::Proof(grid) => Some(grid),
        }
    }

    /// A client that such a server lets in.
    pub(crate) fn entry(self) -> Entry {
        match self {
            Self::None | Self::Tls(_) => Entry::default(),
            Self::Proof(grid) => grid.with_secret(),
        }
    }

    /// Lines of a configuration of the reference server.
    ///
    /// Everything that could be switched off is left as the distribution has it, but for what depends on the world outside: lists
    /// of accounts and revoked certificates.
    pub(crate) fn xrootd_lines(self) -> String {
        let Some(grid) = self.grid() else { return String::new() };
        let path = |name| grid.path(name).display().to_string();
        let (certificate, key, authorities) = (path(HOST_CERTIFICATE), path(HOST_KEY), path(CA_DIR));
        let tls = format!("xrd.tls {certificate} {key}\nxrd.tlsca certdir {authorities}\nxrootd.tls capable all\n");
        match self {
            Self::None | Self::Tls(_) => tls,
            Self::Proof(_) => format!(
                "{tls}xrootd.seclib libXrdSec.so\n\
                 sec.protocol gsi -certdir:{authorities} -cert:{certificate} -key:{key} -gmapopt:nomap \
                 -vomsat:extract -vomsfun:default\n\
                 sec.protocol sss -s {}\n\
                 sec.protocol ztn\n\
                 ofs.authorize\nofs.authlib libXrdAccSciTokens.so config={}\n",
                path(KEYTAB),
                path(TOKEN_LIBRARY),
            ),
        }
    }

    /// The environment variables of the reference server.
    pub(crate) fn xrootd_env(self) -> Vec<(OsString, OsString)> {
        let Some(grid) = self.grid() else { return Vec::new() };
        let set = |name: &str, path: PathBuf| (name.into(), path.into_os_string());
        vec![
            set("X509_CERT_DIR", grid.path(CA_DIR)),
            // Otherwise the library for attributes reads the operating system's authorities at each login: 40 ms.
            set("SSL_CERT_FILE", grid.path(CA_FILE)),
            set("X509_VOMS_DIR", grid.path(VOMS_DIR)),
            set("XDG_CACHE_HOME", grid.path(TOKEN_CACHE)),
        ]
    }

    /// Tables of a configuration of Forebay.
    pub(crate) fn forebay_tables(self) -> Result<String> {
        let Some(grid) = self.grid() else { return Ok(String::new()) };
        let path = |name| Ok::<_, anyhow::Error>(serde_json::to_string(&grid.path(name))?);
        let tls = format!(
            "[tls]\ncertificate = {}\nkey = {}\nca_dir = {}\n",
            path(HOST_CERTIFICATE)?,
            path(HOST_KEY)?,
            path(CA_DIR)?,
        );
        match self {
            Self::None | Self::Tls(_) => Ok(tls),
            Self::Proof(_) => Ok(format!(
                "{tls}[authentication]\nmethods = [\"gsi\", \"sss\", \"ztn\"]\nvoms_dir = {}\nkeytab = {}\n\
                 [[issuer]]\nurl = \"{ISSUER}\"\nkeys = {}\naudiences = [\"{AUDIENCE}\"]\n\
                 [[grant]]\npath = \"/\"\nrights = [\"read\"]\nvo = \"{ORGANIZATION}\"\n",
                path(VOMS_DIR)?,
                path(KEYTAB)?,
                path(TOKEN_KEYS)?,
            )),
        }
    }
}
