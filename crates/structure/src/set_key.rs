//! Names of learned sets of columns.

/// The name of a learned set of columns: the files of a dataset, or a tree in them, read by anyone or by a user with a program.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct SetKey {
    pub dataset: String,
    /// `None`: where these files have their metadata.
    pub tree: Option<String>,
    /// The user and the program.
    pub job: Option<(String, String)>,
}

/// Bytes of a key. Longer names have no sets.
pub const KEY_LEN_MAX: usize = 4096;

/// Between the parts of a key. No part has it.
const SEPARATOR: char = '\0';

impl SetKey {
    /// The key for the metadata of the files of a dataset.
    pub fn of_dataset(dataset: &str) -> Self {
        Self { dataset: dataset.to_owned(), tree: None, job: None }
    }

    /// The key for a tree of a dataset, of any reader.
    pub fn of_tree(dataset: &str, tree: &str) -> Self {
        Self { tree: Some(tree.to_owned()), ..Self::of_dataset(dataset) }
    }

    /// As text. `None` when a part has the separator in it, or it is too long.
    pub fn to_text(&self) -> Option<String> {
        let job = self.job.iter().flat_map(|(user, program)| [user, program]);
        let parts: Vec<&str> = [&self.dataset].into_iter().chain(&self.tree).chain(job).map(String::as_str).collect();
        let text = parts.join("\0");
        let is_clear =
            parts.iter().all(|part| !part.contains(SEPARATOR)) && (self.tree.is_some() || self.job.is_none());
        (is_clear && text.len() <= KEY_LEN_MAX).then_some(text)
    }

    /// Reads what [`Self::to_text`] made.
    pub fn of_text(text: &str) -> Option<Self> {
        let mut parts = text.split(SEPARATOR).map(str::to_owned);
        let (dataset, tree) = (parts.next()?, parts.next());
        let job = match (parts.next(), parts.next()) {
            (Some(user), Some(program)) => Some((user, program)),
            (None, _) => None,
            (Some(_), None) => return None,
        };
        parts.next().is_none().then_some(Self { dataset, tree, job })
    }
}

/// The dataset of a file: its directory, without last components that only number parts of a dataset (`…/260000/file.root`).
pub fn dataset_of(path: &str) -> &str {
    let mut directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    while let Some((parent, last)) = directory.rsplit_once('/')
        && is_number(last)
    {
        directory = parent;
    }
    directory
}

/// Whether a name is a decimal or hexadecimal number. Words of the letters a to f are names.
fn is_number(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    !name.is_empty() && name.bytes().all(is_part) && name.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_directories_are_of_one_dataset() {
        for (path, dataset) in [
            ("/store/mc/Run2/NANOAODSIM/260000/1A2B-77.root", "/store/mc/Run2/NANOAODSIM"),
            ("/store/mc/00/0f/a.root", "/store/mc"),
            ("/store/dead/a.root", "/store/dead"),
            ("/2018/a.root", ""),
            ("/a.root", ""),
        ] {
            assert_eq!(dataset_of(path), dataset, "{path}");
        }
    }

    #[test]
    fn keys_are_texts() {
        let of_tree = SetKey::of_tree("/store", "dir/Events");
        let of_job = SetKey { job: Some(("alice".to_owned(), String::new())), ..of_tree.clone() };
        for key in [SetKey::of_dataset("/store"), of_tree.clone(), of_job] {
            assert_eq!(SetKey::of_text(&key.to_text().unwrap()), Some(key));
        }
        assert_eq!(SetKey::of_tree("/store", "a\0b").to_text(), None);
        assert_eq!(SetKey::of_dataset(&"d".repeat(KEY_LEN_MAX)).to_text().map(|text| text.len()), Some(KEY_LEN_MAX));
        assert_eq!(SetKey::of_dataset(&"d".repeat(KEY_LEN_MAX + 1)).to_text(), None);
        for text in ["a\0b\0c", "a\0b\0c\0d\0e"] {
            assert_eq!(SetKey::of_text(text), None);
        }
    }
}
