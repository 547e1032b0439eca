//! /sys/dev/block: which device a number is.

use rdiag_kernel::host::Host;

/// The name of a device number as the kernel writes it (`254:1`), or the number where there is no such device.
pub(super) fn name_of(host: &Host, numbers: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_device = numbers.split_once(':').is_some_and(|(major, minor)| is_number(major) && is_number(minor));
    let link = if is_device { host.link(&format!("sys/dev/block/{numbers}")).ok() } else { None };
    link.and_then(|target| Some(target.rsplit('/').next()?.to_owned())).unwrap_or_else(|| numbers.to_owned())
}
