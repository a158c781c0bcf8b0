//! The header: metadata and the list of tensors.

use std::collections::BTreeMap;
use std::io::Read;

use super::blocks::BlockKind;

/// A metadata value. Arrays of numbers stay raw: only their bytes are known to fit the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    String(String),
    Strings(Vec<String>),
    Numbers { kind: u32, raw: Vec<u8> },
}

impl Value {
    pub(super) fn as_u32(&self) -> Option<u32> {
        match *self {
            Self::Unsigned(n) => n.try_into().ok(),
            Self::Signed(n) => n.try_into().ok(),
            _ => None,
        }
    }
}

/// Where a tensor lies and how it is stored.
#[derive(Debug, Clone)]
pub(super) struct TensorInfo {
    pub(super) name: String,
    /// Innermost first.
    pub(super) dimensions: Vec<u64>,
    pub(super) kind: BlockKind,
    /// From `data_start`.
    pub(super) offset: u64,
}

/// Everything before the tensors' data.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) metadata: BTreeMap<String, Value>,
    pub(super) tensors: BTreeMap<String, TensorInfo>,
    pub(super) data_start: u64,
    pub(super) file_length: u64,
}

impl Header {
    fn get(&self, key: &str) -> Result<&Value, String> {
        self.metadata.get(key).ok_or_else(|| format!("metadata key `{key}` is missing"))
    }

    pub(super) fn string(&self, key: &str) -> Result<&str, String> {
        match self.get(key)? {
            Value::String(text) => Ok(text),
            _ => Err(format!("metadata key `{key}` is not a string")),
        }
    }

    pub(super) fn strings(&self, key: &str) -> Result<&[String], String> {
        match self.get(key)? {
            Value::Strings(texts) => Ok(texts),
            _ => Err(format!("metadata key `{key}` is not an array of strings")),
        }
    }

    pub(super) fn size(&self, key: &str) -> Result<usize, String> {
        let number = self.get(key)?.as_u32().map(|n| n as usize);
        number.ok_or_else(|| format!("metadata key `{key}` is not a size that fits 32 bits"))
    }

    pub(super) fn float(&self, key: &str) -> Result<f64, String> {
        match self.get(key)? {
            Value::Float(number) => Ok(*number),
            _ => Err(format!("metadata key `{key}` is not a number")),
        }
    }
}

/// Reads the header of a file of `length` bytes. The error is a sentence without the file's name.
pub(super) fn read_header(input: &mut impl Read, length: u64) -> Result<Header, String> {
    let mut cursor = Cursor { input, position: 0, length };
    if cursor.bytes::<4>("the magic number")? != *b"GGUF" {
        return Err("it does not start with `GGUF`".into());
    }
    let version = cursor.u32("the version")?;
    if !matches!(version, 2 | 3) {
        return Err(format!("GGUF version {version} is not supported; known: 2, 3"));
    }
    let tensor_count = cursor.u64("the tensor count")?;
    let key_count = cursor.u64("the metadata count")?;
    let mut metadata = BTreeMap::new();
    for index in 0..key_count {
        let key = cursor.string("a metadata key")?;
        let kind = cursor.u32(&key)?;
        let value = cursor.value(kind, &key)?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(format!("metadata key {index} `{key}` occurs twice"));
        }
    }
    let mut tensors = BTreeMap::new();
    for _ in 0..tensor_count {
        let info = cursor.tensor_info()?;
        let name = info.name.clone();
        if tensors.insert(name.clone(), info).is_some() {
            return Err(format!("tensor `{name}` occurs twice"));
        }
    }
    let alignment = match metadata.get("general.alignment") {
        None => 32,
        Some(value) => match value.as_u32() {
            Some(alignment) if alignment.is_power_of_two() => u64::from(alignment),
            _ => return Err(format!("general.alignment is {value:?}, not a power of two")),
        },
    };
    let data_start = cursor.position.next_multiple_of(alignment);
    for info in tensors.values() {
        if data_start.checked_add(info.offset).is_none_or(|start| start > length) {
            return Err(format!("tensor `{}` starts behind the end of the file: it is truncated", info.name));
        }
    }
    Ok(Header { metadata, tensors, data_start, file_length: length })
}

struct Cursor<'a, R> {
    input: &'a mut R,
    position: u64,
    length: u64,
}

impl<R: Read> Cursor<'_, R> {
    /// Counts `size` bytes as read, if the file has them.
    fn advance(&mut self, size: u64, what: &str) -> Result<(), String> {
        match self.position.checked_add(size) {
            Some(end) if end <= self.length => {
                self.position = end;
                Ok(())
            }
            _ => Err(format!(
                "{what} of {size} bytes at byte {} runs past the end of the file ({} bytes): it is truncated",
                self.position, self.length
            )),
        }
    }

    fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N], String> {
        self.advance(N as u64, what)?;
        let mut buffer = [0; N];
        self.input.read_exact(&mut buffer).map_err(|e| format!("{what}: {e}"))?;
        Ok(buffer)
    }

    fn byte_vec(&mut self, size: u64, what: &str) -> Result<Vec<u8>, String> {
        self.advance(size, what)?;
        // The claim is within the file's length here, so the allocation is too.
        let mut buffer = vec![0; usize::try_from(size).map_err(|_| format!("{what} is too large"))?];
        self.input.read_exact(&mut buffer).map_err(|e| format!("{what}: {e}"))?;
        Ok(buffer)
    }

    fn u32(&mut self, what: &str) -> Result<u32, String> {
        self.bytes(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64, String> {
        self.bytes(what).map(u64::from_le_bytes)
    }

    fn string(&mut self, what: &str) -> Result<String, String> {
        let size = self.u64(what)?;
        let bytes = self.byte_vec(size, what)?;
        String::from_utf8(bytes).map_err(|_| format!("{what} is not UTF-8"))
    }

    fn value(&mut self, kind: u32, key: &str) -> Result<Value, String> {
        Ok(match kind {
            0 => Value::Unsigned(self.bytes::<1>(key)?[0].into()),
            1 => Value::Signed(i8::from_le_bytes(self.bytes(key)?).into()),
            2 => Value::Unsigned(u16::from_le_bytes(self.bytes(key)?).into()),
            3 => Value::Signed(i16::from_le_bytes(self.bytes(key)?).into()),
            4 => Value::Unsigned(self.u32(key)?.into()),
            5 => Value::Signed(i32::from_le_bytes(self.bytes(key)?).into()),
            6 => Value::Float(f32::from_le_bytes(self.bytes(key)?).into()),
            7 => Value::Bool(self.bytes::<1>(key)?[0] != 0),
            8 => Value::String(self.string(key)?),
            9 => self.array(key)?,
            10 => Value::Unsigned(self.u64(key)?),
            11 => Value::Signed(i64::from_le_bytes(self.bytes(key)?)),
            12 => Value::Float(f64::from_le_bytes(self.bytes(key)?)),
            _ => return Err(format!("metadata key `{key}` has the unknown type {kind}")),
        })
    }

    fn array(&mut self, key: &str) -> Result<Value, String> {
        let kind = self.u32(key)?;
        let count = self.u64(key)?;
        let width = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            8 => {
                // Grown as strings are found: each takes at least eight bytes of the file.
                let mut strings = Vec::new();
                for _ in 0..count {
                    strings.push(self.string(key)?);
                }
                return Ok(Value::Strings(strings));
            }
            _ => return Err(format!("metadata key `{key}` is an array of the unsupported type {kind}")),
        };
        let size = count.checked_mul(width).ok_or_else(|| format!("metadata key `{key}` is too large"))?;
        Ok(Value::Numbers { kind, raw: self.byte_vec(size, key)? })
    }

    fn tensor_info(&mut self) -> Result<TensorInfo, String> {
        let name = self.string("a tensor's name")?;
        let rank = self.u32(&name)?;
        if !(1..=4).contains(&rank) {
            return Err(format!("tensor `{name}` has {rank} dimensions"));
        }
        let mut dimensions = Vec::new();
        for _ in 0..rank {
            dimensions.push(self.u64(&name)?);
        }
        let kind = self.u32(&name)?;
        let kind = BlockKind::from_id(kind).ok_or_else(|| {
            format!("tensor `{name}` has the storage type {kind}, which is not supported; known: {}", BlockKind::KNOWN)
        })?;
        let offset = self.u64(&name)?;
        Ok(TensorInfo { name, dimensions, kind, offset })
    }
}
