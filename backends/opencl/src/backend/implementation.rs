//! The implementations that an engine can choose from.

use anydnn_backend::{PrimitiveDesc, Result};

use crate::backend::engine::OpenClEngine;
use crate::backend::native;
use crate::backend::primitive::OpenClPrimitive;
use crate::primitive::{self, Choice, Wanted};

/// One way to compute a description on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Implementation {
    /// Such as `ocl:matmul:vector`; [`Primitive::implementation`](anydnn_backend::Primitive::implementation) of what is made of it.
    pub name: String,
    /// Why it stands where it does in the list.
    pub reason: &'static str,
}

impl OpenClEngine {
    /// The implementations that serve a description, the one that [`Engine::create_primitive`](anydnn_backend::Engine::create_primitive) takes first.
    ///
    /// # Errors
    /// As [`Engine::resolve`](anydnn_backend::Engine::resolve).
    pub fn implementations(&self, desc: &PrimitiveDesc) -> Result<Vec<Implementation>> {
        let choices = primitive::choices(desc, &self.traits(), Wanted::All)?;
        let name =
            |choice: Choice| Implementation { name: choice.plan.implementation, reason: choice.reason };
        let native = native::primitive(self, desc).map(|native| Implementation {
            name: native::name(&native),
            reason: "takes the processor itself less than a launch",
        });
        Ok(native.into_iter().chain(choices.into_iter().map(name)).collect())
    }

    /// As [`Engine::create_primitive`](anydnn_backend::Engine::create_primitive), by the implementation of this [name](Implementation::name).
    ///
    /// # Errors
    /// [`Error::Unsupported`](anydnn_backend::Error::Unsupported) also where that implementation does not serve the description.
    pub fn create_primitive_as(&self, desc: &PrimitiveDesc, implementation: &str) -> Result<OpenClPrimitive> {
        let native = native::primitive(self, desc).filter(|native| native::name(native) == implementation);
        if let Some(native) = native {
            return Ok(OpenClPrimitive::from_native(self, native));
        }
        let choice = primitive::choose(desc, &self.traits(), Wanted::Named(implementation))?;
        OpenClPrimitive::from_plan(self, choice.plan)
    }
}

#[cfg(test)]
mod tests {
    use anydnn_backend::op::{MatMul, Op};
    use anydnn_backend::{DataType, Engine, MemoryDesc, Primitive, PrimitiveDesc};

    use crate::testing::test_engines;

    fn product(n: usize) -> PrimitiveDesc {
        let matrix = |rows: usize, columns: usize| MemoryDesc::new([rows, columns], DataType::F32);
        PrimitiveDesc::builder(Op::MatMul(MatMul))
            .src(matrix(50, 24))
            .weights(matrix(24, n))
            .dst(matrix(50, n))
            .build()
            .unwrap()
    }

    #[test]
    fn implementations_are_listed_best_first() {
        for engine in test_engines() {
            let list = engine.implementations(&product(40)).unwrap();
            assert!(list.len() >= 2, "{list:?}");
            assert!(list.iter().any(|implementation| implementation.name == "ocl:matmul:ref"));
            assert!(list.iter().all(|implementation| !implementation.reason.is_empty()));
            let first = engine.create_primitive(&product(40)).unwrap();
            assert_eq!(first.implementation(), list[0].name);
        }
    }

    #[test]
    fn implementations_are_made_by_name() {
        for engine in test_engines() {
            let made = engine.create_primitive_as(&product(40), "ocl:matmul:ref").unwrap();
            assert_eq!(made.implementation(), "ocl:matmul:ref");
            let error = engine.create_primitive_as(&product(40), "ocl:matmul:magic").unwrap_err().to_string();
            assert!(error.contains("ocl:matmul:magic") && error.contains("implementations"), "{error}");
        }
    }
}
