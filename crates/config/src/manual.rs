//! The manual page forebay.toml(5), generated from the declaration of the settings.

use crate::file::{SECTIONS, Setting};

const INTRODUCTION: &str = "The configuration file of forebay, in TOML. Sizes are whole numbers with `KiB`, `MiB`, `GiB` or `TiB` \
     (powers of 1024), or bytes without a unit. Durations are whole numbers with `ms`, `s`, `min`, `h` or `d`. A list of one text may \
     be that text alone. `forebay check-config` reports all mistakes at once, each with its line and column.";

const RELOAD: &str =
    "Settings marked as live take effect when the server gets the signal `SIGHUP`, the others at its next start.";

/// The page, for man(1).
#[must_use]
pub fn manual() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(
        ".TH forebay.toml 5 \"\" \"forebay {version}\"\n.SH NAME\nforebay.toml \\- configuration of forebay(1)\n.SH DESCRIPTION\n"
    );
    page += &format!("{}\n.PP\n{}\n", roff(INTRODUCTION), roff(RELOAD));
    for section in SECTIONS {
        page += &format!(".SH {}\n{}\n", roff(&section.header()), roff(&joined(section.doc)));
        section.settings.iter().for_each(|setting| page += &entry(setting));
    }
    page += ".SH FILES\n.TP\n/etc/forebay/forebay.toml\nThe file of commands without \\fB\\-\\-config\\fR.\n\
             .SH SEE ALSO\nforebay(1), forebay\\-serve(1), forebay\\-check\\-config(1)\n";
    page
}

fn entry(setting: &Setting) -> String {
    let range = (setting.range)().map_or_else(String::new, |range| format!(", {range}"));
    let live = if setting.value.is_live { " Live." } else { "" };
    let default = setting.value.default.map_or_else(String::new, |default| format!(" Default: `{default}`."));
    let flag = setting.value.flag.map_or_else(String::new, |flag| format!(" Flag of `forebay serve`: `{flag}`."));
    let text = format!("Value: {}{range}.{default}{flag}{live}", (setting.kind)());
    format!(".TP\n\\fB{}\\fR\n{}\n.br\n{}\n", roff(setting.key), roff(&joined(setting.doc)), roff(&text))
}

fn joined(doc: &[&str]) -> String {
    doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Text on one line, with code in bold.
fn roff(text: &str) -> String {
    let mut page = String::new();
    for (index, part) in text.split('`').enumerate() {
        let part = part.replace('\\', "\\e").replace('-', "\\-");
        page += &if index % 2 == 1 { format!("\\fB{part}\\fR") } else { part };
    }
    // A dot or an apostrophe at the beginning of a line is a request.
    if page.starts_with(['.', '\'']) { format!("\\&{page}") } else { page }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_setting_and_no_stray_request() {
        let page = manual();
        for section in SECTIONS {
            assert!(page.contains(&format!(".SH {}\n", section.header())), "{}", section.name);
            for setting in section.settings {
                assert!(page.contains(&format!(".TP\n\\fB{}\\fR\n", setting.key)), "{}", setting.name);
            }
        }
        let requests = [".TH ", ".SH ", ".TP", ".PP", ".br"];
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(requests.iter().any(|request| line.starts_with(request)), "{line}");
        }
    }

    #[test]
    fn text_cannot_be_a_request() {
        assert_eq!(roff(".TH `a-b` \\"), "\\&.TH \\fBa\\-b\\fR \\e");
    }
}
