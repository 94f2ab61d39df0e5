//! Conditions, variables and continuations of xrootd configurations.

use crate::sandbox::Sandbox;
use forebay_adopt::{DIRECTIVES_MAX, Directive, FILE_LEN_MAX, Instance, PROBLEMS_MAX, read};

fn try_read(sandbox: &Sandbox) -> Result<Vec<String>, Vec<String>> {
    let instance = Instance { host: "xc1.site.org".into(), name: "anon".into(), program: "xrootd".into() };
    let told = |directive: &Directive| format!("{} {directive}", directive.place);
    match read("a.cfg", &instance, sandbox) {
        Ok(directives) => Ok(directives.iter().map(told).collect()),
        Err(error) => Err(error.problems.iter().map(ToString::to_string).collect()),
    }
}

fn read_text(text: &str) -> Result<Vec<String>, Vec<String>> {
    try_read(&Sandbox::default().with("a.cfg", text))
}

#[test]
fn variables_are_replaced_where_they_are_used() {
    let text = "set port = 1094\nset none =\nset -v\nxrd.port $port $none\nsetenv X509_USER_PROXY = /p\n";
    let expected = ["a.cfg:4 xrd.port 1094", "a.cfg:5 setenv X509_USER_PROXY /p"];
    assert_eq!(read_text(text).unwrap(), expected);
    assert_eq!(read_text("xrd.port $port").unwrap_err(), ["a.cfg:1: the variable port is not defined"]);
}

#[test]
fn one_branch_of_an_if_is_taken() {
    let text = |condition: &str| {
        format!("if {condition}\na 1\nelse if exec xrootd\na 2\nelse if named anon\na 3\nelse\na 4\nfi\nb")
    };
    assert_eq!(read_text(&text("xc*")).unwrap(), ["a.cfg:2 a 1", "a.cfg:10 b"]);
    assert_eq!(read_text(&text("other")).unwrap(), ["a.cfg:4 a 2", "a.cfg:10 b"]);
    assert_eq!(read_text("if other\na 1\nelse\na 2\nfi\n").unwrap(), ["a.cfg:4 a 2"]);
}

#[test]
fn some_directives_have_a_condition_of_their_own() {
    let text = "xrd.port 1094 if exec xrootd\nxrd.port 1213 if exec cmsd\nall.role server if xc*\nx if other\n";
    assert_eq!(read_text(text).unwrap(), ["a.cfg:1 xrd.port 1094", "a.cfg:3 all.role server", "a.cfg:4 x if other"]);
    assert!(read_text("xrd.port 1094 if\n").is_err());
}

#[test]
fn what_is_passed_over_need_not_make_sense() {
    let text = "if other\na $undefined\nset\ncontinue /none\nfi\nb\n";
    assert_eq!(read_text(text).unwrap(), ["a.cfg:6 b"]);
}

#[test]
fn ifs_do_not_nest_and_end() {
    for text in [
        "if xc*\nif xc*\nfi\n",
        "if xc*\na\n",
        "fi\n",
        "else\n",
        "if other\nelse\nelse\nfi\n",
        "if other\nelse a\nfi\n",
        "if xc*\ncontinue b.cfg\nfi\n",
        "if other\nif other\nfi\nfi\n",
        "if\nfi\n",
    ] {
        assert!(read_text(text).is_err(), "{text}");
    }
}

#[test]
fn a_file_goes_on_with_others_and_is_left_for_good() {
    let sandbox = Sandbox::default()
        .with("a.cfg", "set v = 1\na $v\ncontinue ?/none\ncontinue /b if exec cmsd\ncontinue /d/ *.cfg *.conf\nend\n")
        .with("/d/20.conf", "b $v\n")
        .with("/d/10.cfg", "c\n")
        .with("/d/15.txt", "d\n")
        .with("/d/.5.cfg", "e\n");
    assert_eq!(try_read(&sandbox).unwrap(), ["a.cfg:2 a 1", "/d/10.cfg:1 c", "/d/20.conf:1 b 1"]);
    let sandbox = Sandbox::default().with("a.cfg", "continue /b\nend\n").with("/b", "b\n");
    assert_eq!(try_read(&sandbox).unwrap(), ["/b:1 b"]);
}

#[test]
fn files_that_are_missing_odd_or_endless_are_refused() {
    assert!(try_read(&Sandbox::default()).is_err());
    assert_eq!(read_text("a\ncontinue /none\n").unwrap_err(), ["a.cfg:2: /none does not exist"]);
    assert_eq!(read_text("a\ncontinue a.cfg .cfg\n").unwrap_err().len(), 1);
    assert!(read_text("continue a.cfg\n").unwrap_err().concat().contains("more than 256 files"));
    assert!(read_text(&" ".repeat(FILE_LEN_MAX)).unwrap_err().concat().contains("longer"));
    assert_eq!(read_text(&"\n".repeat(FILE_LEN_MAX)).unwrap(), [""; 0]);
}

#[test]
fn directives_and_problems_have_limits() {
    assert_eq!(read_text(&"a\n".repeat(DIRECTIVES_MAX)).unwrap().len(), DIRECTIVES_MAX);
    assert!(read_text(&"a\n".repeat(DIRECTIVES_MAX + 2)).is_err());
    assert_eq!(read_text(&"fi\n".repeat(1000)).unwrap_err().len(), PROBLEMS_MAX);
}
