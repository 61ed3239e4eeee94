//! Faults that wait for their call.

use crate::code;
use crate::table::Function;

/// A fault as text says it: which call of which functions fails how.
///
/// ```
/// use anydnn_faults::Fault;
///
/// let fault = Fault::parse("clEnqueue*:10:CL_OUT_OF_RESOURCES:always")?;
/// assert_eq!(fault, Fault::new("clEnqueue*", 10, -5, true)?);
/// # Ok::<(), anydnn_faults::FaultError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub(crate) pattern: String,
    pub(crate) call: u64,
    pub(crate) code: i32,
    pub(crate) persistent: bool,
}

/// Why a text is no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// The text does not have the four parts.
    #[error("{0:?} is no fault, expected FUNCTION:CALL:CODE:once or FUNCTION:CALL:CODE:always")]
    Malformed(String),
    /// No function has this name.
    #[error("{0:?} names no function that the layer knows")]
    UnknownFunction(String),
    /// The call's number is zero or no number.
    #[error("{0:?} is not the number of a call, expected 1 or more")]
    Call(String),
    /// The code is neither negative nor the name of an error.
    #[error("{0:?} is not an error code, expected a negative number or a name such as CL_OUT_OF_RESOURCES")]
    Code(String),
}

impl Fault {
    /// The `call`-th call from now of the functions that `pattern` matches returns `code`; when `persistent`, all later ones do too. One
    /// `*` in the pattern stands for any text.
    ///
    /// # Errors
    /// When no function matches, `call` is zero or `code` is not negative.
    pub fn new(pattern: &str, call: u64, code: i32, persistent: bool) -> Result<Self, FaultError> {
        if !Function::all().any(|function| matches(pattern, function.name())) {
            return Err(FaultError::UnknownFunction(pattern.into()));
        }
        if call == 0 {
            return Err(FaultError::Call(call.to_string()));
        }
        if code >= 0 {
            return Err(FaultError::Code(code.to_string()));
        }
        Ok(Self { pattern: pattern.into(), call, code, persistent })
    }

    /// A fault from `FUNCTION:CALL:CODE:once` or `FUNCTION:CALL:CODE:always`.
    ///
    /// # Errors
    /// When a part is missing or wrong.
    pub fn parse(text: &str) -> Result<Self, FaultError> {
        let malformed = || FaultError::Malformed(text.into());
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        let [pattern, call, code, how] = parts[..] else { return Err(malformed()) };
        let persistent = match how {
            "once" => false,
            "always" => true,
            _ => return Err(malformed()),
        };
        let call = call.parse().map_err(|_| FaultError::Call(call.into()))?;
        let code = code::parse(code).ok_or_else(|| FaultError::Code(code.into()))?;
        Self::new(pattern, call, code, persistent)
    }

    /// Several faults with semicolons between them.
    ///
    /// # Errors
    /// When one is wrong.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, FaultError> {
        text.split(';').filter(|part| !part.trim().is_empty()).map(Self::parse).collect()
    }
}

/// The armed faults.
#[derive(Debug)]
pub(crate) struct Faults {
    armed: Vec<Armed>,
}

#[derive(Debug)]
struct Armed {
    fault: Fault,
    seen: u64,
}

impl Faults {
    pub(crate) const fn new() -> Self {
        Self { armed: Vec::new() }
    }

    pub(crate) fn arm(&mut self, fault: Fault) {
        self.armed.push(Armed { fault, seen: 0 });
    }

    pub(crate) fn disarm(&mut self) {
        self.armed.clear();
    }

    /// Counts a call; the code that it fails with, if it does.
    pub(crate) fn strike(&mut self, name: &str) -> Option<i32> {
        let mut code = None;
        self.armed.retain_mut(|armed| {
            if !matches(&armed.fault.pattern, name) {
                return true;
            }
            armed.seen += 1;
            if armed.seen < armed.fault.call {
                return true;
            }
            code = code.or(Some(armed.fault.code));
            armed.fault.persistent
        });
        code
    }
}

/// Whether a pattern with at most one `*` matches a name.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    pattern.split_once('*').map_or(pattern == name, |(start, end)| {
        name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        assert!(matches("*", "clFinish") && matches("clFinish", "clFinish"));
        assert!(matches("clEnqueue*", "clEnqueueMarker") && matches("*INTEL", "clMemFreeINTEL"));
        assert!(!matches("clFin", "clFinish") && !matches("clFinish*sh", "clFinish"));
    }

    #[test]
    fn texts_say_what_is_wrong_with_them() {
        let error = |text| Fault::parse_all(text).unwrap_err().to_string();
        assert!(error("clFinish:1:-5").contains("FUNCTION:CALL:CODE"));
        assert!(error("clFinish:1:-5:twice").contains("FUNCTION:CALL:CODE"));
        assert!(error("clFinnish:1:-5:once").contains("\"clFinnish\" names no function"));
        assert!(error("clFinish:0:-5:once").contains("\"0\" is not the number of a call"));
        assert!(error("clFinish:1:5:once").contains("\"5\" is not an error code"));
        assert!(error("clFinish:1:CL_SUCCES:once").contains("\"CL_SUCCES\" is not an error code"));
        let two = Fault::parse_all("clFinish:1:-5:once; cl*:2:CL_INVALID_VALUE:always;").unwrap();
        assert_eq!(two[1], Fault::new("cl*", 2, -30, true).unwrap());
    }

    #[test]
    fn the_chosen_call_fails_once_or_from_then_on() {
        let mut faults = Faults::new();
        faults.arm(Fault::new("clFlush", 2, -5, false).unwrap());
        faults.arm(Fault::new("clF*", 4, -6, true).unwrap());
        let codes = ["clFlush", "clFlush", "clFinish", "clFlush", "clFinish", "clWaitForEvents"]
            .map(|name| faults.strike(name));
        assert_eq!(codes, [None, Some(-5), None, Some(-6), Some(-6), None]);
        faults.disarm();
        assert_eq!(faults.strike("clFinish"), None);
    }
}
