//! The workspace as `cargo metadata` tells it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::error::GateError;

/// The packages of the workspace.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The folder that holds it all.
    pub(crate) root: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// One package. Paths are relative to the root, with `/` between their parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) folder: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// A dependency by its real name, whatever it is renamed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: DependencyKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DependencyKind {
    /// Needed by the package or by its build script.
    Product,
    /// Needed by its tests and benches.
    Dev,
}

/// Something cargo builds from a root file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: TargetKind,
    pub(crate) root_file: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetKind {
    Library,
    Binary,
    /// Tests, benches, examples, build scripts.
    Other,
}

impl Workspace {
    /// Asks cargo, without letting it write the lock file.
    pub(crate) fn load() -> Result<Self, GateError> {
        let output = cargo()
            .args(["metadata", "--format-version", "1", "--no-deps", "--locked"])
            .output()
            .map_err(|source| GateError::Run { program: "cargo metadata".to_owned(), source })?;
        if !output.status.success() {
            let output = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(GateError::Metadata { output });
        }
        Self::parse(&output.stdout)
    }

    fn parse(json: &[u8]) -> Result<Self, GateError> {
        let metadata: Value = serde_json::from_slice(json)?;
        let root = PathBuf::from(text(&metadata, "workspace_root")?);
        let packages = list(&metadata, "packages")?.iter();
        let packages = packages.map(|package| parse_package(&root, package)).collect::<Result<_, _>>()?;
        Ok(Self { root, packages })
    }

    /// Whether the package is there and has something to run.
    pub(crate) fn has_binary(&self, name: &str) -> bool {
        self.packages
            .iter()
            .filter(|package| package.name == name)
            .flat_map(|package| &package.targets)
            .any(|target| target.kind == TargetKind::Binary)
    }

    /// Which of our packages bears this name.
    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}

/// The cargo that started us, else the one on the path.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn parse_package(root: &Path, package: &Value) -> Result<Package, GateError> {
    let manifest = Path::new(text(package, "manifest_path")?);
    let folder = manifest.parent().ok_or(GateError::MetadataField("folder of a package"))?;
    Ok(Package {
        name: text(package, "name")?.to_owned(),
        folder: relative(root, folder),
        dependencies: list(package, "dependencies")?
            .iter()
            .map(parse_dependency)
            .collect::<Result<_, _>>()?,
        targets: list(package, "targets")?
            .iter()
            .map(|target| parse_target(root, target))
            .collect::<Result<_, _>>()?,
    })
}

fn parse_dependency(dependency: &Value) -> Result<Dependency, GateError> {
    let kind = match dependency.get("kind").and_then(Value::as_str) {
        Some("dev") => DependencyKind::Dev,
        _ => DependencyKind::Product,
    };
    Ok(Dependency { name: text(dependency, "name")?.to_owned(), kind })
}

fn parse_target(root: &Path, target: &Value) -> Result<Target, GateError> {
    let is_kind = |wanted: &str| {
        let mut kinds = target.get("kind").and_then(Value::as_array).into_iter().flatten();
        kinds.any(|kind| kind.as_str() == Some(wanted))
    };
    let kind = if is_kind("bin") {
        TargetKind::Binary
    } else if is_kind("lib") || is_kind("proc-macro") {
        TargetKind::Library
    } else {
        TargetKind::Other
    };
    Ok(Target { kind, root_file: relative(root, Path::new(text(target, "src_path")?)) })
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

fn text<'json>(value: &'json Value, field: &'static str) -> Result<&'json str, GateError> {
    value.get(field).and_then(Value::as_str).ok_or(GateError::MetadataField(field))
}

fn list<'json>(value: &'json Value, field: &'static str) -> Result<&'json Vec<Value>, GateError> {
    value.get(field).and_then(Value::as_array).ok_or(GateError::MetadataField(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "workspace_root": "/src/ringlog",
        "packages": [{
            "name": "engine-store",
            "manifest_path": "/src/ringlog/engine/store/Cargo.toml",
            "dependencies": [
                {"name": "engine-log", "kind": null, "rename": "log"},
                {"name": "proptest", "kind": "dev"},
                {"name": "cc", "kind": "build"}
            ],
            "targets": [
                {"kind": ["lib"], "src_path": "/src/ringlog/engine/store/src/lib.rs"},
                {"kind": ["bench"], "src_path": "/src/ringlog/engine/store/benches/x.rs"}
            ]
        }]
    }"#;

    #[test]
    fn packages_are_read_with_their_paths_from_the_root() {
        let workspace = Workspace::parse(METADATA.as_bytes()).unwrap();
        let package = workspace.package("engine-store").expect("the one package");
        assert_eq!(package.folder, "engine/store");
        let kinds: Vec<_> = package.dependencies.iter().map(|d| (d.name.as_str(), d.kind)).collect();
        use DependencyKind::{Dev, Product};
        assert_eq!(kinds, [("engine-log", Product), ("proptest", Dev), ("cc", Product)]);
        assert_eq!(package.targets[0].root_file, "engine/store/src/lib.rs");
        assert_eq!(package.targets[0].kind, TargetKind::Library);
        assert_eq!(package.targets[1].kind, TargetKind::Other);
    }

    #[test]
    fn only_a_binary_can_be_run() {
        let library = Workspace::parse(METADATA.as_bytes()).unwrap();
        assert!(!library.has_binary("engine-store"));
        let binary = METADATA.replace("\"lib\"", "\"bin\"");
        let binary = Workspace::parse(binary.as_bytes()).unwrap();
        assert!(binary.has_binary("engine-store"));
        assert!(!binary.has_binary("sim"));
    }

    #[test]
    fn a_strange_answer_is_an_error() {
        assert!(matches!(Workspace::parse(b"{"), Err(GateError::MetadataJson(_))));
        assert!(matches!(Workspace::parse(b"{}"), Err(GateError::MetadataField("workspace_root"))));
        let nameless = METADATA.replace("\"name\": \"engine-store\",", "");
        assert!(matches!(Workspace::parse(nameless.as_bytes()), Err(GateError::MetadataField("name"))));
    }
}
