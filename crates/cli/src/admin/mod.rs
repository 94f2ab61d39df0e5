//! The commands that talk to a running server over its administration API.

mod address;
mod connection;
mod consent;
pub(crate) mod evict;
pub(crate) mod files;
pub(crate) mod jobs;
pub(crate) mod locate;
pub(crate) mod maintenance;
pub(crate) mod pin;
pub(crate) mod prefetch;
pub(crate) mod rucio;
pub(crate) mod sizing;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod top;
mod watch;

use crate::client::block_on;
use address::Address;
use connection::{Connection, understood};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    io::{self, BufWriter, Write},
    path::PathBuf,
};

/// The server to talk to, and the output format.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 success; 1 failure; 2 invalid arguments; 3 the server is unreachable; 4 not authorized; 5 partial \
                        success; 130 interrupted."
)]
pub(crate) struct AdminArgs {
    /// The server's admin port: the path of its socket, or http://HOST:PORT [default: /run/forebay/admin.sock]
    #[arg(long, value_name = "SOCKET|URL", env = "FOREBAY_ADMIN", conflicts_with = "config", help_heading = "Server")]
    admin: Option<String>,
    /// File with the token for an http:// address
    #[arg(long, value_name = "FILE", env = "FOREBAY_ADMIN_TOKEN_FILE", help_heading = "Server")]
    token_file: Option<PathBuf>,
    /// The server's configuration file, to read socket, address and token file from
    #[arg(short, long, value_name = "FILE", help_heading = "Server")]
    config: Option<PathBuf>,
    /// Print the JSON of the API
    #[arg(long)]
    pub(crate) json: bool,
}

impl AdminArgs {
    /// The server that the arguments name.
    fn connection(&self) -> anyhow::Result<Connection> {
        Ok(Connection::new(Address::choose(self)?))
    }

    /// Runs a command that needs a connection to the server.
    fn run<T>(&self, work: impl AsyncFnOnce(&Connection) -> anyhow::Result<T>) -> anyhow::Result<T> {
        block_on(work(&self.connection()?))
    }

    /// Prints an answer as JSON, or with `text`.
    fn print<T: DeserializeOwned>(
        &self,
        answer: Value,
        text: impl FnOnce(&mut dyn Write, T) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        if self.json {
            print_json(&mut out, &answer)?;
        } else {
            text(&mut out, understood(answer)?)?;
        }
        Ok(out.flush()?)
    }
}

/// Prints a result as JSON.
fn print_json(out: &mut impl Write, value: &Value) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}
