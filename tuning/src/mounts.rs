//! The mounts of this process, from `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::host::{self, unexpected};
use crate::{DeviceNumber, TuningError};

/// One line of `mountinfo`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) number: DeviceNumber,
    pub(crate) mount_point: PathBuf,
    pub(crate) kind: String,
    /// Options of the mount, then those of the file system.
    pub(crate) options: Vec<String>,
}

/// The mount that holds `folder`, an absolute path whose links are resolved.
pub(crate) fn mount_of(root: &Path, folder: &Path) -> Result<Mount, TuningError> {
    let path = root.join("proc/self/mountinfo");
    let bytes = host::read_bytes(&path)?.ok_or_else(|| TuningError::Missing { path: path.clone() })?;
    let mut holder: Option<Mount> = None;
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mount = parse(line).ok_or_else(|| unexpected(&path, "a line for each mount"))?;
        if folder.starts_with(&mount.mount_point) && hides(&mount, holder.as_ref()) {
            holder = Some(mount);
        }
    }
    holder.ok_or_else(|| TuningError::NoMount { folder: folder.to_path_buf() })
}

/// The longest mount point holds a path; of two mounts on the same point, the later one.
fn hides(mount: &Mount, holder: Option<&Mount>) -> bool {
    let depth = |mount: &Mount| mount.mount_point.components().count();
    holder.is_none_or(|holder| depth(mount) >= depth(holder))
}

/// Parses a line such as this one, where any number of tagged fields stands before the `-`:
///
/// ```text
/// 36 35 259:3 / /var/lib/ringlog rw,noatime shared:1 - xfs /dev/nvme0n1p3 rw,logbsize=256k
/// id parent dev root mount-point options    tags     - type source        options
/// ```
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let number = DeviceNumber::parse(&text(fields.nth(2)?))?;
    let mount_point = unescape(fields.nth(1)?)?;
    let mut options = split_options(fields.next()?);
    fields.find(|field| *field == b"-")?;
    let kind = text(fields.next()?);
    options.extend(split_options(fields.nth(1)?));
    Some(Mount { number, mount_point: PathBuf::from(OsString::from_vec(mount_point)), kind, options })
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

fn split_options(field: &[u8]) -> Vec<String> {
    text(field).split(',').map(str::to_owned).collect()
}

/// The kernel writes blanks, line ends and backslashes of a path as `\` and three octal digits.
fn unescape(field: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        if *byte == b'\\' {
            bytes.push(octal(after.get(..3)?)?);
            rest = after.get(3..)?;
        } else {
            bytes.push(*byte);
            rest = after;
        }
    }
    Some(bytes)
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::TestHost;

    fn host_with(mountinfo: &str) -> TestHost {
        TestHost::new().file("proc/self/mountinfo", mountinfo)
    }

    #[test]
    fn the_longest_mount_point_holds_the_folder() {
        let host = host_with(
            "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
             40 27 259:3 / /var/lib rw,noatime shared:1 master:2 - xfs /dev/nvme0n1p3 rw,logbsize=256k\n\
             41 27 0:30 / /var/li rw - tmpfs tmpfs rw\n",
        );
        let mount = mount_of(host.root(), Path::new("/var/lib/ringlog")).unwrap();
        assert_eq!(mount.number, DeviceNumber { major: 259, minor: 3 });
        assert_eq!(mount.mount_point, Path::new("/var/lib"));
        assert_eq!(mount.kind, "xfs");
        assert_eq!(mount.options, ["rw", "noatime", "rw", "logbsize=256k"]);
        // A prefix of the name isn't a prefix of the path.
        assert_eq!(mount_of(host.root(), Path::new("/var/library")).unwrap().kind, "ext4");
        assert_eq!(mount_of(host.root(), Path::new("/var/lib")).unwrap().kind, "xfs");
    }

    #[test]
    fn a_later_mount_hides_the_earlier_one_on_the_same_point() {
        let host = host_with(
            "27 1 254:0 / / rw - ext4 /dev/vda rw\n\
             28 27 0:25 / /data rw - tmpfs tmpfs rw\n\
             29 27 254:16 / /data rw - xfs /dev/vdb rw\n",
        );
        assert_eq!(mount_of(host.root(), Path::new("/data/x")).unwrap().kind, "xfs");
    }

    #[test]
    fn blanks_and_backslashes_in_a_mount_point_are_unescaped() {
        let host = host_with("28 27 8:1 / /my\\040data\\134x rw - ext4 /dev/sda1 rw\n");
        let mount = mount_of(host.root(), Path::new("/my data\\x/log")).unwrap();
        assert_eq!(mount.mount_point, Path::new("/my data\\x"));
    }

    #[test]
    fn a_line_that_does_not_parse_is_refused() {
        for line in [
            "27 1 254:0 / / rw,relatime",
            "27 1 254 / / rw - ext4 /dev/vda rw",
            "27 1 254:0 / /a\\04 rw - ext4 /dev/vda rw",
            "27 1 254:0 / /a\\999 rw - ext4 /dev/vda rw",
            "27 1 254:0 / / rw - ext4 /dev/vda",
        ] {
            let error = mount_of(host_with(line).root(), Path::new("/")).unwrap_err();
            assert!(matches!(error, TuningError::Unexpected { .. }), "{line}: {error}");
        }
    }

    #[test]
    fn a_folder_under_no_mount_is_said_so() {
        let host = host_with("28 27 8:1 / /data rw - ext4 /dev/sda1 rw\n");
        let error = mount_of(host.root(), Path::new("/log")).unwrap_err();
        assert!(matches!(error, TuningError::NoMount { .. }), "{error}");
        let error = mount_of(TestHost::new().root(), Path::new("/log")).unwrap_err();
        assert!(matches!(error, TuningError::Missing { .. }), "{error}");
    }
}
