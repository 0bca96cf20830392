//! A Parquet file of one result.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{RecordBatch, new_null_array},
    datatypes::{Field, Schema, SchemaRef},
};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};
use stratalog_model::ColumnType;
use stratalog_text::{ColumnBuilder, TextStyle};

use super::Output;
use crate::sql::rows::{ResultColumn, TextRows};

/// Writes rows with their types; zstd-compressed. The file appears, or replaces what was
/// there, when all of the result is in it.
pub struct ParquetOutput {
    path: PathBuf,
    types: Vec<ColumnType>,
    schema: SchemaRef,
    writer: Option<ArrowWriter<File>>,
    target: Option<Target>,
    style: TextStyle,
}

impl ParquetOutput {
    /// An output into the file at `path`; nothing is made there yet.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            types: Vec::new(),
            schema: Arc::new(Schema::empty()),
            writer: None,
            target: None,
            style: TextStyle::default(),
        }
    }
}

impl Output for ParquetOutput {
    fn columns(&mut self, columns: &[ResultColumn]) -> io::Result<()> {
        let fields: Vec<_> = columns
            .iter()
            .map(|column| column.column_type.arrow_field(&column.name, true))
            .collect();
        for (field, column) in fields.iter().zip(columns) {
            check_writable(field, column)?;
        }
        self.types = columns.iter().map(|column| column.column_type.clone()).collect();
        self.schema = Arc::new(Schema::new(fields));
        let level = ZstdLevel::try_new(3).map_err(io::Error::other)?;
        let properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
        let (target, file) = Target::create(&self.path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot make {}: {error}", self.path.display()))
        })?;
        self.target = Some(target);
        let writer = ArrowWriter::try_new(file, Arc::clone(&self.schema), Some(properties))
            .map_err(io::Error::other)?;
        self.writer = Some(writer);
        Ok(())
    }

    fn rows(&mut self, rows: &TextRows) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut builders: Vec<ColumnBuilder> = self
            .types
            .iter()
            .map(|column_type| ColumnBuilder::new(column_type, rows.len()))
            .collect();
        for row in rows.iter() {
            for (value, builder) in row.zip(&mut builders) {
                match value {
                    Some(text) => {
                        builder.append_text(text, &self.style).map_err(io::Error::other)?
                    }
                    None => builder.append_null(),
                }
            }
        }
        let arrays = builders.into_iter().map(|mut builder| builder.finish()).collect();
        let batch =
            RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(io::Error::other)?;
        writer.write(&batch).map_err(io::Error::other)
    }

    fn end(&mut self) -> io::Result<()> {
        let (Some(writer), Some(target)) = (self.writer.take(), self.target.take()) else {
            return Ok(());
        };
        target.keep(&writer.into_inner().map_err(io::Error::other)?)
    }
}

/// Refuses a column whose values no Parquet file takes.
fn check_writable(field: &Field, column: &ResultColumn) -> io::Result<()> {
    let value = new_null_array(field.data_type(), 1);
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let tried =
        ArrowWriter::try_new(io::sink(), Arc::clone(&schema), None).and_then(|mut writer| {
            writer.write(&RecordBatch::try_new(schema, vec![value])?)?;
            writer.close()
        });
    tried.map(drop).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "column \"{}\" holds {}, which a Parquet file cannot take; cast it in the query, as in \"{}\"::text",
                column.name, column.column_type, column.name
            ),
        )
    })
}

/// Where the bytes go until all are there. Dropped before [`Self::keep`], it removes them.
struct Target {
    /// Beside the file that is asked for; `None` for what is no file, such as a pipe, which
    /// is written as it is.
    temporary: Option<PathBuf>,
    /// The file that is asked for; what a link points at.
    path: PathBuf,
}

impl Target {
    fn create(path: &Path) -> io::Result<(Self, File)> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let existing = path.metadata().ok();
        if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
            let file = File::options().write(true).open(&path)?;
            return Ok((Self { temporary: None, path }, file));
        }
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.new", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = File::create(&temporary)?;
        let target = Self { temporary: Some(temporary), path };
        if let Some(existing) = existing {
            file.set_permissions(existing.permissions())?;
        }
        Ok((target, file))
    }

    fn keep(mut self, file: &File) -> io::Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        // What takes the place of another file must be there after a crash, too.
        file.sync_all()?;
        std::fs::rename(temporary, &self.path)?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // What cannot be removed is left under a name that says what it is.
            let _ = std::fs::remove_file(temporary);
        }
    }
}
