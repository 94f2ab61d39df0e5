//! Tables of real files, damage, and limits.

mod golden;
mod limits;
