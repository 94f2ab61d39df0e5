//! `forebay check-config`, and what `forebay serve` refuses.

use crate::program::{Served, run, stderr, stdout};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

fn write(scratch: &TempDir, text: &str) -> PathBuf {
    let path = scratch.path().join("forebay.toml");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_good_file_is_summed_up() {
    let scratch = tempfile::tempdir().unwrap();
    let text = format!(
        "[store]\npath = \"{}/store\"\n[[export]]\npath = \"/store\"\norigins = [\"root://a\", \"root://b:2\"]\n",
        scratch.path().display()
    );
    let file = write(&scratch, &text);
    let output = run(["check-config".as_ref(), file.as_os_str()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = stdout(&output);
    assert!(printed.contains("forebay.toml: good"), "{printed}");
    assert!(printed.contains("export      /store from root://a:1094, root://b:2"), "{printed}");
    assert!(!scratch.path().join("store").exists(), "a check changes nothing");
}

#[test]
fn doubtful_access_is_a_warning_of_check_config_doctor_and_serve() {
    let scratch = tempfile::tempdir().unwrap();
    let grant = "[[grant]]\npath = \"/\"\nrights = [\"read\"]\n";
    let text = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[[export]]\ndirectory = \"{}\"\n{grant}{grant}",
        scratch.path().display()
    );
    let file = write(&scratch, &text);
    let doubt = "never matches: table 1 of [[grant]]";
    let checked = run(["check-config".as_ref(), file.as_os_str()]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    assert!(stderr(&checked).contains("warning: ") && stderr(&checked).contains(doubt), "{}", stderr(&checked));
    let examined = run(["doctor".as_ref(), "--offline".as_ref(), "--config".as_ref(), file.as_os_str()]);
    assert!(stdout(&examined).contains("WARN access: ") && stdout(&examined).contains(doubt), "{}", stdout(&examined));
    let mut served = Served::start(["--config".as_ref(), file.as_os_str()]);
    assert!(served.wait_for_log(doubt).contains("WARN"));
}

#[test]
fn a_bad_file_is_refused_with_line_and_column_by_check_and_serve() {
    let scratch = tempfile::tempdir().unwrap();
    let file = write(&scratch, "[server]\nlisten = \"127.0.0.1:0\"\nconections_max = 5\n[memory]\nbudget = 5\n");
    for args in
        [vec!["check-config".as_ref(), file.as_os_str()], vec!["serve".as_ref(), "--config".as_ref(), file.as_os_str()]]
    {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2));
        let error = stderr(&output);
        assert!(
            error.contains(
                "forebay.toml:3:1: unknown key `conections_max` in [server]: did you mean `connections_max`?"
            ),
            "{error}"
        );
        assert!(error.contains("forebay.toml:5:10: 5 is not a text: write it as in `\"1GiB\"`"), "{error}");
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn the_printed_example_is_a_file_that_parses() {
    let scratch = tempfile::tempdir().unwrap();
    let example =
        stdout(&run(["check-config", "--example"])).replace("/var/cache", &scratch.path().display().to_string());
    let file = write(&scratch, &example);
    let output = run(["check-config".as_ref(), file.as_os_str()]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_file_and_flags_do_not_mix() {
    let output = run(["serve", "--config", "forebay.toml", "--store", "/tmp/store"]);
    assert_eq!(output.status.code(), Some(2));
    let error = stderr(&output);
    assert!(
        error.contains("--config") && error.contains("--store") && error.contains("cannot be used with"),
        "{error}"
    );
}

#[test]
fn bad_flags_are_named() {
    for (args, named) in [
        (vec!["serve", "--log", "info"], "command line: nothing is exported"),
        (vec!["serve", "--origin", "root://a"], "--store is missing"),
        (vec!["serve", "--origin", "ftp://a", "--store", "/tmp/s"], "--origin: origins of scheme `ftp`"),
        (vec!["serve", "--export-dir", "/nonexistent"], "--export-dir: /nonexistent cannot be exported"),
        (vec!["serve", "--export-dir", "/", "--listen", "x"], "--listen: `x` is not an address"),
        (vec!["serve", "--export-dir", "/", "--listen", "192.0.2.1:0"], "--listen: cannot listen on 192.0.2.1:0"),
        (vec!["serve", "--origin", "root://a", "--store", "/dev/null"], "--store: /dev/null is not a directory"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{named}");
        assert!(stderr(&output).contains(named), "{}", stderr(&output));
    }
}

#[test]
fn commands_without_a_file_read_that_of_the_package() {
    for args in [
        vec!["serve"],
        vec!["check-config"],
        vec!["doctor"],
        vec!["authz", "explain", "--path", "/", "--right", "read"],
    ] {
        let output = run(&args);
        let printed = stdout(&output) + &stderr(&output);
        assert!(printed.contains("/etc/forebay/forebay.toml: cannot be read: "), "{args:?}: {printed}");
        assert!(printed.contains("write it, or name another file"), "{args:?}: {printed}");
    }
}

#[test]
fn each_line_of_an_error_is_attributed_to_the_program_once() {
    let scratch = tempfile::tempdir().unwrap();
    let file = write(&scratch, "[memory]\nbudget = 5\n[export]\n");
    let output = run(["serve".as_ref(), "-c".as_ref(), file.as_os_str()]);
    let error = stderr(&output);
    assert!(error.lines().count() > 1, "{error}");
    for line in error.lines() {
        assert!(line.starts_with("forebay: ") && line.matches("forebay.toml").count() == 1, "{error}");
    }
}
