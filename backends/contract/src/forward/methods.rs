//! The methods of the traits, from which everything that passes calls on is generated.

/// Hands the methods of a trait, as a wrapper of the family `$B` implements them, to the macro `$then` behind a group of its own.
///
/// They come in three blocks: `plain` ones name no object of a backend, `converted` ones take or return some, `mutable` ones change
/// their object. The types are named without paths, so they are in scope where the list is used. A provided method of a trait that is
/// missing here fails `clippy::missing_trait_methods` where the list becomes an `impl`.
#[doc(hidden)]
#[macro_export]
macro_rules! methods {
    (Engine of $B:ident, $then:ident! $context:tt) => {
        $then! { $context
            plain {
                fn id(&self) -> EngineId;
                fn device(&self) -> &DeviceInfo;
                fn capabilities(&self) -> &Capabilities;
                fn memory_kinds(&self) -> &[MemoryKind];
                fn has_profiling(&self) -> bool;
                fn in_background(&self, work: Work) -> Option<Work>;
                fn launch_elements(&self) -> usize;
                fn resolve(&self, desc: &PrimitiveDesc) -> Result<PrimitiveDesc>;
                fn resolve_with_scratchpad(&self, desc: &PrimitiveDesc) -> Result<(PrimitiveDesc, usize)>;
                fn cache_blob_id(&self) -> Result<Vec<u8>>;
                fn cache_blob(&self) -> Result<Vec<u8>>;
            }
            converted {
                fn create_stream(&self, desc: &StreamDesc) -> Result<<$B as Backend>::Stream>;
                fn create_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<<$B as Backend>::Memory>;
                fn create_unbacked_memory(
                    &self,
                    desc: &MemoryDesc,
                    kind: MemoryKind
                ) -> Result<<$B as Backend>::Memory>;
                fn create_primitive(&self, desc: &PrimitiveDesc) -> Result<<$B as Backend>::Primitive>;
                fn ready(&self, steps: &[ListStep<$B>], slots: usize) -> Result<Option<Box<dyn List<$B>>>>;
                fn allocator(&self) -> Arc<dyn Allocator<B = $B>>;
            }
            mutable {}
        }
    };
    (Stream of $B:ident, $then:ident! $context:tt) => {
        $then! { $context
            plain {
                fn engine_id(&self) -> EngineId;
                fn desc(&self) -> &StreamDesc;
                fn flush(&self) -> Result<()>;
                fn wait(&self) -> Result<()>;
                fn profile(&self) -> Result<Vec<Profiled>>;
                fn reset_profile(&self) -> Result<()>;
            }
            converted {
                fn execute(
                    &self,
                    primitive: &<$B as Backend>::Primitive,
                    args: &[(Arg, <$B as Backend>::Memory)],
                    deps: &[<$B as Backend>::Event]
                ) -> Result<<$B as Backend>::Event>;
                fn execute_validated(
                    &self,
                    primitive: &<$B as Backend>::Primitive,
                    args: &[(Arg, <$B as Backend>::Memory)],
                    deps: &[<$B as Backend>::Event]
                ) -> Result<<$B as Backend>::Event>;
                fn copy(
                    &self,
                    from: Range<$B>,
                    to: Range<$B>,
                    deps: &[<$B as Backend>::Event]
                ) -> Result<<$B as Backend>::Event>;
                fn write(
                    &self,
                    memory: &<$B as Backend>::Memory,
                    offset: usize,
                    bytes: &[u8],
                    deps: &[<$B as Backend>::Event]
                ) -> Result<<$B as Backend>::Event>;
                fn enqueue_write(
                    &self,
                    memory: &<$B as Backend>::Memory,
                    offset: usize,
                    bytes: &[u8],
                    deps: &[<$B as Backend>::Event]
                ) -> Result<<$B as Backend>::Event>;
                fn read(
                    &self,
                    memory: &<$B as Backend>::Memory,
                    offset: usize,
                    bytes: &mut [u8],
                    deps: &[<$B as Backend>::Event]
                ) -> Result<()>;
                fn marker(&self, deps: &[<$B as Backend>::Event]) -> Result<<$B as Backend>::Event>;
            }
            mutable {}
        }
    };
    (Memory of $B:ident, $then:ident! $context:tt) => {
        $then! { $context
            plain {
                fn engine_id(&self) -> EngineId;
                fn desc(&self) -> &MemoryDesc;
                fn kind(&self) -> MemoryKind;
                fn region(&self) -> Region;
                fn identity(&self) -> u64;
                fn is_backed(&self) -> bool;
                fn map(&self, mode: MapMode) -> Result<Box<dyn Mapping>>;
            }
            converted {
                fn view(&self, desc: &MemoryDesc, offset: usize) -> Result<<$B as Backend>::Memory>;
            }
            mutable {
                fn replace(&mut self, bytes: &<$B as Backend>::Memory) -> Result<()>;
            }
        }
    };
    (Event of $B:ident, $then:ident! $context:tt) => {
        $then! { $context
            plain {
                fn wait(&self) -> Result<()>;
                fn status(&self) -> Result<EventStatus>;
                fn timestamps(&self) -> Result<Option<Timestamps>>;
            }
            converted {}
            mutable {}
        }
    };
    (Primitive of $B:ident, $then:ident! $context:tt) => {
        $then! { $context
            plain {
                fn engine_id(&self) -> EngineId;
                fn desc(&self) -> &PrimitiveDesc;
                fn implementation(&self) -> &str;
                fn scratchpad_size(&self) -> usize;
                fn launches(&self) -> usize;
            }
            converted {}
            mutable {}
        }
    };
    (Allocator of $B:ident, $then:ident! $context:tt) => {
        $then! { $context
            plain {
                fn stats(&self) -> AllocatorStats;
                fn trim(&self) -> ();
                fn keeps_apart(&self) -> bool;
            }
            converted {
                fn allocate(&self, bytes: usize, alignment: usize) -> Result<<$B as Backend>::Memory>;
                fn free(
                    &self,
                    memory: <$B as Backend>::Memory,
                    after: Option<&<$B as Backend>::Event>
                ) -> Result<()>;
            }
            mutable {}
        }
    };
    (List of $B:ident, $then:ident! $context:tt) => {
        $then! { $context
            plain {}
            converted {}
            mutable {
                fn enqueue(
                    &mut self,
                    stream: &<$B as Backend>::Stream,
                    slots: &[&<$B as Backend>::Memory],
                    deps: &[<$B as Backend>::Event]
                ) -> Result<<$B as Backend>::Event>;
            }
        }
    };
}
