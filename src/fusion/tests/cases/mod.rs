//! For every use of every pattern a graph that comes out as exactly one partition, in how many launches it runs, and graphs like it that
//! do not fit.

mod conv;
mod conv_block;
mod conv_training;
mod matmul;
mod mlp;
mod movement;
mod rows;
mod sdp;
mod sdp_backward;

/// A graph that one pattern takes whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) pattern: &'static str,
    /// Which of the pattern's uses it is.
    pub(crate) covers: &'static str,
    /// How many launches it takes on the host, and how many on OpenCL devices.
    pub(crate) launches: [usize; 2],
    pub(crate) text: &'static str,
    /// What to write instead of what, and the pattern does not fit any more.
    pub(crate) misses: &'static [(&'static str, &'static str)],
}

/// A case with as many launches everywhere.
const fn case(pattern: &'static str, covers: &'static str, launches: usize, text: &'static str) -> Case {
    Case { pattern, covers, launches: [launches; 2], text, misses: &[] }
}

impl Case {
    const fn on_opencl(self, launches: usize) -> Self {
        Self { launches: [self.launches[0], launches], ..self }
    }

    const fn misses(self, misses: &'static [(&'static str, &'static str)]) -> Self {
        Self { misses, ..self }
    }
}

/// All cases, those of a pattern together.
pub(crate) fn all() -> Vec<Case> {
    let groups = [
        sdp::CASES,
        sdp_backward::CASES,
        mlp::CASES,
        matmul::CASES,
        conv_block::CASES,
        conv::CASES,
        conv_training::CASES,
        rows::CASES,
        movement::CASES,
    ];
    groups.concat()
}
