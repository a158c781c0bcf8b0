//! Open files: descriptors and their positions.

use super::tree::{Kind, ROOT, Stat, Workspace};
use super::{Refused, STEP_FUEL};

/// The descriptor of the root, which the guest finds open.
pub(crate) const ROOT_DESCRIPTOR: usize = 3;

/// One of the three streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Input,
    Output,
    Error,
}

/// What a descriptor stands for.
#[derive(Debug, Clone)]
pub(crate) enum Open {
    Stream(Stream),
    Node(OpenNode),
}

/// An open node.
#[derive(Debug, Clone)]
pub(crate) struct OpenNode {
    pub(crate) node: usize,
    pub(crate) position: u64,
    pub(crate) append: bool,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// A directory's entries as they were when its reading began.
    listing: Vec<Listed>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: Vec<u8>,
    pub(crate) node: usize,
    pub(crate) filetype: u8,
}

/// How a file is to be opened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct How {
    pub(crate) follow: bool,
    pub(crate) create: bool,
    pub(crate) directory: bool,
    pub(crate) exclusive: bool,
    pub(crate) truncate: bool,
    pub(crate) append: bool,
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Workspace {
    /// The descriptors every guest starts with.
    pub(super) fn first_descriptors() -> Vec<Option<Open>> {
        let root =
            OpenNode { node: ROOT, position: 0, append: false, readable: true, writable: false, listing: Vec::new() };
        let streams = [Stream::Input, Stream::Output, Stream::Error].map(|stream| Some(Open::Stream(stream)));
        streams.into_iter().chain([Some(Open::Node(root))]).collect()
    }

    /// What a descriptor stands for.
    pub(crate) fn open(&self, descriptor: i32) -> Result<&Open, Refused> {
        let index = usize::try_from(descriptor).map_err(|_| Refused::BadDescriptor)?;
        self.descriptors.get(index).and_then(Option::as_ref).ok_or(Refused::BadDescriptor)
    }

    /// The open node of a descriptor.
    pub(crate) fn open_node(&mut self, descriptor: i32) -> Result<&mut OpenNode, Refused> {
        let index = usize::try_from(descriptor).map_err(|_| Refused::BadDescriptor)?;
        match self.descriptors.get_mut(index) {
            Some(Some(Open::Node(open))) => Ok(open),
            Some(Some(Open::Stream(_))) => Err(Refused::NoSeek),
            _ => Err(Refused::BadDescriptor),
        }
    }

    /// The directory a descriptor stands for.
    pub(crate) fn directory(&self, descriptor: i32) -> Result<usize, Refused> {
        match self.open(descriptor)? {
            Open::Node(open) if matches!(self.kind(open.node), Some(Kind::Directory(_))) => Ok(open.node),
            _ => Err(Refused::NotDirectory),
        }
    }

    /// Opens a path; its descriptor is the lowest that is free.
    pub(crate) fn open_path(&mut self, base: usize, path: &[u8], how: How, now: u64) -> Result<u32, Refused> {
        let place = self.place(base, path, how.follow && !(how.create && how.exclusive))?;
        let node = match place.node {
            Some(_) if how.create && how.exclusive => return Err(Refused::Exists),
            Some(node) => node,
            None if how.create && !how.directory && !place.slash => {
                self.room_for_descriptor()?;
                self.new_node(&place, Kind::File(Vec::new()), now)?
            }
            None => return Err(Refused::NotFound),
        };
        let read_only = self.is_read_only(node);
        let stream = match self.kind(node).ok_or(Refused::Io)? {
            Kind::Directory(_) if how.write || how.truncate => return Err(Refused::IsDirectory),
            Kind::Directory(_) => None,
            _ if how.directory || place.slash => return Err(Refused::NotDirectory),
            Kind::Link(_) => return Err(Refused::Loop),
            Kind::Library if how.write || how.truncate => return Err(Refused::ReadOnly),
            Kind::File(_) if read_only && (how.write || how.truncate) => return Err(Refused::ReadOnly),
            Kind::Stream(stream) => Some(*stream),
            Kind::File(_) | Kind::Library | Kind::Null => None,
        };
        let index = self.room_for_descriptor()?;
        if how.truncate && stream.is_none() {
            self.set_size(node, 0, now)?;
        }
        let open = match stream {
            Some(stream) => Open::Stream(stream),
            None => {
                self.held(node, 1);
                Open::Node(OpenNode {
                    node,
                    position: 0,
                    append: how.append,
                    readable: how.read,
                    writable: how.write,
                    listing: Vec::new(),
                })
            }
        };
        if index == self.descriptors.len() {
            self.descriptors.push(None);
        }
        self.descriptors[index] = Some(open);
        u32::try_from(index).map_err(|_| Refused::TooManyOpen)
    }

    fn room_for_descriptor(&mut self) -> Result<usize, Refused> {
        let free = self.descriptors.iter().position(Option::is_none).unwrap_or(self.descriptors.len());
        let held = self.descriptors.iter().flatten().count().saturating_sub(ROOT_DESCRIPTOR + 1);
        if held >= self.quotas.open_files {
            self.exceeded = true;
            return Err(Refused::TooManyOpen);
        }
        Ok(free)
    }

    /// Closes a descriptor. The root's stays open: without it no path can be named.
    pub(crate) fn close(&mut self, descriptor: i32) -> Result<(), Refused> {
        let index = usize::try_from(descriptor).map_err(|_| Refused::BadDescriptor)?;
        if index == ROOT_DESCRIPTOR {
            return Err(Refused::NotPermitted);
        }
        match self.descriptors.get_mut(index).and_then(Option::take) {
            Some(Open::Node(open)) => {
                self.let_go(open.node);
                Ok(())
            }
            Some(Open::Stream(_)) => Ok(()),
            None => Err(Refused::BadDescriptor),
        }
    }

    /// Moves a descriptor onto another, which is closed first.
    pub(crate) fn renumber(&mut self, from: i32, to: i32) -> Result<(), Refused> {
        self.open(from)?;
        self.open(to)?;
        if from == to {
            return Ok(());
        }
        let (from_index, to_index) = (from as usize, to as usize);
        if from_index == ROOT_DESCRIPTOR {
            return Err(Refused::NotPermitted);
        }
        self.close(to)?;
        self.descriptors[to_index] = self.descriptors[from_index].take();
        Ok(())
    }

    /// Bytes of a file from a position, into `buffer`.
    pub(crate) fn read(&mut self, descriptor: i32, position: u64, buffer: &mut [u8]) -> Result<usize, Refused> {
        let open = self.open_node(descriptor)?;
        if !open.readable {
            return Err(Refused::BadDescriptor);
        }
        let node = open.node;
        self.read_at(node, position, buffer)
    }

    /// Writes to a file at a position, or at its end where it was opened so. The position after it.
    pub(crate) fn write(&mut self, descriptor: i32, position: u64, bytes: &[u8], now: u64) -> Result<u64, Refused> {
        let open = self.open_node(descriptor)?;
        if !open.writable {
            return Err(Refused::BadDescriptor);
        }
        let (node, append) = (open.node, open.append);
        let position = if append { self.stat(node)?.size } else { position };
        self.write_at(node, position, bytes, now)
    }

    /// Moves a descriptor's position.
    pub(crate) fn seek(&mut self, descriptor: i32, offset: i64, whence: i32) -> Result<u64, Refused> {
        let open = self.open_node(descriptor)?;
        let (node, position) = (open.node, open.position);
        let base = match whence {
            0 => 0,
            1 => position,
            2 => self.stat(node)?.size,
            _ => return Err(Refused::Invalid),
        };
        let moved = base.checked_add_signed(offset).filter(|at| i64::try_from(*at).is_ok());
        let moved = moved.ok_or(Refused::Invalid)?;
        self.open_node(descriptor)?.position = moved;
        Ok(moved)
    }

    /// Cuts or lengthens an open file.
    pub(crate) fn resize(&mut self, descriptor: i32, size: u64, now: u64) -> Result<(), Refused> {
        let open = self.open_node(descriptor)?;
        if !open.writable {
            return Err(Refused::Invalid);
        }
        let node = open.node;
        self.set_size(node, size, now)
    }

    /// What is known of what a descriptor stands for.
    pub(crate) fn stat_open(&self, descriptor: i32) -> Result<Stat, Refused> {
        match self.open(descriptor)? {
            Open::Stream(_) => Ok(Stat::of_a_stream()),
            Open::Node(open) => self.stat(open.node),
        }
    }

    /// A directory's entries from the `cookie`-th on. Those of one reading are those that were there when it began.
    pub(crate) fn list(&mut self, descriptor: i32, cookie: u64) -> Result<&[Listed], Refused> {
        let directory = self.directory(descriptor)?;
        if cookie == 0 {
            let listing = self.entries(directory);
            self.work += listing.len() as u64 * STEP_FUEL;
            self.open_node(descriptor)?.listing = listing;
        }
        let listing = &self.open_node(descriptor)?.listing;
        let from = usize::try_from(cookie).unwrap_or(usize::MAX).min(listing.len());
        Ok(&listing[from..])
    }
}
