// Prints the results of `nf bench all_reduce` and `nf bench reduce_scatter` as a table or as JSON
// lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nf/bench/all_reduce_measure.h"
#include "nf/support/table.h"

namespace nf::cli {

// Prints each row immediately.
class AllReducePrinter {
 public:
  explicit AllReducePrinter(const AllReduceBench& bench);

  void print(const AllReduceSpeed& speed);

  // Fails if a row so far has wrong elements.
  Status status() const;

 private:
  std::string json_line(const AllReduceSpeed& speed) const;
  void print_header(std::uint32_t ranks) const;
  void add_cells(const AllReduceSpeed& speed);

  const Collective collective_;
  const std::string transport_;
  const std::string dtype_;
  const int repeat_;
  const bool as_json_;
  Table table_;
  bool has_header_ = false;
  std::uint64_t wrong_ = 0;
};

// Runs one rank's part of a bench; all ranks call it with the same bench. Rank 0 prints, and fails
// if a sum is wrong.
Status print_all_reduce_bench(Transport& transport, const AllReduceBench& bench,
                              const EngineFactory& make_engine);

}  // namespace nf::cli
