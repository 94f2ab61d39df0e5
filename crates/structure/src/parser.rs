//! The state machine: which bytes are wanted next, and the layout that they yield.

use crate::{
    Outcome, Refusal, Tree,
    inflate::inflate,
    keys::{DIRECTORY_LEN, Head, Key, KeyList},
    limits::{DEPTH_MAX, HEAD_LEN, KEYS_MAX, METADATA_LEN_MAX, STORED_LEN_MAX, TREES_MAX},
    rntuple::{self, Link, Ntuple},
    table::TableBuilder,
    tree,
};
use forebay_types::ByteRange;
use std::{cmp::Reverse, collections::VecDeque, mem};

/// A tree whose structure cannot be used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RefusedTree {
    pub name: String,
    pub why: Refusal,
}

/// All that is known of the structure of a file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Layout {
    /// In order of their records, the largest first.
    pub trees: Vec<Tree>,
    pub refused: Vec<RefusedTree>,
    /// The reason, if the search for trees ended early.
    pub failure: Option<Refusal>,
}

impl Layout {
    /// The result for the file: `parsed` if any tree is.
    pub fn outcome(&self) -> Outcome {
        let refusal = || self.failure.or_else(|| self.refused.first().map(|tree| tree.why));
        if self.trees.is_empty() { refusal().map_or(Outcome::None, Refusal::outcome) } else { Outcome::Parsed }
    }
}

/// A record that leads to others.
#[derive(Debug)]
struct Place {
    range: ByteRange,
    /// Names of directories in front of names: `dir/`.
    prefix: String,
    depth: usize,
}

/// The record of a tree.
#[derive(Debug)]
struct Found {
    name: String,
    key: Key,
}

/// The bytes that are wanted next.
enum Step {
    Head,
    Directory(Place),
    Keys(Place),
    Record(Found),
    Header(Box<Ntuple>, [Link; 2]),
    Footer(Box<Ntuple>, Link),
    PageList(Box<Ntuple>, VecDeque<Link>),
}

/// Parses the structure of a file.
///
/// Call [`Self::poll_wanted`] for a range and [`Self::handle_bytes`] with its bytes, until nothing is wanted; then
/// [`Self::into_layout`]. Bytes fetched before, such as head and tail of the file, can answer at once. The state has no
/// clock: a caller who limits the time may stop between two ranges.
pub struct Parser {
    file_size: u64,
    /// Ranges to be read, in this order. Directories come before trees, so that all trees are known before the first one is read.
    steps: VecDeque<Step>,
    /// Trees to be read when all directories are.
    found: Vec<Found>,
    keys: usize,
    /// Bytes that the tables so far take.
    tables_len: usize,
    /// Bytes that were requested so far.
    asked_len: u64,
    /// Position of the record that the keys of the first directory name as theirs.
    first_directory: Option<u64>,
    /// Names and positions of records that were found before their keys.
    early: Vec<(String, u64)>,
    /// Whether trees were taken.
    has_parsed: bool,
    layout: Layout,
}

impl Parser {
    /// A parser of a file of this size.
    pub fn new(file_size: u64) -> Self {
        Self {
            file_size,
            steps: VecDeque::from([Step::Head]),
            found: Vec::new(),
            keys: 0,
            tables_len: 0,
            asked_len: 0,
            first_directory: None,
            early: Vec::new(),
            has_parsed: false,
            layout: Layout::default(),
        }
    }

    /// The range whose bytes are wanted now; it lies in the file. `None` at the end.
    pub fn poll_wanted(&mut self) -> Option<ByteRange> {
        loop {
            let range = match self.steps.front()? {
                Step::Head => ByteRange::at(0, HEAD_LEN.min(self.file_size)),
                Step::Directory(place) | Step::Keys(place) => place.range,
                Step::Record(found) => ByteRange::at(found.key.position, found.key.len),
                Step::Header(_, [link, _]) | Step::Footer(_, link) => ByteRange::at(link.position, link.stored_len),
                Step::PageList(_, links) => {
                    links.front().map(|link| ByteRange::at(link.position, link.stored_len)).unwrap_or_default()
                }
            };
            let refusal = if range.len() > STORED_LEN_MAX || self.asked_len + range.len() > METADATA_LEN_MAX {
                Refusal::TooLarge("size of the metadata")
            } else if range.end() > self.file_size {
                Refusal::Damaged("a record outside of the file")
            } else {
                return Some(range);
            };
            let step = self.steps.pop_front()?;
            self.refuse(step_name(&step), refusal);
        }
    }

    /// Takes the bytes of the range that [`Self::poll_wanted`] returned.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        let Some(step) = self.steps.pop_front() else { return };
        self.asked_len += bytes.len() as u64;
        let name = step_name(&step);
        if let Err(refusal) = self.handle_step(step, bytes) {
            self.refuse(name, refusal);
        }
        if !matches!(self.steps.front(), Some(Step::Directory(_) | Step::Keys(_))) {
            self.begin_trees();
        }
    }

    /// Looks for trees in bytes from `offset` on that are here already, such as the tail of the file, before the list of keys is:
    /// it often lies far away, in a gap that a record of a tree left. Trees of directories other than the first one, and `RNTuple`s,
    /// are left to the keys.
    pub fn handle_tail(&mut self, offset: u64, bytes: &[u8]) {
        let Some(directory) = self.first_directory else { return };
        self.asked_len += bytes.len() as u64;
        for key in Key::find_trees(bytes, offset, directory) {
            let name = String::from_utf8_lossy(&key.name).into_owned();
            let start = usize::try_from(key.position - offset).unwrap_or(usize::MAX);
            let len = usize::try_from(key.len).unwrap_or(usize::MAX);
            let record = bytes.get(start..).and_then(|from| from.get(..len)).unwrap_or_default();
            // A record that cannot be used is refused when its key is read.
            let position = key.position;
            if name.len() <= NAME_LEN_MAX && self.handle_record(Found { name: name.clone(), key }, record).is_ok() {
                self.early.push((name, position));
            }
        }
    }

    /// Where the first of the records begins that were found in a tail.
    pub fn early_start(&self) -> Option<u64> {
        self.early.iter().map(|(_, position)| *position).min()
    }

    /// The trees that are parsed by now; they are not in the layout any more.
    pub fn take_trees(&mut self) -> Vec<Tree> {
        self.has_parsed |= !self.layout.trees.is_empty();
        mem::take(&mut self.layout.trees)
    }

    /// Whether any tree was parsed.
    pub fn has_parsed(&self) -> bool {
        self.has_parsed || !self.layout.trees.is_empty()
    }

    /// The result, when nothing is wanted any more.
    pub fn into_layout(self) -> Layout {
        self.layout
    }

    /// Notes why a tree is not used, or ends the search for trees.
    fn refuse(&mut self, tree: Option<String>, why: Refusal) {
        match tree {
            Some(name) => self.layout.refused.push(RefusedTree { name, why }),
            None => self.stop(why),
        }
    }

    fn stop(&mut self, why: Refusal) {
        self.steps.clear();
        self.found.clear();
        self.layout.failure = Some(why);
    }

    fn handle_step(&mut self, step: Step, bytes: &[u8]) -> Result<(), Refusal> {
        match step {
            Step::Head => {
                if let Some(head) = Head::of_file(bytes)? {
                    self.first_directory = Some(head.begin);
                    self.want_directory(head.directory_position, String::new(), 0)?;
                }
                Ok(())
            }
            Step::Directory(place) => {
                if let Some(KeyList { position, len }) = KeyList::of_directory(bytes)? {
                    self.steps.push_front(Step::Keys(Place { range: ByteRange::at(position, len), ..place }));
                }
                Ok(())
            }
            Step::Keys(place) => self.handle_keys(&place, bytes),
            Step::Record(found) => self.handle_record(found, bytes),
            Step::Header(mut ntuple, [header, footer]) => {
                ntuple.handle_header(header, bytes)?;
                self.steps.push_front(Step::Footer(ntuple, footer));
                Ok(())
            }
            Step::Footer(mut ntuple, footer) => {
                let links = ntuple.handle_footer(footer, bytes)?;
                self.want_page_list(ntuple, links.into());
                Ok(())
            }
            Step::PageList(mut ntuple, mut links) => {
                if let Some(link) = links.pop_front() {
                    ntuple.handle_page_list(link, bytes)?;
                }
                self.want_page_list(ntuple, links);
                Ok(())
            }
        }
    }

    fn want_directory(&mut self, position: u64, prefix: String, depth: usize) -> Result<(), Refusal> {
        if depth >= DEPTH_MAX {
            return Err(Refusal::TooLarge("nesting of directories"));
        }
        let range = ByteRange::at(position, DIRECTORY_LEN).clipped_to(self.file_size);
        self.steps.push_back(Step::Directory(Place { range, prefix, depth }));
        Ok(())
    }

    fn handle_keys(&mut self, place: &Place, bytes: &[u8]) -> Result<(), Refusal> {
        let keys = Key::read_list(bytes)?;
        self.keys += keys.len();
        if self.keys > KEYS_MAX {
            return Err(Refusal::TooLarge("number of keys"));
        }
        for key in keys {
            let name = [&place.prefix, &*String::from_utf8_lossy(&key.name)].concat();
            if name.len() > NAME_LEN_MAX {
                return Err(Refusal::TooLarge("name of a key"));
            }
            if key.is_directory() {
                let position = key.position.saturating_add(u64::from(key.key_len));
                self.want_directory(position, name + "/", place.depth + 1)?;
            } else if TreeClass::of(&key.class).is_some() && !self.is_early(&name, &key) {
                self.found.push(Found { name, key });
            }
        }
        Ok(())
    }

    /// Whether a tree was found in the tail. A backup there is no reason to pass over the newest record.
    fn is_early(&self, name: &str, key: &Key) -> bool {
        self.early.iter().any(|(early, position)| early == name && *position == key.position)
    }

    /// All directories are read: the trees come next, the largest first.
    fn begin_trees(&mut self) {
        if self.found.len() > TREES_MAX {
            self.stop(Refusal::TooLarge("number of trees"));
        }
        self.found.sort_by_key(|found| Reverse(found.key.len));
        self.steps.extend(self.found.drain(..).map(Step::Record));
    }

    fn handle_record(&mut self, found: Found, bytes: &[u8]) -> Result<(), Refusal> {
        let Found { name, key } = found;
        let stored = bytes.get(usize::from(key.key_len)..).ok_or(Refusal::Damaged("a key longer than its record"))?;
        let object = inflate(stored, key.object_len)?;
        let table = TableBuilder::new(self.file_size, self.tables_len);
        match TreeClass::of(&key.class) {
            Some(TreeClass::RNTuple) => {
                let links = rntuple::anchor(&object)?;
                self.steps.push_front(Step::Header(Box::new(Ntuple::new(name, table)), links));
            }
            class => {
                let parsed = tree::parse(&object, key.key_len, class == Some(TreeClass::TNtuple), name, table)?;
                self.add(parsed);
            }
        }
        Ok(())
    }

    fn want_page_list(&mut self, ntuple: Box<Ntuple>, links: VecDeque<Link>) {
        if links.is_empty() {
            self.add(ntuple.finish());
        } else {
            self.steps.push_front(Step::PageList(ntuple, links));
        }
    }

    fn add(&mut self, (tree, len): (Tree, usize)) {
        self.tables_len += len;
        self.layout.trees.push(tree);
    }
}

/// The tree that a step is about.
fn step_name(step: &Step) -> Option<String> {
    match step {
        Step::Head | Step::Directory(_) | Step::Keys(_) => None,
        Step::Record(found) => Some(found.name.clone()),
        Step::Header(ntuple, _) | Step::Footer(ntuple, _) | Step::PageList(ntuple, _) => Some(ntuple.name().to_owned()),
    }
}

/// Bytes of the name of a tree, directories included.
const NAME_LEN_MAX: usize = 4096;

/// The classes of trees, by the layout of their record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum TreeClass {
    TTree,
    TNtuple,
    RNTuple,
}

impl TreeClass {
    fn of(class: &[u8]) -> Option<Self> {
        match class {
            b"TTree" => Some(Self::TTree),
            b"TNtuple" | b"TNtupleD" => Some(Self::TNtuple),
            b"ROOT::RNTuple" => Some(Self::RNTuple),
            _ => None,
        }
    }
}
