// Aligned tables and readable numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nf::cli {

struct Column {
  std::string title;
  bool is_text = false;  // text is aligned left, numbers right
  std::size_t min_width = 0;
};

// A column is as wide as the widest cell added before the first text() call, but at least
// `min_width`. Set `min_width` if rows are added later.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Precondition: one cell per column.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // The rows added since the last call. The first call also returns the titles.
  std::string text();

 private:
  std::string line(const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  bool has_titles_ = false;
};

// With thousands separators: "11,220,132".
std::string grouped(std::uint64_t number);

// Replaces control characters by '?', so that text from a file is safe to print on a terminal.
std::string printable(std::string text);

}  // namespace nf::cli
