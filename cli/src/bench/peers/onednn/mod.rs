//! oneDNN's own CPU library, loaded at run time: primitives through its primitive API, graphs through its graph API.

mod api;
mod graph;
mod graph_api;
mod library;
mod primitive;
mod recurrent;

use std::path::PathBuf;
use std::process::Command;

use anydnn::backend::DataType;
use anydnn::graph::Graph;
use serde_json::Value;

use self::graph::LoadedGraph;
use self::library::Lib;
use self::primitive::Loaded;
use super::server::{Refusal, Serve};
use super::{cache, environment};
use crate::bench::data::Tensor;
use crate::bench::notation;
use crate::bench::spec::Work;
use crate::failure::{Code, Failure};

/// The packages that hold the library and what it loads.
const PACKAGES: &str = include_str!("../packages/onednn.txt");

/// This program as the peer.
pub(super) fn command() -> Result<Command, Failure> {
    let library = if let Some(library) = std::env::var_os("ANYDNN_ONEDNN_LIBRARY") {
        PathBuf::from(library)
    } else {
        let folder = cache()?.join("onednn");
        environment(&folder, PACKAGES, &["--no-deps"])?;
        folder.join("lib/libdnnl.so.3")
    };
    if !library.is_file() {
        let help = "`cargo xtask setup` installs it; or set ANYDNN_ONEDNN_LIBRARY to libdnnl.so.3";
        return Err(Failure::new(
            Code::Unavailable,
            format!("peer onednn: no file {}", library.display()),
            help,
        ));
    }
    let own = std::env::current_exe().map_err(|error| anydnn::backend::Error::io("this program", error))?;
    let mut command = Command::new(own);
    command.args(["bench-peer", "onednn"]).arg(&library);
    // What the library loads lies beside it.
    if let Some(folder) = library.parent() {
        let mut path = folder.as_os_str().to_owned();
        if let Some(more) = std::env::var_os("LD_LIBRARY_PATH").filter(|more| !more.is_empty()) {
            path.push(":");
            path.push(more);
        }
        command.env("LD_LIBRARY_PATH", path);
    }
    Ok(command)
}

/// The library with the case that was prepared last.
pub(super) struct OneDnn {
    // The case ends before the library.
    case: Option<Prepared>,
    library: &'static Lib,
}

/// A case as a primitive or as a graph.
enum Prepared {
    Primitive(Loaded),
    Graph(LoadedGraph),
}

impl OneDnn {
    pub(super) fn load(path: &str) -> Result<Self, String> {
        // The process ends with its only library.
        Ok(Self { case: None, library: Box::leak(Box::new(Lib::load(path)?)) })
    }

    fn case(&mut self) -> Result<&mut Prepared, String> {
        self.case.as_mut().ok_or_else(|| "no case is prepared".to_owned())
    }
}

impl Serve for OneDnn {
    fn version(&self) -> String {
        self.library.version()
    }

    fn prepare(&mut self, case: &Value) -> Result<String, Refusal> {
        self.case = None;
        let tensors: Option<Vec<Tensor>> =
            case["tensors"].as_array().and_then(|list| list.iter().map(Tensor::from_json).collect());
        let tensors = tensors.ok_or_else(|| Refusal::Failed("the case has no tensors".into()))?;
        let sets = case["sets"].as_u64().unwrap_or(1) as usize;
        let spec = case["case"].as_str().and_then(|text| notation::parse(text).ok());
        let primitive =
            spec.filter(|spec| !matches!(spec.work, Work::Attention { .. }) && !spec.data_type.is_integer());
        let prepared = if let Some(spec) = primitive {
            Prepared::Primitive(primitive::load(self.library, &spec, &tensors, sets)?)
        } else {
            let graph = Graph::from_json(&case["graph"].to_string());
            let graph = graph.map_err(|error| Refusal::Failed(error.to_string()))?;
            Prepared::Graph(graph::load(self.library, &graph, &tensors, sets)?)
        };
        let note = match &prepared {
            Prepared::Primitive(loaded) => loaded.note.clone(),
            Prepared::Graph(loaded) => loaded.note.clone(),
        };
        self.case = Some(prepared);
        Ok(note)
    }

    fn run(&mut self) -> Result<(), String> {
        match self.case()? {
            Prepared::Primitive(loaded) => loaded.run(),
            Prepared::Graph(loaded) => loaded.run(),
        }
    }

    fn wait(&mut self) -> Result<(), String> {
        self.library.wait()
    }

    fn outputs(&mut self) -> Result<Vec<f32>, String> {
        match self.case()? {
            Prepared::Primitive(loaded) => loaded.outputs(),
            Prepared::Graph(loaded) => loaded.outputs(),
        }
    }
}

/// The number of a type in `dnnl_data_type_t`.
fn data_type(of: DataType) -> Result<i32, String> {
    Ok(match of {
        DataType::F16 => 1,
        DataType::BF16 => 2,
        DataType::F32 => 3,
        DataType::S32 => 4,
        DataType::S8 => 5,
        DataType::U8 => 6,
        DataType::Boolean => 8,
        other => return Err(format!("no cases of {other}")),
    })
}
