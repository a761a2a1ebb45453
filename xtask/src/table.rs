//! Plain tables for terminals and logs.

/// Rows under a heading; the first column is left-aligned, the others, being figures, right-aligned.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(heading: [&str; N]) -> Self {
        Self { rows: vec![heading.map(str::to_owned).to_vec()] }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    pub(crate) fn render(&self) -> String {
        let widths = self.widths();
        self.rows.iter().map(|row| line(row, &widths) + "\n").collect()
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![0; columns];
        for (column, cell) in self.rows.iter().flat_map(|row| row.iter().enumerate()) {
            widths[column] = widths[column].max(cell.chars().count());
        }
        widths
    }
}

/// `5000000` as `5,000,000`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, &width))| match column {
        0 => format!("{cell:<width$}"),
        _ => format!("{cell:>width$}"),
    });
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_left_and_figures_right() {
        let mut table = Table::new(["client", "secs"]);
        table.row(["floor".into(), "0.5".into()]);
        table.row(["x".into(), "10.25".into()]);
        assert_eq!(table.render(), "client   secs\nfloor     0.5\nx       10.25\n");
    }

    #[test]
    fn width_counts_characters() {
        let mut table = Table::new(["a", "b"]);
        table.row(["é".into(), "ü".into()]);
        assert_eq!(table.render(), "a  b\né  ü\n");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1000), "1,000");
        assert_eq!(thousands(5_000_000), "5,000,000");
    }
}
