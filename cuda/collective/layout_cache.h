// Layouts of sets of gradients, kept from step to step: to make one takes a plan and its upload.
// Host code only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

namespace nf::cuda {

// Keeps every layout that the last steps used, however many those are, so that a model's buckets
// never displace each other. Beyond kMostUnused layouts, those that the last steps did not use are
// dropped, the least recently used first: buckets from before DDP rebuilt them, routes given up.
template <typename Layout>
class LayoutCache {
 public:
  static constexpr std::size_t kMostUnused = 256;
  static constexpr std::uint64_t kSteps = 2;
  // Whatever was used: bounds callers that give every call the same step.
  static constexpr std::size_t kMost = 16'384;

  // The layout for which `is_it` holds; null if there is none. Stays until the next add() or
  // find().
  template <typename IsIt>
  Layout* find(std::uint64_t step, IsIt is_it) {
    // In steps that are alike, the next is the least recently used, or not far behind it.
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (!is_it(std::as_const(*entry->layout))) continue;
      entry->step = step;
      entries_.splice(entries_.end(), entries_, entry);
      drop_unused(step);
      return entries_.back().layout.get();
    }
    return nullptr;
  }

  Layout* add(std::uint64_t step, std::unique_ptr<Layout> layout) {
    entries_.push_back({std::move(layout), step});
    drop_unused(step);
    return entries_.back().layout.get();
  }

  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }

  // The sum of bytes(layout) over all layouts.
  template <typename Bytes>
  std::size_t sum(Bytes bytes) const {
    std::size_t sum = 0;
    for (const Entry& entry : entries_) sum += bytes(std::as_const(*entry.layout));
    return sum;
  }

 private:
  struct Entry {
    std::unique_ptr<Layout> layout;
    std::uint64_t step = 0;  // of its last use
  };

  // A step may be lower than the last, if a job has loaded an earlier state.
  static bool is_unused(const Entry& entry, std::uint64_t step) {
    return (step > entry.step ? step - entry.step : entry.step - step) > kSteps;
  }

  void drop_unused(std::uint64_t step) {
    while (entries_.size() > kMost ||
           (entries_.size() > kMostUnused && is_unused(entries_.front(), step))) {
      entries_.pop_front();
    }
  }

  std::list<Entry> entries_;  // the least recently used first
};

}  // namespace nf::cuda
