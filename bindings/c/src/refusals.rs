//! What the library refuses as not implemented, and why: one list for the messages and for `README.md`.

use std::fmt::Display;

use crate::boundary::Failure;
use crate::types::dnnl_unimplemented;

macro_rules! lacks {
    ($($name:ident = $what:literal, $why:literal;)+) => {
        /// Something that is missing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Lack {
            $(#[doc = $what] $name,)+
        }

        impl Lack {
            /// All that is missing.
            #[cfg(test)]
            const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// What is missing.
            fn what(self) -> &'static str {
                match self {
                    $(Self::$name => $what,)+
                }
            }

            /// The reason.
            fn why(self) -> &'static str {
                match self {
                    $(Self::$name => $why,)+
                }
            }
        }
    };
}

lacks! {
    Recurrent = "quantised recurrent layers but LSTM and GRU for inference, with s8 weights whose scales do not differ along what is summed",
        "the documentation has them for these, and no sum could be told from its factors";
    Slope = "gradients of vanilla cells whose relu has a negative slope", "the sign of a result does not tell that of its sum";
    DataType = "computing with `f4_e3m0`, and with `e8m0` but for scales",
        "oneDNN has withdrawn the first and has scales alone of the second";
    Unknown = "dimensions and strides known at execution only, but for matmul and reorder",
        "the documentation has them for these two";
    Grouped = "grouped tensors but as a product's source and result by rows, or as its source and weights by terms without a bias",
        "the documentation has products of these";
    Sparse = "sparse operands but one of a product, sparse tensors but matrices, matrices without entries or with more than 2^24 rows, columns or entries",
        "each entry meets a row of a dense matrix, and places are counted in f32";
    Coordinates = "descriptors by coordinates of more than two dimensions, and by rows of anything but two",
        "the documented status";
    Part = "submemories that cut through blocks, are a part of one, or are of unknown dimensions",
        "the padding of a block would be a neighbour's elements";
    Attribute = "scales, zero points, post-operations, dropout and precomputed reductions of primitives that the documentation gives none",
        "the documented status";
    FoundScales = "scales that the primitive finds for anything but a product's result in f8 or f4",
        "the documentation has them for products, and the MX specification for these types";
    Rounding = "rounding at random of anything but results and gradients in f16, bf16, f8 and f4",
        "the documentation has it for floats of fewer bits";
    Depthwise = "depthwise convolutions behind anything but one convolution of two dimensions and one tap",
        "the documentation has them there";
    Rectifiers = "a normalisation with both fused rectifiers", "the two flags contradict each other";
    Layout = "open layouts of operands that a primitive sees under other dimensions", "the layout could not be told";
    Query = "queries that an object has no answer to", "the documented status";
    Profile = "profiling data but times", "nothing else is measured";
    OutOfOrder = "out-of-order queues for streams of version 1", "they wait when they end";
    Pointer = "memory by addresses on devices without unified and shared virtual memory", "the device has none";
}

impl Lack {
    /// The failure of a call that asks for it.
    pub(crate) fn failure(self, asked: impl Display) -> Failure {
        let (what, why) = (self.what(), self.why());
        Failure::Status(dnnl_unimplemented, format!("not supported: {asked} ({what}: {why})"))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;
    use std::{env, fs};

    use super::*;

    const BEGIN: &str = "<!-- what is missing, from src/refusals.rs -->\n";
    const END: &str = "<!-- end of what is missing -->\n";

    /// Run with `ANYDNN_BLESS=1` after a change of the list.
    #[test]
    fn the_readme_lists_what_is_missing() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let text = fs::read_to_string(&path).unwrap();
        let (head, rest) = text.split_once(BEGIN).unwrap();
        let (given, tail) = rest.split_once(END).unwrap();
        let mut list = String::from("| Returns `unimplemented` | Because |\n| --- | --- |\n");
        for lack in Lack::ALL {
            writeln!(list, "| {} | {} |", lack.what(), lack.why()).unwrap();
        }
        if env::var_os("ANYDNN_BLESS").is_some() {
            fs::write(&path, format!("{head}{BEGIN}{list}{END}{tail}")).unwrap();
            return;
        }
        assert_eq!(given, list, "run with ANYDNN_BLESS=1");
    }

    /// No function refuses by itself what is not in the list; graphs and recurrent layers have lists of their own.
    #[test]
    fn refusals_come_from_the_list() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut folders = vec![source.clone(), source.join("desc"), source.join("memory")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                if path.is_dir() || ["refusals.rs", "recurrent.rs", "boundary.rs"].contains(&&*name) {
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap();
                for refusal in ["Error::unsupported(", "Err(Failure::Status(dnnl_unimplemented"] {
                    assert!(!code.contains(refusal), "{name} refuses by {refusal}");
                }
            }
        }
    }

    /// What is asked for, what is missing and the reason are in the message.
    #[test]
    fn messages_say_why() {
        let (status, message) = Lack::Profile.failure("data of kind 7").into_parts();
        assert_eq!(status, dnnl_unimplemented);
        assert_eq!(
            message,
            "not supported: data of kind 7 (profiling data but times: nothing else is measured)"
        );
    }
}
