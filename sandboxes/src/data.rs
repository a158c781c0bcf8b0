//! Plain data that crosses between guests and host, rebuilt on the way: no type, method or identity survives.

mod codec;
mod compare;
mod int;
mod json;
mod rules;
mod text;

pub(crate) use codec::{decode, encode};
pub(crate) use int::Int;
pub(crate) use json::from_json;
pub(crate) use rules::values_equal;
pub(crate) use text::repr;

/// A value made of Python's built-in types.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(Int),
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
    /// UTF-8, where lone surrogates are encoded as if they were characters (so it need not be valid UTF-8).
    Str(Vec<u8>),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Tuple(Vec<Value>),
    Set(Vec<Value>),
    FrozenSet(Vec<Value>),
    /// Pairs in insertion order.
    Dict(Vec<(Value, Value)>),
}

impl Value {
    /// A string value.
    pub(crate) fn str(text: &str) -> Self {
        Self::Str(text.as_bytes().to_vec())
    }

    /// The text of a string value, with what is not UTF-8 replaced.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Str(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => repr(other, usize::MAX),
        }
    }

    /// The small non-negative number of an integer value.
    pub(crate) fn as_u32(&self) -> Option<u32> {
        match self {
            Self::Int(int) => int.to_i128().and_then(|value| u32::try_from(value).ok()),
            _ => None,
        }
    }
}
