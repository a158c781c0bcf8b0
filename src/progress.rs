//! What is shown while something takes long. The library only speaks through [`Show`]; the binary decides what it looks like.

use std::fmt;

/// Where progress is shown.
pub trait Show: fmt::Debug + Send + Sync {
    /// One line.
    fn say(&self, line: &str);
    /// A bar of `total` bytes.
    fn bar(&self, what: &str, total: u64) -> Box<dyn Bar>;
    /// Something of unknown length.
    fn spinner(&self, what: &str) -> Box<dyn Bar>;
}

/// Something under way. Dropping it takes it off the screen.
pub trait Bar: fmt::Debug + Send + Sync {
    /// Bytes, or other units, done.
    fn set(&self, done: u64);
    /// Another text.
    fn text(&self, what: &str);
    /// It is done.
    fn finish(&self);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Show for Quiet {
    fn say(&self, _line: &str) {}

    fn bar(&self, _what: &str, _total: u64) -> Box<dyn Bar> {
        Box::new(Self)
    }

    fn spinner(&self, _what: &str) -> Box<dyn Bar> {
        Box::new(Self)
    }
}

impl Bar for Quiet {
    fn set(&self, _done: u64) {}

    fn text(&self, _what: &str) {}

    fn finish(&self) {}
}
