//! Translations of texts.

use crate::sandbox::Sandbox;
use forebay_adopt::{Instance, Translation, read, translate};

/// The translation of `text` after the directives that every cache has.
pub(crate) fn translated(text: &str) -> Translation {
    let text = format!("pss.cachelib default\noss.localroot /c\nall.export /\npss.origin origin.example\n{text}\n");
    translated_whole(&text)
}

/// The translation of `text`.
pub(crate) fn translated_whole(text: &str) -> Translation {
    translated_on(Sandbox::default().with("a.cfg", text))
}

/// The translation of `a.cfg` on a machine.
pub(crate) fn translated_on(sandbox: Sandbox) -> Translation {
    let instance = Instance { host: "xc1.site.org".into(), name: "anon".into(), program: "xrootd".into() };
    translate(&read("a.cfg", &instance, &sandbox).unwrap(), &instance, "a.cfg", &sandbox)
}

/// The lines of the file that are no comments.
pub(crate) fn settings(translation: &Translation) -> Vec<&str> {
    let lines = translation.file.as_deref().unwrap_or_default().lines();
    lines.filter(|line| !line.starts_with('#') && !line.is_empty()).collect()
}
