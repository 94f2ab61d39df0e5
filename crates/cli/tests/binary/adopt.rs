//! `forebay adopt`: configurations in the style of sites, and what is made of them.

use crate::program::{command, run, stderr, stdout};
use std::{fs, path::Path, process::Output};
use tempfile::TempDir;

/// Configurations, each with the file that is made of it.
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/xrootd");

/// Runs `forebay adopt` on a sample, from within their directory.
fn adopt(sample: &str, arguments: &[&str]) -> Output {
    let mut command = command(["adopt", "--xrootd-config", sample, "--host", "xc1.example.org"]);
    command.args(arguments).current_dir(SAMPLES).env_remove("XCACHE_ORIGIN").output().unwrap()
}

/// Compares what is made of a sample with what is kept, and returns what was told.
fn compare(sample: &str, kept: &str, arguments: &[&str]) -> String {
    let output = adopt(sample, &[&["--no-check", "--dry-run"], arguments].concat());
    let expected = fs::read_to_string(Path::new(SAMPLES).join(kept)).unwrap_or_default();
    assert!(
        stdout(&output) == expected,
        "something else is made of {sample}; if it is right, keep it as {kept}:\n{}\n{}",
        stdout(&output),
        stderr(&output)
    );
    stderr(&output)
}

#[test]
fn a_cache_of_a_federation_is_taken_over() {
    let told = compare("osg.cfg", "osg.toml", &["--instance", "stash-cache"]);
    assert!(told.contains("osg.d/10-common.cfg:9 "), "{told}");
    assert!(!told.contains("99-off"), "{told}");
}

#[test]
fn the_settings_of_a_cache_of_pelican_are_taken_over() {
    let scratch = TempDir::new().unwrap();
    let settings = scratch.path().join("pelican.yaml");
    let text =
        "Federation:\n  DiscoveryUrl: osg-htc.org\nCache:\n  Port: 8442\n  StorageLocation: /c\n  Concurrency: 4\n";
    fs::write(&settings, text).unwrap();
    let output = command(["adopt", "--no-check", "--pelican-config"]).arg(&settings).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stdout(&output).contains(r#"origins = ["pelican://osg-htc.org:443"]"#), "{}", stdout(&output));
    assert!(stderr(&output).contains("yaml:6 "), "{}", stderr(&output));
}

#[test]
fn the_cache_of_a_site_is_taken_over() {
    compare("site.cfg", "site.toml", &["--accept-unprotected"]);
}

#[test]
fn a_forwarding_cache_is_taken_over() {
    compare("forwarding.cfg", "forwarding.toml", &[]);
}

#[test]
fn a_cache_with_spaces_is_taken_over() {
    compare("spaces.cfg", "spaces.toml", &[]);
}

#[test]
fn caches_of_experiments_keep_their_access_control() {
    // A record, a name, a mapping that no setting can express: each is reported with its line.
    for (sample, kept, reported) in [
        ("cms.cfg", "cms.toml", ["lists/authfile-cms:4", "lists/authfile-cms:9", "grid-mapfile"]),
        ("atlas.cfg", "atlas.toml", ["atlas.cfg:7 ", "atlas.cfg:17 ", "atlas.cfg:18 "]),
        ("stash.cfg", "stash.toml", ["lists/scitokens.cfg:9", "/pnfs/fermi is not covered", "lists/authfile-stash:4"]),
    ] {
        let told = compare(sample, kept, &[]);
        assert!(!told.contains(" unprotected "), "{told}");
        for line in reported {
            assert!(told.contains(line), "{sample}: {line}: {told}");
        }
    }
}

#[test]
fn no_directive_goes_untold() {
    for sample in ["site.cfg", "forwarding.cfg", "spaces.cfg", "cms.cfg", "atlas.cfg", "stash.cfg"] {
        let instance = "anon";
        let text = fs::read_to_string(Path::new(SAMPLES).join(sample)).unwrap();
        let told = stderr(&adopt(sample, &["--no-check", "--dry-run", "--instance", instance]));
        for (index, line) in text.lines().enumerate() {
            let is_directive = line.split('#').next().unwrap_or_default().split(' ').next().unwrap().contains('.');
            assert!(!is_directive || told.contains(&format!("{sample}:{} ", index + 1)), "{sample}: {line}\n{told}");
        }
        let counted = told.lines().filter(|line| line.starts_with(&format!("{sample}:"))).count();
        assert!(told.contains(&format!("{counted} directives: ")), "{told}");
    }
}

#[test]
fn another_instance_of_the_file_is_another_cache() {
    let told = stderr(&adopt("osg.cfg", &["--no-check", "--dry-run", "--instance", "stash-cache-auth"]));
    assert!(told.contains("sec.protocol gsi"), "{told}");
    let output = adopt("osg.cfg", &["--no-check", "--dry-run"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--instance"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
}

#[test]
fn nothing_is_written_that_leaves_a_site_unprotected() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("forebay.toml");
    let arguments = ["--no-check", "--output", file.to_str().unwrap()];
    let output = adopt("site.cfg", &arguments);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("--accept-unprotected"), "{}", stderr(&output));
    assert!(stdout(&output).is_empty());
    assert!(!file.exists());
    let output = adopt("site.cfg", &[&arguments[..], &["--accept-unprotected"]].concat());
    assert_eq!(output.status.code(), Some(4));
    assert!(file.exists());
}

/// Writes a configuration for the store in `directory`; returns its path.
fn write_config(directory: &Path, more: &str) -> String {
    let store = directory.join("store");
    fs::create_dir_all(&store).unwrap();
    let text = format!(
        "all.export /\noss.localroot {}\npss.cachelib default\npss.origin origin.example\n{more}",
        store.display()
    );
    let config = directory.join("xcache.cfg");
    fs::write(&config, text).unwrap();
    config.to_str().unwrap().to_owned()
}

#[test]
fn what_is_written_passes_check_config_and_is_not_overwritten() {
    let directory = TempDir::new().unwrap();
    let config = write_config(directory.path(), "");
    let file = directory.path().join("forebay.toml");
    let arguments = ["adopt", "--xrootd-config", &config, "--output", file.to_str().unwrap()];
    let dry = run([&arguments[..], &["--dry-run"]].concat());
    assert_eq!(dry.status.code(), Some(0), "{}", stderr(&dry));
    assert!(!file.exists());
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    assert_eq!(fs::read_to_string(&file).unwrap(), stdout(&dry));
    let checked = run(["check-config", file.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    let again = run(arguments);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("exists"), "{}", stderr(&again));
}

#[test]
fn the_directory_is_looked_at_and_left_alone() {
    let directory = TempDir::new().unwrap();
    let config = write_config(directory.path(), "");
    let store = directory.path().join("store");
    fs::write(store.join("a.root"), "data").unwrap();
    fs::write(store.join("b.root.cinfo"), "no record").unwrap();
    let output = run(["adopt", "--xrootd-config", &config, "--user", "0"]);
    assert_eq!(output.status.code(), Some(4));
    let told = stderr(&output);
    assert!(told.contains("0 of 1 records in 1 directories are good"), "{told}");
    assert!(told.contains("cinfo_missing: 1") && told.contains("    a.root\n"), "{told}");
    assert!(told.contains("cinfo_version: 1") && told.contains("    b.root.cinfo\n"), "{told}");
    assert_eq!(fs::read_dir(&store).unwrap().count(), 2);
    fs::remove_dir_all(&store).unwrap();
    let output = run(["adopt", "--xrootd-config", &config]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("checking"), "{}", stderr(&output));
}

#[test]
fn what_xrootd_would_not_start_with_is_refused_with_its_place() {
    let directory = TempDir::new().unwrap();
    let config = write_config(directory.path(), "xrd.port $port\nif exec xrootd\n");
    let output = run(["adopt", "--xrootd-config", &config]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(told.contains(&format!("{config}:5: the variable port is not defined")), "{told}");
    assert!(told.contains(&format!("{config}:6: no `fi` ends this `if`")), "{told}");
}

#[test]
fn a_missing_configuration_of_xrootd_is_a_mistake_in_the_flag() {
    let output = run(["adopt", "--xrootd-config", "/nonexistent/xrootd.cfg"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "forebay: --xrootd-config: /nonexistent/xrootd.cfg does not exist\n");
}
