//! Changes of a model: of its bytes, and of its fields.

use crate::models::Corpus;
use crate::random::Random;
use crate::wire::{Content, Field, Kind, encode, put};

/// Numbers at which something ends.
const NUMBERS: [i64; 24] = [
    0,
    1,
    2,
    3,
    5,
    7,
    13,
    16,
    64,
    255,
    1 << 16,
    1 << 24,
    (1 << 31) - 1,
    1 << 31,
    1 << 33,
    1 << 40,
    1 << 62,
    i64::MAX,
    i64::MIN,
    -1,
    -2,
    -3,
    -(1 << 31),
    -(1 << 40),
];

/// Case of a number, which follows from it, the seed and the corpus.
pub fn mutated(corpus: &Corpus, seed: u64, case: u64) -> Vec<u8> {
    let mut random = Random::new(seed, case);
    let model = corpus.pick(&mut random);
    let times = 1 + random.below(4);
    let mut bytes = if random.once_in(5) {
        model.bytes.clone()
    } else {
        let mut fields = model.fields.clone();
        for _ in 0..times {
            let other = &corpus.pick(&mut random).fields;
            change_fields(&mut fields, other, &mut random);
        }
        if !random.once_in(6) {
            return encode(&fields);
        }
        encode(&fields)
    };
    for _ in 0..times {
        let other = &corpus.pick(&mut random).bytes;
        change_bytes(&mut bytes, other, &mut random);
    }
    bytes
}

fn change_bytes(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let place = random.below(bytes.len());
    let most = 2 << random.below(8);
    let length = 1 + random.below(most);
    let end = (place + length).min(bytes.len());
    match random.below(7) {
        _ if bytes.is_empty() => bytes.push(random.next() as u8),
        0 | 1 => bytes[place] ^= 1 << random.below(8),
        2 => bytes[place] = random.next() as u8,
        3 => bytes.truncate(place),
        4 => drop(bytes.drain(place..end)),
        5 => {
            let copy = bytes[place..end].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, copy);
        }
        _ => {
            let from = random.below(other.len());
            let to = (from + length).min(other.len());
            bytes.splice(place..end, other[from..to].iter().copied());
        }
    }
}

/// Changes one message or one field of it.
fn change_fields(fields: &mut Vec<Field>, other: &[Field], random: &mut Random) {
    let chosen = random.below(messages(fields));
    let mut left = chosen;
    let Some((kind, list)) = message(Kind::Model, fields, &mut left) else { return };
    if list.is_empty() {
        return;
    }
    let place = random.below(list.len());
    match random.below(12) {
        0 => drop(list.remove(place)),
        1 => {
            let copy = list[place].clone();
            list.insert(random.below(list.len() + 1), copy);
        }
        2 => {
            let second = random.below(list.len());
            list.swap(place, second);
        }
        3 => {
            // A field with the content of another.
            let second = random.below(list.len());
            list[place].content = list[second].content.clone();
        }
        4 => list[place].number = 1 + random.below(25) as u32,
        5 => {
            // A message in place of one of the same kind in another model.
            let mut found = Vec::new();
            collect(Kind::Model, other, kind, &mut found);
            if !found.is_empty() {
                *list = random.pick(&found).to_vec();
            }
        }
        6 => {
            // A field of such a message as one more.
            let mut found = Vec::new();
            collect(Kind::Model, other, kind, &mut found);
            if !found.is_empty()
                && let source = *random.pick(&found)
                && !source.is_empty()
            {
                list.insert(place, random.pick(source).clone());
            }
        }
        _ => change(&mut list[place].content, random),
    }
}

fn change(content: &mut Content, random: &mut Random) {
    match content {
        Content::Varint(value) => {
            *value = match random.below(4) {
                0 => value.wrapping_add(1),
                1 => value.wrapping_sub(1),
                _ => *random.pick(&NUMBERS) as u64,
            };
        }
        Content::Eight(eight) => eight[random.below(8)] ^= 1 << random.below(8),
        Content::Four(four) => {
            let odd = [f32::NAN, f32::INFINITY, -f32::INFINITY, 0.0, -1.0, f32::MAX, f32::MIN_POSITIVE, 1e9];
            *four = random.pick(&odd).to_le_bytes();
        }
        Content::Bytes(bytes) => match random.below(5) {
            0 => bytes.truncate(random.below(bytes.len() + 1)),
            1 => {
                // Packed numbers.
                bytes.clear();
                for _ in 0..=random.below(6) {
                    put(bytes, *random.pick(&NUMBERS) as u64);
                }
            }
            2 => {
                // Words of eight bytes, little end first.
                bytes.clear();
                for _ in 0..=random.below(4) {
                    bytes.extend(random.pick(&NUMBERS).to_le_bytes());
                }
            }
            3 => {
                let length = bytes.len();
                bytes.resize(length + random.below(64), b'x');
            }
            _ => change_bytes(bytes, b"x", random),
        },
        Content::Message(_, fields) => fields.clear(),
    }
}

/// The number of messages in a tree, the outermost among them.
fn messages(fields: &[Field]) -> usize {
    let of = |field: &Field| match &field.content {
        Content::Message(_, inner) => messages(inner),
        _ => 0,
    };
    1 + fields.iter().map(of).sum::<usize>()
}

/// A message by its number in the tree.
fn message<'a>(
    kind: Kind,
    fields: &'a mut Vec<Field>,
    left: &mut usize,
) -> Option<(Kind, &'a mut Vec<Field>)> {
    if *left == 0 {
        return Some((kind, fields));
    }
    *left -= 1;
    fields.iter_mut().find_map(|field| match &mut field.content {
        Content::Message(kind, inner) => message(*kind, inner, left),
        _ => None,
    })
}

/// Every message of a kind.
fn collect<'a>(own: Kind, fields: &'a [Field], kind: Kind, found: &mut Vec<&'a [Field]>) {
    if own == kind {
        found.push(fields);
    }
    for field in fields {
        if let Content::Message(own, inner) = &field.content {
            collect(*own, inner, kind, found);
        }
    }
}
