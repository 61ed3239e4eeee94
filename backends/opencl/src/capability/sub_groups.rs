//! Sub-groups: work-items of a work-group that run together and read each other's registers.

use std::fmt;
use std::str::FromStr;

use crate::driver::call;
use crate::driver::platform::OpenClDevice;

/// `CL_DEVICE_SUB_GROUP_SIZES_INTEL`, the widths that a kernel may ask for.
const SIZES_INTEL: u32 = 0x4108;

/// What kernels need to know of a device's sub-groups. As a text it is the detail of the probe, which caches keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubGroups {
    /// The work-items of a sub-group, as the compiler chose for the probe.
    pub(crate) width: usize,
    /// The widths that a kernel may ask for, ascending; none where the compiler alone chooses.
    pub(crate) settable: Vec<usize>,
    /// The language that has their functions, as a build option.
    pub(crate) standard: String,
    /// The extension with their functions.
    pub(crate) extension: String,
    /// The function that exchanges a float with the work-item whose number differs by some bits, where there is one.
    pub(crate) exchange: Option<String>,
}

impl SubGroups {
    /// The extensions that have the functions of sub-groups, and those that exchange values with the function that does.
    pub(crate) const NAMES: [&str; 2] = ["cl_khr_subgroups", "cl_intel_subgroups"];
    pub(crate) const EXCHANGES: [(&str, &str); 2] = [
        ("cl_khr_subgroup_shuffle", "sub_group_shuffle_xor"),
        ("cl_intel_subgroups", "intel_sub_group_shuffle_xor"),
    ];

    /// What a device says of its sub-groups, for a compiler that made them this wide.
    pub(crate) fn of(device: &OpenClDevice, width: usize, standard: &str, exchange: Option<&str>) -> Self {
        let extension = Self::NAMES.into_iter().find(|name| device.has_extension(name)).unwrap_or_default();
        Self {
            width,
            settable: settable(device),
            standard: standard.into(),
            extension: extension.into(),
            exchange: exchange.map(str::to_owned),
        }
    }

    /// The same where the compiler chooses this width.
    pub(crate) fn of_width(&self, width: usize) -> Self {
        Self { width, settable: Vec::new(), ..self.clone() }
    }

    /// The width for work that keeps so many work-items busy: the compiler's own, or a narrower one that does.
    pub(crate) fn width_for(&self, items: usize) -> usize {
        let narrower = self.settable.iter().copied().find(|&width| width >= items && width.is_power_of_two());
        narrower.map_or(self.width, |width| width.min(self.width))
    }

    /// What a program starts with.
    pub(crate) fn prelude(&self) -> String {
        let exchange = self.exchange.as_deref();
        let named = Self::EXCHANGES.iter().find(|(_, function)| Some(*function) == exchange);
        let mut extensions = vec![self.extension.as_str()];
        extensions.extend(named.map(|(extension, _)| *extension).filter(|name| *name != self.extension));
        let pragma = |name: &&str| format!("#pragma OPENCL EXTENSION {name} : enable\n");
        extensions.iter().map(pragma).collect::<Vec<_>>().concat()
    }
}

/// The widths that a device lets kernels ask for.
fn settable(device: &OpenClDevice) -> Vec<usize> {
    if !device.has_extension("cl_intel_required_subgroup_size") {
        return Vec::new();
    }
    let bytes = cl3::device::get_device_data(device.raw_device(), SIZES_INTEL).unwrap_or_default();
    let sizes = bytes.chunks_exact(size_of::<usize>());
    let mut sizes: Vec<usize> = sizes.filter_map(call::Scalar::from_bytes).collect();
    sizes.sort_unstable();
    sizes
}

/// Such as `16 work-items of 8/16/32, -cl-std=CL1.2, cl_intel_subgroups, intel_sub_group_shuffle_xor`.
impl fmt::Display for SubGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} work-items", self.width)?;
        if !self.settable.is_empty() {
            let widths: Vec<_> = self.settable.iter().map(usize::to_string).collect();
            write!(f, " of {}", widths.join("/"))?;
        }
        write!(f, ", {}, {}", self.standard, self.extension)?;
        self.exchange.iter().try_for_each(|function| write!(f, ", {function}"))
    }
}

impl FromStr for SubGroups {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(", ");
        let (width, widths) = parts.next().and_then(|part| part.split_once(" work-items")).ok_or(())?;
        let widths = widths.strip_prefix(" of ").unwrap_or_default();
        let number = |text: &str| text.parse().map_err(|_| ());
        Ok(Self {
            width: number(width)?,
            settable: widths
                .split('/')
                .filter(|text| !text.is_empty())
                .map(number)
                .collect::<Result<_, ()>>()?,
            standard: parts.next().ok_or(())?.into(),
            extension: parts.next().ok_or(())?.into(),
            exchange: parts.next().map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probes_detail_says_everything_again() {
        let all = SubGroups {
            width: 16,
            settable: vec![8, 16, 32],
            standard: "-cl-std=CL1.2".into(),
            extension: "cl_intel_subgroups".into(),
            exchange: Some("intel_sub_group_shuffle_xor".into()),
        };
        let few = SubGroups { settable: Vec::new(), exchange: None, ..all.clone() };
        for sub_groups in [all, few] {
            assert_eq!(sub_groups.to_string().parse(), Ok(sub_groups));
        }
        assert_eq!("seen".parse::<SubGroups>(), Err(()));
    }

    #[test]
    fn extensions_are_enabled_once() {
        let text = "64 work-items, -cl-std=CL2.0, cl_khr_subgroups, sub_group_shuffle_xor";
        let prelude = text.parse::<SubGroups>().unwrap().prelude();
        assert_eq!(prelude.matches("enable").count(), 2);
        assert!(prelude.contains("cl_khr_subgroup_shuffle :"));
        let text = "16 work-items, -cl-std=CL1.2, cl_intel_subgroups, intel_sub_group_shuffle_xor";
        assert_eq!(text.parse::<SubGroups>().unwrap().prelude().matches("enable").count(), 1);
    }
}
