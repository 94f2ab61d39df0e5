//! The structure of ROOT files: where each basket (`TTree`) and page (`RNTuple`) of each column lies.
//!
//! Bytes go in, tables come out: [`Parser`] names the ranges of the file that it wants, is given their bytes, and ends with a
//! [`Layout`]. It performs no I/O. Contents are judged as a stranger's: whatever a file states is checked against the limits
//! of [`limits`] before memory is reserved, and an unknown or damaged file ends with an [`Outcome`], never with a panic.
//!
//! An [`Adviser`] maps the reads of a [`Reader`] to columns, and names the baskets or pages that it comes to next. The columns
//! that it saw in use are remembered in a [`ColumnSet`] for the other files of the dataset.
//!
//! Served bytes never depend on a table. A wrong one can cost requests for ranges inside of the file, and nothing else, which
//! is why checksums inside of the file are not verified.

mod advice;
mod adviser;
mod column_set;
mod cursor;
mod guesses;
mod inflate;
mod item_order;
mod keys;
pub mod limits;
mod objects;
mod observation;
mod parser;
mod reader;
mod refusal;
mod rntuple;
mod set_key;
mod table;
mod tree;
mod tree_use;

pub use advice::{Advice, AdviceBounds, AdviceSource};
pub use adviser::Adviser;
pub use column_set::{ColumnSet, Observed, SET_AGE_MAX_SECONDS, SET_COLUMNS_MAX, SET_LEN_MAX, SetChange};
pub use inflate::inflate;
pub use parser::{Layout, Parser, RefusedTree};
pub use reader::{Evidence, Reader};
pub use refusal::{Outcome, Refusal};
pub use set_key::{KEY_LEN_MAX, SetKey, dataset_of};
pub use table::{Item, Tree, TreeKind, test_tree};
