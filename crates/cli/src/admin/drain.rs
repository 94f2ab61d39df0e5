//! `forebay drain`: lets a server finish what it has begun and take nothing new.

use super::{AdminArgs, AdminError, connection::understood, print_json};
use forebay_admin::model::Drain;
use std::{io, time::Duration};
use tokio::time::sleep;

/// Let a running server take no new connections and opens; files that are open are served to their end
#[derive(Debug, clap::Args)]
pub(crate) struct DrainArgs {
    /// Take new work again
    #[arg(long, conflicts_with = "wait")]
    undo: bool,
    /// Wait until no file is open any more
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Pause between two questions.
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
                    let advice = "the server goes on draining; `forebay drain --undo` ends that";
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
    let state = if is_draining { "draining" } else { "taking new work" };
    println!("{state}: {open_handles} files open, {connections} connections");
    Ok(())
}
