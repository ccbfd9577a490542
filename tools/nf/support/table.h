// Aligned tables and readable numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nf::cli {

struct Column {
  std::string title;
  bool is_text = false;   // text is aligned left, numbers right
  std::size_t least = 0;  // width
};

// Columns become as wide as the widest cell seen before the first text() call; give `least` where
// rows come later.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // The rows added since the last call, below the titles the first time.
  std::string text();

 private:
  std::string line(const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  bool has_titles_ = false;
};

// 11,220,132.
std::string grouped(std::uint64_t number);

// Text of a file, made safe for a terminal: control characters become '?'.
std::string printable(std::string text);

}  // namespace nf::cli
