//! An xrootd configuration: reading and translating it never panics, and ends.
//!
//! The input is the main file and, behind a NUL, one that it may go on with.

#![no_main]

use forebay_adopt::{Found, Instance, Machine, read, translate};
use libfuzzer_sys::fuzz_target;

/// A machine with two files, one of them the only file of a directory, and one variable in the environment.
#[derive(Debug)]
struct TwoFiles<'i> {
    main: &'i [u8],
    other: &'i [u8],
}

impl Machine for TwoFiles<'_> {
    fn environment(&self, name: &str) -> Option<String> {
        (name == "HOME").then(|| "/root".to_owned())
    }

    fn find(&self, path: &str) -> Result<Found, String> {
        match path {
            "main" => Ok(Found::File(self.main.to_vec())),
            "/d" | "/d/" => Ok(Found::Directory(vec!["other.cfg".to_owned()])),
            "/d/other.cfg" => Ok(Found::File(self.other.to_vec())),
            "/bad" => Err("bad".to_owned()),
            _ => Ok(Found::Nothing),
        }
    }

    fn owner(&self, path: &str) -> Option<String> {
        (path == "/d").then(|| "xrootd".to_owned())
    }
}

fuzz_target!(|input: &[u8]| {
    let cut = input.iter().position(|&byte| byte == 0).unwrap_or(input.len());
    let (main, other) = input.split_at(cut);
    let instance = Instance { host: "xc1.site.org".into(), name: "anon".into(), program: "xrootd".into() };
    let machine = TwoFiles { main, other: other.get(1..).unwrap_or_default() };
    if let Ok(directives) = read("main", &instance, &machine) {
        assert_eq!(translate(&directives, &instance, "main", &machine).notes.len(), directives.len());
    }
});
