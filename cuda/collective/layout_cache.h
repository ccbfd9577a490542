// Caches the layouts of calls (collective/layout_key.h) from step to step: creating one takes a
// plan and its upload. Host code only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

namespace nf::cuda {

// Keeps every layout that the last kSteps steps used, however many there are, so that the buckets
// of a model never evict each other. Beyond kMaxUnused layouts, evicts those that the last steps
// did not use, the least recently used first: buckets from before DDP rebuilt them, disabled
// routes.
template <typename Layout>
class LayoutCache {
 public:
  static constexpr std::size_t kMaxUnused = 256;
  static constexpr std::uint64_t kSteps = 2;
  // A hard limit, for callers that pass the same step in every call.
  static constexpr std::size_t kMaxLayouts = 16'384;

  // The layout for which `is_it` returns true, or null. Valid until the next call.
  template <typename IsIt>
  Layout* find(std::uint64_t step, IsIt is_it) {
    // If steps repeat, the next layout is among the least recently used ones.
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

  void remove(const Layout* layout) {
    entries_.remove_if([&](const Entry& entry) { return entry.layout.get() == layout; });
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

  // A step may be lower than the last one if a job has loaded an earlier state.
  static bool is_unused(const Entry& entry, std::uint64_t step) {
    return (step > entry.step ? step - entry.step : entry.step - step) > kSteps;
  }

  void drop_unused(std::uint64_t step) {
    while (entries_.size() > kMaxLayouts ||
           (entries_.size() > kMaxUnused && is_unused(entries_.front(), step))) {
      entries_.pop_front();
    }
  }

  std::list<Entry> entries_;  // the least recently used first
};

}  // namespace nf::cuda
