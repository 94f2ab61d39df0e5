//! Output that is repeated: a screen in a terminal, blocks of text elsewhere.

use super::{AdminArgs, connection::Connection};
use std::{
    io::{self, IsTerminal as _, Write},
    time::Duration,
};

/// Puts the cursor into the upper left corner.
const HOME: &str = "\x1b[H";

/// Clears the rest of a line, and of the screen.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_REST: &str = "\x1b[J";

#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Rhythm {
    /// Seconds between two updates
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=3600))]
    interval: u16,
    /// End after this many updates; default: when interrupted
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
}

impl Rhythm {
    /// Shows what `draw` returns again and again.
    pub(super) fn repeat(
        self,
        args: &AdminArgs,
        mut draw: impl AsyncFnMut(&Connection) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let is_screen = io::stdout().is_terminal();
        args.run(async |server| {
            for shown in 1.. {
                show(&draw(server).await?, is_screen)?;
                if self.count == Some(shown) {
                    break;
                }
                tokio::time::sleep(Duration::from_secs(self.interval.into())).await;
            }
            Ok(())
        })
    }
}

/// Writes over the text before, so that a terminal does not flicker.
fn show(text: &str, is_screen: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if is_screen {
        write!(out, "{HOME}")?;
        for line in text.lines() {
            writeln!(out, "{line}{CLEAR_LINE}")?;
        }
        write!(out, "{CLEAR_REST}")?;
    } else {
        writeln!(out, "{text}")?;
    }
    out.flush()
}
