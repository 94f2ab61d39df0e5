//! Settings of authentication, authorization, and credentials for origins.

use super::declare::{Value, section};
use crate::{
    config::Config,
    value::{AddressPattern, CredentialMethod, IssuerUrl, Line, List, PlainTokens, Time},
};
use forebay_auth::{
    Binding, Grant, Issuer, Method, PathTemplate, Right, ScopeUse, SecurityProtocol, SigningLevel, TokenProfile,
    x509::Use,
};
use forebay_trust::{CredentialRule, VomsUse};
use forebay_types::Lfn;
use std::path::PathBuf;

/// Patterns of servers: each request to an origin is compared with them.
const HOSTS_MAX: usize = 256;

section! {
    /// Authentication of clients. The host certificate and the CAs for client certificates are those of `[tls]`.
    "authentication" RawAuthentication => Config {
        /// Authentication methods offered to clients, the preferred one first: `gsi` (certificates), `tls` (certificates in a TLS
        /// handshake before the login), `ztn` (tokens), `sss` (shared secrets), `unix` (user name without proof), `host`.
        /// Default: no authentication.
        methods: List<SecurityProtocol> => security.methods = Value::none().sample(r#"["gsi", "ztn"]"#),
        /// VOMS attributes of proxies: `ignore`, `extract`, or `require` valid ones.
        voms: VomsUse => security.voms = Value::default(r#""extract""#),
        /// Directory that lists the trusted attribute authorities: `VO/HOST.lsc`, `VO/*.pem`.
        voms_dir: PathBuf => security.voms_dir = Value::default(r#""/etc/grid-security/vomsdir""#),
        /// Signing policies in the CA directory: `ignore`, `if-present`, or `require`.
        signing_policy: Use => security.trust.signing_policies = Value::default(r#""if-present""#),
        /// Accept limited proxies.
        limited_proxies: bool => security.trust.allow_limited = Value::default("true"),
        /// Accept clients with GSI versions before 10400. A man in the middle can replace their session keys.
        unsigned_gsi: bool => security.allows_unsigned_gsi = Value::default("false"),
        /// Requests that `gsi` clients must sign on connections without TLS: `none`; `compatible` modifications; `standard` also opens;
        /// `intense` also closes, page reads, parallel streams and commands to the cache; `pedantic` all requests.
        signing: SigningLevel => security.signing = Value::default(r#""none""#).sample(r#""standard""#),
        /// Request proxy delegation from `gsi` clients, for use with origins on their behalf: see `[[credential]]` and
        /// `export.origin_check`. The proxy is kept in memory until the session ends.
        delegation: bool => security.takes_delegations = Value::default("false"),
        /// Keytab with shared secrets, in the format of `xrdsssadmin`; must not be readable by other users.
        keytab: PathBuf => security.keytab = Value::none().sample(r#""/etc/forebay/sss.keytab""#),
        /// Accept tokens on connections without TLS: `never`, or `loopback` from clients on this machine.
        plain_tokens: PlainTokens => security.takes_plain_tokens_on_loopback = Value::default(r#""never""#),
        /// Directory in which keys fetched from issuers are kept across restarts; created if missing. Default: keys are not kept.
        keys_dir: PathBuf => security.keys_dir = Value::none().sample(r#""/var/lib/forebay/keys""#),
        /// Interval at which certificate, CA, VOMS and keytab files are checked for changes.
        refresh_interval: Time => security.refresh_interval = Value::default(r#""1min""#),
    }
}

section! {
    /// Authentication methods for some clients. Can be repeated; the first matching table applies. Clients without a match may use all
    /// methods.
    "binding" RawBinding => Binding {
        /// Address of the client; `*` matches any run of characters. Host names are not resolved.
        host: AddressPattern => hosts = Value::none().sample(r#""10.1.*""#),
        /// Methods of `authentication.methods` that these clients may use, the preferred one first. An empty list disables
        /// authentication for them.
        methods: List<SecurityProtocol> => protocols = Value::none().sample("[]"),
    }
}

section! {
    /// Trusted issuer of tokens. Can be repeated.
    "issuer" RawIssuer => Issuer {
        /// URL, exactly as in the `iss` claim of its tokens.
        url: IssuerUrl = Value::none().sample(r#""https://cms-auth.cern.ch/""#),
        /// Names of this service. Tokens with another audience are refused unless it is the wildcard for any service.
        audiences: List<Line> => audiences = Value::default("[]").sample(r#"["https://cache.example.org"]"#),
        /// Path to which scopes are relative.
        base_path: Lfn => base_path = Value::default(r#""/""#).sample(r#""/store""#),
        /// Accepted token profile, `wlcg` or `scitokens`. Default: the profile that each token declares. Tokens without a profile are
        /// accepted only with `scitokens`.
        profile: TokenProfile => profile = Value::none().sample(r#""wlcg""#),
        /// Virtual organization of clients with a token of this issuer, for `[[grant]]`.
        vo: Line => vo = Value::none().sample(r#""cms""#),
        /// File with its keys (JSON Web Key Set), reloaded when it changes. Default: the keys are fetched from the issuer.
        keys: PathBuf = Value::none().sample(r#""/etc/forebay/cms-auth.jwks""#),
        /// PEM file or OpenSSL hash directory with the CAs for the issuer's HTTPS server. Default: those of the operating system.
        ca: PathBuf = Value::none().sample(r#""/etc/grid-security/certificates""#),
        /// Time for which fetched keys are used beyond their expiry while the issuer is unavailable.
        grace: Time<1, 604_800_000> = Value::default(r#""1d""#),
        /// Allow fetching keys without TLS from an issuer on this machine, whose URL begins with http://.
        plain_http: bool = Value::default("false"),
        /// Clock skew that is tolerated.
        leeway: Time<1, 300_000> = Value::default(r#""30s""#),
    }
}

section! {
    /// Permission: rights of some clients below a path. Can be repeated. Of all tables that match client and path, the one with the
    /// longest path applies. If there is at least one table, everything without a match is denied.
    "grant" RawGrant => Grant {
        /// Name in the log.
        name: Line => name = Value::none().sample(r#""ATLAS data""#),
        /// Applies to this path and all paths below it. {user}, {subject}, {vo}, {group} and {role} are replaced by those of the client.
        path: PathTemplate = Value::none().sample(r#""/atlas""#),
        /// Rights: `read`, `list`, `stat`, `admin` (remove files from the cache). `read` and `list` include `stat`. An empty list
        /// denies access.
        rights: List<Right> = Value::none().sample(r#"["read", "list"]"#),
        /// Authentication methods of the client, any of `gsi`, `tls`, `token`, `access-key`, `sss`, `unix`, `host`, `none`. Default: all.
        methods: List<Method> => who.methods = Value::none().sample(r#"["gsi", "token"]"#),
        /// Local user name, of logins with `sss`, `unix` or an access key. In this and the following settings `*` matches any run of
        /// characters.
        user: Line => who.user = Value::none().sample(r#""prod*""#),
        /// Distinguished name (`/DC=ch/CN=...`), or `sub` of a token.
        subject: Line => who.subject = Value::none().sample(r#""/DC=ch/DC=cern/*""#),
        /// Distinguished name of the CA, or `iss` of a token.
        issuer: Line => who.issuer = Value::none().sample(r#""https://cms-auth.cern.ch/""#),
        /// Virtual organization.
        vo: Line => who.vo = Value::none().sample(r#""atlas""#),
        /// Group in the organization.
        group: Line => who.group = Value::none().sample(r#""/atlas/higgs""#),
        /// Role in the organization or group.
        role: Line => who.role = Value::none().sample(r#""production""#),
        /// Address of the client. Host names are not resolved.
        host: AddressPattern => who.host = Value::none().sample(r#""192.0.2.*""#),
        /// Scopes of tokens: `narrow` intersects them with `rights`; `grant` takes the rights from the scopes alone.
        scopes: ScopeUse => scopes = Value::default(r#""narrow""#),
    }
}

section! {
    /// Credentials of this cache for some origins. Can be repeated; the first matching table applies. Origins without a match get no
    /// credentials.
    "credential" RawCredential => CredentialRule {
        /// Host names of servers, in which `*` matches any run of characters: redirectors and the servers that they redirect to.
        hosts: List<Line, 1, HOSTS_MAX> => hosts = Value::none().sample(r#"["*.example.org"]"#),
        /// Credential: `proxy` (a file that is renewed externally), `certificate` (from which proxies are made), `token`, `secret`, `s3` (an access key),
        /// `client` (the credentials of the client that a request is for), or `none`.
        method: CredentialMethod = Value::none().sample(r#""token""#),
        /// Proxy file. Default: `X509_USER_PROXY`, or `/tmp/x509up_uUID`.
        proxy: PathBuf = Value::none().sample(r#""/run/forebay/x509up""#),
        /// PEM file with a host or robot certificate. Proxies valid for 12h are made from it and renewed.
        certificate: PathBuf = Value::none().sample(r#""/etc/forebay/robotcert.pem""#),
        /// PEM file with its private key; must not be readable by other users.
        key: PathBuf = Value::none().sample(r#""/etc/forebay/robotkey.pem""#),
        /// Token file. Default: WLCG token discovery (BEARER_TOKEN, BEARER_TOKEN_FILE, $XDG_RUNTIME_DIR/bt_uUID, /tmp/bt_uUID).
        token: PathBuf = Value::none().sample(r#""/run/forebay/token""#),
        /// Keytab with shared secrets, in the format of `xrdsssadmin`; must not be readable by other users.
        keytab: PathBuf = Value::none().sample(r#""/etc/forebay/origin.keytab""#),
        /// Name of the key in the keytab. Default: the newest key.
        key_name: Line = Value::none().sample(r#""cache""#),
        /// File of access keys for S3, in the format of `~/.aws/credentials`; must not be readable by other users. Default: `AWS_ACCESS_KEY_ID` and
        /// `AWS_SECRET_ACCESS_KEY`, or the file that `AWS_SHARED_CREDENTIALS_FILE` names, or `~/.aws/credentials`.
        access_keys: PathBuf = Value::none().sample(r#""/etc/forebay/s3-keys""#),
        /// Profile in the file of access keys. Default: `AWS_PROFILE`, or `default`.
        profile: Line = Value::none().sample(r#""cache""#),
        /// Region of the S3 server. Default: that of the profile, or `AWS_REGION`, or `us-east-1`.
        region: Line = Value::none().sample(r#""eu-west-1""#),
        /// User name of this cache, with a shared secret or for servers that do not authenticate it.
        user: Line => user = Value::default(r#""forebay""#),
        /// Accept 512-bit key exchanges, as XRootD 5 and dCache use them. A recorded handshake may reveal the certificate that was sent.
        weak_groups: bool => allows_weak_groups = Value::default("false"),
        /// Accept servers with GSI versions before 10400. A man in the middle can replace their session keys.
        unsigned_gsi: bool => allows_unsigned = Value::default("false"),
        /// Send tokens without TLS: `never`, or `loopback` to servers on this machine.
        plain_tokens: PlainTokens => allows_plain_tokens = Value::default(r#""never""#),
    }
}
