//! The OpenCL C of anydnn's kernels, one folder for each family of primitives, embedded in the program.
//!
//! Texts are templates: what is between the files and a program, the types and sizes of a launch, is written by `anydnn-opencl`. Nothing
//! here depends on a device; whoever wants the kernels without the backend has their texts.

macro_rules! files {
    ($($path:literal,)+) => {
        /// Every file: its path within this package, and its text, in the order of paths.
        pub const FILES: &[(&str, &str)] = &[$(($path, include_str!($path)),)+];
    };
}

files! {
    "attention/decode.cl",
    "attention/mma.cl",
    "attention/parts.cl",
    "attention/reference.cl",
    "attention/split.cl",
    "attention/split_mma.cl",
    "attention/tiled.cl",
    "attention/vector.cl",
    "attention/warp.cl",
    "attention/wgmma.cl",
    "attention/wgmma_copies.cl",
    "attention/wgmma_scores.cl",
    "bench/copy.cl",
    "bench/fma.cl",
    "common/binary.cl",
    "common/eltwise.cl",
    "common/epilogue.cl",
    "common/gradient.cl",
    "common/join.cl",
    "common/keep.cl",
    "common/lanes.cl",
    "common/math.cl",
    "common/prelude.cl",
    "common/rows.cl",
    "common/transpose.cl",
    "common/window.cl",
    "convolution/blocked.cl",
    "convolution/depthwise.cl",
    "convolution/depthwise_flat.cl",
    "convolution/depthwise_rows.cl",
    "convolution/depthwise_strip.cl",
    "convolution/dots.cl",
    "convolution/gather.cl",
    "convolution/pack.cl",
    "convolution/packed.cl",
    "convolution/reference.cl",
    "convolution/store.cl",
    "convolution/tile.cl",
    "convolution/vector.cl",
    "convolution/weights.cl",
    "convolution/weights_vector.cl",
    "convolution/winograd.cl",
    "convolution/winograd_weights.cl",
    "copy/copy.cl",
    "expression/expression.cl",
    "expression/tabled.cl",
    "matmul/amx.cl",
    "matmul/blocked.cl",
    "matmul/broadcast.cl",
    "matmul/dot.cl",
    "matmul/expand.cl",
    "matmul/finish.cl",
    "matmul/grouped.cl",
    "matmul/narrow.cl",
    "matmul/pack.cl",
    "matmul/pack_part.cl",
    "matmul/packed.cl",
    "matmul/reference.cl",
    "matmul/simt.cl",
    "matmul/simt_copies.cl",
    "matmul/skinny.cl",
    "matmul/skinny_bits.cl",
    "matmul/skinny_integers.cl",
    "matmul/skinny_mma.cl",
    "matmul/skinny_sums.cl",
    "matmul/sub_groups.cl",
    "matmul/terms.cl",
    "matmul/tile.cl",
    "matmul/tiled.cl",
    "matmul/vector.cl",
    "matmul/wgmma.cl",
    "matmul/wgmma_join.cl",
    "matmul/wgmma_slices.cl",
    "matmul/wide.cl",
    "matmul/words.cl",
    "movement/gather.cl",
    "movement/remap.cl",
    "normalization/around.cl",
    "normalization/local_response.cl",
    "normalization/local_response_backward.cl",
    "normalization/statistics.cl",
    "pointwise/listed.cl",
    "pointwise/pointwise.cl",
    "pointwise/transposed.cl",
    "pointwise/transposed_lanes.cl",
    "pooling/backward.cl",
    "pooling/lines.cl",
    "pooling/pooling.cl",
    "probe/amx.cl",
    "probe/bytes.cl",
    "probe/local.cl",
    "probe/mma.cl",
    "probe/pairs.cl",
    "probe/wgmma.cl",
    "probe/words.cl",
    "recurrent/backward.cl",
    "recurrent/cells.cl",
    "recurrent/clear.cl",
    "recurrent/panels.cl",
    "recurrent/reference.cl",
    "recurrent/resident.cl",
    "recurrent/resident_mma.cl",
    "recurrent/resident_simt.cl",
    "recurrent/single_group.cl",
    "recurrent/training.cl",
    "reduction/reduction.cl",
    "reorder/padding.cl",
    "reorder/table.cl",
    "resampling/backward.cl",
    "resampling/lines.cl",
    "resampling/positions.cl",
    "resampling/resampling.cl",
    "softmax/softmax.cl",
    "softmax/vectors.cl",
}

/// The text of a file, for constants: `const COPY: &str = text("copy/copy.cl");`.
///
/// # Panics
/// There is no such file, which ends the compilation of a constant.
pub const fn text(path: &str) -> &'static str {
    let mut i = 0;
    while i < FILES.len() {
        if is_same(FILES[i].0.as_bytes(), path.as_bytes()) {
            return FILES[i].1;
        }
        i += 1;
    }
    panic!("there is no such kernel file")
}

/// Comparisons of strings are no constant functions yet.
const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_is_listed_in_order() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut found = Vec::new();
        for folder in fs::read_dir(root).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
            for file in fs::read_dir(folder.path()).unwrap() {
                let path = file.unwrap().path();
                if path.extension().is_some_and(|extension| extension == "cl") {
                    found.push(path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/"));
                }
            }
        }
        found.sort();
        let listed: Vec<_> = FILES.iter().map(|(path, _)| *path).collect();
        assert_eq!(listed, found);
    }

    /// What a file says of itself: the first sentence of its first lines, without a list that it ends with.
    fn summary(text: &str) -> String {
        let lines = text.lines().map_while(|line| line.strip_prefix("//"));
        let comment = lines.take_while(|line| !line.starts_with("   ")).map(str::trim).collect::<Vec<_>>();
        let comment = comment.join(" ");
        let end = comment.find(". ").unwrap_or(comment.len());
        let sentence = comment[..end].trim_end_matches(['.', ':']);
        if sentence.is_empty() { String::new() } else { format!("{sentence}.").replace('*', "\\*") }
    }

    #[test]
    fn docs_list_every_kernel() {
        let mut page = String::from(
            "# Kernels\n\n\
             The OpenCL C in `kernels`, by what each file says of itself. Written by the test `docs_list_every_kernel`\n\
             (`ANYDNN_BLESS=1 cargo test -p anydnn-kernels` writes it anew). Which kernel serves a primitive on a device, and why, is told by\n\
             `anydnn bench CASE --explain`; `--each` measures all that apply.\n",
        );
        let mut folder = "";
        for (path, text) in FILES {
            let summary = summary(text);
            assert!(!summary.is_empty(), "{path} begins without saying what it is");
            let (family, file) = path.split_once('/').unwrap();
            if family != folder {
                page.extend(["\n## ", family, "\n\n"]);
                folder = family;
            }
            let address = format!("https://github.com/anydnn/anydnn/blob/main/kernels/{path}");
            page.extend(["- [`", file, "`](", &address, "): ", &summary, "\n"]);
        }
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/kernels.md");
        if std::env::var_os("ANYDNN_BLESS").is_some() {
            fs::write(&file, &page).unwrap();
        }
        let known = fs::read_to_string(file).unwrap_or_default();
        assert!(
            known == page,
            "docs/reference/kernels.md is stale: ANYDNN_BLESS=1 cargo test -p anydnn-kernels"
        );
    }

    #[test]
    fn texts_are_found_by_path() {
        const COPY: &str = text("copy/copy.cl");
        assert!(COPY.contains("__kernel"));
        assert!(FILES.iter().all(|(path, content)| text(path) == *content));
    }
}
