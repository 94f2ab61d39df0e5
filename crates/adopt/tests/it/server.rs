//! `xrd.*`, `xrootd.*` and `all.*`.

use crate::{
    sandbox::Sandbox,
    translated::{settings, translated, translated_on, translated_whole},
};
use forebay_adopt::Fate;

fn fate(text: &str) -> Fate {
    translated(text).notes.last().unwrap().fate
}

#[test]
fn directives_that_protect_a_site_are_marked() {
    for text in [
        "ofs.authlib libSite.so",
        "sec.unknown",
        "xrd.allow host *.site.org",
        // Without a certificate.
        "xrootd.tls all",
    ] {
        assert_eq!(fate(text), Fate::Unprotected, "{text}");
        assert!(translated(text).is_unprotected());
    }
    for text in ["xrd.allow host *", "xrootd.tls none", "all.role server", "xrd.protocol xroot *"] {
        assert_eq!(fate(text), Fate::NotNeeded, "{text}");
    }
    for text in [
        "xrd.protocol http:eighty libXrdHttp.so",
        "xrd.protocol other libOther.so",
        "all.role manager",
        "xrd.port tls 1095",
        "all.export *",
    ] {
        assert_eq!(fate(text), Fate::NotHonoured, "{text}");
    }
}

#[test]
fn the_owner_of_the_cached_files_runs_the_server() {
    let text = "pss.cachelib default\noss.localroot /c\npss.origin o.example\n";
    let owned = translated_on(Sandbox::default().with("a.cfg", text).with("owner of /c", "xrootd"));
    assert!(settings(&owned).contains(&r#"user = "xrootd""#), "{owned:?}");
    assert!(!translated("").file.unwrap().contains("user ="));
}

#[test]
fn names_and_times_of_the_server_are_settings() {
    for (text, setting) in [
        ("xrd.port 2094", r#"listen = ["[::]:2094"]"#),
        ("xrd.port any", r#"listen = ["[::]:0"]"#),
        ("all.sitename A \"B\"", r#"site_name = "A""#),
        ("xrd.timeout idle 90m hail 20", r#"idle_time_max = "90min""#),
        ("xrd.timeout idle 90m hail 20", r#"login_time_max = "20s""#),
        ("xrootd.chksum max 2 chkcgi md5 adler32", r#"checksum_algorithms = ["md5", "adler32"]"#),
        ("xrootd.chksum adler32 /usr/bin/sum", r#"checksum_algorithms = ["adler32"]"#),
    ] {
        let translation = translated(text);
        assert!(settings(&translation).contains(&setting), "{text}: {:?}", settings(&translation));
    }
    assert!(!settings(&translated("xrd.timeout idle 0")).iter().any(|line| line.starts_with("idle_time")));
    assert_eq!(fate("xrd.port twelve"), Fate::NotHonoured);
    assert_eq!(fate("xrootd.chksum /usr/bin/sum"), Fate::NotHonoured);
}

#[test]
fn exports_are_listed_once() {
    let translation = translated("all.export /\nall.export /a/\nall.export /a r/o");
    let paths: Vec<_> = settings(&translation).into_iter().filter(|line| line.starts_with("path = \"/")).collect();
    assert_eq!(paths, [r#"path = "/c""#, r#"path = "/""#, r#"path = "/a""#]);
    let bare = translated_whole("pss.cachelib default\noss.localroot /c\npss.origin h");
    assert!(settings(&bare).contains(&r#"path = "/tmp""#));
}

#[test]
fn writes_are_redirected_to_the_origin_where_they_were_written_through() {
    let translation = translated("all.export /a r/o\npfc.writethrough on");
    assert_eq!(settings(&translation).iter().filter(|line| **line == r#"writes = "redirect""#).count(), 1);
}
