//! Gives the shared library its SONAME.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdnnl.so.3");
    // Drivers and thread-locals may call back after `dlclose`: once loaded, the library stays.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
