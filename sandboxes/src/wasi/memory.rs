//! Bounds-checked reads and writes of a guest's memory. Every address comes from the guest.

/// The bytes at `at .. at + length`, or `None` outside the memory.
pub(super) fn bytes(memory: &[u8], at: i32, length: i32) -> Option<&[u8]> {
    let at = at as u32 as usize;
    memory.get(at..at.checked_add(length as u32 as usize)?)
}

/// The same, writable.
pub(super) fn bytes_mut(memory: &mut [u8], at: i32, length: i32) -> Option<&mut [u8]> {
    let at = at as u32 as usize;
    memory.get_mut(at..at.checked_add(length as u32 as usize)?)
}

pub(super) fn read_u32(memory: &[u8], at: i32) -> Option<u32> {
    bytes(memory, at, 4)?.try_into().ok().map(u32::from_le_bytes)
}

pub(super) fn read_u64(memory: &[u8], at: i32) -> Option<u64> {
    bytes(memory, at, 8)?.try_into().ok().map(u64::from_le_bytes)
}

pub(super) fn write(memory: &mut [u8], at: i32, value: &[u8]) -> Option<()> {
    bytes_mut(memory, at, i32::try_from(value.len()).ok()?)?.copy_from_slice(value);
    Some(())
}

pub(super) fn write_u32(memory: &mut [u8], at: i32, value: u32) -> Option<()> {
    write(memory, at, &value.to_le_bytes())
}

pub(super) fn write_u64(memory: &mut [u8], at: i32, value: u64) -> Option<()> {
    write(memory, at, &value.to_le_bytes())
}
