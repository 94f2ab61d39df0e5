//! `pfc.diskusage`.

use crate::translated::{settings, translated};
use forebay_adopt::Fate;

#[test]
fn bounds_and_quotas_are_settings() {
    for (text, expected) in [
        ("pfc.diskusage 0.85 0.9", vec![r#"high = "90%""#, r#"low = "85%""#]),
        (
            "pfc.diskusage 1t 2t purgecoldfiles 20d 10",
            vec![r#"high = "2TiB""#, r#"low = "1TiB""#, r#"age_max = "20d""#],
        ),
        (
            "pfc.diskusage 0.8 0.9 files 1t 2t 3t",
            vec![r#"budget = "3TiB""#, r#"high = "100%""#, r#"low = "2TiB""#, r#"free_min = "10%""#],
        ),
    ] {
        let translation = translated(text);
        let settings = settings(&translation);
        let begin = settings.iter().position(|line| *line == "[purge]").unwrap();
        assert_eq!(settings[begin + 1..begin + 1 + expected.len()], expected, "{text}");
        assert_eq!(translation.notes.last().unwrap().fate, Fate::Honoured, "{text}");
    }
    for text in ["0.9 0.8", "0.9", "0.8 0.9 files 1t 2t", "0.8 0.9 purgecoldfiles", "low high"] {
        let translation = translated(&format!("pfc.diskusage {text}"));
        assert!(!settings(&translation).contains(&"[purge]"), "{text}");
        assert_eq!(translation.notes.last().unwrap().fate, Fate::NotHonoured, "{text}");
    }
}
