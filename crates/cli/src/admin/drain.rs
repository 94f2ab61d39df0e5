//! `forebay drain`: makes a server finish its work and accept nothing new.

use super::{AdminArgs, connection::understood, error::AdminError, print_json};
use forebay_admin::model::Drain;
use std::{io, time::Duration};
use tokio::time::sleep;

/// Make a running server accept no new connections and opens; open files are served until they are closed
#[derive(Debug, clap::Args)]
pub(crate) struct DrainArgs {
    /// Accept new work again
    #[arg(long, conflicts_with = "wait")]
    undo: bool,
    /// Wait until no file is open
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

const PATH: &str = "/api/v1/drain";

pub(crate) fn run(args: &DrainArgs) -> anyhow::Result<()> {
    let answer = args.admin.run(async |server| {
        if args.undo {
            return server.delete(PATH).await;
        }
        let mut answer = server.post(PATH, None).await?;
        while args.wait && understood::<Drain>(answer.clone())?.open_handles > 0 {
            tokio::select! {
                biased;
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted?;
                    let advice = "the server continues to drain; `forebay drain --undo` ends that";
                    return Err(AdminError::Interrupted { advice }.into());
                }
                () = sleep(POLL_INTERVAL) => {}
            }
            answer = server.post(PATH, None).await?;
        }
        Ok(answer)
    })?;
    if args.admin.json {
        return print_json(&mut io::stdout().lock(), &answer);
    }
    let Drain { is_draining, open_handles, connections } = understood(answer)?;
    let state = if is_draining { "draining" } else { "accepting new work" };
    println!("{state}: {open_handles} files open, {connections} connections");
    Ok(())
}
