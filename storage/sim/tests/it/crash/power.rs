//! An almost real power cut: an ext4 file system on a loop device is shut down without writing its
//! log, so unsynced data is lost.

use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

use super::{
    moves::{self, MoveCounts},
    run::{Plan, Run, Summary},
    verify::Loss,
};

const IMAGE_BYTES: u64 = 1 << 30;
/// FS_IOC_SHUTDOWN with FS_SHUTDOWN_FLAGS_NOLOGFLUSH, after a line of input.
const SHUTDOWN: &str = "import fcntl, os, struct, sys\n\
     device = os.open(sys.argv[1], os.O_RDONLY)\n\
     print('ready', flush=True)\n\
     sys.stdin.readline()\n\
     fcntl.ioctl(device, 0x8004587D, struct.pack('I', 2))";

/// A mounted file system; drop unmounts and removes the file system.
#[derive(Debug)]
pub struct LoopDevice {
    directory: tempfile::TempDir,
    mounted: bool,
}

impl LoopDevice {
    /// Makes and mounts a file system.
    ///
    /// # Errors
    /// If the machine lacks a tool or a privilege.
    pub fn new() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut device = Self { directory, mounted: false };
        let image = std::fs::File::create(device.image()).map_err(|error| error.to_string())?;
        image.set_len(IMAGE_BYTES).map_err(|error| error.to_string())?;
        std::fs::create_dir(device.mount_point()).map_err(|error| error.to_string())?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(device.image()))?;
        device.mount()?;
        // Checks that a shutdown of the file system works.
        Switch::new(&device.mount_point())?.press()?;
        device.unmount()?;
        device.mount()?;
        Ok(device)
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn mount_point(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }

    fn data(&self) -> PathBuf {
        self.mount_point().join("data")
    }

    fn mount(&mut self) -> Result<(), String> {
        let mut command = Command::new("mount");
        run(command.args(["-o", "loop"]).arg(self.image()).arg(self.mount_point()))?;
        self.mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), String> {
        run(Command::new("umount").arg(self.mount_point()))?;
        self.mounted = false;
        Ok(())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if self.mounted {
            self.unmount().ok();
        }
    }
}

/// A process that is ready to shut a file system down at once.
struct Switch(Child);

impl Switch {
    fn new(mount_point: &Path) -> Result<Self, String> {
        let mut command = Command::new("python3");
        command.args(["-c", SHUTDOWN]).arg(mount_point);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("python3: {error}"))?;
        // The read also ends when python3 ends.
        let ready = child.stdout.as_mut().map(|stdout| stdout.read(&mut [0; 16]));
        match ready {
            Some(Ok(read)) if read > 0 => Ok(Self(child)),
            _ => Err(format!("no shutdown: {}", Self(child).press().err().unwrap_or_default())),
        }
    }

    fn press(mut self) -> Result<(), String> {
        let pressed = self.0.stdin.take().map(|mut stdin| stdin.write_all(b"\n"));
        let output = self.0.wait_with_output().map_err(|error| format!("python3: {error}"))?;
        match pressed {
            Some(Ok(())) if output.status.success() => Ok(()),
            _ => Err(format!("shutdown: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }
}

/// Cuts the power and checks the server, for all planned cycles.
pub fn cut_and_check(plan: Plan, mut device: LoopDevice) -> Result<Summary, String> {
    let begin = Instant::now();
    let mut run = Run::start_on(plan, Some(device.data()))?;
    let mut summary = Summary::default();
    while summary.cycles < run.plan.cycles && begin.elapsed() < run.plan.time {
        moves::spoil_index(&run.data, &mut run.random)?;
        let server = run.serve(&run.data)?;
        run.check(&server, &run.ledger, Loss::Machine)?;
        let switch = Switch::new(&device.mount_point())?;
        let mut cut = Ok(());
        run.write_until(server, Loss::Machine, |_| cut = switch.press())?;
        cut?;
        device.unmount()?;
        device.mount()?;
        summary.moved = summary.moved.most(MoveCounts::of(&run.data));
        summary.cycles += 1;
    }
    let mut server = run.serve(&run.data)?;
    summary.rows = run.check(&server, &run.ledger, Loss::Machine)?;
    summary.acknowledged = run.ledger.stored();
    (summary.changes, summary.timed_out) = run.ledger.changes.counts();
    server.kill();
    Ok(summary)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
