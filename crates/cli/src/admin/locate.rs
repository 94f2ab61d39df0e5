//! `forebay locate`: where a file is in a cluster.

use super::{AdminArgs, files::location_path_of};
use crate::text;
use forebay_admin::model::FileLocations;

/// Show which members of the cluster have a file, and which one would get it
///
/// Members that take new files come first, in the order in which placement tries them for this file.
#[derive(Debug, clap::Args)]
pub(crate) struct LocateArgs {
    /// The file, as clients request it
    path: String,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn run(args: &LocateArgs) -> anyhow::Result<()> {
    let path = location_path_of(&args.path);
    let answer = args.admin.run(async |server| server.get(&path).await)?;
    args.admin.print(answer, |out, FileLocations { name, members }| {
        writeln!(out, "{}", text::printable(&name))?;
        for member in members {
            let rank = member.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
            let own = if member.is_this_server { " (this server)" } else { "" };
            let state = if member.state == "active" { String::new() } else { format!(", {}", member.state) };
            writeln!(out, "{rank:>3}  {:<8}  {}{own}{state}", member.file, text::printable(&member.member))?;
        }
        Ok(())
    })
}
