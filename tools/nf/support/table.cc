#include "nf/support/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace nf::cli {

std::string Table::line(const std::vector<std::string>& cells) const {
  std::string line;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (c > 0) line += "  ";
    line += columns_[c].is_text ? fmt::format("{:<{}}", cells[c], columns_[c].min_width)
                                : fmt::format("{:>{}}", cells[c], columns_[c].min_width);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string Table::text() {
  std::string text;
  if (!has_titles_) {
    std::vector<std::string> titles;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      Column& column = columns_[c];
      titles.push_back(column.title);
      column.min_width = std::max(column.min_width, column.title.size());
      for (const auto& row : rows_) column.min_width = std::max(column.min_width, row[c].size());
    }
    text += line(titles);
    has_titles_ = true;
  }
  for (const auto& row : rows_) text += line(row);
  rows_.clear();
  return text;
}

std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace nf::cli
