//! What the shared libraries export: the functions of `exports.txt`, and nothing else.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use common::{build, run};

#[test]
fn the_libraries_export_exactly_the_listed_functions() {
    let (listed, later) = listed();
    for library in [build("anydnn-dnnl", "libdnnl.so"), build("anydnn-shared", "libanydnn.so")] {
        let exported = exported(&library);
        let missing: Vec<_> = listed.difference(&exported).collect();
        let unlisted: Vec<_> = exported.difference(&listed).filter(|name| !later.contains(*name)).collect();
        let no_longer_later: Vec<_> = exported.intersection(&later).collect();
        assert!(missing.is_empty(), "{} lacks {missing:?}", library.display());
        assert!(unlisted.is_empty(), "{} exports {unlisted:?} too", library.display());
        assert!(no_longer_later.is_empty(), "remove `later` from exports.txt before {no_longer_later:?}");
    }
}

#[test]
fn the_list_holds_every_function_of_the_tiers() {
    let (listed, later) = listed();
    let version_3 =
        listed.union(&later).filter(|name| name.starts_with("dnnl_") && !is_version_1(name)).count();
    let version_1 = listed.union(&later).filter(|name| is_version_1(name)).count();
    // Tiers 1, 2 and 3, with the strings of `dnnl_debug.h`, and `dnnl_verbose_profiling_enabled` of newer headers.
    assert_eq!((version_3, version_1), (68 + 77 + 115 + 17 + 1, 7));
}

#[test]
fn the_libraries_have_their_sonames_and_stay_loaded() {
    for (package, file, soname) in
        [("anydnn-dnnl", "libdnnl.so", "libdnnl.so.3"), ("anydnn-shared", "libanydnn.so", "libanydnn.so.0")]
    {
        let dynamic = run(Command::new("readelf").arg("-d").arg(build(package, file)));
        assert!(dynamic.contains(&format!("soname: [{soname}]")), "{dynamic}");
        assert!(dynamic.contains("NODELETE"), "{dynamic}");
        assert!(!dynamic.contains("libOpenCL"), "{dynamic}");
    }
}

fn is_version_1(name: &str) -> bool {
    name.ends_with("_ocl") || name.contains("get_ocl_") || name.contains("set_ocl_")
}

fn exported(library: &Path) -> BTreeSet<String> {
    let symbols = run(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(library));
    symbols.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The functions to export, and those still to come.
fn listed() -> (BTreeSet<String>, BTreeSet<String>) {
    let names = include_str!("exports.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (later, now): (Vec<_>, Vec<_>) = names.partition(|line| line.starts_with("later "));
    let owned =
        |names: Vec<&str>| names.iter().map(|name| name.trim_start_matches("later ").to_owned()).collect();
    (owned(now), owned(later))
}
