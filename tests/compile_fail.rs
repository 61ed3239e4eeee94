//! What must not compile.

#[test]
fn misuse_is_refused_by_the_compiler() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
