//! Settings that say who clients are, and what they may do.

use super::Texts;
use crate::declare::{Value, section};

section! {
    /// How clients prove who they are. The certificate shown to them, and the authorities that theirs are checked with, are those of [tls].
    "authentication" RawAuthentication {
        /// What clients may use, the preferred one first: "gsi" (certificates), "tls" (the same in the TLS handshake, when it comes before the login), "ztn" (tokens), "sss" (shared secrets), "unix" (the client's word), "host". Nobody is asked, unless written.
        methods: Texts = Value::none().sample(r#"["gsi", "ztn"]"#),
        /// Whether and how attributes of virtual organizations are read from proxies: "ignore", "extract", or "require" one that is good.
        voms: String = Value::default(r#""extract""#),
        /// Directory that tells which servers may sign attributes: `VO/HOST.lsc`, `VO/*.pem`.
        voms_dir: String = Value::default(r#""/etc/grid-security/vomsdir""#),
        /// Signing policies beside the authorities' certificates: "ignore", "if-present", or "require".
        signing_policy: String = Value::default(r#""if-present""#),
        /// Whether limited proxies are good enough to read.
        limited_proxies: bool = Value::default("true"),
        /// Whether clients of GSI versions before 10400 are accepted, whose session keys an attacker on the way could exchange.
        unsigned_gsi: bool = Value::default("false"),
        /// Which requests clients of "gsi" sign where there is no TLS, so that nobody on the way adds some: "none"; "compatible" (changes); "standard" (opens too); "intense" (uses of open files but plain reads too); "pedantic" (everything).
        signing: String = Value::default(r#""none""#).sample(r#""standard""#),
        /// Whether clients of "gsi" are asked to delegate a proxy, which origins are shown in their name: see [[credential]] and export.origin_check. It is kept in memory as long as the session.
        delegation: bool = Value::default("false"),
        /// File with the shared secrets, as `xrdsssadmin` writes it; not readable by others.
        keytab: String = Value::none().sample(r#""/etc/forebay/sss.keytab""#),
        /// Whether tokens are taken from connections without TLS: "never", or "loopback" for clients on this machine.
        plain_tokens: String = Value::default(r#""never""#),
        /// Directory in which keys fetched from issuers outlive a restart, made if need be; they do not, unless written.
        keys_dir: String = Value::none().sample(r#""/var/lib/forebay/keys""#),
        /// How often files of certificates, authorities, organizations and secrets are looked at for changes.
        refresh_interval: String = Value::default(r#""1min""#),
    }
}

section! {
    /// Which methods some clients may use. The first table that matches counts; clients that match none may use all.
    "binding" RawBinding {
        /// Address of the client; `*` stands for any run of characters. Names are not looked up.
        host: String = Value::none().sample(r#""10.1.*""#),
        /// Those of authentication.methods that these clients may use, the preferred one first; none asks them for nothing.
        methods: Texts = Value::none().sample("[]"),
    }
}

section! {
    /// Somebody whose tokens are accepted.
    "issuer" RawIssuer {
        /// Its URL, letter by letter as tokens name it in `iss`.
        url: String = Value::none().sample(r#""https://cms-auth.cern.ch/""#),
        /// Names of this service; a token for none of them, nor for any service, is refused.
        audiences: Texts = Value::default("[]").sample(r#"["https://cache.example.org"]"#),
        /// Path that scopes are relative to.
        base_path: String = Value::default(r#""/""#).sample(r#""/store""#),
        /// The only profile that is accepted, "wlcg" or "scitokens"; what each token says, unless written. Tokens that say nothing are taken with "scitokens" only.
        profile: String = Value::none().sample(r#""wlcg""#),
        /// Virtual organization of those who bring its tokens, for rules.
        vo: String = Value::none().sample(r#""cms""#),
        /// File with its keys, a JSON Web Key Set; it is read again when it changes. Unless written, the keys are fetched from the issuer.
        keys: String = Value::none().sample(r#""/etc/forebay/cms-auth.jwks""#),
        /// PEM file or hashed directory of the CAs that vouch for the issuer's server; those of the operating system, unless written.
        ca: String = Value::none().sample(r#""/etc/grid-security/certificates""#),
        /// How long fetched keys are believed beyond their time while the issuer does not answer, at most 7d.
        grace: String = Value::default(r#""1d""#),
        /// Whether keys may be fetched without TLS from an issuer on this machine: its URL may begin with http:// then.
        plain_http: bool = Value::default("false"),
        /// How far clocks may be apart, at most 5min.
        leeway: String = Value::default(r#""30s""#),
    }
}

section! {
    /// Who may do what: of the tables that match client and path, the one with the longest path decides. Nothing else is allowed, once there is one.
    "grant" RawGrant {
        /// A name for the log.
        name: String = Value::none().sample(r#""ATLAS data""#),
        /// The path, with everything below it; {user}, {subject}, {vo}, {group} and {role} stand for those of the client.
        path: String = Value::none().sample(r#""/atlas""#),
        /// What may be done: "read", "list", "stat", "admin" (remove files from the cache). Reading and listing include "stat"; none of them denies.
        rights: Texts = Value::none().sample(r#"["read", "list"]"#),
        /// How the client proved who it is: any of "gsi", "tls", "token", "sss", "unix", "host", "none".
        methods: Texts = Value::none().sample(r#"["gsi", "token"]"#),
        /// Local name of the user. In this and the next settings `*` stands for any run of characters.
        user: String = Value::none().sample(r#""prod*""#),
        /// Distinguished name (`/DC=ch/CN=...`), or `sub` of a token.
        subject: String = Value::none().sample(r#""/DC=ch/DC=cern/*""#),
        /// Distinguished name of the certification authority, or `iss` of a token.
        issuer: String = Value::none().sample(r#""https://cms-auth.cern.ch/""#),
        /// Virtual organization.
        vo: String = Value::none().sample(r#""atlas""#),
        /// Group of the organization.
        group: String = Value::none().sample(r#""/atlas/higgs""#),
        /// Role in the organization or group.
        role: String = Value::none().sample(r#""production""#),
        /// Address of the client. Names are not looked up.
        host: String = Value::none().sample(r#""192.0.2.*""#),
        /// Scopes of tokens: "narrow" what the rule allows, or "grant" to take rights from scopes alone.
        scopes: String = Value::default(r#""narrow""#),
    }
}

section! {
    /// What this cache shows some origins as proof of who it is. The first table that matches a server counts; others are shown nothing.
    "credential" RawCredential {
        /// Names of the servers, in which `*` stands for any run of characters: redirectors, and the servers that they lead to.
        hosts: Texts = Value::none().sample(r#"["*.example.org"]"#),
        /// What is shown: "proxy" (a file that others keep current), "certificate" (proxies are made from it), "token", "secret", "client" (what the client has that a request is for), or "none".
        method: String = Value::none().sample(r#""token""#),
        /// File with the proxy; unless written that of X509_USER_PROXY, or /tmp/x509up_uUID.
        proxy: String = Value::none().sample(r#""/run/forebay/x509up""#),
        /// PEM file with a host's or robot's certificate, from which proxies of 12h are made and renewed.
        certificate: String = Value::none().sample(r#""/etc/forebay/robotcert.pem""#),
        /// PEM file with the key of that certificate; not readable by others.
        key: String = Value::none().sample(r#""/etc/forebay/robotkey.pem""#),
        /// File with the token; unless written, it is discovered as WLCG has it: BEARER_TOKEN, BEARER_TOKEN_FILE, $XDG_RUNTIME_DIR/bt_uUID, /tmp/bt_uUID.
        token: String = Value::none().sample(r#""/run/forebay/token""#),
        /// File with shared secrets, as `xrdsssadmin` writes it; not readable by others.
        keytab: String = Value::none().sample(r#""/etc/forebay/origin.keytab""#),
        /// Name of the secret; the newest, unless written.
        key_name: String = Value::none().sample(r#""cache""#),
        /// The user that this cache says it is, with a shared secret or to servers that take its word.
        user: String = Value::default(r#""forebay""#),
        /// Whether key exchanges of 512 bits are accepted, as XRootD 5 and dCache make them: who records such a handshake can learn which certificate was shown.
        weak_groups: bool = Value::default("false"),
        /// Whether servers of GSI versions before 10400 are accepted, whose session keys an attacker on the way could exchange.
        unsigned_gsi: bool = Value::default("false"),
        /// Whether tokens are sent without TLS: "never", or "loopback" to servers on this machine.
        plain_tokens: String = Value::default(r#""never""#),
    }
}
