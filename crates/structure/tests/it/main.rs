//! Tables of real files, damage, and limits.

mod advice;
mod golden;
mod guesses;
mod history;
mod limits;
