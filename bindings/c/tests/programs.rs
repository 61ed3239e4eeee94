//! C and C++ programs, compiled against oneDNN's published headers and run on the shared library.

mod common;

fn prints_passed(program: &str) {
    if let Some(printed) = common::compile_and_run(program) {
        assert_eq!(printed.trim(), "passed", "{program}");
    }
}

#[test]
fn c_describes_memory() {
    prints_passed("descriptors.c");
}

#[test]
fn cpp_describes_memory() {
    prints_passed("descriptors.cpp");
}

#[test]
fn c_includes_the_own_header() {
    prints_passed("own_header.c");
}

#[test]
fn c_passes_null_everywhere() {
    prints_passed("null.c");
}
