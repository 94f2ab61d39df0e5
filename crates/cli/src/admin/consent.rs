//! The consent of an operator to the removal of files.

use crate::{failure::UsageError, text};
use std::io::{self, IsTerminal, Write};

/// Whether files are removed, and after which question.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Consent {
    /// Remove nothing: print how many files and bytes would be removed
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Remove the files without a question. Without a terminal, as in scripts, no question is asked
    #[arg(short, long)]
    yes: bool,
}

impl Consent {
    /// Whether [`Self::given_for`] has to be called before anything is removed.
    pub(super) fn needs_preview(self) -> bool {
        self.dry_run || (!self.yes && has_terminal())
    }

    /// Prints what would be removed, for a dry run, or asks for consent. False: nothing may be removed.
    pub(super) fn given_for(self, files: u64, bytes: u64) -> anyhow::Result<bool> {
        let amount = format!("{files} files, {}", text::bytes(bytes));
        if self.dry_run {
            writeln!(io::stdout(), "{amount} would be removed")?;
            return Ok(false);
        }
        write!(io::stderr(), "Remove {amount}? [y/N] ")?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        if is_yes(&answer) { Ok(true) } else { Err(UsageError("nothing was removed".to_owned()).into()) }
    }
}

fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_consent() {
        for (answer, consent) in
            [("y\n", true), ("YES\n", true), ("\n", false), ("", false), ("n\n", false), ("yep\n", false)]
        {
            assert_eq!(is_yes(answer), consent, "{answer:?}");
        }
    }
}
