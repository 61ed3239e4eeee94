//! Instructions of one NVIDIA architecture alone (`sm_90a`) inside of OpenCL C.
//!
//! The driver compiles OpenCL C for `sm_90`, which has no `wgmma`. But the binary it gives is PTX text, and it takes such text for a
//! binary. So kernels write these instructions as comments in inline PTX, with the operands filled in by the compiler; here the comments
//! become code.

/// What stands before an instruction, on the same line.
pub(crate) const MARK: &str = "//@sm_90a ";

/// What stands before the number of work-groups that a multiprocessor shall hold at once, which bounds their registers.
const RESIDENT: &str = "//@resident ";

/// The text for the architecture with the marked instructions; none where there are none or the bytes are no such text.
pub(crate) fn translate(binary: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(binary).ok()?.trim_end_matches('\0');
    let (before, target) = text.split_once(".target sm_90")?;
    let after = target.strip_prefix('a').unwrap_or(target);
    let is_whole = !after.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !is_whole || !after.contains(MARK) {
        return None;
    }
    let mut text = format!("{before}.target sm_90a{}", after.replace(MARK, ""));
    if let Some((_, rest)) = text.split_once(RESIDENT) {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let bound = format!(".minnctapersm {}\n.reqntid ", &rest[..digits]);
        text = text.replace(".reqntid ", &bound);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_lines_become_code() {
        let ptx = ".version 9.0\n.target sm_90, texmode_independent\n\t//@sm_90a wgmma.fence;\n\t// else\n\0";
        let code = ".version 9.0\n.target sm_90a, texmode_independent\n\twgmma.fence;\n\t// else\n";
        assert_eq!(translate(ptx.as_bytes()).as_deref(), Some(code));
    }

    #[test]
    fn resident_groups_bound_the_registers() {
        let ptx =
            ".target sm_90\n.entry f()\n.reqntid 256, 1, 1\n{ //@resident 2;\n//@sm_90a wgmma.fence;\n}";
        let code = ".target sm_90a\n.entry f()\n.minnctapersm 2\n.reqntid 256, 1, 1\n{ //@resident 2;\nwgmma.fence;\n}";
        assert_eq!(translate(ptx.as_bytes()).as_deref(), Some(code));
    }

    #[test]
    fn other_binaries_stay_as_they_are() {
        assert_eq!(translate(b"\x7fELF\xff"), None);
        assert_eq!(translate(b".target sm_90\n// nothing"), None);
        assert_eq!(translate(b".target sm_100\n//@sm_90a wgmma.fence;"), None);
        assert_eq!(translate(b".target sm_901\n//@sm_90a wgmma.fence;"), None);
    }
}
