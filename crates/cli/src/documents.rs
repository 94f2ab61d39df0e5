//! Documents in packages: shell completions, manual pages, the description of the administration API.

mod commands;

use crate::Cli;
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Print a shell completion script
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write the manual pages: one for each command, and forebay.toml(5)
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Target directory; created if missing. Pages ending in .1 belong in man1, .5 in man5
    #[arg(required_unless_present = "markdown")]
    directory: Option<PathBuf>,
    /// Print all commands as one Markdown document instead
    #[arg(long, conflicts_with = "directory")]
    markdown: bool,
}

/// Print the description of the administration API (OpenAPI 3.1)
#[derive(Debug, clap::Args)]
pub(crate) struct OpenapiArgs {}

pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "forebay", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(())
}

pub(crate) fn man(args: &ManArgs) -> anyhow::Result<()> {
    let Some(directory) = &args.directory else {
        io::stdout().lock().write_all(commands::reference(Cli::command()).as_bytes())?;
        return Ok(());
    };
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    let mut command = Cli::command();
    // Sets the full names of subcommands.
    command.build();
    write_pages(&command, directory)?;
    let path = directory.join("forebay.toml.5");
    fs::write(&path, forebay_config::manual()).with_context(|| format!("writing {}", path.display()))
}

pub(crate) fn openapi(_: &OpenapiArgs) -> anyhow::Result<()> {
    io::stdout().lock().write_all(forebay_admin::openapi::document().as_bytes())?;
    Ok(())
}

/// The pages of a command and of those below it.
fn write_pages(command: &clap::Command, directory: &Path) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let path = directory.join(format!("{name}.1"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).title(name).render(&mut page)?;
    fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    let below = command.get_subcommands().filter(|command| command.get_name() != "help");
    below.into_iter().try_for_each(|command| write_pages(command, directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    fn subcommands() -> Vec<String> {
        Cli::command().get_subcommands().map(|subcommand| subcommand.get_name().to_owned()).collect()
    }

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn completions_of_every_shell_have_every_command() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "forebay", &mut script);
            let script = String::from_utf8(script).unwrap();
            for name in subcommands() {
                assert!(script.contains(&name), "{shell}: {name}");
            }
        }
    }

    #[test]
    fn every_command_has_a_page_and_is_listed_in_the_first() {
        let directory = tempfile::tempdir().unwrap();
        man(&ManArgs { directory: Some(directory.path().join("man1")), markdown: false }).unwrap();
        let page = |name: &str| fs::read_to_string(directory.path().join("man1").join(name)).unwrap();
        let first = page("forebay.1");
        assert!(page("forebay.toml.5").contains(".SH [server]"));
        assert!(page("forebay-authz-explain.1").contains(".TH"));
        for name in subcommands() {
            let own = page(&format!("forebay-{name}.1"));
            assert!(own.contains(".TH"), "{name}");
            assert!(first.contains(&format!("forebay\\-{}", name.replace('-', "\\-"))), "{name}");
        }
    }
}
