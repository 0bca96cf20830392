//! A power cut that is nearly real: an ext4 file system on a loop device is shut down
//! without writing its log, so that nothing reaches it that was not synced.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use super::{
    run::{Plan, Run, Summary},
    verify::Loss,
};

const IMAGE_BYTES: u64 = 1 << 30;
/// FS_IOC_SHUTDOWN with FS_SHUTDOWN_FLAGS_NOLOGFLUSH.
const SHUTDOWN: &str = "import fcntl, os, struct, sys\n\
     fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";

/// A mounted file system; unmounted and removed when dropped.
#[derive(Debug)]
pub struct LoopDevice {
    directory: tempfile::TempDir,
    mounted: bool,
}

impl LoopDevice {
    /// Makes and mounts one.
    ///
    /// # Errors
    /// What the machine does not have or allow.
    pub fn new() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut device = Self { directory, mounted: false };
        let image = std::fs::File::create(device.image()).map_err(|error| error.to_string())?;
        image.set_len(IMAGE_BYTES).map_err(|error| error.to_string())?;
        std::fs::create_dir(device.mount_point()).map_err(|error| error.to_string())?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(device.image()))?;
        device.mount()?;
        // Whether this file system can be shut down at all.
        device.shut_down()?;
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

    fn shut_down(&self) -> Result<(), String> {
        shut_down(&self.mount_point())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if self.mounted {
            self.unmount().ok();
        }
    }
}

fn shut_down(mount_point: &Path) -> Result<(), String> {
    run(Command::new("python3").args(["-c", SHUTDOWN]).arg(mount_point))
}

/// Cuts the power and checks as often as planned.
pub fn cut_and_check(plan: Plan, mut device: LoopDevice) -> Result<Summary, String> {
    let begin = Instant::now();
    let mut run = Run::start_on(plan, Some(device.data()))?;
    let mut summary = Summary::default();
    while summary.cycles < run.plan.cycles && begin.elapsed() < run.plan.time {
        let server = run.serve(&run.data)?;
        run.check(&server, &run.ledger, Loss::Machine)?;
        let mut cut = Ok(());
        let mount_point = device.mount_point();
        run.write_until(server, |_| cut = shut_down(&mount_point))?;
        cut?;
        device.unmount()?;
        device.mount()?;
        summary.cycles += 1;
    }
    let mut server = run.serve(&run.data)?;
    summary.rows = run.check(&server, &run.ledger, Loss::Machine)?;
    summary.acknowledged = run.ledger.stored();
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
