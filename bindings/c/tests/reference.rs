//! Descriptors behave as oneDNN's own library lets them behave: the same calls go to both, and all that can be seen is compared.
//!
//! Left out is what that library refuses and this one takes (two data types), what it takes and this one refuses (indices that are no
//! integers, negative counts, types of handles that are not there, negative strides that lead nowhere, views without dimensions), what
//! makes it crash (null arrays) or overflow, and what may be described in more than one way (views of a part of a block).
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anydnn_backend::conformance::Sample;
use anydnn_c::types::{
    DNNL_MAX_NDIMS, DNNL_RUNTIME_DIM_VAL, const_dnnl_memory_desc_t, dnnl_memory_desc_t, dnnl_status_t,
    dnnl_success,
};
use common::{required, run};
use libloading::Library;

/// In a whole list; a sample is of these.
const CASES: usize = 20_000;
const CHILD: &str = "ANYDNN_REFERENCE_CHILD";

#[test]
fn descriptors_behave_as_in_onednn() {
    let Some(library) = required("ANYDNN_ONEDNN_LIBRARY", "oneDNN's own library") else { return };
    if std::env::var_os(CHILD).is_some() {
        compare(&library);
        return;
    }
    // Only a new process looks for the library's own libraries beside it.
    let output = run(Command::new(std::env::current_exe().unwrap())
        .args(["descriptors_behave_as_in_onednn", "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("LD_LIBRARY_PATH", library.parent().unwrap()));
    assert!(output.contains(&format!("compared {} cases", seeds().count())), "{output}");
    print!("{output}");
}

fn compare(path: &Path) {
    // SAFETY: oneDNN's library may be loaded anywhere.
    let library = unsafe { Library::new(path) }.unwrap();
    let (ours, theirs) = (Api::ours(), Api::of(&library));
    for (name, a, b) in [
        ("sizes", ours.type_sizes(), theirs.type_sizes()),
        ("settings", ours.settings(), theirs.settings()),
        ("names", ours.names(), theirs.names()),
    ] {
        assert_eq!(a, b, "{name}");
    }
    let (mut good, mut derived) = (0, 0);
    let mut differences = Vec::new();
    let mut earlier: Vec<[Desc; 2]> = Vec::new();
    for seed in seeds() {
        let mut random = Random(seed.wrapping_mul(0x1234_5678_9abc_def1));
        let make = Make::draw(&mut random);
        let mut log = format!("{make:?}");
        let mut pair = [make.run(&ours), make.run(&theirs)];
        for _ in 0..=random.below(3) {
            if !pair[0].is_there() || pair[0].difference(&pair[1]).is_some() {
                break;
            }
            good += 1;
            let derive = Derive::draw(&mut random, &pair[0]);
            write!(log, " -> {derive:?}").unwrap();
            pair = [derive.run(&pair[0]), derive.run(&pair[1])];
            derived += usize::from(pair[0].is_there());
        }
        if let Some(difference) = pair[0].difference(&pair[1]) {
            differences.push(format!("seed {seed}: {log}\n    {difference}"));
        }
        if pair[0].is_there() && pair[1].is_there() {
            let other = make.varied(&mut random);
            let other = [other.run(&ours), other.run(&theirs)];
            for other in earlier.iter().chain([&other, &pair]) {
                let [a, b] = [0, 1].map(|i| pair[i].equals(&other[i]));
                if a != b {
                    differences
                        .push(format!("seed {seed}: {log}\n    equal {a} {b} with {}", other[0].observed()));
                }
            }
            earlier.push(pair);
            if earlier.len() > 4 {
                earlier.remove(0);
            }
        }
    }
    let shown = differences.iter().take(25).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} differences (ours first):\n{shown}", differences.len());
    let cases = seeds().count();
    assert!(good > cases / 3 && derived > cases / 20, "too few descriptors came to be: {good}, {derived}");
    println!("compared {cases} cases: {good} descriptors, {derived} derived ones");
}

/// The seeds of the cases that are compared.
fn seeds() -> impl Iterator<Item = u64> {
    let sample = Sample::from_env();
    (0..CASES).filter(move |&case| sample.takes(case, 0)).map(|case| case as u64)
}

/// The functions of a library.
macro_rules! api {
    ($($field:ident: $name:ident($($arg:ty),*) -> $result:ty;)*) => {
        #[derive(Clone, Copy)]
        struct Api { $($field: unsafe extern "C" fn($($arg),*) -> $result,)* }

        impl Api {
            fn ours() -> Self {
                Self { $($field: anydnn_c::$name,)* }
            }

            fn of(library: &Library) -> Self {
                // SAFETY: the types are those of the published headers; the library stays loaded.
                unsafe { Self { $($field: *library.get(concat!(stringify!($name), "\0").as_bytes()).unwrap(),)* } }
            }
        }
    };
}

type Out = *mut dnnl_memory_desc_t;
type In = const_dnnl_memory_desc_t;
type Dims = *const i64;

api! {
    type_size: dnnl_data_type_size(c_int) -> usize;
    set_verbose: dnnl_set_verbose(c_int) -> dnnl_status_t;
    set_fpmath: dnnl_set_default_fpmath_mode(c_int) -> dnnl_status_t;
    get_fpmath: dnnl_get_default_fpmath_mode(*mut c_int) -> dnnl_status_t;
    status_name: dnnl_status2str(c_int) -> *const std::ffi::c_char;
    type_name: dnnl_dt2str(c_int) -> *const std::ffi::c_char;
    fpmath_name: dnnl_fpmath_mode2str(c_int) -> *const std::ffi::c_char;
    accumulation_name: dnnl_accumulation_mode2str(c_int) -> *const std::ffi::c_char;
    engine_name: dnnl_engine_kind2str(c_int) -> *const std::ffi::c_char;
    encoding_name: dnnl_sparse_encoding2str(c_int) -> *const std::ffi::c_char;
    tag_name: dnnl_fmt_tag2str(c_int) -> *const std::ffi::c_char;
    prop_name: dnnl_prop_kind2str(c_int) -> *const std::ffi::c_char;
    primitive_name: dnnl_prim_kind2str(c_int) -> *const std::ffi::c_char;
    algorithm_name: dnnl_alg_kind2str(c_int) -> *const std::ffi::c_char;
    flags_name: dnnl_rnn_flags2str(c_int) -> *const std::ffi::c_char;
    direction_name: dnnl_rnn_direction2str(c_int) -> *const std::ffi::c_char;
    scratchpad_name: dnnl_scratchpad_mode2str(c_int) -> *const std::ffi::c_char;
    rounding_name: dnnl_rounding_mode2str(c_int) -> *const std::ffi::c_char;
    quantization_name: dnnl_quantization_mode2str(c_int) -> *const std::ffi::c_char;
    isa_name: dnnl_cpu_isa2str(c_int) -> *const std::ffi::c_char;
    hints_name: dnnl_cpu_isa_hints2str(c_int) -> *const std::ffi::c_char;
    runtime_name: dnnl_runtime2str(std::ffi::c_uint) -> *const std::ffi::c_char;
    kind_name: dnnl_fmt_kind2str(c_int) -> *const std::ffi::c_char;
    with_tag: dnnl_memory_desc_create_with_tag(Out, c_int, Dims, c_int, c_int) -> dnnl_status_t;
    with_strides: dnnl_memory_desc_create_with_strides(Out, c_int, Dims, c_int, Dims) -> dnnl_status_t;
    with_coo: dnnl_memory_desc_create_with_coo_encoding(Out, c_int, Dims, c_int, i64, c_int) -> dnnl_status_t;
    host_scalar: dnnl_memory_desc_create_host_scalar(Out, c_int) -> dnnl_status_t;
    part: dnnl_memory_desc_create_submemory(Out, In, Dims, Dims) -> dnnl_status_t;
    reshape: dnnl_memory_desc_reshape(Out, In, c_int, Dims) -> dnnl_status_t;
    permute: dnnl_memory_desc_permute_axes(Out, In, *const c_int) -> dnnl_status_t;
    clone: dnnl_memory_desc_clone(Out, In) -> dnnl_status_t;
    destroy: dnnl_memory_desc_destroy(dnnl_memory_desc_t) -> dnnl_status_t;
    query: dnnl_memory_desc_query(In, c_int, *mut c_void) -> dnnl_status_t;
    query_v2: dnnl_memory_desc_query_v2(In, c_int, c_int, *mut c_void) -> dnnl_status_t;
    equal: dnnl_memory_desc_equal(In, In) -> c_int;
    size: dnnl_memory_desc_get_size(In) -> usize;
    size_v2: dnnl_memory_desc_get_size_v2(In, c_int) -> usize;
}

impl Api {
    fn type_sizes(&self) -> String {
        // SAFETY: the function takes any number.
        (-2..20).fold(String::new(), |text, t| text + &format!("{} ", unsafe { (self.type_size)(t) }))
    }

    fn settings(&self) -> String {
        let mut mode = -1;
        // SAFETY: the functions take any number, and null or a number to write.
        unsafe {
            let verbose = [-1, 3, 99, 2, 1, 0].map(|level| (self.set_verbose)(level));
            let modes = [-1, 5, 4, 3].map(|mode| (self.set_fpmath)(mode));
            let got = [(self.get_fpmath)(std::ptr::null_mut()), (self.get_fpmath)(&raw mut mode)];
            (self.set_fpmath)(0);
            format!("{verbose:?} {modes:?} {got:?} {mode}")
        }
    }

    /// The names of all values that an enumeration has, and of some that it has not.
    fn names(&self) -> String {
        let named = [
            self.status_name,
            self.type_name,
            self.fpmath_name,
            self.accumulation_name,
            self.engine_name,
            self.encoding_name,
            self.tag_name,
            self.prop_name,
            self.primitive_name,
            self.algorithm_name,
            self.flags_name,
            self.direction_name,
            self.scratchpad_name,
            self.rounding_name,
            self.quantization_name,
            self.isa_name,
            self.hints_name,
            self.kind_name,
        ];
        let mut all = String::new();
        let mut add = |function: usize, number: c_int, name: *const std::ffi::c_char| {
            // SAFETY: the functions return strings that stay.
            let name = unsafe { std::ffi::CStr::from_ptr(name) };
            // A type that oneDNN's library has no name for.
            let own = function == 1 && number == 15;
            if !own && !name.to_bytes().starts_with(b"unknown") {
                write!(all, "{function} {number} {name:?}; ").unwrap();
            }
        };
        for number in (-2..0x4_0000).chain([c_int::MAX, c_int::MIN]) {
            for (i, function) in named.iter().enumerate() {
                // SAFETY: the functions take any number.
                add(i, number, unsafe { function(number) });
            }
            // SAFETY: as before.
            add(named.len(), number, unsafe { (self.runtime_name)(number.cast_unsigned()) });
        }
        all
    }
}

/// A descriptor of a library, or the status that came instead.
struct Desc {
    api: Api,
    handle: dnnl_memory_desc_t,
    status: dnnl_status_t,
}

impl Desc {
    fn make(api: &Api, call: impl FnOnce(Out) -> dnnl_status_t) -> Self {
        let mut handle = std::ptr::null_mut();
        let status = call(&raw mut handle);
        assert_eq!(status == dnnl_success, !handle.is_null());
        Self { api: *api, handle, status }
    }

    fn is_there(&self) -> bool {
        self.status == dnnl_success
    }

    fn equals(&self, other: &Self) -> c_int {
        // SAFETY: both are null or live, and of the same library.
        unsafe { (self.api.equal)(self.handle, other.handle) }
    }

    fn numbers(&self, what: c_int) -> Vec<i64> {
        self.array(what, self.rank())
    }

    fn array(&self, what: c_int, len: usize) -> Vec<i64> {
        let mut dims: *const i64 = std::ptr::null();
        // SAFETY: the result of these queries is an array as long as any descriptor has.
        unsafe {
            assert_eq!((self.api.query)(self.handle, what, (&raw mut dims).cast()), dnnl_success);
            std::slice::from_raw_parts(dims, len).to_vec()
        }
    }

    fn rank(&self) -> usize {
        self.number(256) as usize
    }

    fn number(&self, what: c_int) -> c_int {
        let mut number: c_int = 0;
        // SAFETY: the result of these queries is a number.
        unsafe { (self.api.query)(self.handle, what, (&raw mut number).cast()) };
        number
    }

    /// All that can be seen of it.
    fn observed(&self) -> String {
        if !self.is_there() {
            return format!("status {}", self.status);
        }
        let mut text = String::new();
        for what in (-1..=40).chain(127..=138).chain(254..=272) {
            for version in [1, 2] {
                let (status, value) = self.ask(what, version, 0);
                write!(text, "{what}/{version}: {status} {value}; ").unwrap();
            }
        }
        let kind = self.ask(262, 1, 0).1;
        for index in 1..=3 {
            // Types of handles that are not there are left out.
            if kind != "4" || index as usize <= self.rank() {
                let (status, value) = self.ask(258, 2, index);
                write!(text, "type {index}: {status} {value}; ").unwrap();
            }
        }
        for index in -1..4 {
            // SAFETY: the handle lives.
            let size = unsafe { (self.api.size_v2)(self.handle, index) };
            write!(text, "size {index}: {}; ", self.size(size, index)).unwrap();
        }
        // SAFETY: the handle lives.
        let size = unsafe { (self.api.size)(self.handle) };
        write!(text, "size: {}", self.size(size, 0)).unwrap();
        text
    }

    /// Whether views of it may be described in more than one way: it is a part of a block, or nothing of no layout.
    fn is_ambiguous(&self) -> bool {
        if self.number(262) != 2 {
            return self.numbers(257).contains(&0);
        }
        let axes = self.array(265, self.number(263) as usize);
        axes.iter().any(|&axis| self.numbers(260)[axis as usize] == 1)
    }

    /// Where every element is the same one, or all lie in a part of a block, oneDNN counts no bytes.
    fn size(&self, size: usize, index: c_int) -> String {
        let blocked = self.number(262) == 2 && index == 0;
        if !blocked
            || self.numbers(257).iter().chain(&self.numbers(14)).any(|&n| n == 0 || n == DNNL_RUNTIME_DIM_VAL)
        {
            let repeated = blocked
                && self.number(263) == 0
                && !self.numbers(257).contains(&0)
                && self
                    .numbers(257)
                    .iter()
                    .zip(self.numbers(14))
                    .all(|(&dim, stride)| dim > 0 && (dim == 1 || stride == 0));
            return if repeated { "one element".to_owned() } else { size.to_string() };
        }
        let mut blocks = vec![1; self.rank()];
        let inner = self.number(263) as usize;
        for (axis, block) in self.array(265, inner).into_iter().zip(self.array(264, inner)) {
            if let Some(own) = blocks.get_mut(axis as usize) {
                *own *= block;
            }
        }
        let in_a_block = self.numbers(260).iter().zip(blocks).all(|(&dim, block)| dim < block);
        if in_a_block { "one block".to_owned() } else { size.to_string() }
    }

    fn ask(&self, what: c_int, version: u32, index: c_int) -> (dnnl_status_t, String) {
        #[repr(C)]
        union Result {
            int: c_int,
            long: i64,
            dims: *const i64,
        }
        let mut result = Result { long: 0 };
        let out = (&raw mut result).cast();
        // SAFETY: the union takes every result, and is read as what the query gives.
        unsafe {
            let status = match version {
                1 => (self.api.query)(self.handle, what, out),
                _ => (self.api.query_v2)(self.handle, what, index, out),
            };
            let value = match what {
                _ if status != dnnl_success => String::new(),
                256 | 258 | 262 | 263 | 266 | 268 => result.int.to_string(),
                259 | 267 => result.long.to_string(),
                14 | 257 | 260 | 261 => format!("{:?}", std::slice::from_raw_parts(result.dims, self.rank())),
                264 | 265 => {
                    format!("{:?}", std::slice::from_raw_parts(result.dims, self.number(263) as usize))
                }
                _ => "a result".to_owned(),
            };
            (status, value)
        }
    }

    fn difference(&self, other: &Self) -> Option<String> {
        let (a, b) = (self.observed(), other.observed());
        let fields: Vec<String> = a
            .split("; ")
            .zip(b.split("; "))
            .filter(|(a, b)| a != b)
            .map(|(a, b)| format!("{a} | {b}"))
            .collect();
        (a != b).then(|| fields.join("\n    "))
    }
}

impl Drop for Desc {
    fn drop(&mut self) {
        // SAFETY: null or the handle that this owns.
        assert_eq!(unsafe { (self.api.destroy)(self.handle) }, dnnl_success);
    }
}

/// How a descriptor is made.
#[derive(Clone, Debug)]
enum Make {
    Tag(c_int, Vec<i64>, c_int, c_int),
    Strides(c_int, Vec<i64>, c_int, Option<Vec<i64>>),
    Coo(c_int, Vec<i64>, c_int, i64, c_int),
    HostScalar(c_int),
}

impl Make {
    fn draw(random: &mut Random) -> Self {
        let rank = match random.below(20) {
            0 => random.within(-1, 14),
            1..=3 => random.within(5, 12),
            _ => random.within(1, 5),
        };
        let known = rank.clamp(1, 12) as usize;
        let largest = if known > 6 { 4 } else { 40 };
        let dims: Vec<i64> = (0..known).map(|_| random.dim(largest)).collect();
        let data_type = match random.below(40) {
            0 => *random.pick(&[-1, 0, 17, 99]),
            _ => *random.pick(&[1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 16]),
        };
        match random.below(20) {
            0 => {
                let indices = *random.pick(&[4, 16, 5, 6]);
                let dims = if random.below(3) > 0 { dims.into_iter().take(2).collect() } else { dims };
                let rank = if rank < 1 { rank } else { dims.len() as i64 };
                Self::Coo(rank as c_int, dims, data_type, random.within(0, 50), indices)
            }
            1 => Self::HostScalar(data_type),
            2..=9 => {
                let overflows = dims.contains(&DNNL_RUNTIME_DIM_VAL) && dims.len() > 2;
                let strides = (overflows || random.below(10) > 0).then(|| random.strides(&dims));
                Self::Strides(rank as c_int, dims, data_type, strides)
            }
            _ => {
                let tag = match random.below(30) {
                    0 => random.within(-3, 900) as c_int,
                    1 => 0,
                    2..=4 => 1,
                    _ => random.tag(rank as usize),
                };
                Self::Tag(rank as c_int, dims, data_type, tag)
            }
        }
    }

    /// Almost the same.
    fn varied(&self, random: &mut Random) -> Self {
        let mut varied = self.clone();
        match &mut varied {
            Self::Tag(rank, dims, _, tag) if random.below(2) == 0 => {
                if *tag > 1 && random.below(2) == 0 {
                    *tag = random.tag(*rank as usize);
                } else {
                    let axis = random.below(dims.len() as u64) as usize;
                    dims[axis] = random.dim(40);
                }
            }
            Self::Strides(_, dims, _, Some(strides)) => {
                let axis = random.below(dims.len() as u64) as usize;
                strides[axis] = strides[axis].wrapping_add(random.within(0, 2));
            }
            Self::Coo(_, _, _, nnz, _) => *nnz += random.within(0, 1),
            _ => {}
        }
        varied
    }

    fn run(&self, api: &Api) -> Desc {
        // SAFETY: the arrays have as many numbers as the functions read; what lies beyond 12 is refused before it is read.
        Desc::make(api, |out| unsafe {
            match self {
                Self::Tag(rank, dims, t, tag) => (api.with_tag)(out, *rank, padded(dims).as_ptr(), *t, *tag),
                Self::Strides(rank, dims, t, strides) => {
                    let strides = strides.as_deref().map(padded);
                    let strides = strides.as_ref().map_or(std::ptr::null(), |s| s.as_ptr());
                    (api.with_strides)(out, *rank, padded(dims).as_ptr(), *t, strides)
                }
                Self::Coo(rank, dims, t, nnz, i) => {
                    (api.with_coo)(out, *rank, padded(dims).as_ptr(), *t, *nnz, *i)
                }
                Self::HostScalar(t) => (api.host_scalar)(out, *t),
            }
        })
    }
}

/// How a descriptor is made from another one.
#[derive(Debug)]
enum Derive {
    Part(Vec<i64>, Vec<i64>),
    Reshape(c_int, Vec<i64>),
    Permute(Vec<c_int>),
    Clone,
}

impl Derive {
    fn draw(random: &mut Random, from: &Desc) -> Self {
        let dims = from.numbers(257);
        match random.below(10) {
            4..=7 if from.is_ambiguous() => Self::Clone,
            0..=3 => {
                let (mut sizes, mut offsets) = (Vec::new(), Vec::new());
                for &dim in &dims {
                    let dim = if dim == DNNL_RUNTIME_DIM_VAL { 5 } else { dim };
                    let block = *random.pick(&[1, 1, 4, 8, 16]);
                    let offset = if random.below(2) == 0 { 0 } else { random.within(0, dim) / block * block };
                    let rest = dim - offset;
                    sizes.push(match random.below(4) {
                        0 => rest,
                        1 => rest.min(block),
                        _ => random.within(0, rest),
                    });
                    offsets.push(offset);
                }
                if !dims.is_empty() && random.below(8) == 0 {
                    let axis = random.below(dims.len() as u64) as usize;
                    let wrong = *random.pick(&[-1, 100, DNNL_RUNTIME_DIM_VAL]);
                    if random.below(2) == 0 { sizes[axis] = wrong } else { offsets[axis] = wrong }
                }
                Self::Part(sizes, offsets)
            }
            4..=7 => {
                let mut dims = random.reshaped(dims);
                if dims.is_empty() {
                    dims.push(1);
                }
                let rank = if random.below(20) == 0 { *random.pick(&[-1, 1, 13]) } else { dims.len() as i64 };
                Self::Reshape(rank as c_int, dims)
            }
            8 => {
                let mut axes: Vec<c_int> = (0..dims.len() as c_int).collect();
                random.shuffle(&mut axes);
                if !axes.is_empty() && random.below(6) == 0 {
                    axes[0] = random.within(-1, 12) as c_int;
                }
                Self::Permute(axes)
            }
            _ => Self::Clone,
        }
    }

    fn run(&self, from: &Desc) -> Desc {
        let api = &from.api;
        // SAFETY: the handle lives; the arrays are as long as the functions may read.
        Desc::make(api, |out| unsafe {
            match self {
                Self::Part(dims, offsets) => {
                    (api.part)(out, from.handle, padded(dims).as_ptr(), padded(offsets).as_ptr())
                }
                Self::Reshape(rank, dims) => (api.reshape)(out, from.handle, *rank, padded(dims).as_ptr()),
                Self::Permute(axes) => {
                    let mut all = [0; DNNL_MAX_NDIMS];
                    all[..axes.len()].copy_from_slice(axes);
                    (api.permute)(out, from.handle, all.as_ptr())
                }
                Self::Clone => (api.clone)(out, from.handle),
            }
        })
    }
}

fn padded(numbers: &[i64]) -> [i64; 16] {
    let mut all = [0; 16];
    let len = numbers.len().min(16);
    all[..len].copy_from_slice(&numbers[..len]);
    all
}

/// The generator splitmix64.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit.max(1)
    }

    fn within(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    fn dim(&mut self, largest: i64) -> i64 {
        match self.below(40) {
            0 => 0,
            1 => DNNL_RUNTIME_DIM_VAL,
            2 if self.below(10) == 0 => -3,
            3..=12 => 1,
            13..=16 if largest > 16 => *self.pick(&[8, 16, 32, 64, 17]),
            _ => self.within(1, largest),
        }
    }

    /// A layout by number, for as many dimensions where there is one.
    fn tag(&mut self, rank: usize) -> c_int {
        let letters = |name: &std::ffi::CStr| {
            // SAFETY: the name is a string.
            unsafe { anydnn_c::anydnn_format_tag(name.as_ptr()) }
        };
        let fitting = [c"a", c"ab", c"abc", c"abcd", c"abcde", c"abcdef"];
        match fitting.get(rank.wrapping_sub(1)) {
            Some(plain) if self.below(8) == 0 => letters(plain),
            _ => loop {
                let tag = self.within(2, 874) as c_int;
                if rank > 6 || rank == 0 || rank_of(tag) == rank {
                    return tag;
                }
            },
        }
    }

    fn strides(&mut self, dims: &[i64]) -> Vec<i64> {
        let mut order: Vec<usize> = (0..dims.len()).collect();
        if self.below(2) == 0 {
            self.shuffle(&mut order);
        }
        let mut strides = vec![0; dims.len()];
        let mut stride = if self.below(5) == 0 { 2 } else { 1 };
        for &axis in order.iter().rev() {
            strides[axis] = stride;
            let dim = if dims[axis] < 0 { 3 } else { dims[axis] };
            stride *= dim.max(1) + if self.below(6) == 0 { self.within(0, 3) } else { 0 };
        }
        if self.below(3) == 0 {
            let axis = self.below(dims.len() as u64) as usize;
            strides[axis] = match self.below(12) {
                0 if dims.iter().all(|&dim| dim > 1) => -1,
                1 => DNNL_RUNTIME_DIM_VAL,
                2..=6 => 0,
                _ => self.within(1, 60),
            };
        }
        strides
    }

    /// Other dimensions, most often with as many elements.
    fn reshaped(&mut self, mut dims: Vec<i64>) -> Vec<i64> {
        for _ in 0..=self.below(3) {
            let at = self.below(dims.len() as u64 + 1) as usize;
            match self.below(9) {
                0..=2 if dims.len() < 12 => dims.insert(at, 1),
                3..=4 => {
                    if let Some(one) = dims.iter().position(|&dim| dim == 1) {
                        dims.remove(one);
                    }
                }
                5..=6 if at + 1 < dims.len() && dims[at] >= 0 && dims[at + 1] >= 0 => {
                    let merged = dims[at] * dims[at + 1];
                    dims.splice(at..at + 2, [merged]);
                }
                7 if at < dims.len() && dims.len() < 12 => {
                    let factor = *self.pick(&[2, 3, 4, 8, 16]);
                    if dims[at] > 0 && dims[at] % factor == 0 {
                        let rest = dims[at] / factor;
                        dims.splice(
                            at..=at,
                            if self.below(2) == 0 { [factor, rest] } else { [rest, factor] },
                        );
                    }
                }
                8 if at < dims.len() && self.below(4) == 0 => dims[at] = self.within(0, 9),
                _ => {}
            }
        }
        dims
    }
}

/// The number of dimensions of a layout: the only one that a descriptor with it takes.
fn rank_of(tag: c_int) -> usize {
    let fits = |rank: &usize| {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the array is long enough, and the handle is ended.
        unsafe {
            let made = anydnn_c::dnnl_memory_desc_create_with_tag(
                &raw mut handle,
                *rank as c_int,
                [1; 12].as_ptr(),
                3,
                tag,
            );
            anydnn_c::dnnl_memory_desc_destroy(handle);
            made == dnnl_success
        }
    };
    (1..=12).find(fits).unwrap_or_default()
}
