//! Tables of real files, damage, and limits.

mod advice;
mod golden;
mod history;
mod limits;
