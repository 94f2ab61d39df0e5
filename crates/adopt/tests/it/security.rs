//! Authentication, authorization and TLS.

use crate::{
    sandbox::Sandbox,
    translated::{settings, translated_on},
};
use forebay_adopt::{Fate, Translation};

const AUTHDB: &str = "u * /public lr\ng /cms /store rl\nh .cern.ch / rl\n";
const SCITOKENS: &str = "[Issuer CMS]\nissuer = https://cms.example/\nbase_path = /store\n";

fn secured(text: &str) -> Translation {
    let text = format!("pss.cachelib default\noss.localroot /c\nall.export /\npss.origin origin.example\n{text}\n");
    translated_on(Sandbox::default().with("a.cfg", &text).with("/authdb", AUTHDB).with("/scitokens", SCITOKENS))
}

/// The settings from `[tls]` on, up to the store, and the fates of the added directives.
fn of(text: &str) -> (Vec<String>, Vec<Fate>) {
    let translation = secured(text);
    let lines = settings(&translation)
        .into_iter()
        .map(str::to_owned)
        .skip_while(|line| !line.starts_with('[') || line == "[server]");
    let lines = lines.take_while(|line| line != "[store]").collect();
    (lines, translation.notes.iter().skip(4).map(|note| note.fate).collect())
}

#[test]
fn protocols_with_their_options_are_methods() {
    let (lines, fates) = of("xrootd.seclib libXrdSec.so\nsec.protparm gsi -vomsfun:libXrdVoms.so\n\
         sec.protocol /usr/lib64 gsi -certdir:/ca -cert:/c.pem -key:/k.pem -crl:3 -gridmap:/dev/null\n\
         sec.protocol sss -s /keytab\nsec.protocol unix\nsec.level standard\nsec.protbind 10.1.* only sss unix\n\
         sec.protbind * gsi\nsec.protbind localhost none");
    assert!(fates.iter().all(|fate| *fate == Fate::Honoured), "{fates:?}");
    let expected = [
        "[tls]",
        r#"certificate = "/c.pem""#,
        r#"key = "/k.pem""#,
        r#"ca_dir = "/ca""#,
        r#"crl = "require""#,
        "[authentication]",
        r#"methods = ["gsi", "sss", "unix"]"#,
        r#"keytab = "/keytab""#,
        r#"signing = "standard""#,
        "[[binding]]",
        r#"host = "10.1.*""#,
        r#"methods = ["sss", "unix"]"#,
        "[[binding]]",
        r#"host = "127.*""#,
        "methods = []",
        "[[binding]]",
        r#"host = "::1""#,
        "methods = []",
        "[[binding]]",
        r#"host = "*""#,
        r#"methods = ["gsi"]"#,
        "[[grant]]",
        r#"path = "/""#,
        r#"rights = ["read", "list"]"#,
    ];
    assert_eq!(lines, expected);
}

#[test]
fn databases_and_issuers_are_grants() {
    let (lines, fates) = of("xrootd.seclib libXrdSec.so\nsec.protocol ztn\nofs.authorize 1\n\
         ofs.authlib ++ libXrdAccSciTokens.so config=/scitokens\nacc.authdb /authdb\nxrd.tls /c.pem\nxrootd.tls capable all");
    let expected_fates = [
        Fate::Honoured,
        Fate::Honoured,
        Fate::Honoured,
        Fate::Honoured,
        Fate::NotHonoured,
        Fate::Honoured,
        Fate::Honoured,
    ];
    assert_eq!(fates, expected_fates, "a host name in the database is reported");
    let expected = [
        "[tls]",
        r#"certificate = "/c.pem""#,
        r#"policy = "capable""#,
        "[authentication]",
        r#"methods = ["ztn"]"#,
        "[[issuer]]",
        r#"url = "https://cms.example/""#,
        r#"base_path = "/store""#,
        "[[grant]]",
        r#"name = "/scitokens [Issuer CMS]""#,
        r#"path = "/store""#,
        r#"rights = ["read", "list"]"#,
        r#"issuer = "https://cms.example/""#,
        r#"scopes = "grant""#,
        "[[grant]]",
        r#"name = "/authdb:1""#,
        r#"path = "/public""#,
        r#"rights = ["read", "list"]"#,
        "[[grant]]",
        r#"name = "/authdb:2""#,
        r#"path = "/store""#,
        r#"rights = ["read", "list"]"#,
        r#"group = "/cms""#,
    ];
    assert_eq!(lines, expected);
}

#[test]
fn what_cannot_be_converted_denies_access() {
    for text in [
        "ofs.authorize",
        "ofs.authorize\nacc.authdb /none",
        "ofs.authorize\nofs.authlib libXrdAccSciTokens.so",
        "xrootd.seclib libXrdSec.so\nsec.protocol krb5",
    ] {
        let (lines, fates) = of(text);
        assert_eq!(lines, ["[[grant]]", r#"path = "/""#, "rights = []"], "{text}");
        assert!(fates.contains(&Fate::NotHonoured) && !fates.contains(&Fate::Unprotected), "{text}: {fates:?}");
    }
    let (lines, fates) =
        of("xrootd.seclib libXrdSec.so\nsec.protocol host\nsec.protocol ztn\nsec.protbind *.site.org none");
    assert_eq!(lines[1], r#"methods = ["host"]"#);
    assert_eq!(fates[2..], [Fate::NotHonoured; 2], "there is no issuer, and names are not resolved");
}

#[test]
fn directives_without_effect_are_not_needed() {
    let (lines, fates) = of("sec.protocol gsi\nacc.authdb /authdb");
    assert_eq!((lines, fates), (Vec::new(), vec![Fate::NotNeeded; 2]));
}

#[test]
fn credentials_of_this_server_or_of_clients_are_kept_for_origins() {
    let (lines, _) = of("setenv X509_USER_PROXY = /run/proxy");
    assert_eq!(lines, ["[[credential]]", r#"hosts = ["*"]"#, r#"method = "proxy""#, r#"proxy = "/run/proxy""#]);
    let (lines, fates) = of("setenv X509_USER_CERT = /c.pem");
    assert_eq!((lines, fates), (Vec::new(), vec![Fate::NotHonoured]));
    let (lines, fates) = of("xrootd.seclib libXrdSec.so\nsec.protocol gsi\npss.persona client");
    assert_eq!(fates, [Fate::Honoured; 3]);
    assert!(
        lines.contains(&"delegation = true".to_owned()) && lines.contains(&r#"method = "client""#.to_owned()),
        "{lines:?}"
    );
    let (_, fates) = of("pss.persona client");
    assert_eq!(fates, [Fate::NotHonoured], "clients without authentication have no credentials");
}
