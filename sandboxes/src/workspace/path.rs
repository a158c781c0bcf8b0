//! Paths: from bytes to nodes.

use super::tree::{Kind, Node, ROOT, Workspace};
use super::{Refused, STEP_FUEL};

/// Links followed on one way.
const LINKS_MAX: u32 = 40;
/// Bytes of one name.
const NAME_MAX: usize = 255;

/// A place: a directory, a name in it, and what is there.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(super) parent: usize,
    /// Empty where the path names the directory `parent` itself.
    pub(super) name: Vec<u8>,
    pub(super) node: Option<usize>,
    /// Whether the path ends with `/`.
    pub(super) slash: bool,
}

impl Workspace {
    /// The node a path names, from `base`. For the guest: the way there is work.
    pub(crate) fn locate(&mut self, base: usize, path: &[u8], follow: bool) -> Result<usize, Refused> {
        let place = self.place(base, path, follow)?;
        self.there(&place)
    }

    /// The node a path names, from `base`. For the host.
    pub(super) fn find(&self, base: usize, path: &[u8], follow: bool) -> Result<usize, Refused> {
        let place = self.walk(base, path, follow, &mut 0)?;
        self.there(&place)
    }

    fn there(&self, place: &Place) -> Result<usize, Refused> {
        let node = place.node.ok_or(Refused::NotFound)?;
        if place.slash && !matches!(self.kind(node), Some(Kind::Directory(_))) {
            return Err(Refused::NotDirectory);
        }
        Ok(node)
    }

    /// The place a path names; its last name need not be there. `follow` says whether a link there is followed.
    pub(super) fn place(&mut self, base: usize, path: &[u8], follow: bool) -> Result<Place, Refused> {
        let mut steps = 0;
        let place = self.walk(base, path, follow, &mut steps);
        self.work += steps * STEP_FUEL;
        if place.as_ref().is_err_and(|refused| *refused == Refused::NameTooLong) {
            self.exceeded = true;
        }
        place
    }

    fn walk(&self, base: usize, path: &[u8], follow: bool, steps: &mut u64) -> Result<Place, Refused> {
        if path.is_empty() {
            return Err(Refused::NotFound);
        }
        if path.len() > self.quotas.path_bytes {
            return Err(Refused::NameTooLong);
        }
        if std::str::from_utf8(path).is_err() {
            return Err(Refused::IllegalBytes);
        }
        if path.contains(&0) {
            return Err(Refused::Invalid);
        }
        let slash = path.ends_with(b"/");
        let mut at = if path.starts_with(b"/") { ROOT } else { base };
        // Names still to go, the next one last.
        let mut left: Vec<&[u8]> = names(path).rev().collect();
        let mut links = 0;
        loop {
            let Some(Node { kind: Kind::Directory(entries), parent, .. }) = self.node(at) else {
                return Err(Refused::NotDirectory);
            };
            let Some(name) = left.pop() else {
                return Ok(Place { parent: at, name: Vec::new(), node: Some(at), slash });
            };
            *steps += 1;
            if name == b".." {
                at = *parent;
                continue;
            }
            if name.len() > NAME_MAX {
                return Err(Refused::NameTooLong);
            }
            let last = left.is_empty();
            let found = entries.get(name).copied();
            let link = found.and_then(|node| match self.kind(node) {
                Some(Kind::Link(target)) if !last || follow || slash => Some(target),
                _ => None,
            });
            if let Some(target) = link {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Refused::Loop);
                }
                if target.starts_with(b"/") {
                    at = ROOT;
                }
                left.extend(names(target).rev());
                continue;
            }
            match found {
                Some(node) if !last => at = node,
                None if !last => return Err(Refused::NotFound),
                node => return Ok(Place { parent: at, name: name.to_vec(), node, slash }),
            }
        }
    }
}

/// The names of a path, without those that stay where they are.
fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".")
}
