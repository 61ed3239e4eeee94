//! Instructions of one NVIDIA architecture alone (`sm_90a`) inside of OpenCL C.
//!
//! The driver compiles OpenCL C for `sm_90`, which has no `wgmma`. But the binary it gives is PTX text, and it takes such text for a
//! binary. So kernels write these instructions as comments in inline PTX, with the operands filled in by the compiler; here the comments
//! become code.

/// What stands before an instruction, on the same line.
pub(crate) const MARK: &str = "//@sm_90a ";

/// What stands before the number of work-groups that a multiprocessor shall hold at once, which bounds their registers.
const RESIDENT: &str = "//@resident ";

/// What stands where a comment begins that hides the code behind it, in texts with [`HIDDEN`] before them.
pub(crate) const UNREAD: &str = "/*@unread";
/// Lets texts hide their code from the driver's assembler, whose machine code nobody would use.
pub(crate) const HIDDEN: &str = "#define ANYDNN_UNREAD 1\n";
/// A kernel behind all others, in which the comment ends. The driver does not find the kernels between, so that building fails; but its
/// binary is the text all the same.
pub(crate) const END: &str = "\n__kernel void anydnn_end(void) { asm volatile(\"@unread*/\"); }\n";

/// The text of a binary with hidden code, as if it had never been hidden.
pub(crate) fn shown(binary: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(binary).ok()?;
    let (text, _) = text.split_once(".entry anydnn_end")?;
    // What leads to the kernel's name begins with its line.
    let (text, _) = text.rsplit_once('\n')?;
    text.contains(UNREAD).then(|| text.replace(UNREAD, "") + "\n")
}

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
    fn hidden_code_is_shown() {
        let ptx = ".target sm_90\n.entry f()\n{\n\t/*@unread\n\tret;\n}\n.visible .entry anydnn_end()\n{\n\t@unread*/\n\tret;\n}\n\0";
        let code = ".target sm_90\n.entry f()\n{\n\t\n\tret;\n}\n";
        assert_eq!(shown(ptx.as_bytes()).as_deref(), Some(code));
        assert_eq!(shown(b".target sm_90\n.entry f() { }"), None);
        assert_eq!(shown(b".target sm_90\n.visible .entry anydnn_end() { }"), None);
        assert_eq!(shown(b"\x7fELF\xff"), None);
    }

    #[test]
    fn other_binaries_stay_as_they_are() {
        assert_eq!(translate(b"\x7fELF\xff"), None);
        assert_eq!(translate(b".target sm_90\n// nothing"), None);
        assert_eq!(translate(b".target sm_100\n//@sm_90a wgmma.fence;"), None);
        assert_eq!(translate(b".target sm_901\n//@sm_90a wgmma.fence;"), None);
    }
}
