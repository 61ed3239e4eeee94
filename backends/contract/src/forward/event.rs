//! Events of a backend that another one holds.

use super::Object;
use crate::backend::Backend;
use crate::error::Result;
use crate::event::{Event, EventStatus, Timestamps};
use crate::methods;

methods!(Event of W, object! { EventObject: Event, Backend });
