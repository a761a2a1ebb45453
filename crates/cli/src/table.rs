//! Columns for eyes.

use crate::escape;

/// Rows of cells under their titles: text to the left, numbers to the right.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug)]
struct Column {
    title: &'static str,
    side: Side,
}

/// Where the cells of a column stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Side)]) -> Self {
        let columns = columns.iter().map(|&(title, side)| Column { title, side }).collect();
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row; an empty cell becomes a dash.
    pub(crate) fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        let or_dash =
            |cell: String| if cell.is_empty() { "-".to_owned() } else { escape::shown(&cell).into_owned() };
        self.rows.push(cells.into_iter().map(or_dash).collect());
    }

    /// The lines, each with its newline and without blanks at its end.
    pub(crate) fn text(&self) -> String {
        let titles = self.columns.iter().map(|column| column.title.to_owned()).collect();
        let lines = std::iter::once(&titles).chain(&self.rows).map(|row| self.line(row) + "\n");
        lines.collect()
    }

    fn line(&self, row: &[String]) -> String {
        let cells = self.columns.iter().enumerate().map(|(at, column)| {
            let (cell, width) = (row.get(at).map_or("", String::as_str), self.width(at));
            match column.side {
                Side::Left => format!("{cell:<width$}"),
                Side::Right => format!("{cell:>width$}"),
            }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }

    fn width(&self, at: usize) -> usize {
        let title = self.columns[at].title.chars().count();
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new(&[("NAME", Side::Left), ("N", Side::Right), ("LAST", Side::Left)]);
        table.push(["gr\u{fc}n".to_owned(), "1".to_owned(), String::new()]);
        table.push(["a longer one".to_owned(), "1000".to_owned(), "x".to_owned()]);
        let expected = "NAME             N  LAST\ngr\u{fc}n             1  -\na longer one  1000  x\n";
        assert_eq!(table.text(), expected);
    }
}
