// What `nf bench all_reduce` prints of each case, as a table or as JSON lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nf/bench/all_reduce_measure.h"
#include "nf/support/table.h"

namespace nf::cli {

// Prints rows as they come.
class AllReducePrinter {
 public:
  explicit AllReducePrinter(const AllReduceBench& bench);

  void print(const AllReduceSpeed& speed);

  // A wrong sum is a failure, however fast. Of the rows so far.
  Status verdict() const;

 private:
  std::string json_line(const AllReduceSpeed& speed) const;
  void print_introduction(std::uint32_t ranks) const;
  void add_cells(const AllReduceSpeed& speed);

  const std::string transport_;
  const std::string dtype_;
  const int repeat_;
  const bool as_json_;
  Table table_;
  bool has_begun_ = false;
  std::uint64_t wrong_ = 0;
};

// One rank's part of a bench; all ranks call it with the same one. Rank 0 prints, and fails where a
// sum is wrong.
Status show_all_reduce_bench(Transport& transport, const AllReduceBench& bench,
                             const EngineMaker& make_engine);

}  // namespace nf::cli
