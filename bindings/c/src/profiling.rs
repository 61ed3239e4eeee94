//! Device times of executions.

use std::ffi::c_int;

use anydnn_backend::Stream;

use crate::boundary::{self, Failure};
use crate::handle;
use crate::object_types::{
    dnnl_profiling_data_kind_t, dnnl_profiling_data_kind_time, dnnl_profiling_data_kind_undef, dnnl_stream_t,
};
use crate::refusals::Lack;
use crate::types::dnnl_status_t;

/// Forgets the executions so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_reset_profiling(stream: dnnl_stream_t) -> dnnl_status_t {
    boundary::status("dnnl_reset_profiling", || {
        // SAFETY: the caller passes null or a stream that lives.
        Ok(unsafe { handle::borrow(stream) }?.stream.reset_profile()?)
    })
}

/// Tells the number of executions where `data` is null, else what each took. `data` has room for `*num_entries`, which becomes the
/// number of those written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_query_profiling_data(
    stream: dnnl_stream_t,
    data_kind: dnnl_profiling_data_kind_t,
    num_entries: *mut c_int,
    data: *mut u64,
) -> dnnl_status_t {
    boundary::status("dnnl_query_profiling_data", || {
        // SAFETY: the caller passes null or a stream that lives.
        let stream = &unsafe { handle::borrow(stream) }?.stream;
        anydnn_backend::validate::profiling("query profiling data", stream.desc())?;
        if num_entries.is_null() {
            return Err(Failure::null("num_entries"));
        }
        let profile = stream.profile()?;
        let mut count = profile.len();
        if !data.is_null() {
            match data_kind {
                dnnl_profiling_data_kind_time => {}
                dnnl_profiling_data_kind_undef => {
                    return Err(Failure::invalid("the kind of data is undefined"));
                }
                other => {
                    return Err(Lack::Profile.failure(format_args!("profiling data of kind {other}")));
                }
            }
            // SAFETY: not null, so the caller vouches for it.
            let room = unsafe { num_entries.read_unaligned() };
            count = count.min(usize::try_from(room).unwrap_or(0));
            for (i, entry) in profile.iter().take(count).enumerate() {
                // SAFETY: the caller vouches for that many entries.
                unsafe { data.add(i).write_unaligned(entry.nanoseconds) };
            }
        }
        let count = c_int::try_from(count).unwrap_or(c_int::MAX);
        // SAFETY: not null, so the caller vouches for it.
        unsafe { handle::write(num_entries, "num_entries", count) }
    })
}
