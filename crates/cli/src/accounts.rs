//! Users of this machine, by name and number.

use anyhow::Context;
use forebay_store::User;
use std::{fs, io};

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
pub(crate) fn user(name: &str) -> anyhow::Result<User> {
    let mut users = users().context("reading /etc/passwd")?.into_iter();
    let found = users.find(|(known, user)| known == name || user.uid.to_string() == name);
    found.map(|(_, user)| user).with_context(|| format!("no user {name} in /etc/passwd"))
}

/// The name in `/etc/passwd` of the user `uid`.
pub(crate) fn user_name(uid: u32) -> Option<String> {
    users().ok()?.into_iter().find(|(_, user)| user.uid == uid).map(|(name, _)| name)
}
