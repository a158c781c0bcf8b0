//! Values as bytes: one tag, then what the tag says. `guest/harness.py` is the other side.
//!
//! `N`one, `T`rue, `F`alse; `D`ouble (8 bytes), `C`omplex (16); `I`nt, `S`tr, `B`ytes: a length and as many bytes;
//! `L`ist, t`U`ple, s`E`t, fro`Z`enset: a count and as many values; `M`apping: a count and as many pairs.
//! Lengths and counts are 32-bit, all numbers little-endian, integers in two's complement.

use std::collections::HashSet;

use super::{Int, Value};

/// Deepest nesting taken. The harness's limit, and a few levels of its own envelope.
const DEPTH_MAX: usize = 110;
/// Most values taken: the harness's limit, and its envelope.
const NODES_MAX: usize = 1_000_100;

/// Why bytes are not a value. They come from a guest, so each is an answer, never a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("the frame ends inside a value")]
    Cut,
    #[error("the frame goes on after its value")]
    Trailing,
    #[error("unknown tag {0}")]
    Tag(u8),
    #[error("nested deeper than {DEPTH_MAX} levels")]
    Deep,
    #[error("more than {NODES_MAX} values")]
    Large,
    #[error("a list, set or dict where Python needs a hashable value")]
    Unhashable,
    #[error("a set or dict holds the same key twice")]
    Twice,
}

/// The value that exactly fills `frame`.
pub(crate) fn decode(frame: &[u8]) -> Result<Value, DecodeError> {
    let mut reader = Reader { rest: frame, nodes: 0 };
    let value = reader.value(0)?;
    if reader.rest.is_empty() { Ok(value) } else { Err(DecodeError::Trailing) }
}

struct Reader<'a> {
    rest: &'a [u8],
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(DecodeError::Cut)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.take(N)?.try_into().map_err(|_| DecodeError::Cut)
    }

    fn count(&mut self) -> Result<usize, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.count()?;
        self.take(count)
    }

    fn value(&mut self, depth: usize) -> Result<Value, DecodeError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(DecodeError::Large);
        }
        if depth > DEPTH_MAX {
            return Err(DecodeError::Deep);
        }
        let [tag] = self.array()?;
        Ok(match tag {
            b'N' => Value::None,
            b'T' => Value::Bool(true),
            b'F' => Value::Bool(false),
            b'D' => Value::Float(f64::from_le_bytes(self.array()?)),
            b'C' => Value::Complex(f64::from_le_bytes(self.array()?), f64::from_le_bytes(self.array()?)),
            b'I' => Value::Int(Int::from_le_bytes(self.bytes()?)),
            b'S' => Value::Str(self.bytes()?.to_vec()),
            b'B' => Value::Bytes(self.bytes()?.to_vec()),
            b'L' => Value::List(self.items(depth)?),
            b'U' => Value::Tuple(self.items(depth)?),
            b'E' => Value::Set(unique(self.items(depth)?)?),
            b'Z' => Value::FrozenSet(unique(self.items(depth)?)?),
            b'M' => Value::Dict(self.pairs(depth)?),
            other => return Err(DecodeError::Tag(other)),
        })
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Value>, DecodeError> {
        let count = self.count()?;
        // No allocation on the guest's word: the rest of the frame bounds the count.
        let mut items = Vec::with_capacity(count.min(self.rest.len()));
        for _ in 0..count {
            items.push(self.value(depth + 1)?);
        }
        Ok(items)
    }

    fn pairs(&mut self, depth: usize) -> Result<Vec<(Value, Value)>, DecodeError> {
        let count = self.count()?;
        let mut pairs = Vec::with_capacity(count.min(self.rest.len() / 2));
        let mut seen = HashSet::new();
        for _ in 0..count {
            let key = self.value(depth + 1)?;
            hashable(&key)?;
            let value = self.value(depth + 1)?;
            if !seen.insert(encode(&key)) {
                return Err(DecodeError::Twice);
            }
            pairs.push((key, value));
        }
        Ok(pairs)
    }
}

fn unique(items: Vec<Value>) -> Result<Vec<Value>, DecodeError> {
    let mut seen = HashSet::new();
    for item in &items {
        hashable(item)?;
        if !seen.insert(encode(item)) {
            return Err(DecodeError::Twice);
        }
    }
    Ok(items)
}

fn hashable(value: &Value) -> Result<(), DecodeError> {
    match value {
        Value::List(_) | Value::Set(_) | Value::Dict(_) => Err(DecodeError::Unhashable),
        Value::Tuple(items) => items.iter().try_for_each(hashable),
        _ => Ok(()),
    }
}

/// The bytes of a value.
pub(crate) fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put(value, &mut out);
    out
}

fn put(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::None => out.push(b'N'),
        Value::Bool(held) => out.push(if *held { b'T' } else { b'F' }),
        Value::Float(float) => {
            out.push(b'D');
            out.extend_from_slice(&float.to_le_bytes());
        }
        Value::Complex(real, imaginary) => {
            out.push(b'C');
            out.extend_from_slice(&real.to_le_bytes());
            out.extend_from_slice(&imaginary.to_le_bytes());
        }
        Value::Int(int) => put_bytes(b'I', int.as_le_bytes(), out),
        Value::Str(bytes) => put_bytes(b'S', bytes, out),
        Value::Bytes(bytes) => put_bytes(b'B', bytes, out),
        Value::List(items) => put_items(b'L', items, out),
        Value::Tuple(items) => put_items(b'U', items, out),
        Value::Set(items) => put_items(b'E', items, out),
        Value::FrozenSet(items) => put_items(b'Z', items, out),
        Value::Dict(pairs) => {
            put_count(b'M', pairs.len(), out);
            for (key, value) in pairs {
                put(key, out);
                put(value, out);
            }
        }
    }
}

fn put_count(tag: u8, count: usize, out: &mut Vec<u8>) {
    out.push(tag);
    // Every value here was decoded from a frame or a task file below 4 GiB; a longer one cannot be said.
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_bytes(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    put_count(tag, bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn put_items(tag: u8, items: &[Value], out: &mut Vec<u8>) {
    put_count(tag, items.len(), out);
    for item in items {
        put(item, out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::None),
            any::<bool>().prop_map(Value::Bool),
            any::<i128>().prop_map(|int| Value::Int(Int::from(int))),
            any::<i64>().prop_map(|float| Value::Float(float as f64)),
            any::<String>().prop_map(|text| Value::str(&text)),
            any::<Vec<u8>>().prop_map(Value::Bytes),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            let items = proptest::collection::vec(inner.clone(), 0..6);
            let pairs = proptest::collection::vec((any::<i64>(), inner), 0..4);
            prop_oneof![
                items.clone().prop_map(Value::List),
                items.prop_map(Value::Tuple),
                pairs.prop_map(|pairs| {
                    let unique: std::collections::BTreeMap<_, _> = pairs.into_iter().collect();
                    Value::Dict(unique.into_iter().map(|(k, v)| (Value::Int(Int::from(i128::from(k))), v)).collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn values_round_trip(value in values()) {
            prop_assert_eq!(decode(&encode(&value)), Ok(value));
        }

        #[test]
        fn any_bytes_are_a_value_or_an_error(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }

        #[test]
        fn a_cut_frame_is_an_error(value in values(), cut in 1usize..50) {
            let frame = encode(&value);
            if cut <= frame.len() {
                prop_assert!(decode(&frame[..frame.len() - cut]).is_err());
            }
        }
    }

    #[test]
    fn hostile_frames_are_refused() {
        let nested: Vec<u8> = [b'L', 1, 0, 0, 0].repeat(100_000);
        assert_eq!(decode(&nested), Err(DecodeError::Deep));
        assert_eq!(decode(&[b'L', 0xFF, 0xFF, 0xFF, 0xFF, b'N']), Err(DecodeError::Cut));
        assert_eq!(decode(b"NN"), Err(DecodeError::Trailing));
        assert_eq!(decode(b"M\x01\0\0\0L\0\0\0\0N"), Err(DecodeError::Unhashable));
        assert_eq!(decode(b"E\x02\0\0\0NN"), Err(DecodeError::Twice));
        assert_eq!(decode(b"x"), Err(DecodeError::Tag(b'x')));
    }
}
