//! A small grid, made for each comparison: authorities that secured servers trust, and credentials of clients.

mod certificates;
mod issuer;

use crate::load::{Entry, Proof, SECRET_USER, SERVER_NAME, TlsClient};
use crate::process::{give_to_server, make_server_dir};
use anyhow::{Context as _, Result, ensure};
use certificates::{Holder, Kind};
use forebay_auth::gsi::GsiClientSettings;
use forebay_auth::x509::{Credential, TrustAnchors, TrustRules, make_proxy};
use forebay_auth::{Keytab, Token, UnixTime};
use forebay_net::clock;
use issuer::Issuer;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// The files that servers are configured with, and what a client may come with.
pub(crate) struct Grid {
    dir: PathBuf,
    /// With a proxy that has nothing but a name, and one that has an attribute.
    proxy: Arc<GsiClientSettings>,
    proxy_with_attribute: Arc<GsiClientSettings>,
    secret: Arc<Keytab>,
    issuer: Issuer,
}

/// The virtual organization of all clients.
pub(crate) const ORGANIZATION: &str = "benchvo";

/// The issuer of tokens, and their audience.
pub(crate) const ISSUER: &str = "https://issuer.bench.test/";
pub(crate) const AUDIENCE: &str = "https://wlcg.cern.ch/jwt/v1/any";

/// How long credentials are good for, seconds.
const LIFETIME_S: i64 = 12 * 3600;

/// Length of a shared secret, bytes.
const SECRET_LEN: usize = 32;

/// The host that signs the organization's attributes.
const VOMS_HOST: &str = "voms.bench.test";

/// Fills the cache of keys of the reference server's token library, which would otherwise ask the issuer.
const FILL_KEY_CACHE: &str = "import json, sqlite3, sys, time
file, issuer, keys = sys.argv[1:]
now = int(time.time())
entry = {'jwks': json.loads(keys), 'next_update': now + 36000, 'expires': now + 360000}
cache = sqlite3.connect(file)
cache.execute('CREATE TABLE keycache (issuer text UNIQUE PRIMARY KEY NOT NULL,keys text NOT NULL)')
cache.execute('INSERT INTO keycache VALUES (?, ?)', (issuer, json.dumps(entry)))
cache.commit()
";

impl std::fmt::Debug for Grid {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Grid({}, secrets not shown)", self.dir.display())
    }
}

impl Grid {
    /// Makes everything in `dir`, which servers that refuse root must be able to reach.
    pub(crate) fn make(dir: &Path) -> Result<Self> {
        make_server_dir(dir)?;
        let authority = Holder::new("Authority", Kind::Authority, None)?;
        write_host(dir, &authority)?;
        let user = Holder::new("Somebody", Kind::Person, Some(&authority))?;
        let voms = Holder::new(VOMS_HOST, Kind::Host, Some(&authority))?;
        let authority_pem = authority.certificate.to_pem()?;
        let ca_dir = dir.join(CA_DIR);
        make_server_dir(&ca_dir)?;
        std::fs::write(ca_dir.join(format!("{:08x}.0", authority.certificate.subject_name_hash())), &authority_pem)?;
        let issuer = Issuer::new()?;
        for (name, holder) in [("user", &user), ("voms", &voms)] {
            std::fs::write(dir.join(format!("{name}.pem")), holder.certificate.to_pem()?)?;
            write_secret(&dir.join(format!("{name}.key")), &holder.key.private_key_to_pem_pkcs8()?, false)?;
        }
        let lists = dir.join(VOMS_DIR).join(ORGANIZATION);
        make_server_dir(&lists)?;
        let signers = format!("{}\n{}\n", Holder::subject(VOMS_HOST), Holder::subject("Authority"));
        std::fs::write(lists.join(format!("{VOMS_HOST}.lsc")), signers)?;
        let mut trust = TrustAnchors::default();
        trust.add_authorities(&authority_pem)?;
        let trust = Arc::new(trust);
        let settings = |credential| {
            let mut settings = GsiClientSettings::new(Arc::new(credential), Arc::clone(&trust), TrustRules::default());
            // Reference servers of version 5 send weak groups.
            settings.allow_weak_groups = true;
            Arc::new(settings)
        };
        let user = Credential::from_pem(&user.certificate.to_pem()?, &user.key.private_key_to_pem_pkcs8()?)?;
        let proxy = make_proxy(&user, LIFETIME_S, UnixTime(clock::now_unix()))?;
        let with_attribute = make_proxy_with_attribute(dir)?;
        let with_attribute = Credential::from_pem(&with_attribute, &with_attribute)?;
        let secret = make_secret(&dir.join(KEYTAB))?;
        std::fs::write(dir.join(TOKEN_KEYS), issuer.key_set()?)?;
        let grid = Self {
            dir: dir.to_owned(),
            proxy: settings(proxy),
            proxy_with_attribute: settings(with_attribute),
            secret: Arc::new(secret),
            issuer,
        };
        grid.set_up_token_library()?;
        Ok(grid)
    }

    /// The file or directory of a name, which is one of the constants of this module.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A client over TLS that needs no credentials.
    pub(crate) fn encrypted(&self, resumes: bool) -> Result<Entry> {
        Ok(Entry { tls: Some(TlsClient::new(&self.path(CA_FILE), resumes)?), proof: None })
    }

    /// A client with a proxy certificate, which has an attribute of the organization or none.
    pub(crate) fn with_certificate(&self, has_attribute: bool) -> Entry {
        let settings = if has_attribute { &self.proxy_with_attribute } else { &self.proxy };
        Entry { tls: None, proof: Some(Proof::Certificate(Arc::clone(settings))) }
    }

    /// A client with a shared secret.
    pub(crate) fn with_secret(&self) -> Entry {
        Entry { tls: None, proof: Some(Proof::Secret(Arc::clone(&self.secret))) }
    }

    /// A client that comes encrypted with a token of its own.
    pub(crate) fn with_token(&self, client: usize) -> Result<Entry> {
        let text = self.issuer.token(&format!("bench-{client}"), clock::now_unix())?;
        let token = Token::parse(text.as_bytes())?;
        Ok(Entry { proof: Some(Proof::Token(token)), ..self.encrypted(false)? })
    }

    /// Configures the reference server's token library: the issuer of tokens, and its keys.
    fn set_up_token_library(&self) -> Result<()> {
        let text = format!(
            "[Global]\naudience = {AUDIENCE}\n\n[Issuer bench]\nissuer = {ISSUER}\nbase_path = /\ndefault_user = bench\n"
        );
        std::fs::write(self.path(TOKEN_LIBRARY), text)?;
        let cache = self.path(TOKEN_CACHE).join("scitokens");
        make_server_dir(&self.path(TOKEN_CACHE))?;
        make_server_dir(&cache)?;
        let file = cache.join("scitokens_cpp.sqllite");
        let keys = self.issuer.key_set()?;
        run(
            "python3",
            ["-c", FILL_KEY_CACHE].map(OsStr::new).into_iter().chain([
                file.as_os_str(),
                OsStr::new(ISSUER),
                OsStr::new(&keys),
            ]),
        )?;
        give_to_server(&file)
    }
}

/// Certificates of authorities under their hashed names.
pub(crate) const CA_DIR: &str = "certificates";
/// The certificate of the authority.
pub(crate) const CA_FILE: &str = "authority.pem";
/// The host's certificate and key.
pub(crate) const HOST_CERTIFICATE: &str = "host.pem";
pub(crate) const HOST_KEY: &str = "host.key";
/// Directory that lists the signers of the organization's attributes.
pub(crate) const VOMS_DIR: &str = "vomsdir";
/// The key that servers and clients share.
pub(crate) const KEYTAB: &str = "sss.keytab";
/// The token issuer's keys.
pub(crate) const TOKEN_KEYS: &str = "keys.json";
/// The configuration of the reference server's token library, and its cache.
pub(crate) const TOKEN_LIBRARY: &str = "scitokens.cfg";
pub(crate) const TOKEN_CACHE: &str = "cache";

/// Makes an authority and a host in `dir`: the files [`CA_FILE`], [`HOST_CERTIFICATE`] and [`HOST_KEY`].
pub(crate) fn make_host(dir: &Path) -> Result<()> {
    write_host(dir, &Holder::new("Authority", Kind::Authority, None)?)
}

/// Writes the certificate of `authority`, and a host that it has signed.
fn write_host(dir: &Path, authority: &Holder) -> Result<()> {
    let host = Holder::new(SERVER_NAME, Kind::Host, Some(authority))?;
    std::fs::write(dir.join(CA_FILE), authority.certificate.to_pem()?)?;
    std::fs::write(dir.join(HOST_CERTIFICATE), host.certificate.to_pem()?)?;
    write_secret(&dir.join(HOST_KEY), &host.key.private_key_to_pem_pkcs8()?, true)
}

/// A proxy of the user with an attribute of the organization, signed with the organization's key.
fn make_proxy_with_attribute(dir: &Path) -> Result<Vec<u8>> {
    let file = |name: &str| dir.join(name).into_os_string();
    let out = dir.join("proxy.pem");
    let fixed = ["-rfc", "-bits", "2048", "-quiet", "-hours", "12", "-voms", ORGANIZATION];
    let attribute = format!("/{ORGANIZATION}/Role=production");
    let uri = format!("{VOMS_HOST}:15000");
    let mut args: Vec<_> = fixed.iter().map(Into::into).collect();
    args.extend(["-fqan".into(), attribute.into(), "-uri".into(), uri.into()]);
    args.extend(["-cert".into(), file("user.pem"), "-key".into(), file("user.key")]);
    args.extend(["-hostcert".into(), file("voms.pem"), "-hostkey".into(), file("voms.key")]);
    args.extend(["-certdir".into(), file(CA_DIR), "-out".into(), out.clone().into_os_string()]);
    run("voms-proxy-fake", args.iter().map(|arg: &std::ffi::OsString| arg.as_os_str()))?;
    Ok(std::fs::read(&out)?)
}

fn make_secret(path: &Path) -> Result<Keytab> {
    let mut secret = [0; SECRET_LEN];
    openssl::rand::rand_bytes(&mut secret)?;
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let (now, end) = (clock::now_unix(), clock::now_unix() + LIFETIME_S);
    let line = format!("0 u:{SECRET_USER} g:{SECRET_USER} n:bench N:1 c:{now} e:{end} f:0 k:{hex}\n");
    write_secret(path, line.as_bytes(), true)?;
    Ok(Keytab::parse(line.as_bytes())?)
}

/// Writes a file that only its owner can read; for servers, also those that refuse root.
fn write_secret(path: &Path, bytes: &[u8], is_for_servers: bool) -> Result<()> {
    std::fs::write(path, bytes)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    if is_for_servers { give_to_server(path) } else { Ok(()) }
}

fn run<'a>(program: &str, args: impl IntoIterator<Item = &'a OsStr>) -> Result<()> {
    let output = Command::new(program).args(args).output().with_context(|| format!("cannot run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed ({}): {}", output.status, said.trim());
    Ok(())
}
