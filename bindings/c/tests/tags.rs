//! Every format tag of the published headers, by number, is the layout that its name says.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::fs;

use anydnn_c::types::{dnnl_memory_desc_t, dnnl_query_t, dnnl_success};

#[test]
fn tags_by_number_are_what_their_names_say() {
    let Some(include) = common::include() else { return };
    let header = fs::read_to_string(include.join("oneapi/dnnl/dnnl_types.h")).unwrap();
    let tags = enumerators(&header);
    let (mut plain, mut aliases) = (0, 0);
    for (name, (value, of)) in &tags {
        match of {
            None if *value >= 2 && name != "format_tag_last" => {
                let letters = CString::new(name.as_str()).unwrap();
                // SAFETY: the name is a string.
                assert_eq!(unsafe { anydnn_c::anydnn_format_tag(letters.as_ptr()) }, *value, "{name}");
                check(name, *value);
                plain += 1;
            }
            Some(of) => {
                check_alias(name, of);
                aliases += 1;
            }
            None => {}
        }
    }
    assert_eq!((plain, tags["format_tag_last"].0), (873, 875));
    assert!(aliases > 700, "{aliases} aliases");
}

/// The values of `dnnl_format_tag_t` by name without `dnnl_`, with the name that an alias is for.
fn enumerators(header: &str) -> BTreeMap<String, (c_int, Option<String>)> {
    let start = header.find("dnnl_format_tag_undef").unwrap();
    let end = start + header[start..].find("} dnnl_format_tag_t;").unwrap();
    let code: String =
        header[start..end].lines().map(|line| line.split("//").next().unwrap().to_owned() + " ").collect();
    let mut tags: BTreeMap<String, (c_int, Option<String>)> = BTreeMap::new();
    let mut next = 0;
    for entry in code.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let mut words = entry.split('=').map(str::trim);
        let name = words.next().unwrap().strip_prefix("dnnl_").unwrap().to_owned();
        let tag = match words.next() {
            None => (next, None),
            Some(number) if number.parse::<c_int>().is_ok() => (number.parse().unwrap(), None),
            Some(other) => {
                let of = other.strip_prefix("dnnl_").unwrap();
                (tags[of].0, Some(tags[of].1.clone().unwrap_or_else(|| of.to_owned())))
            }
        };
        next = tag.0 + 1;
        tags.insert(name, tag);
    }
    tags
}

/// Follows the letters from the innermost outwards and compares with what the descriptor tells.
fn check(name: &str, value: c_int) {
    let outer = name.trim_start_matches(char::is_alphabetic).len();
    let (outer, inner) = name.split_at(name.len() - outer);
    let axis = |letter: char| (letter.to_ascii_lowercase() as u8 - b'a') as usize;
    let rank = outer.len();
    let dims: Vec<i64> = (0..rank as i64).map(|i| if rank > 6 { 2 + i % 2 } else { 3 + 17 * i }).collect();
    let (mut sizes, mut axes, mut size) = (Vec::new(), Vec::new(), 0);
    for c in inner.chars() {
        if let Some(digit) = c.to_digit(10) {
            size = size * 10 + i64::from(digit);
        } else {
            sizes.push(size);
            axes.push(axis(c) as i64);
            size = 0;
        }
    }
    let mut padded = dims.clone();
    let mut strides = vec![0; rank];
    let mut stride: i64 = sizes.iter().product();
    for letter in outer.chars().rev() {
        let axis = axis(letter);
        let block: i64 =
            sizes.iter().zip(&axes).filter(|&(_, &a)| a == axis as i64).map(|(size, _)| size).product();
        assert_eq!(letter.is_uppercase(), block > 1, "{name}");
        let blocks = (dims[axis] + block - 1) / block;
        padded[axis] = blocks * block;
        strides[axis] = stride;
        stride *= blocks;
    }
    let mut md: dnnl_memory_desc_t = std::ptr::null_mut();
    // SAFETY: the arrays are as long as the functions read; the descriptor lives until it is destroyed.
    unsafe {
        let made =
            anydnn_c::dnnl_memory_desc_create_with_tag(&raw mut md, rank as c_int, dims.as_ptr(), 5, value);
        assert_eq!(made, dnnl_success, "{name}");
        let told = [14, 260, 264, 265].map(|what| array(md, what));
        assert_eq!(told.each_ref().map(|a| &a[..rank])[..2], [&strides[..], &padded[..]], "{name}");
        assert_eq!([&told[2][..sizes.len()], &told[3][..axes.len()]], [&sizes[..], &axes[..]], "{name}");
        assert_eq!(anydnn_c::dnnl_memory_desc_get_size(md) as i64, stride, "{name}");
        anydnn_c::dnnl_memory_desc_destroy(md);
    }
}

/// # Safety
/// The descriptor lives, and the query gives an array.
unsafe fn array(md: dnnl_memory_desc_t, what: dnnl_query_t) -> [i64; 12] {
    let mut dims: *const [i64; 12] = std::ptr::null();
    // SAFETY: as the caller vouches.
    unsafe {
        assert_eq!(anydnn_c::dnnl_memory_desc_query(md, what, (&raw mut dims).cast()), dnnl_success);
        *dims
    }
}

/// An alias has other letters in the same places. Which and whether capital is not always told right by the published names.
fn check_alias(alias: &str, of: &str) {
    let digits = |name: &str| name.chars().map(|c| c.to_digit(10)).collect::<Vec<_>>();
    assert_eq!(digits(alias), digits(of), "{alias} {of}");
}
