//! The memory functions of the OpenCL interoperability API, one after the other, in this crate's terms. Each test is named after the C
//! function whose rules it checks.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the tests own every handle they pass")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ptr;

use anydnn_backend::{
    Arg, DataType, Eltwise, Engine, Error, MapMode, Memory, MemoryDesc, MemoryKind, Op, PrimitiveDesc,
    Result, Stream, StreamDesc,
};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClMemory};
use common::places::{Origin, Place, base_alignment};
use common::pointers::{UserMemory, pointer_kinds};
use common::*;

fn is_invalid<T>(result: Result<T>) -> bool {
    result.map(drop).is_err_and(|error| matches!(error.root(), Error::Invalid(_)))
}

/// Runs the absolute value from one memory to another.
fn abs(engine: &OpenClEngine, src: &OpenClMemory, dst: &OpenClMemory) -> Result<()> {
    let desc = src.desc().clone();
    let desc = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Abs)).src(desc.clone()).dst(desc).build()?;
    let stream = engine.create_stream(&StreamDesc::default())?;
    stream.execute(
        &engine.create_primitive(&desc)?,
        &[(Arg::SRC, src.clone()), (Arg::DST, dst.clone())],
        &[],
    )?;
    stream.wait()
}

// dnnl_memory_create

#[test]
fn memory_create_takes_a_buffer_and_retains_it() {
    for engine in test_engines() {
        let raw = buffer(engine.raw_context(), 64);
        let memory = unsafe { OpenClMemory::from_raw(&engine, &floats(16), raw) }.unwrap();
        assert_eq!((memory.kind(), memory.raw_mem(), mem_count(raw)), (MemoryKind::Buffer, raw, 2));
        assert!(memory.raw_pointer().is_null(), "a buffer has no address");
        drop(memory);
        assert_eq!(mem_count(raw), 1);
        unsafe { cl3::memory::release_mem_object(raw) }.unwrap();
    }
}

#[test]
fn memory_create_allocates_a_buffer() {
    for engine in test_engines() {
        let memory = engine.create_memory(&floats(16), MemoryKind::Buffer).unwrap();
        assert_eq!(mem_count(memory.raw_mem()), 1);
        let size = cl3::memory::get_mem_object_data(memory.raw_mem(), cl3::memory::CL_MEM_SIZE).unwrap();
        assert!(usize::from_ne_bytes(size.try_into().unwrap()) >= 64);
        assert!(memory.is_backed() && memory.offset() == 0);
    }
}

#[test]
fn memory_create_refuses_open_layouts_for_every_kind() {
    for engine in test_engines() {
        let open = MemoryDesc::any([4, 4], DataType::F32);
        for &kind in &engine.capabilities().memory_kinds {
            assert!(is_invalid(engine.create_memory(&open, kind)), "{kind}");
            assert!(is_invalid(engine.create_unbacked_memory(&open, kind)), "{kind}");
        }
        let raw = buffer(engine.raw_context(), 64);
        assert!(is_invalid(unsafe { OpenClMemory::from_raw(&engine, &open, raw) }));
        assert_eq!(mem_count(raw), 1);
        unsafe { cl3::memory::release_mem_object(raw) }.unwrap();
        for user in UserMemory::of_every_kind(&engine, 64) {
            assert!(is_invalid(unsafe { OpenClMemory::from_pointer(&engine, &open, user.pointer()) }));
            let svm = unsafe { OpenClMemory::from_svm(&engine, &open, user.pointer()) };
            assert!(is_invalid(svm), "{}", user.kind);
        }
    }
}

#[test]
fn memory_create_of_no_bytes_has_no_handle() {
    for engine in test_engines() {
        for &kind in &engine.capabilities().memory_kinds {
            for desc in [floats(0), MemoryDesc::new([3, 0, 2], DataType::S8)] {
                let memory = engine.create_memory(&desc, kind).unwrap();
                assert_eq!(
                    (memory.raw_mem(), memory.raw_pointer()),
                    (ptr::null_mut(), ptr::null_mut()),
                    "{kind}"
                );
                assert!(memory.kind() == kind && memory.is_backed());
                assert!(memory.map(MapMode::ReadWrite).unwrap().bytes().is_empty());
                abs(&engine, &memory, &memory.clone()).unwrap();
            }
        }
        // No handle is needed where there are no bytes.
        let nothing = unsafe { OpenClMemory::from_raw(&engine, &floats(0), ptr::null_mut()) }.unwrap();
        assert!(nothing.is_backed() && nothing.raw_mem().is_null());
        if !pointer_kinds(&engine).is_empty() {
            let nothing =
                unsafe { OpenClMemory::from_pointer(&engine, &floats(0), ptr::null_mut()) }.unwrap();
            assert!(nothing.is_backed() && nothing.kind().is_pointer());
        }
    }
}

#[test]
fn memory_create_beyond_the_device_is_out_of_memory() {
    for engine in test_engines() {
        let capabilities = engine.capabilities();
        let (most, total) = (capabilities.max_allocation_bytes as usize, capabilities.memory_bytes as usize);
        for &kind in &capabilities.memory_kinds {
            for bytes in [total + 1, total.saturating_mul(16), isize::MAX as usize / 8] {
                if bytes <= most {
                    continue;
                }
                let error = engine.create_memory(&bytes_desc(bytes), kind).map(drop).unwrap_err();
                assert!(matches!(error.root(), Error::OutOfMemory { .. }), "{kind} of {bytes}: {error:?}");
                assert!(error.to_string().contains(&bytes.to_string()), "{error}");
            }
        }
        // The engine is none the worse for it.
        engine.create_memory(&floats(4), MemoryKind::Buffer).unwrap();
    }
}

// dnnl_memory_create_v2

#[test]
fn memory_create_v2_takes_its_handle_later() {
    for engine in test_engines() {
        for origin in Origin::all(&engine) {
            let mut memory = engine.create_unbacked_memory(&floats(3), origin.kind()).unwrap();
            assert!(!memory.is_backed() && memory.kind() == origin.kind());
            assert!(memory.raw_mem().is_null() && memory.raw_pointer().is_null());
            let place = Place::plain(&engine, origin, &floats(3));
            memory.replace(&place.memory).unwrap();
            assert_eq!(
                (memory.raw_mem(), memory.raw_pointer()),
                (place.memory.raw_mem(), place.memory.raw_pointer())
            );
            assert!(memory.is_backed() && memory.region() == place.memory.region(), "{origin:?}");
        }
    }
}

// dnnl_ocl_interop_memory_create

/// What the user's pointer of a kind becomes: the address itself, the kind named, nothing freed.
fn takes_a_pointer(kind: MemoryKind) {
    for engine in test_engines() {
        if !pointer_kinds(&engine).contains(&kind) {
            let error = engine.create_memory(&floats(4), kind).map(drop).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{kind}: {error}");
            continue;
        }
        let user = UserMemory::new(&engine, kind, 64);
        user.write(&pattern(64, 1));
        for offset in [0, 4, 1, 7] {
            let memory = user.wrap(&floats(4), offset);
            assert_eq!(memory.kind(), Origin::UserPointer(kind).kind());
            assert_eq!(memory.raw_pointer(), user.pointer().wrapping_byte_add(offset));
            assert!(memory.raw_mem().is_null() && memory.offset() == 0);
            assert_eq!(memory.region().offset, user.pointer().addr() + offset);
            let stream = engine.create_stream(&StreamDesc::default()).unwrap();
            assert_eq!(read_all(&stream, &memory), pattern(64, 1)[offset..offset + 16], "{kind} at {offset}");
        }
        // Every handle is gone, and the memory is the user's still.
        assert_eq!(user.read(), pattern(64, 1));
        user.write(&pattern(64, 2));
    }
}

#[test]
fn ocl_interop_memory_create_takes_a_host_usm_pointer() {
    takes_a_pointer(MemoryKind::UsmHost);
}

#[test]
fn ocl_interop_memory_create_takes_a_device_usm_pointer() {
    takes_a_pointer(MemoryKind::UsmDevice);
}

#[test]
fn ocl_interop_memory_create_takes_a_shared_usm_pointer() {
    takes_a_pointer(MemoryKind::UsmShared);
}

#[test]
fn ocl_interop_memory_create_takes_coarse_svm() {
    takes_a_pointer(MemoryKind::Svm);
}

#[test]
fn ocl_interop_memory_create_takes_fine_svm() {
    takes_a_pointer(MemoryKind::SvmFine);
}

#[test]
fn ocl_interop_memory_create_takes_a_system_pointer_where_the_device_does() {
    takes_a_pointer(MemoryKind::System);
}

#[test]
fn ocl_interop_memory_create_allocates_every_kind_and_frees_it_once() {
    for engine in test_engines() {
        let contexts = context_count(engine.raw_context());
        for kind in pointer_kinds(&engine) {
            let memory = engine.create_memory(&floats(4), kind).unwrap();
            assert_eq!(memory.kind(), kind);
            assert!(!memory.raw_pointer().is_null() && memory.raw_mem().is_null());
            if kind != MemoryKind::System {
                assert!(
                    context_count(engine.raw_context()) > contexts,
                    "{kind}: an allocation keeps its context"
                );
            }
            let view = memory.view(&floats(1), 5).unwrap();
            assert_eq!(view.raw_pointer(), memory.raw_pointer().wrapping_byte_add(5));
            assert_eq!(view.offset(), 5);
        }
        assert_eq!(context_count(engine.raw_context()), contexts, "freed again");
    }
}

#[test]
fn ocl_interop_memory_create_tells_the_allocations_kind_from_an_inner_address() {
    for engine in test_engines() {
        for memory in UserMemory::of_every_kind(&engine, 4096) {
            let inner = memory.wrap(&floats(2), 4096 - 8);
            assert_eq!(inner.kind(), Origin::UserPointer(memory.kind).kind());
            assert!(inner.region().overlaps(&memory.wrap(&bytes_desc(4096), 0).region()));
        }
    }
}

#[test]
fn ocl_interop_memory_create_refuses_unknown_pointers() {
    for engine in test_engines() {
        let kinds = &engine.capabilities().memory_kinds;
        let mut bytes = [0_u64; 4];
        let pointer = bytes.as_mut_ptr().cast();
        let made = unsafe { OpenClMemory::from_pointer(&engine, &floats(2), pointer) };
        if kinds.contains(&MemoryKind::System) {
            assert_eq!(made.unwrap().kind(), MemoryKind::System);
        } else if engine.capabilities().has("usm") {
            assert!(is_invalid(made));
        } else if kinds.contains(&MemoryKind::Svm) {
            // Without unified shared memory nobody can tell what an address is: the caller vouches for it.
            assert_eq!(made.unwrap().kind(), MemoryKind::Svm);
        } else {
            assert!(matches!(made, Err(Error::Unsupported { .. })));
        }
    }
}

#[test]
fn ocl_interop_memory_create_refuses_null_and_allocations_that_are_too_small() {
    for engine in test_engines() {
        let raw = unsafe { OpenClMemory::from_raw(&engine, &floats(4), ptr::null_mut()) };
        assert!(is_invalid(raw));
        for null in [unsafe { OpenClMemory::from_pointer(&engine, &floats(4), ptr::null_mut()) }, unsafe {
            OpenClMemory::from_svm(&engine, &floats(4), ptr::null_mut())
        }] {
            let text = null.map(drop).unwrap_err().to_string();
            assert!(text.contains("null"), "{text}");
        }
        for kind in [MemoryKind::UsmHost, MemoryKind::UsmDevice, MemoryKind::UsmShared] {
            if !pointer_kinds(&engine).contains(&kind) {
                continue;
            }
            let user = UserMemory::new(&engine, kind, 64);
            let pointer = |offset| user.pointer().wrapping_byte_add(offset);
            let make = |count, offset| unsafe {
                OpenClMemory::from_pointer(&engine, &floats(count), pointer(offset))
            };
            make(16, 0).unwrap();
            make(15, 4).unwrap();
            for (count, offset) in [(17, 0), (16, 4), (16, 1), (1, 61)] {
                let error = make(count, offset).map(drop).unwrap_err().to_string();
                assert!(error.contains(&format!("{} bytes from", 64 - offset)), "{kind}: {error}");
                assert!(error.contains(&format!("{} bytes for", 4 * count)), "{kind}: {error}");
            }
        }
    }
}

#[test]
fn ocl_interop_memory_create_takes_a_sub_buffer_where_it_lies() {
    for engine in test_engines() {
        let align = base_alignment(&engine);
        let raw = buffer(engine.raw_context(), 3 * align);
        let part = sub_buffer(raw, align, 100);
        let memory = unsafe { OpenClMemory::from_raw(&engine, &bytes_desc(100), part) }.unwrap();
        assert_eq!((memory.raw_mem(), memory.region().offset), (part, align));
        assert_eq!(mem_count(part), 2);
        let whole = unsafe { OpenClMemory::from_raw(&engine, &bytes_desc(3 * align), raw) }.unwrap();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        stream.write(&whole, 0, &pattern(3 * align, 0), &[]).unwrap();
        assert_eq!(read_all(&stream, &memory), pattern(3 * align, 0)[align..align + 100]);
        assert_eq!(memory.map(MapMode::Read).unwrap().bytes(), &pattern(3 * align, 0)[align..align + 100]);
        let view = memory.view(&floats(3), 33).unwrap();
        let mut mapping = view.map(MapMode::ReadWrite).unwrap();
        assert_eq!(mapping.bytes(), &pattern(3 * align, 0)[align + 33..align + 45]);
        mapping.bytes_mut().fill(9);
        mapping.unmap().unwrap();
        let mut expected = pattern(3 * align, 0);
        expected[align + 33..align + 45].fill(9);
        assert_eq!(read_all(&stream, &whole), expected);
        let large = unsafe { OpenClMemory::from_raw(&engine, &bytes_desc(101), part) };
        assert!(is_invalid(large), "past the end of the part, though not of the whole");
        // The part's bytes are those of the whole: writing one while reading the other is refused.
        let aliases =
            abs(&engine, &whole.view(&floats(8), align).unwrap(), &memory.view(&floats(8), 4).unwrap());
        assert!(is_invalid(aliases));
        drop((memory, view, whole, stream));
        unsafe {
            cl3::memory::release_mem_object(part).unwrap();
            cl3::memory::release_mem_object(raw).unwrap();
        }
    }
}

#[test]
fn ocl_interop_memory_create_refuses_an_image() {
    for engine in test_engines() {
        let format = cl3::types::cl_image_format {
            image_channel_order: cl3::memory::CL_RGBA,
            image_channel_data_type: cl3::memory::CL_UNSIGNED_INT8,
        };
        let mut desc: cl3::types::cl_image_desc = unsafe { std::mem::zeroed() };
        desc.image_type = cl3::memory::CL_MEM_OBJECT_IMAGE2D;
        (desc.image_width, desc.image_height) = (16, 16);
        let flags = cl3::memory::CL_MEM_READ_WRITE;
        let image = unsafe {
            cl3::memory::create_image(
                engine.raw_context(),
                flags,
                &raw const format,
                &raw const desc,
                ptr::null_mut(),
            )
        };
        let Ok(image) = image else { continue };
        let made = unsafe { OpenClMemory::from_raw(&engine, &floats(4), image) };
        assert!(is_invalid(made));
        assert_eq!(mem_count(image), 1);
        unsafe { cl3::memory::release_mem_object(image) }.unwrap();
    }
}

// dnnl_ocl_interop_memory_create_v2

#[test]
fn ocl_interop_memory_create_v2_makes_memory_without_bytes_of_every_kind() {
    for engine in test_engines() {
        for &kind in &engine.capabilities().memory_kinds {
            let memory = engine.create_unbacked_memory(&floats(4), kind).unwrap();
            assert_eq!((memory.kind(), memory.region().bytes), (kind, 0));
            assert!(memory.map(MapMode::ReadWrite).unwrap().bytes().is_empty(), "nothing to map");
            let dst = engine.create_memory(&floats(4), kind).unwrap();
            assert!(is_invalid(abs(&engine, &memory, &dst)), "{kind}");
            assert!(is_invalid(memory.view(&floats(1), 0)));
        }
        for kind in MemoryKind::ALL {
            if !engine.capabilities().memory_kinds.contains(&kind) {
                let made = engine.create_unbacked_memory(&floats(4), kind);
                assert!(matches!(made, Err(Error::Unsupported { .. })), "{kind}");
            }
        }
    }
}

// dnnl_ocl_interop_memory_get_memory_kind

#[test]
fn ocl_interop_memory_get_memory_kind_tells_every_kind() {
    for engine in test_engines() {
        for origin in Origin::all(&engine) {
            let place = Place::new(&engine, origin, &floats(4), 3, 2);
            assert_eq!(place.memory.kind(), origin.kind(), "{origin:?}");
            assert_eq!(place.memory.kind().is_pointer(), !place.memory.raw_pointer().is_null());
        }
    }
}

// dnnl_ocl_interop_memory_get_mem_object

#[test]
fn ocl_interop_memory_get_mem_object_lends_the_buffer_without_retaining_it() {
    for engine in test_engines() {
        let raw = buffer(engine.raw_context(), 64);
        let memory = unsafe { OpenClMemory::from_raw(&engine, &floats(16), raw) }.unwrap();
        for _ in 0..3 {
            assert_eq!(memory.raw_mem(), raw);
        }
        assert_eq!(mem_count(raw), 2);
        drop(memory);
        unsafe { cl3::memory::release_mem_object(raw) }.unwrap();
        for kind in pointer_kinds(&engine) {
            let memory = engine.create_memory(&floats(16), kind).unwrap();
            assert!(memory.raw_mem().is_null(), "{kind}: an address is not a buffer object");
        }
    }
}

// dnnl_ocl_interop_memory_set_mem_object

#[test]
fn ocl_interop_memory_set_mem_object_retains_the_new_and_releases_the_old() {
    for engine in test_engines() {
        let (first, second) = (buffer(engine.raw_context(), 64), buffer(engine.raw_context(), 80));
        let adopt = |raw| unsafe { OpenClMemory::from_raw(&engine, &floats(16), raw) }.unwrap();
        let mut memory = adopt(first);
        memory.replace(&adopt(second)).unwrap();
        assert_eq!((mem_count(first), mem_count(second), memory.raw_mem()), (1, 2, second));
        // The same handle again changes nothing.
        memory.replace(&adopt(second)).unwrap();
        assert_eq!(mem_count(second), 2);
        // A clone keeps what it has.
        let clone = memory.clone();
        memory.replace(&adopt(first)).unwrap();
        assert_eq!((clone.raw_mem(), memory.raw_mem()), (second, first));
        assert_eq!((mem_count(first), mem_count(second)), (2, 2));
        drop(clone);
        assert_eq!(mem_count(second), 1);
        // So does the memory when the new bytes are refused.
        let small = unsafe { OpenClMemory::from_raw(&engine, &floats(15), second) }.unwrap();
        assert!(is_invalid(memory.replace(&small)));
        assert_eq!(memory.raw_mem(), first);
        drop(small);
        // Released after use by a kernel as well.
        abs(&engine, &memory, &engine.create_memory(&floats(16), MemoryKind::Buffer).unwrap()).unwrap();
        drop(memory);
        eventually(|| mem_count(first) == 1);
        assert_eq!(mem_count(second), 1);
        for raw in [first, second] {
            unsafe { cl3::memory::release_mem_object(raw) }.unwrap();
        }
    }
}

#[test]
fn ocl_interop_memory_set_mem_object_refuses_another_context() {
    for engine in test_engines() {
        let other = OpenClEngine::on_device(engine.opencl_device()).unwrap();
        let foreign = other.create_memory(&floats(4), MemoryKind::Buffer).unwrap();
        let mut memory = engine.create_unbacked_memory(&floats(4), MemoryKind::Buffer).unwrap();
        assert!(matches!(memory.replace(&foreign), Err(Error::Mismatch { .. })));
        assert!(!memory.is_backed());
        let made = unsafe { OpenClMemory::from_raw(&engine, &floats(4), foreign.raw_mem()) };
        assert!(matches!(made, Err(Error::Mismatch { .. })));
        // At the execution at the latest.
        let dst = engine.create_memory(&floats(4), MemoryKind::Buffer).unwrap();
        assert!(matches!(abs(&engine, &foreign, &dst).unwrap_err().root(), Error::Mismatch { .. }));
        for kind in pointer_kinds(&engine) {
            let foreign = other.create_memory(&floats(4), kind).unwrap();
            assert!(matches!(memory.replace(&foreign), Err(Error::Mismatch { .. })), "{kind}");
            assert!(
                matches!(abs(&engine, &foreign, &dst).unwrap_err().root(), Error::Mismatch { .. }),
                "{kind}"
            );
        }
    }
}

// dnnl_memory_get_data_handle, dnnl_memory_set_data_handle

#[test]
fn memory_get_data_handle_gives_the_address_itself() {
    for engine in test_engines() {
        for user in UserMemory::of_every_kind(&engine, 32) {
            let memory = user.wrap(&floats(4), 0);
            assert_eq!(memory.raw_pointer(), user.pointer());
            assert_eq!(memory.view(&floats(2), 3).unwrap().raw_pointer().addr(), user.pointer().addr() + 3);
        }
    }
}

#[test]
fn memory_set_data_handle_goes_from_any_kind_to_any_other() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let dst = engine.create_memory(&floats(4), MemoryKind::Buffer).unwrap();
        let mut memory = engine.create_unbacked_memory(&floats(4), MemoryKind::Buffer).unwrap();
        for (i, origin) in Origin::all(&engine).into_iter().enumerate() {
            let place = Place::new(&engine, origin, &floats(4), i % 5, 3);
            let value = -(i as f32) - 1.0;
            stream.write(&place.memory, 0, &value.to_ne_bytes().repeat(4), &[]).unwrap();
            memory.replace(&place.memory).unwrap();
            assert_eq!(memory.kind(), origin.kind());
            abs(&engine, &memory, &dst).unwrap();
            assert_eq!(read_all(&stream, &dst), (-value).to_ne_bytes().repeat(4), "{origin:?}");
            // The old handle goes before the user's memory does.
            memory = engine.create_unbacked_memory(&floats(4), MemoryKind::Buffer).unwrap();
        }
    }
}

// dnnl_memory_get_engine, dnnl_memory_get_memory_desc

#[test]
fn memory_get_engine_and_memory_desc_give_what_was_given() {
    for engine in test_engines() {
        let desc = MemoryDesc::with_tag([2, 3, 4], DataType::S8, "acb").unwrap().labelled("x");
        for origin in Origin::all(&engine) {
            let place = Place::plain(&engine, origin, &desc);
            assert_eq!(place.memory.engine_id(), engine.id());
            assert_eq!(place.memory.engine().raw_context(), engine.raw_context());
            assert!(place.memory.desc().same_bytes(&desc) && place.memory.desc().label() == Some("x"));
        }
    }
}

// dnnl_memory_destroy

#[test]
fn memory_destroy_may_come_after_the_engines() {
    for own in test_engines() {
        let context = context(&own);
        let before = context_count(context);
        let engine = unsafe { OpenClEngine::from_raw(own.raw_device(), context) }.unwrap();
        let kinds = engine.capabilities().memory_kinds.clone();
        let mut memories: Vec<_> =
            kinds.iter().map(|&kind| engine.create_memory(&floats(4), kind).unwrap()).collect();
        drop(engine);
        for memory in &memories {
            let mut mapping = memory.map(MapMode::Write).unwrap();
            mapping.bytes_mut().fill(3);
            mapping.unmap().unwrap();
            assert_eq!(memory.map(MapMode::Read).unwrap().bytes(), [3; 16], "{}", memory.kind());
            // The memory's engine makes all that is left to make.
            let stream = memory.engine().create_stream(&StreamDesc::default()).unwrap();
            stream.write(memory, 2, &[7], &[]).unwrap();
        }
        memories.pop();
        drop(memories);
        eventually(|| context_count(context) == before);
        unsafe { cl3::context::release_context(context) }.unwrap();
    }
}

// dnnl_memory_map_data, dnnl_memory_unmap_data

#[test]
fn memory_map_data_reads_and_unmap_data_writes_back_for_every_kind() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        for origin in Origin::all(&engine) {
            let place = Place::new(&engine, origin, &bytes_desc(40), 13, 11);
            let mut expected = pattern(64, 4);
            stream.write(&place.whole, 0, &expected, &[]).unwrap();
            let mut mapping = place.memory.map(MapMode::ReadWrite).unwrap();
            assert_eq!(mapping.bytes(), &expected[13..53], "{origin:?}");
            mapping.bytes_mut()[1] = 0xA1;
            mapping.unmap().unwrap();
            expected[14] = 0xA1;
            assert_eq!(read_all(&stream, &place.whole), expected, "{origin:?}: unmapped");
            let mut mapping = place.memory.map(MapMode::ReadWrite).unwrap();
            mapping.bytes_mut()[39] = 0xA2;
            drop(mapping);
            expected[52] = 0xA2;
            assert_eq!(read_all(&stream, &place.whole), expected, "{origin:?}: dropped");
            let mut mapping = place.memory.map(MapMode::Write).unwrap();
            mapping.bytes_mut().fill(0xA3);
            mapping.unmap().unwrap();
            expected[13..53].fill(0xA3);
            assert_eq!(read_all(&stream, &place.whole), expected, "{origin:?}: written");
            // A part of a part.
            let view = place.memory.view(&bytes_desc(5), 7).unwrap();
            let mut mapping = view.map(MapMode::ReadWrite).unwrap();
            assert_eq!(mapping.bytes(), [0xA3; 5]);
            mapping.bytes_mut().fill(0xA4);
            mapping.unmap().unwrap();
            expected[20..25].fill(0xA4);
            assert_eq!(read_all(&stream, &place.whole), expected, "{origin:?}: a view");
        }
    }
}

#[test]
fn memory_map_data_for_reading_writes_nothing_back() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        for origin in Origin::all(&engine) {
            let place = Place::new(&engine, origin, &bytes_desc(16), 3, 3);
            stream.write(&place.memory, 0, &pattern(16, 1), &[]).unwrap();
            let mut mapping = place.memory.map(MapMode::Read).unwrap();
            assert_eq!(mapping.bytes(), pattern(16, 1), "{origin:?}");
            assert!(mapping.bytes_mut().is_empty());
            // What the device writes meanwhile must survive the end of the mapping.
            if place.memory.kind() == MemoryKind::UsmDevice {
                stream.write(&place.memory, 0, &pattern(16, 2), &[]).unwrap();
                mapping.unmap().unwrap();
                assert_eq!(read_all(&stream, &place.memory), pattern(16, 2));
            } else {
                mapping.unmap().unwrap();
                assert_eq!(read_all(&stream, &place.memory), pattern(16, 1), "{origin:?}");
            }
        }
    }
}

#[test]
fn memory_map_data_twice_at_a_time() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        for origin in Origin::all(&engine) {
            let place = Place::new(&engine, origin, &bytes_desc(64), 5, 0);
            stream.write(&place.memory, 0, &pattern(64, 1), &[]).unwrap();
            let (one, other) =
                (place.memory.map(MapMode::Read).unwrap(), place.memory.map(MapMode::Read).unwrap());
            assert_eq!((one.bytes(), other.bytes()), (&*pattern(64, 1), &*pattern(64, 1)), "{origin:?}");
            one.unmap().unwrap();
            assert_eq!(other.bytes(), pattern(64, 1), "{origin:?}: the second ends on its own");
            other.unmap().unwrap();
            // Two parts side by side, to write.
            let part = |offset| place.memory.view(&bytes_desc(16), offset).unwrap();
            let mut one = part(1).map(MapMode::Write).unwrap();
            let mut other = part(33).map(MapMode::ReadWrite).unwrap();
            one.bytes_mut().fill(1);
            other.bytes_mut().fill(2);
            other.unmap().unwrap();
            one.unmap().unwrap();
            let mut expected = pattern(64, 1);
            expected[1..17].fill(1);
            expected[33..49].fill(2);
            assert_eq!(read_all(&stream, &place.memory), expected, "{origin:?}");
        }
    }
}

#[test]
fn memory_map_data_keeps_the_bytes_alive() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        for &kind in &engine.capabilities().memory_kinds {
            let memory = engine.create_memory(&bytes_desc(100), kind).unwrap();
            stream.write(&memory, 0, &pattern(100, 6), &[]).unwrap();
            let mut mapping = memory.map(MapMode::ReadWrite).unwrap();
            drop(memory);
            // Others would take the place of freed memory.
            let others: Vec<_> =
                (0..8).map(|_| engine.create_memory(&bytes_desc(100), kind).unwrap()).collect();
            for other in &others {
                stream.write(other, 0, &[0xEE; 100], &[]).unwrap();
            }
            assert_eq!(mapping.bytes(), pattern(100, 6), "{kind}");
            mapping.bytes_mut().fill(1);
            mapping.unmap().unwrap();
        }
    }
}

#[test]
fn memory_map_data_crosses_threads() {
    for engine in test_engines() {
        for &kind in &engine.capabilities().memory_kinds {
            let memory = engine.create_memory(&bytes_desc(64), kind).unwrap();
            let mut mapping = memory.map(MapMode::Write).unwrap();
            std::thread::spawn(move || {
                mapping.bytes_mut().fill(8);
                mapping.unmap().unwrap();
            })
            .join()
            .unwrap();
            assert_eq!(memory.map(MapMode::Read).unwrap().bytes(), [8; 64], "{kind}");
        }
    }
}
