//! The files and the environment of this machine.

use anyhow::Context;
use forebay_adopt::{Found, Machine};
use forebay_store::User;
use std::{
    env, fs,
    io::{self, Read},
};

/// Most bytes read of a file; the configuration parser refuses that many.
const READ_LEN_MAX: u64 = (1 << 20) + 1;

#[derive(Debug)]
pub(super) struct ThisMachine;

impl Machine for ThisMachine {
    fn environment(&self, name: &str) -> Option<String> {
        env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn find(&self, path: &str) -> Result<Found, String> {
        let read = || -> io::Result<Found> {
            if fs::metadata(path)?.is_dir() {
                let names = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
                return Ok(Found::Directory(names.collect::<io::Result<_>>()?));
            }
            let mut bytes = Vec::new();
            fs::File::open(path)?.take(READ_LEN_MAX).read_to_end(&mut bytes)?;
            Ok(Found::File(bytes))
        };
        match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
            other => other.map_err(|error| error.to_string()),
        }
    }
}

/// The users in `/etc/passwd`, with their names.
fn users() -> io::Result<Vec<(String, User)>> {
    let passwd = fs::read_to_string("/etc/passwd")?;
    let users = passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, uid, gid) = (fields.next()?, fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        Some((name.to_owned(), User { uid, gid }))
    });
    Ok(users.collect())
}

/// The user `name`, a name in `/etc/passwd` or a number.
pub(super) fn user(name: &str) -> anyhow::Result<User> {
    let mut users = users().context("reading /etc/passwd")?.into_iter();
    let found = users.find(|(known, user)| known == name || user.uid.to_string() == name);
    found.map(|(_, user)| user).with_context(|| format!("no user {name} in /etc/passwd"))
}

/// The name in `/etc/passwd` of the user `uid`.
pub(super) fn user_name(uid: u32) -> Option<String> {
    users().ok()?.into_iter().find(|(_, user)| user.uid == uid).map(|(name, _)| name)
}
