//! Primitives of a backend that another one holds.

use super::Object;
use crate::backend::Backend;
use crate::engine::EngineId;
use crate::methods;
use crate::op::primitive_desc::PrimitiveDesc;
use crate::primitive::Primitive;

methods!(Primitive of W, object! { PrimitiveObject: Primitive, Backend });
