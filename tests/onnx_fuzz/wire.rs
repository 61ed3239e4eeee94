//! Protobuf as a tree of fields, without looking at what they mean.

/// The messages of an ONNX file that hold others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    ValueInfo,
    Type,
    TensorType,
    Shape,
    Function,
    /// A message whose fields are numbers and text.
    Leaf,
}

/// A field with its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub number: u32,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Varint(u64),
    Eight([u8; 8]),
    Four([u8; 4]),
    Bytes(Vec<u8>),
    Message(Kind, Vec<Field>),
}

impl Kind {
    /// The kind of the message in a field, after the published `onnx.proto`.
    fn inside(self, number: u32) -> Option<Self> {
        Some(match (self, number) {
            (Self::Model, 7) | (Self::Attribute, 6 | 11) => Self::Graph,
            (Self::Model, 25) => Self::Function,
            (Self::Model, 8 | 14) | (Self::Tensor, 13) | (Self::Shape, 1) | (Self::Function, 9) => Self::Leaf,
            (Self::Graph, 1) | (Self::Function, 7) => Self::Node,
            (Self::Graph, 5) | (Self::Attribute, 5 | 10) => Self::Tensor,
            (Self::Graph, 11..=13) => Self::ValueInfo,
            (Self::Node, 5) | (Self::Function, 11) => Self::Attribute,
            (Self::ValueInfo, 2) => Self::Type,
            (Self::Type, 1) => Self::TensorType,
            (Self::TensorType, 2) => Self::Shape,
            _ => return None,
        })
    }
}

/// The fields of a message; none when it is no protobuf.
pub fn parse(kind: Kind, mut bytes: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let number = u32::try_from(tag >> 3).ok()?;
        let content = match tag & 7 {
            0 => Content::Varint(varint(&mut bytes)?),
            1 => Content::Eight(take(&mut bytes, 8)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let inner = take(&mut bytes, length)?;
                match kind.inside(number).and_then(|kind| Some((kind, parse(kind, inner)?))) {
                    Some((kind, fields)) => Content::Message(kind, fields),
                    None => Content::Bytes(inner.to_vec()),
                }
            }
            5 => Content::Four(take(&mut bytes, 4)?.try_into().ok()?),
            _ => return None,
        };
        fields.push(Field { number, content });
    }
    Some(fields)
}

/// The bytes of fields.
pub fn encode(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in fields {
        let mut tag = |wire: u64| put(&mut bytes, u64::from(field.number) << 3 | wire);
        match &field.content {
            Content::Varint(value) => {
                tag(0);
                put(&mut bytes, *value);
            }
            Content::Eight(eight) => {
                tag(1);
                bytes.extend(eight);
            }
            Content::Four(four) => {
                tag(5);
                bytes.extend(four);
            }
            Content::Bytes(inner) => {
                tag(2);
                put(&mut bytes, inner.len() as u64);
                bytes.extend(inner);
            }
            Content::Message(_, fields) => {
                tag(2);
                let inner = encode(fields);
                put(&mut bytes, inner.len() as u64);
                bytes.extend(inner);
            }
        }
    }
    bytes
}

/// A number in groups of seven bits, as protobuf writes it.
pub fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}
