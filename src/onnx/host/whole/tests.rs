//! Integers by rows against single elements.

use super::*;

fn counted(dims: &[usize]) -> HostTensor {
    let count = Dims::new(dims).elements();
    let values: Vec<f64> = (0..count).map(|i| (i * 37 % 101) as f64 - 50.0).collect();
    HostTensor::from_f64(dims.to_vec(), DataType::S32, &values).unwrap()
}

/// An element by its index, along dimensions that may be one.
fn at(tensor: &HostTensor, index: &[usize]) -> i64 {
    let dims = tensor.dims().padded_to_rank(index.len());
    let place = index.iter().zip(dims.iter()).fold(0, |place, (&i, &dim)| place * dim + i.min(dim - 1));
    tensor.to_f64s()[place] as i64
}

fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    dims.iter().fold(vec![Vec::new()], |all, &dim| {
        all.iter().flat_map(|index| (0..dim).map(move |i| [&index[..], &[i]].concat())).collect()
    })
}

#[test]
fn rows_broadcast_as_elements_do() {
    let pairs: [(&[usize], &[usize]); 9] = [
        (&[3, 4], &[3, 4]),
        (&[3, 4], &[4]),
        (&[3, 1], &[1, 4]),
        (&[2, 1, 5], &[3, 1]),
        (&[], &[2, 3]),
        (&[2, 3, 1, 4], &[1, 3, 5, 1]),
        (&[1, 1], &[1]),
        (&[6, 1], &[6, 1]),
        (&[0, 4], &[1, 4]),
    ];
    for (a, b) in pairs {
        let (a, b) = (counted(a), counted(b));
        let dims = a.dims().broadcast(b.dims()).unwrap();
        let bytes = binary("Sub", false, &a, &b, &dims).unwrap();
        let made =
            HostTensor::new(anydnn_backend::MemoryDesc::new(dims.clone(), DataType::S32), bytes).unwrap();
        for index in indices(&dims) {
            assert_eq!(at(&made, &index), at(&a, &index) - at(&b, &index), "{dims} {index:?}");
        }
    }
}

#[test]
fn folds_take_every_element_once() {
    for gone in indices(&[2, 2, 2]) {
        let (src, gone) = (counted(&[3, 4, 5]), gone.iter().map(|&gone| gone == 1).collect::<Vec<_>>());
        let kept: Dims =
            src.dims().iter().zip(&gone).map(|(&dim, &gone)| if gone { 1 } else { dim }).collect();
        let made = fold(&src, &kept, &gone, 7, i64::wrapping_add).unwrap();
        let mut expected = vec![7; kept.elements()];
        for index in indices(&[3, 4, 5]) {
            let to = index.iter().zip(kept.iter()).fold(0, |to, (&i, &dim)| to * dim + i.min(dim - 1));
            expected[to] += at(&src, &index);
        }
        assert_eq!(made, expected, "{gone:?}");
    }
}

#[test]
fn single_operators_go_by_elements() {
    let src = HostTensor::from_f64([4], DataType::S8, &[-128.0, -5.0, 0.0, 127.0]).unwrap();
    let made = |operator: &str| {
        unary(operator, &src).unwrap().into_iter().map(|byte| byte as i8).collect::<Vec<_>>()
    };
    assert_eq!(made("Neg"), [-128, 5, 0, -127]);
    assert_eq!(made("Abs"), [-128, 5, 0, 127]);
    assert_eq!(made("Relu"), [0, 0, 0, 127]);
    assert_eq!(made("BitwiseNot"), [127, 4, -1, -128]);
    let truth = HostTensor::from_f64([2], DataType::Boolean, &[0.0, 1.0]).unwrap();
    assert_eq!((unary("Not", &truth), unary("Neg", &truth)), (Some(vec![1, 0]), None));
}

#[test]
fn remainders_have_the_sign_that_is_asked_for_and_nothing_is_divided_by_zero() {
    let [a, b] = [[-7.0, 7.0, -8.0], [4.0, -4.0, 4.0]]
        .map(|values| HostTensor::from_f64([3], DataType::S8, &values).unwrap());
    let dims = Dims::from([3]);
    let made = |fmod| binary("Mod", fmod, &a, &b, &dims).unwrap().into_iter().map(|byte| byte as i8);
    assert_eq!(made(false).collect::<Vec<_>>(), [1, -1, 0]);
    assert_eq!(made(true).collect::<Vec<_>>(), [-3, 3, 0]);
    let zero = HostTensor::from_f64([1], DataType::S8, &[0.0]).unwrap();
    for operator in ["Div", "Mod"] {
        assert_eq!(binary(operator, false, &a, &zero, &dims), None);
    }
}
