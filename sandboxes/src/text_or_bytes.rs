//! Bytes that are mostly text, for serde: a string where they are UTF-8, an array of numbers where they are not, and raw bytes in
//! formats that are not for reading.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserializer, Serialize as _, Serializer};

pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    if !serializer.is_human_readable() {
        return serializer.serialize_bytes(bytes);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => serializer.serialize_str(text),
        Err(_) => bytes.serialize(serializer),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    struct Bytes;

    impl<'de> Visitor<'de> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("text, or an array of bytes")
        }

        fn visit_str<E>(self, text: &str) -> Result<Vec<u8>, E> {
            Ok(text.as_bytes().to_vec())
        }

        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }

        fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
            Ok(bytes)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<u8>, A::Error> {
            let mut bytes = Vec::new();
            while let Some(byte) = sequence.next_element()? {
                bytes.push(byte);
            }
            Ok(bytes)
        }
    }

    if deserializer.is_human_readable() {
        deserializer.deserialize_any(Bytes)
    } else {
        deserializer.deserialize_byte_buf(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::program::File;

    #[test]
    fn text_stays_text_and_bytes_stay_bytes() {
        for bytes in [b"a\n\0".to_vec(), vec![0xFF, 0, 1], vec![]] {
            let file = File { path: "p".into(), bytes };
            let json = serde_json::to_string(&file).unwrap();
            assert_eq!(serde_json::from_str::<File>(&json).unwrap(), file, "{json}");
        }
        assert_eq!(
            serde_json::to_string(&File { path: "p".into(), bytes: b"hi".to_vec() }).unwrap(),
            r#"{"path":"p","bytes":"hi"}"#
        );
    }
}
