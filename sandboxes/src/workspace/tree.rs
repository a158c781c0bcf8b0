//! Nodes: files, directories, links, and what is counted of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::open::{Listed, Open, Stream};
use super::path::Place;
use super::{BYTES_PER_FUEL, Quotas, Refused, STEP_FUEL};
use crate::wasi::Library;

/// The root's node.
pub(crate) const ROOT: usize = 0;

/// `filetype` of WASI preview 1.
const CHARACTER_DEVICE: u8 = 2;
const DIRECTORY: u8 = 3;
const REGULAR_FILE: u8 = 4;
const SYMBOLIC_LINK: u8 = 7;

/// What a node is.
#[derive(Debug)]
pub(crate) enum Kind {
    File(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, usize>),
    Link(Vec<u8>),
    /// The image's library: the one file that is the host's, read by position.
    Library,
    Null,
    Stream(Stream),
}

impl Kind {
    fn filetype(&self) -> u8 {
        match self {
            Self::File(_) | Self::Library => REGULAR_FILE,
            Self::Directory(_) => DIRECTORY,
            Self::Link(_) => SYMBOLIC_LINK,
            Self::Null | Self::Stream(_) => CHARACTER_DEVICE,
        }
    }
}

/// Access, modification and change of the status: virtual nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) access: u64,
    pub(crate) modification: u64,
    pub(crate) change: u64,
}

pub(super) struct Node {
    pub(super) kind: Kind,
    /// Names it has.
    links: u32,
    /// Descriptors that stand for it.
    open: u32,
    times: Times,
    /// A directory's parent; the root is its own.
    pub(super) parent: usize,
    /// Part of the image.
    read_only: bool,
}

/// What is known of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) node: u64,
    pub(crate) filetype: u8,
    pub(crate) links: u64,
    pub(crate) size: u64,
    pub(crate) times: Times,
}

impl Stat {
    pub(super) fn of_a_stream() -> Self {
        Self { node: u64::MAX, filetype: CHARACTER_DEVICE, links: 1, size: 0, times: Times::default() }
    }
}

/// A guest's files and descriptors.
pub(crate) struct Workspace {
    nodes: Vec<Option<Node>>,
    free: Vec<usize>,
    pub(super) descriptors: Vec<Option<Open>>,
    pub(super) quotas: Quotas,
    bytes: u64,
    files: u32,
    /// Whether a quota was ever met.
    pub(crate) exceeded: bool,
    /// What the guest is to be charged for, in fuel: names walked, entries listed, bytes moved.
    pub(crate) work: u64,
    library: Arc<Library>,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").field("bytes", &self.bytes).field("files", &self.files).finish_non_exhaustive()
    }
}

impl Workspace {
    /// An empty workspace beside the image's library.
    pub(crate) fn new(library: Arc<Library>, quotas: Quotas) -> Self {
        let mut made = Self {
            nodes: Vec::with_capacity(16),
            free: Vec::new(),
            descriptors: Self::first_descriptors(),
            quotas,
            bytes: 0,
            files: 0,
            exceeded: false,
            work: 0,
            library,
        };
        made.image_node(ROOT, b"", Kind::Directory(BTreeMap::new()), true);
        for name in [b"work".as_slice(), b"tmp"] {
            made.image_node(ROOT, name, Kind::Directory(BTreeMap::new()), false);
        }
        let library = Arc::clone(&made.library);
        let mut at = ROOT;
        for name in library.dir.split('/').filter(|name| !name.is_empty()) {
            at = made.image_node(at, name.as_bytes(), Kind::Directory(BTreeMap::new()), true);
        }
        made.image_node(at, library.name.as_bytes(), Kind::Library, true);
        let devices = made.image_node(ROOT, b"dev", Kind::Directory(BTreeMap::new()), true);
        made.image_node(devices, b"null", Kind::Null, true);
        for (name, stream) in [("stdin", Stream::Input), ("stdout", Stream::Output), ("stderr", Stream::Error)] {
            made.image_node(devices, name.as_bytes(), Kind::Stream(stream), true);
        }
        made
    }

    /// A node of the image, which no quota counts.
    fn image_node(&mut self, parent: usize, name: &[u8], kind: Kind, read_only: bool) -> usize {
        let node = self.nodes.len();
        self.nodes.push(Some(Node { kind, links: 1, open: 0, times: Times::default(), parent, read_only }));
        if let Some(Some(Node { kind: Kind::Directory(entries), .. })) = self.nodes.get_mut(parent)
            && node != parent
        {
            entries.insert(name.to_vec(), node);
        }
        node
    }

    pub(super) fn node(&self, node: usize) -> Option<&Node> {
        self.nodes.get(node).and_then(Option::as_ref)
    }

    fn node_mut(&mut self, node: usize) -> Result<&mut Node, Refused> {
        self.nodes.get_mut(node).and_then(Option::as_mut).ok_or(Refused::Io)
    }

    /// What a node is.
    pub(crate) fn kind(&self, node: usize) -> Option<&Kind> {
        self.node(node).map(|node| &node.kind)
    }

    pub(super) fn is_read_only(&self, node: usize) -> bool {
        self.node(node).is_none_or(|node| node.read_only)
    }

    /// Most bytes of a path.
    pub(crate) fn path_bytes(&self) -> usize {
        self.quotas.path_bytes
    }

    /// What is known of a node.
    pub(crate) fn stat(&self, node: usize) -> Result<Stat, Refused> {
        let found = self.node(node).ok_or(Refused::Io)?;
        let size = match &found.kind {
            Kind::File(bytes) | Kind::Link(bytes) => bytes.len() as u64,
            Kind::Library => self.library.size,
            Kind::Directory(_) | Kind::Null | Kind::Stream(_) => 0,
        };
        Ok(Stat {
            // The host never hands out node 0: to some programs it means none.
            node: node as u64 + 1,
            filetype: found.kind.filetype(),
            links: u64::from(found.links),
            size,
            times: found.times,
        })
    }

    /// Sets access and modification, where given.
    pub(crate) fn set_times(
        &mut self,
        node: usize,
        access: Option<u64>,
        modification: Option<u64>,
        now: u64,
    ) -> Result<(), Refused> {
        if self.is_read_only(node) {
            return Err(Refused::ReadOnly);
        }
        let times = &mut self.node_mut(node)?.times;
        times.access = access.unwrap_or(times.access);
        times.modification = modification.unwrap_or(times.modification);
        times.change = now;
        Ok(())
    }

    /// A directory's entries, itself and its parent first.
    pub(super) fn entries(&self, directory: usize) -> Vec<Listed> {
        let Some(Node { kind: Kind::Directory(entries), parent, .. }) = self.node(directory) else { return Vec::new() };
        let listed = |name: &[u8], node: usize| Listed {
            name: name.to_vec(),
            node: node + 1,
            filetype: self.kind(node).map_or(REGULAR_FILE, Kind::filetype),
        };
        let own = [listed(b".", directory), listed(b"..", *parent)];
        own.into_iter().chain(entries.iter().map(|(name, node)| listed(name, *node))).collect()
    }

    /// Puts a new node at a place where nothing is.
    pub(super) fn new_node(&mut self, place: &Place, kind: Kind, now: u64) -> Result<usize, Refused> {
        if self.is_read_only(place.parent) {
            return Err(Refused::ReadOnly);
        }
        if self.files >= self.quotas.files {
            return Err(self.quota(Refused::NoSpace));
        }
        if self.depth(place.parent) > self.quotas.path_depth {
            return Err(self.quota(Refused::NameTooLong));
        }
        if let Kind::Link(target) = &kind {
            self.take_bytes(target.len() as u64)?;
        }
        self.files += 1;
        let times = Times { access: now, modification: now, change: now };
        let made = Node { kind, links: 1, open: 0, times, parent: place.parent, read_only: false };
        let node = match self.free.pop() {
            Some(node) => node,
            None => {
                self.nodes.push(None);
                self.nodes.len() - 1
            }
        };
        self.nodes[node] = Some(made);
        self.link_in(place.parent, &place.name, node, now)?;
        Ok(node)
    }

    fn quota(&mut self, refused: Refused) -> Refused {
        self.exceeded = true;
        refused
    }

    /// Directories above what lies in `directory`, the root not counted.
    fn depth(&self, directory: usize) -> usize {
        let (mut at, mut depth) = (directory, 0);
        while at != ROOT {
            depth += 1;
            at = self.node(at).map_or(ROOT, |node| node.parent);
        }
        depth
    }

    fn link_in(&mut self, directory: usize, name: &[u8], node: usize, now: u64) -> Result<(), Refused> {
        let parent = self.node_mut(directory)?;
        let Kind::Directory(entries) = &mut parent.kind else { return Err(Refused::NotDirectory) };
        entries.insert(name.to_vec(), node);
        parent.times.modification = now;
        parent.times.change = now;
        Ok(())
    }

    fn link_out(&mut self, directory: usize, name: &[u8], now: u64) -> Result<(), Refused> {
        let parent = self.node_mut(directory)?;
        let Kind::Directory(entries) = &mut parent.kind else { return Err(Refused::NotDirectory) };
        let node = entries.remove(name).ok_or(Refused::NotFound)?;
        parent.times.modification = now;
        parent.times.change = now;
        let found = self.node_mut(node)?;
        found.links = found.links.saturating_sub(1);
        found.times.change = now;
        self.forget_if_gone(node);
        Ok(())
    }

    pub(super) fn held(&mut self, node: usize, count: u32) {
        if let Ok(node) = self.node_mut(node) {
            node.open += count;
        }
    }

    pub(super) fn let_go(&mut self, node: usize) {
        if let Ok(found) = self.node_mut(node) {
            found.open = found.open.saturating_sub(1);
        }
        self.forget_if_gone(node);
    }

    /// A node without a name that nobody holds is gone, and with it what it took.
    fn forget_if_gone(&mut self, node: usize) {
        if !self.node(node).is_some_and(|found| found.links == 0 && found.open == 0) {
            return;
        }
        if let Some(Some(Node { kind: Kind::File(bytes) | Kind::Link(bytes), .. })) = self.nodes.get(node) {
            self.bytes -= bytes.len() as u64;
        }
        self.nodes[node] = None;
        self.free.push(node);
        self.files -= 1;
    }

    fn take_bytes(&mut self, more: u64) -> Result<(), Refused> {
        match self.bytes.checked_add(more).filter(|bytes| *bytes <= self.quotas.bytes) {
            Some(bytes) => {
                self.bytes = bytes;
                Ok(())
            }
            None => Err(self.quota(Refused::NoSpace)),
        }
    }

    /// Bytes of a node from a position.
    pub(super) fn read_at(&self, node: usize, position: u64, buffer: &mut [u8]) -> Result<usize, Refused> {
        match self.kind(node).ok_or(Refused::Io)? {
            Kind::File(bytes) => {
                let from = usize::try_from(position).unwrap_or(usize::MAX).min(bytes.len());
                let rest = &bytes[from..];
                let got = rest.len().min(buffer.len());
                buffer[..got].copy_from_slice(&rest[..got]);
                Ok(got)
            }
            Kind::Library => self.library.read_at(buffer, position).map_err(|_| Refused::Io),
            Kind::Null => Ok(0),
            Kind::Directory(_) => Err(Refused::IsDirectory),
            Kind::Link(_) | Kind::Stream(_) => Err(Refused::Invalid),
        }
    }

    /// Writes to a file at a position, with zeros before it where it lies past the end. The position after it.
    pub(crate) fn write_at(&mut self, node: usize, position: u64, new: &[u8], now: u64) -> Result<u64, Refused> {
        let end = position.checked_add(new.len() as u64).ok_or(Refused::TooBig)?;
        let size = match self.kind(node).ok_or(Refused::Io)? {
            Kind::File(bytes) => bytes.len() as u64,
            Kind::Null => return Ok(end),
            Kind::Directory(_) => return Err(Refused::IsDirectory),
            _ => return Err(Refused::ReadOnly),
        };
        if new.is_empty() {
            return Ok(position);
        }
        self.take_bytes(end.saturating_sub(size))?;
        let (from, to) = (to_index(position)?, to_index(end)?);
        let found = self.node_mut(node)?;
        let mut zeroed = 0;
        if let Kind::File(bytes) = &mut found.kind {
            if bytes.len() < to {
                zeroed = from.saturating_sub(bytes.len());
                bytes.resize(to, 0);
            }
            bytes[from..to].copy_from_slice(new);
        }
        found.times.modification = now;
        found.times.change = now;
        self.work += zeroed as u64 / BYTES_PER_FUEL;
        Ok(end)
    }

    /// Cuts or lengthens a file.
    pub(super) fn set_size(&mut self, node: usize, size: u64, now: u64) -> Result<(), Refused> {
        let before = match self.kind(node).ok_or(Refused::Io)? {
            Kind::File(bytes) => bytes.len() as u64,
            Kind::Null => return Ok(()),
            _ => return Err(Refused::Invalid),
        };
        self.take_bytes(size.saturating_sub(before))?;
        self.bytes -= before.saturating_sub(size);
        self.work += size / BYTES_PER_FUEL;
        let size = to_index(size)?;
        let found = self.node_mut(node)?;
        if let Kind::File(bytes) = &mut found.kind {
            bytes.resize(size, 0);
            bytes.shrink_to(size);
        }
        found.times.modification = now;
        found.times.change = now;
        Ok(())
    }

    /// A new, empty file, or the one that is there.
    pub(super) fn create_file(&mut self, path: &[u8]) -> Result<usize, Refused> {
        let place = self.place(ROOT, path, true)?;
        match place.node {
            Some(node) if matches!(self.kind(node), Some(Kind::File(_))) => Ok(node),
            Some(_) => Err(Refused::IsDirectory),
            None => self.new_node(&place, Kind::File(Vec::new()), 0),
        }
    }

    /// Makes a directory.
    pub(crate) fn create_directory(&mut self, base: usize, path: &[u8], now: u64) -> Result<(), Refused> {
        let place = self.place(base, path, false)?;
        match place.node {
            Some(_) => Err(Refused::Exists),
            None => self.new_node(&place, Kind::Directory(BTreeMap::new()), now).map(|_| ()),
        }
    }

    /// Makes a symbolic link to whatever `target` says.
    pub(crate) fn symlink(&mut self, target: &[u8], base: usize, path: &[u8], now: u64) -> Result<(), Refused> {
        if target.is_empty() {
            return Err(Refused::NotFound);
        }
        if target.len() > self.quotas.path_bytes {
            return Err(self.quota(Refused::NameTooLong));
        }
        let place = self.place(base, path, false)?;
        match place.node {
            Some(_) => Err(Refused::Exists),
            None if place.slash => Err(Refused::NotFound),
            None => self.new_node(&place, Kind::Link(target.to_vec()), now).map(|_| ()),
        }
    }

    /// Gives a file one more name.
    pub(crate) fn link(
        &mut self,
        (from_base, from, follow): (usize, &[u8], bool),
        (to_base, to): (usize, &[u8]),
        now: u64,
    ) -> Result<(), Refused> {
        let node = self.place(from_base, from, follow)?.node.ok_or(Refused::NotFound)?;
        let to = self.place(to_base, to, false)?;
        match self.kind(node) {
            Some(Kind::File(_) | Kind::Link(_)) => {}
            Some(Kind::Directory(_)) => return Err(Refused::NotPermitted),
            _ => return Err(Refused::ReadOnly),
        }
        if to.node.is_some() {
            return Err(Refused::Exists);
        }
        if to.slash {
            return Err(Refused::NotFound);
        }
        if self.is_read_only(to.parent) {
            return Err(Refused::ReadOnly);
        }
        if self.depth(to.parent) > self.quotas.path_depth {
            return Err(self.quota(Refused::NameTooLong));
        }
        let found = self.node_mut(node)?;
        found.links = found.links.checked_add(1).ok_or(Refused::NoSpace)?;
        found.times.change = now;
        self.link_in(to.parent, &to.name, node, now)
    }

    /// Where a link leads.
    pub(crate) fn read_link(&mut self, base: usize, path: &[u8]) -> Result<&[u8], Refused> {
        let node = self.place(base, path, false)?.node.ok_or(Refused::NotFound)?;
        match self.kind(node) {
            Some(Kind::Link(target)) => Ok(target),
            _ => Err(Refused::Invalid),
        }
    }

    /// Takes a name away; the file goes with its last name and its last descriptor.
    pub(crate) fn unlink(&mut self, base: usize, path: &[u8], now: u64) -> Result<(), Refused> {
        let place = self.place(base, path, false)?;
        let node = place.node.ok_or(Refused::NotFound)?;
        match self.kind(node) {
            Some(Kind::Directory(_)) => return Err(Refused::IsDirectory),
            _ if place.slash => return Err(Refused::NotDirectory),
            _ if self.is_read_only(node) || self.is_read_only(place.parent) => return Err(Refused::ReadOnly),
            _ => {}
        }
        self.link_out(place.parent, &place.name, now)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&mut self, base: usize, path: &[u8], now: u64) -> Result<(), Refused> {
        let place = self.place(base, path, false)?;
        let node = place.node.ok_or(Refused::NotFound)?;
        match self.kind(node) {
            Some(Kind::Directory(entries)) if !entries.is_empty() => return Err(Refused::NotEmpty),
            Some(Kind::Directory(_)) => {}
            _ => return Err(Refused::NotDirectory),
        }
        if place.name.is_empty() {
            return Err(Refused::Invalid);
        }
        if self.is_read_only(place.parent) {
            return Err(Refused::ReadOnly);
        }
        self.link_out(place.parent, &place.name, now)
    }

    /// Moves a name, over what has the new one where POSIX allows it.
    pub(crate) fn rename(
        &mut self,
        (from_base, from): (usize, &[u8]),
        (to_base, to): (usize, &[u8]),
        now: u64,
    ) -> Result<(), Refused> {
        let from = self.place(from_base, from, false)?;
        let to = self.place(to_base, to, false)?;
        let node = from.node.ok_or(Refused::NotFound)?;
        if from.name.is_empty() || to.name.is_empty() {
            return Err(Refused::Invalid);
        }
        if [from.parent, to.parent].into_iter().any(|parent| self.is_read_only(parent)) {
            return Err(Refused::ReadOnly);
        }
        let directory = matches!(self.kind(node), Some(Kind::Directory(_)));
        if !directory && (from.slash || to.slash) {
            return Err(Refused::NotDirectory);
        }
        if directory {
            let mut at = to.parent;
            while at != ROOT {
                if at == node {
                    return Err(Refused::Invalid);
                }
                at = self.node(at).map_or(ROOT, |node| node.parent);
            }
        }
        if self.depth(to.parent) + self.height(node) > self.quotas.path_depth + 1 {
            return Err(self.quota(Refused::NameTooLong));
        }
        match to.node {
            Some(over) if over == node => return Ok(()),
            Some(over) => {
                match (directory, self.kind(over)) {
                    (true, Some(Kind::Directory(entries))) if !entries.is_empty() => return Err(Refused::NotEmpty),
                    (false, Some(Kind::Directory(_))) => return Err(Refused::IsDirectory),
                    (true, Some(Kind::Directory(_))) => {}
                    (true, _) => return Err(Refused::NotDirectory),
                    _ => {}
                }
                self.link_out(to.parent, &to.name, now)?;
            }
            None => {}
        }
        self.link_in(to.parent, &to.name, node, now)?;
        let found = self.node_mut(node)?;
        found.parent = to.parent;
        found.times.change = now;
        let old = self.node_mut(from.parent)?;
        if let Kind::Directory(entries) = &mut old.kind {
            entries.remove(&from.name);
        }
        old.times.modification = now;
        old.times.change = now;
        Ok(())
    }

    /// Levels of a tree: 1 for a file.
    fn height(&mut self, node: usize) -> usize {
        let (mut tallest, mut left, mut seen) = (0, vec![(node, 1)], 0);
        while let Some((node, level)) = left.pop() {
            seen += 1;
            tallest = tallest.max(level);
            if let Some(Kind::Directory(entries)) = self.kind(node) {
                left.extend(entries.values().map(|inside| (*inside, level + 1)));
            }
        }
        self.work += seen * STEP_FUEL;
        tallest
    }
}

fn to_index(position: u64) -> Result<usize, Refused> {
    usize::try_from(position).map_err(|_| Refused::TooBig)
}
