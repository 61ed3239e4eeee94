//! A user's kernels before and behind our network, ordered by events only: on every OpenCL device and on the mock.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "opencl")]
#[path = "../examples/opencl3_interop.rs"]
#[expect(dead_code, reason = "the example's main is not called")]
mod example;

#[cfg(feature = "opencl")]
#[test]
fn the_opencl3_example_reads_the_digits_on_every_platform() {
    for engine in anydnn_opencl::testing::test_engines() {
        use anydnn::backend::Engine;
        let outcome = example::run(&engine.device().platform).unwrap();
        assert!(
            outcome.right * 100 >= outcome.total * 97,
            "{} of {} on {}",
            outcome.right,
            outcome.total,
            outcome.device
        );
    }
}

#[cfg(feature = "ocl-core")]
#[path = "../examples/ocl_core_interop.rs"]
#[expect(dead_code, reason = "the example's main is not called")]
mod ocl_core_example;

#[cfg(feature = "ocl-core")]
#[test]
fn the_ocl_core_example_adds_up_its_rows_on_every_platform() {
    for engine in anydnn_opencl::testing::test_engines() {
        use anydnn::backend::Engine;
        let outcome = ocl_core_example::run(&engine.device().platform).unwrap();
        assert_eq!(outcome.rows, 1000, "{}", outcome.device);
    }
}

/// The same program shape on the mock: two kernels of the user's around the network, with adversarial order between them.
#[test]
fn users_kernels_around_the_network_on_the_mock() {
    use anydnn::backend::{Access, DataType, Engine, MemoryDesc, MemoryKind, Stream, StreamDesc};
    use anydnn::compile::{CompileOptions, CompiledGraph};
    use anydnn::model::Model;
    use anydnn_mock::{MockDevice, MockKernel};

    const COUNT: usize = 12;
    let model = Model::load(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/digits")).unwrap();
    let graph = model.graph.with_batch(COUNT).unwrap();
    let (_, pixels) = model.dataset.as_ref().unwrap().inputs().next().unwrap();
    let labels = &model.dataset.as_ref().unwrap().labels().unwrap()[..COUNT];
    let to_float = MockKernel::new("to_float", |args| {
        let (pixels, images) = args.split_at_mut(1);
        for (image, &pixel) in images[0].chunks_exact_mut(4).zip(&*pixels[0]) {
            image.copy_from_slice(&f32::from(pixel).to_le_bytes());
        }
        Ok(())
    });
    let arg_max = MockKernel::new("arg_max", |args| {
        let (scores, best) = args.split_at_mut(1);
        let scores: Vec<f32> =
            scores[0].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        for (best, row) in best[0].iter_mut().zip(scores.chunks_exact(10)) {
            *best = (0..10).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as u8;
        }
        Ok(())
    });
    for seed in 0..10 {
        let device = MockDevice::builder().seed(seed).build();
        let engine = device.engine();
        let stream = engine.create_stream(&StreamDesc::out_of_order()).unwrap();
        let compiled =
            CompiledGraph::<anydnn_mock::Mock>::new(&graph, &engine, &CompileOptions::default()).unwrap();
        let network = compiled.load_tensors(&stream, &model.constants).unwrap();
        let memory = |dims: &[usize], data_type| {
            engine.create_memory(&MemoryDesc::new(dims, data_type), MemoryKind::Buffer).unwrap()
        };
        let raw = memory(&[COUNT * 64], DataType::U8);
        let (images, scores) =
            (memory(&[COUNT, 1, 8, 8], DataType::F32), memory(&[COUNT, 10], DataType::F32));
        let best = memory(&[COUNT], DataType::U8);
        let given = stream.write(&raw, 0, &pixels.bytes()[..COUNT * 64], &[]).unwrap();
        let prepared = stream
            .launch(&to_float, &[(Access::Read, raw), (Access::Write, images.clone())], &[given])
            .unwrap();
        let (input, output) = (graph.inputs()[0], graph.outputs()[0]);
        let forgotten =
            network.execute(&stream, &[(input, images.clone())], &[(output, scores.clone())], &[]);
        assert!(forgotten.unwrap_err().to_string().contains("to_float"), "a forgotten dependency is a race");
        let classified =
            network.execute(&stream, &[(input, images)], &[(output, scores.clone())], &[prepared]).unwrap();
        let chosen = stream
            .launch(&arg_max, &[(Access::Read, scores), (Access::Write, best.clone())], &[classified])
            .unwrap();
        let mut found = [0; COUNT];
        stream.read(&best, 0, &mut found, &[chosen]).unwrap();
        assert!(
            found.iter().zip(labels).all(|(&found, &label)| i64::from(found) == label),
            "{found:?} {labels:?}"
        );
    }
}
